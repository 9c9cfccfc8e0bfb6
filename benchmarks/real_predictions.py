"""Are cobed's predictions on real tables as sure as they may be? Rows at random as in `real.py`, judged on rows not seen.

Intervals: within each action, the rows that got it and were not seen are cut into ten groups by what is predicted for them. The
90% interval of a group's mean reward comes from the draws of what is known, with the sampling error of the group's own mean
added; printed is how often it holds that mean. Densities: the logarithm of the predicted probability of each outcome, in bins
so that laws with and without mass at single values can be compared (single values where there are at most 12, else tenths of
the outcomes), beside that of a ridge regression with normal noise by leave-one-out, and of a logistic one where outcomes are
binary. Results are kept in --results after each replay: the same command goes on.
Run: python benchmarks/real_predictions.py [--data FOLDER] [--sets warfarin rfm] [--rows 300] [--replays 20]
"""

import argparse
import sys
import time
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from real import FOLDER, SETS, Kept, Replay, products
from scipy.stats import norm
from sklearn.linear_model import LogisticRegressionCV, RidgeCV

from cobed.campaign.engine import POLICY_DRAWS, learn_from
from cobed.compilation import lean_jit
from cobed.data import Data

NUM_GROUPS, MAX_VALUES = 10, 12
# Rows that judge: enough for ten groups of each action.
MOST_ROWS = 3_000


@lean_jit
def rewards_and_outcomes(key, model, draws, contexts, actions):
    """The mean reward and one outcome of each row under every draw of psi, both (T, N)."""

    def one(row):
        key, context, action = row
        keys = jr.split(key, jax.tree.leaves(draws)[0].shape[0])
        means = jax.vmap(lambda psi: model.mean_reward(psi, context, action))(draws)
        return means, jax.vmap(lambda key, psi: model.sample_outcome(key, psi, context, action))(keys, draws)

    return jax.lax.map(one, (jr.split(key, len(contexts)), contexts, actions), batch_size=64)


def edges_of(outcomes: np.ndarray) -> np.ndarray:
    """Between the bins of outcomes."""
    values = np.unique(outcomes)
    if len(values) > MAX_VALUES:
        values = np.unique(np.quantile(outcomes, np.linspace(0, 1, NUM_GROUPS + 1)))
    return (values[1:] + values[:-1]) / 2 if len(values) <= MAX_VALUES else values[1:-1]


def covered(means: np.ndarray, outcomes: np.ndarray) -> list[bool]:
    """Whether the mean outcome of each group of rows lies in its 90% interval; `means` (T, N) of every draw."""
    order = np.argsort(means.mean(axis=1))
    holds = []
    for group in np.array_split(order, NUM_GROUPS):
        if len(group) < 2:
            continue
        error = outcomes[group].std(ddof=1) / len(group) ** 0.5
        middle = means[group].mean(axis=0)
        low, high = np.quantile(middle, [0.05, 0.95])
        # Both spread: what is known of the mean, and the mean of these rows around it.
        centre, half = (low + high) / 2, np.hypot((high - low) / 2, norm.ppf(0.95) * error)
        holds.append(bool(abs(outcomes[group].mean() - centre) <= half))
    return holds


def log_probability(shares: np.ndarray, bins: np.ndarray) -> float:
    """Mean of log p(bin) over rows; `shares` (T, B). A bin is never impossible."""
    shares = (shares + 1e-4) / (1 + 1e-4 * shares.shape[1])
    return float(np.log(shares[np.arange(len(bins)), bins]).mean())


def ridge_shares(replay: Replay, features: np.ndarray, edges: np.ndarray) -> np.ndarray:
    learner = RidgeCV(np.logspace(-2, 5, 22), store_cv_results=True)
    learner.fit(products(replay.contexts, replay.codes[replay.actions]), replay.outcomes)
    noise = np.sqrt(learner.cv_results_.mean(axis=0).min())
    heights = norm.cdf((edges - learner.predict(features)[:, None]) / noise)
    return np.diff(np.concatenate([np.zeros((len(features), 1)), heights, np.ones((len(features), 1))], axis=1))


def logistic_shares(replay: Replay, features: np.ndarray) -> np.ndarray:
    learner = LogisticRegressionCV(Cs=list(np.logspace(-4, 1, 8)), cv=5, max_iter=300, scoring="neg_log_loss")
    return learner.fit(products(replay.contexts, replay.codes[replay.actions]), replay.outcomes > 0).predict_proba(
        features
    )


def run(name: str, folder: Path, num_rows: int, seed: int) -> dict[str, float]:
    replay = Replay(SETS[name](folder), num_rows, seed)
    rng, num_options = np.random.default_rng(seed), len(replay.rows.options)
    judges = rng.permutation(len(replay.others))[:MOST_ROWS]
    rows = replay.others[judges]
    if replay.rows.all_outcomes is not None:
        actions = rng.integers(0, num_options, len(rows))
        outcomes = replay.rows.all_outcomes[rows, actions]
    else:
        assert replay.rows.actions is not None
        assert replay.rows.outcomes is not None
        actions, outcomes = replay.rows.actions[rows], replay.rows.outcomes[rows]
    contexts = replay.targets[judges]
    data = Data(replay.contexts, replay.vectors[replay.actions], replay.outcomes.astype(np.float32))
    model, posterior = learn_from(replay.spec, replay.encoding, None, data)
    draws = posterior.equal_draws(POLICY_DRAWS, jr.key(0))
    means, drawn = map(
        np.asarray,
        rewards_and_outcomes(jr.key(1), model, draws, jnp.asarray(contexts), jnp.asarray(replay.vectors[actions])),
    )
    # Numbers are too many to be judged one by one.
    kinds = actions if replay.rows.amounts is None else np.zeros_like(actions)
    hits = [hit for kind in np.unique(kinds) for hit in covered(means[kinds == kind], outcomes[kinds == kind])]
    edges = edges_of(replay.outcomes)
    bins, num_bins = np.digitize(outcomes, edges), len(edges) + 1
    drawn_bins = np.digitize(drawn, edges)
    shares = np.stack([(drawn_bins == b).mean(axis=1) for b in range(num_bins)], axis=1)
    if num_bins == 2:
        # A draw of a binary outcome says less than its probability.
        shares = np.stack([1 - means.mean(axis=1), means.mean(axis=1)], axis=1)
    features = products(contexts, replay.codes[actions])
    values = {"coverage": float(np.mean(hits)), "cobed": log_probability(shares, bins)}
    values["ridge"] = log_probability(ridge_shares(replay, features, edges), bins)
    if num_bins == 2:
        values["logistic"] = log_probability(logistic_shares(replay, features), bins)
    return values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=FOLDER)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--rows", type=int, nargs="+", default=[300])
    parser.add_argument("--replays", type=int, default=20)
    parser.add_argument("--results", type=Path, default=Path("real-predictions.jsonl"))
    options = parser.parse_args()
    if not options.data.is_dir():
        sys.exit(f"There are no tables in {options.data}: give their folder with --data.")
    warnings.filterwarnings("ignore")
    kept = Kept(options.results, "set", "rows", "seed")
    for name in options.sets:
        for num_rows in options.rows:
            for seed in range(options.replays):
                key = name, num_rows, seed
                if key in kept.values:
                    continue
                begun = time.perf_counter()
                kept.add(key, run(name, options.data, num_rows, seed))
                print(f"{name} {num_rows} replay {seed}: {time.perf_counter() - begun:.1f} s", file=sys.stderr)
            frame = kept.frame(options.replays, name, num_rows)
            errors = frame.std() / len(frame) ** 0.5
            print(f"\n{name}, {num_rows} rows, {len(frame)} replays")
            print(f"  90% intervals hold {frame.coverage.mean():.1%} ± {errors.coverage:.1%} of the groups' means")
            for other in frame.columns[2:]:
                ahead = frame.cobed - frame[other]
                print(
                    f"  log probability of an outcome: cobed {frame.cobed.mean():.4f}, {other} {frame[other].mean():.4f}, cobed "
                    f"{ahead.mean():+.4f} ± {ahead.std() / len(frame) ** 0.5:.4f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
