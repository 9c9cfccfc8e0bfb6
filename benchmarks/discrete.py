"""Discrete example, InfoNCE and Gumbel-Softmax alone: the exact regret of the design of each of 10 seeds.

The model is linear in psi with a Gaussian prior, so that the posterior, and with it the regret of any design, is exact.
All 1,024 designs over actions 1 and 2 are scored on the same worlds. Run: python benchmarks/discrete.py [--seeds 10]
"""

import argparse
import itertools

import numpy as np
from scipy.special import ndtr

import cobed
from cobed.designers.baselines import RandomUniform, Thompson
from cobed.models import discrete

NUM_WORLDS = 20_000


def scores(designs: np.ndarray, noise_std: float = 0.1) -> np.ndarray:
    """Mean regret and hit rate over worlds, (N, 2), of each design, (N, D) of action numbers; the same worlds for all."""
    rng = np.random.default_rng(0)
    contexts = discrete.contexts()[:, 0].astype(float)
    mean, std = discrete.PRIOR_MEAN.astype(float), discrete.PRIOR_STD.astype(float)
    worlds = mean + std * rng.standard_normal((NUM_WORLDS, *mean.shape))
    noise = noise_std * rng.standard_normal((NUM_WORLDS, len(contexts)))
    features = np.stack([(3 - contexts) / 6, (3 + contexts) / 6], axis=1)
    at_targets = np.stack([(3 + contexts) / 6, (3 - contexts) / 6], axis=1)
    rewards = np.einsum("wkp,tp->wkt", worlds, at_targets)
    best = rewards.max(axis=1)
    found = []
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
        found.append(((best - got).mean(), (played == rewards.argmax(axis=1)).mean()))
    return np.array(found)


def values(designs: np.ndarray, noise_std: float = 0.1) -> np.ndarray:
    """What the best decisions after each design (N, D) earn in expectation, (N,), to about 1e-10: no worlds are drawn.

    The posterior mean rewards of the actions are independent normals, so E max = top - the integral of the product of their
    distribution functions, by the trapezoidal rule.
    """
    contexts = discrete.contexts()[:, 0].astype(float)
    mean, std = discrete.PRIOR_MEAN.astype(float), discrete.PRIOR_STD.astype(float)
    features = np.stack([(3 - contexts) / 6, (3 + contexts) / 6], axis=1)
    at_targets = np.stack([(3 + contexts) / 6, (3 - contexts) / 6], axis=1)
    grid = np.linspace(-60.0, 60.0, 12_001)
    found = []
    for design in designs:
        below = np.ones((len(contexts), len(grid)))
        for action in range(len(mean)):
            prior, rows = np.diag(std[action] ** 2), features[design == action]
            gain = prior @ rows.T
            learned = gain @ np.linalg.solve(rows @ gain + noise_std**2 * np.eye(len(rows)), gain.T)
            spread = np.sqrt(np.einsum("tp,pq,tq->t", at_targets, learned, at_targets) + 1e-12)
            below *= ndtr((grid - (at_targets @ mean[action])[:, None]) / spread[:, None])
        found.append(np.mean(grid[-1] - np.trapezoid(below, grid, axis=1)))
    return np.array(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    arguments = parser.parse_args()
    contexts = discrete.contexts()
    problem = cobed.Problem(cobed.models.DiscreteExample(), contexts, -contexts)
    two_action = scores(np.array(list(itertools.product([0, 1], repeat=len(contexts)))))[:, 0]
    median = float(np.median(two_action))
    print(f"All 1,024 designs over actions 1 and 2: best regret {two_action.min():.5f}, median {median:.5f}")
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    for baseline in (Thompson(), RandomUniform()):
        designs = np.array([baseline(problem, seed=seed).actions.argmax(axis=1) for seed in seeds])
        regret, hit = scores(designs).mean(axis=0)
        print(f"{baseline.name}, mean of {len(designs)} seeds: regret {regret:.4f}, hit rate {hit:.3f}", flush=True)
    found, passed = [], 0
    # Regret is what counts here, so the critic need not be settled for long: enough to rank the starts.
    budget = cobed.Budget(settle_steps=200)
    for seed in seeds:
        result = cobed.design(problem, seed=seed, budget=budget, objective="infonce")
        design = result.actions.argmax(axis=1)
        regret, hit = scores(design[None])[0]
        good = set(design) == {0, 1} and regret < median
        found.append((regret, hit))
        passed += good
        starts = " ".join(f"{start.score.value:.3f}" for start in result.starts)
        print(
            f"seed {seed}: {''.join(result.labels)} regret {regret:.5f} hit rate {hit:.4f} {'ok' if good else 'NOT OK'}, "
            f"information {result.information} (starts {starts}), {result.seconds_design:.0f} s design, "
            f"{result.seconds_evaluation:.0f} s evaluation",
            flush=True,
        )
    regret, hit = np.mean(found, axis=0)
    error = np.std(found, axis=0, ddof=1)[0] / np.sqrt(len(found)) if len(found) > 1 else float("nan")
    print(
        f"{passed} of {len(found)} seeds use actions 1 and 2 alone and beat the median; regret {regret:.5f} ± {error:.5f}, "
        f"hit rate {hit:.4f}"
    )


if __name__ == "__main__":
    main()
