"""Discrete example, InfoNCE and Gumbel-Softmax alone: the exact regret of the design of each of 10 seeds.

The model is linear in psi with a Gaussian prior, so that the posterior, and with it the regret of any design, is exact.
All 1,024 designs over actions 1 and 2 are scored on the same worlds. Run: python benchmarks/discrete.py [--seeds 10]
"""

import argparse
import itertools

import numpy as np

import cobed
from cobed.models import discrete

NUM_WORLDS = 20_000


def regrets(designs: np.ndarray, noise_std: float = 0.1) -> np.ndarray:
    """Mean regret over worlds of each design, (N, D) of action numbers; the same worlds and noise for all."""
    rng = np.random.default_rng(0)
    contexts = discrete.contexts()[:, 0].astype(float)
    mean, std = discrete.PRIOR_MEAN.astype(float), discrete.PRIOR_STD.astype(float)
    worlds = mean + std * rng.standard_normal((NUM_WORLDS, *mean.shape))
    noise = noise_std * rng.standard_normal((NUM_WORLDS, len(contexts)))
    features = np.stack([(3 - contexts) / 6, (3 + contexts) / 6], axis=1)
    at_targets = np.stack([(3 + contexts) / 6, (3 - contexts) / 6], axis=1)
    rewards = np.einsum("wkp,tp->wkt", worlds, at_targets)
    best = rewards.max(axis=1)
    scores = []
    for design in designs:
        outcomes = np.einsum("wdp,dp->wd", worlds[:, design], features) + noise
        posterior = np.empty_like(worlds)
        for action in range(len(mean)):
            rows = features[design == action]
            precision = np.diag(std[action] ** -2) + rows.T @ rows / noise_std**2
            evidence = mean[action] / std[action] ** 2 + outcomes[:, design == action] @ rows / noise_std**2
            posterior[:, action] = np.linalg.solve(precision, evidence.T).T
        played = np.einsum("wkp,tp->wkt", posterior, at_targets).argmax(axis=1)
        got = np.take_along_axis(rewards, played[:, None, :], axis=1)[:, 0]
        scores.append((best - got).mean())
    return np.array(scores)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    arguments = parser.parse_args()
    contexts = discrete.contexts()
    problem = cobed.Problem(cobed.models.DiscreteExample(), contexts, -contexts)
    two_action = regrets(np.array(list(itertools.product([0, 1], repeat=len(contexts)))))
    median = float(np.median(two_action))
    print(f"All 1,024 designs over actions 1 and 2: best regret {two_action.min():.5f}, median {median:.5f}")
    found, passed = [], 0
    # Regret is what counts here, so the critic need not be settled for long: enough to rank the starts.
    budget = cobed.Budget(settle_steps=200)
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        result = cobed.design(problem, seed=seed, budget=budget)
        design = result.actions.argmax(axis=1)
        regret = float(regrets(design[None])[0])
        good = set(design) == {0, 1} and regret < median
        found.append(regret)
        passed += good
        starts = " ".join(f"{start.information.value:.3f}" for start in result.starts)
        print(
            f"seed {seed}: {''.join(result.labels)} regret {regret:.5f} {'ok' if good else 'NOT OK'}, information "
            f"{result.information} (starts {starts}), {result.seconds_design:.0f} s design, "
            f"{result.seconds_evaluation:.0f} s evaluation",
            flush=True,
        )
    error = np.std(found, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else float("nan")
    print(
        f"{passed} of {len(found)} seeds use actions 1 and 2 alone and beat the median; regret {np.mean(found):.5f} ± {error:.5f}"
    )


if __name__ == "__main__":
    main()
