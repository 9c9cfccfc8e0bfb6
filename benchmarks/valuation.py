"""Do the intervals of `cobed evaluate` hold, and are its values unbiased? By the estimator of the product, with a cheap learner.

Simulated campaigns: 600 units with three contexts and three options; a fifth gets an option by chance, the others by Thompson
sampling from what earlier rounds taught (in the first, in turn). In one round, or in three, each designed from the outcomes before.
Where the model is right, rewards are linear in contexts within each option; where it is wrong, they are not (bends, a threshold)
and noise is skewed. The learner is a Bayesian linear regression for each option, whose prior and noise are fixed. Policies are
cross-fitted: the truth is what those policies, one for each fold, earn on average over 20,000 other units. The model's own interval
is of the policy learned from everything, over the units of the experiment, as a campaign tells it.

rfm: 600 rows of a table that knows the outcome of both actions, in two rounds, a tenth of each by chance; five policies, learned by
the same regression, against the truth on all rows, in units of the outcome. What the share costs is the regret of the policy after
it, minus that of one after the same two rounds without it. Results are kept in --results: the same command goes on where it was.
Run: python benchmarks/valuation.py [--campaigns 2000] [--replays 200] [--data FOLDER] [--results valuation.jsonl]
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from real import FOLDER, Kept, rfm

from cobed.valuation import Logged, assign_folds, difference, doubly_robust, inverse_propensity

NUM_UNITS, NUM_OPTIONS, NUM_FOLDS, SHARE = 600, 3, 5, 0.2
NUM_OTHERS = 20_000


class Known(NamedTuple):
    """A Gaussian over the coefficients (K, P) of each option's regression."""

    means: np.ndarray
    factors: np.ndarray  # (K, P, P), of the covariances


def features(contexts: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(contexts)), contexts])


def learn(contexts: np.ndarray, actions: np.ndarray, outcomes: np.ndarray, num_options: int) -> Known:
    """Each option by itself; deviations of the prior are three times, and the noise is, what outcomes scatter by."""
    scale, center = outcomes.std() or 1.0, outcomes.mean()
    means, factors = [], []
    for option in range(num_options):
        rows = features(contexts[actions == option])
        precision = np.eye(rows.shape[1]) / (3 * scale) ** 2 + rows.T @ rows / scale**2
        cov = np.linalg.inv(precision)
        mean = cov @ (rows.T @ (outcomes[actions == option] - center)) / scale**2
        mean[0] += center
        means.append(mean)
        factors.append(np.linalg.cholesky(cov))
    return Known(np.array(means), np.array(factors))


def predict(known: Known, contexts: np.ndarray) -> np.ndarray:
    return features(contexts) @ known.means.T


def thompson(rng: np.random.Generator, known: Known, contexts: np.ndarray) -> np.ndarray:
    noise = rng.normal(size=(len(contexts), *known.means.shape))
    drawn = known.means + np.einsum("kpq,nkq->nkp", known.factors, noise)
    return np.argmax(np.einsum("np,nkp->nk", features(contexts), drawn), axis=1)


class Experiment(NamedTuple):
    contexts: np.ndarray
    actions: np.ndarray
    outcomes: np.ndarray
    by_chance: np.ndarray


def run(
    rng: np.random.Generator,
    contexts: np.ndarray,
    outcome: Callable[[np.ndarray, np.ndarray], np.ndarray],
    num_options: int,
    num_rounds: int,
    share: float,
) -> Experiment:
    """Rounds of equal size. `outcome` gives what comes back of these units after these actions."""
    actions, outcomes = np.zeros(len(contexts), int), np.zeros(len(contexts))
    by_chance = np.zeros(len(contexts), bool)
    for rows in np.array_split(np.arange(len(contexts)), num_rounds):
        if rows[0] == 0:
            actions[rows] = np.arange(len(rows)) % num_options
        else:
            past = slice(0, rows[0])
            known = learn(contexts[past], actions[past], outcomes[past], num_options)
            actions[rows] = thompson(rng, known, contexts[rows])
        drawn = rng.permutation(rows)[: round(share * len(rows))]
        by_chance[drawn] = True
        actions[drawn] = rng.integers(0, num_options, len(drawn))
        outcomes[rows] = outcome(rows, actions[rows])
    return Experiment(contexts, actions, outcomes, by_chance)


def out_of_fold(
    done: Experiment, num_options: int, seed: int
) -> tuple[np.ndarray, np.ndarray, list[tuple[Known, float]]]:
    """Predictions (N, K) of the units by chance without their own fold, their best single options (N,), and what was learned with
    each fold's share of the units."""
    places = np.flatnonzero(done.by_chance)
    folds = assign_folds([str(place) for place in places], NUM_FOLDS, seed)
    values, single, learned = np.zeros((len(places), num_options)), np.zeros(len(places), int), []
    for fold in range(NUM_FOLDS):
        inside = places[folds == fold]
        rest = np.setdiff1d(np.arange(len(done.actions)), inside)
        known = learn(done.contexts[rest], done.actions[rest], done.outcomes[rest], num_options)
        values[folds == fold] = predict(known, done.contexts[inside])
        single[folds == fold] = np.argmax(predict(known, done.contexts[rest]).mean(axis=0))
        learned.append((known, len(inside) / len(places)))
    return values, single, learned


def ledger(done: Experiment, values: np.ndarray, chosen: np.ndarray) -> Logged:
    """What the estimators take, of a policy that gives the units by chance `chosen` (N,)."""
    rows, got = np.arange(len(values)), done.actions[done.by_chance]
    weights = (got == chosen) * float(values.shape[1])
    return Logged(done.outcomes[done.by_chance], weights, values[rows, chosen], values[rows, got])


# Simulated campaigns.


def truth(rng: np.random.Generator, *, right: bool) -> Callable[[np.ndarray], np.ndarray]:
    """Expected rewards (N, K) of contexts."""
    coefficients = rng.normal(size=(4, NUM_OPTIONS)) * np.array([0.3, 0.6, 0.6, 0.6])[:, None]
    if right:
        return lambda contexts: features(contexts) @ coefficients

    def bent(contexts: np.ndarray) -> np.ndarray:
        bends = np.column_stack(
            [np.ones(len(contexts)), np.abs(contexts[:, 0]), contexts[:, 1] > 0.5, np.sin(2 * contexts[:, 2])]
        )
        return 1.5 * bends @ coefficients

    return bent


def campaign(seed: int, num_rounds: int, *, right: bool) -> dict[str, float]:
    rng = np.random.default_rng([seed, num_rounds, right])
    rewards, contexts = truth(rng, right=right), rng.normal(size=(NUM_UNITS, 3))
    noise = rng.normal(size=NUM_UNITS) if right else rng.gamma(2.0, 0.7, NUM_UNITS) - 1.4
    means = rewards(contexts)
    done = run(rng, contexts, lambda rows, actions: means[rows, actions] + noise[rows], NUM_OPTIONS, num_rounds, SHARE)
    values, _, learned = out_of_fold(done, NUM_OPTIONS, seed)
    others = rng.normal(size=(NUM_OTHERS, 3))
    earned = rewards(others)
    places = np.arange(NUM_OTHERS)

    def value_of(known: Known) -> float:
        return float(earned[places, np.argmax(predict(known, others), axis=1)].mean())

    true = sum(share * value_of(known) for known, share in learned)
    robust = doubly_robust(ledger(done, values, np.argmax(values, axis=1)))
    inverse = inverse_propensity(ledger(done, values, np.argmax(values, axis=1)))
    one = doubly_robust(ledger(done, values, np.zeros(len(values), int)))
    gain = difference(robust, one)
    known = learn(done.contexts, done.actions, done.outcomes, NUM_OPTIONS)
    chosen = np.argmax(predict(known, contexts), axis=1)
    drawn = known.means + np.einsum("kpq,nkq->nkp", known.factors, rng.normal(size=(400, *known.means.shape)))
    words = np.einsum("dp,ndp->nd", features(contexts), drawn[:, chosen]).mean(axis=1)
    low, high = np.quantile(words, [0.05, 0.95])
    own = value_of(known)
    return {
        "doubly robust": float(robust.low <= true <= robust.high),
        "inverse propensity": float(inverse.low <= true <= inverse.high),
        "gain over option 1": float(gain.low <= true - earned[:, 0].mean() <= gain.high),
        "the model": float(low <= own <= high),
        "half width": (robust.high - robust.low) / 2,
        "half width of inverse propensity": (inverse.high - inverse.low) / 2,
        "error": robust.mean - true,
        "error of the model": float(words.mean()) - own,
    }


# rfm.


def encode(frame: pd.DataFrame) -> np.ndarray:
    numbers = frame[["recency", "frequency", "monetary"]].astype(float)
    columns = pd.concat([numbers, pd.get_dummies(frame["channel"], dtype=float).iloc[:, 1:]], axis=1)
    return ((columns - columns.mean()) / columns.std()).to_numpy()


def replay(seed: int, contexts: np.ndarray, both: np.ndarray) -> dict[str, float]:
    """The errors of the values of five policies, whether their intervals hold, and regret with the share and without."""
    rng = np.random.default_rng(seed)
    taken = rng.permutation(len(contexts))[:NUM_UNITS]

    def experiment(share: float) -> Experiment:
        luck = np.random.default_rng([seed, 1])
        return run(luck, contexts[taken], lambda rows, actions: both[taken[rows], actions], 2, 2, share)

    def earned(known: Known) -> float:
        return float(both[np.arange(len(both)), np.argmax(predict(known, contexts), axis=1)].mean())

    done = experiment(0.1)
    values, single, learned = out_of_fold(done, 2, seed)
    number, units = len(values), done.contexts[done.by_chance]
    # The third column is monetary, standardised: whoever spends more than the average.
    rich = (units[:, 2] > 0).astype(int)
    singles = [both[:, int(np.argmax(predict(known, contexts).mean(axis=0)))].mean() for known, _ in learned]
    policies = {
        "learned": (np.argmax(values, axis=1), sum(share * earned(known) for known, share in learned)),
        "best single": (single, float(np.average(singles, weights=[share for _, share in learned]))),
        "everybody yes": (np.ones(number, int), float(both[:, 1].mean())),
        "monetary above average": (rich, float(np.where(contexts[:, 2] > 0, both[:, 1], both[:, 0]).mean())),
    }
    found = {}
    for name, (chosen, true) in policies.items():
        worth = doubly_robust(ledger(done, values, chosen))
        found |= {f"{name}: error": worth.mean - true, f"{name}: held": float(worth.low <= true <= worth.high)}
    # At random each action has the same probability by the policy as by chance: weights of one.
    table = ledger(done, values, np.zeros(number, int))._replace(weights=np.ones(number), predicted=values.mean(axis=1))
    worth, true = doubly_robust(table), float(both.mean())
    found |= {"random: error": worth.mean - true, "random: held": float(worth.low <= true <= worth.high)}
    full = experiment(0.0)
    regrets = [
        both.max(axis=1).mean() - earned(learn(each.contexts, each.actions, each.outcomes, 2)) for each in (done, full)
    ]
    return found | {"regret": regrets[0], "cost of the share": regrets[0] - regrets[1]}


def tell(values: pd.DataFrame, shares: list[str], means: list[str]) -> None:
    for name in shares:
        held = values[name].mean()
        print(f"  {name:28} interval holds {held:.1%} ± {(held * (1 - held) / len(values)) ** 0.5:.1%}")
    for name in means:
        print(f"  {name:36} {values[name].mean():+9.4f} ± {values[name].std() / values[name].count() ** 0.5:.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--campaigns", type=int, default=2_000, help="in all, over the four kinds")
    parser.add_argument("--replays", type=int, default=200)
    parser.add_argument("--data", type=Path, default=FOLDER)
    parser.add_argument("--results", type=Path, default=Path("valuation.jsonl"))
    options = parser.parse_args()
    kept = Kept(options.results, "kind", "seed")
    each = options.campaigns // 4
    for num_rounds in (1, 3):
        for right in (True, False):
            kind = f"{num_rounds} round(s), model {'right' if right else 'wrong'}"
            for seed in range(each):
                if (kind, seed) not in kept.values:
                    kept.add((kind, seed), campaign(seed, num_rounds, right=right))
            values = kept.frame(each, kind)
            print(f"{kind}, {each} campaigns")
            tell(values, list(values.columns[:4]), list(values.columns[4:]))
    if not (options.data / "rfm.csv.gz").exists():
        sys.exit(f"There is no rfm.csv.gz in {options.data}: give its folder with --data. rfm was not measured.")
    rows = rfm(options.data)
    assert rows.all_outcomes is not None
    contexts = encode(rows.contexts)
    for seed in range(options.replays):
        if ("rfm", seed) not in kept.values:
            kept.add(("rfm", seed), replay(seed, contexts, rows.all_outcomes))
    values = kept.frame(options.replays, "rfm")
    print(f"rfm, {options.replays} replays; outcomes deviate by {rows.all_outcomes.std():.0f}")
    held = [name for name in values if name.endswith("held")]
    tell(values, held, [name for name in values if name not in held])


if __name__ == "__main__":
    main()
