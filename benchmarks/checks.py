"""How often the checks alarm where nothing is wrong, and how often they see what is.

python benchmarks/checks.py [--experiments 20000] [--campaigns 60] [--cases null right wrong]

null: experiments without a fault, arrays alone, for the tests with a nominal level. right: whole campaigns whose model is right,
300 units of history assigned at random. wrong: a curve under lines, 88% zeros under `normal`, counts with ten times their
variance under `poisson`.
"""

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd

import cobed
from cobed.campaign.trust import gather
from cobed.checks import Law, LeftOut, Predicted, balance, returned

SPEC = """name = "benchmark"
[units]
id = "customer"
[context]
age = "numeric"
spent = "numeric"
city = "categorical"
new = "binary"
[action]
options = ["none", "mail", "call"]
[outcome]
column = "amount"
likelihood = "{likelihood}"
{more}
"""
# Where deviations and noise are learned, lines alone; where they are known, the belief that outcomes are drawn from is about right.
LEARNED = '[model]\nfamily = "linear"'
KNOWN = {
    "normal": "typical = 10.0\nspread = 2.0\n[prior]\nbaseline = 2.0\ncontext = 1.0\naction = 1.0\ninteraction = 1.0",
    "bernoulli": "[prior]\nbaseline = 1.0\ncontext = 0.5\naction = 0.5\ninteraction = 0.5",
    "poisson": "typical = 2.7\n[prior]\nbaseline = 0.5\ncontext = 0.3\naction = 0.3\ninteraction = 0.3",
}
NUM_UNITS = 300
# The checks of what the model predicts.
ASKED = (Predicted(), Law(), LeftOut())


def rate(count: int, of: int) -> str:
    share = count / of
    return f"{share:.2%} ± {np.sqrt(max(share * (1 - share), 1 / of**2) / of):.2%} of {of:,}"


def contexts_of(rng: np.random.Generator, number: int, kind: str) -> np.ndarray:
    """Encoded contexts: normal, with heavy tails, or with rare levels, (N, C)."""
    plain = rng.normal(size=(number, 3))
    if kind == "heavy tails":
        return np.concatenate([plain, rng.lognormal(0, 2, (number, 2))], axis=1)
    if kind == "rare levels":
        levels = rng.choice(6, number, p=[0.5, 0.25, 0.15, 0.06, 0.03, 0.01])
        return np.concatenate([plain, np.eye(6)[levels], rng.integers(0, 2, (number, 1))], axis=1)
    return plain


def null_balance(num_experiments: int) -> None:
    print(f"\nbalance, told below {balance.LEVEL:.1%}")
    for kind in ("normal", "heavy tails", "rare levels"):
        for number, options, rounds in ((40, 2, 1), (300, 3, 1), (300, 3, 3)):
            rng, alarms = np.random.default_rng(0), 0
            for _ in range(num_experiments // 4):
                strata = rng.integers(0, rounds, number)
                contexts = contexts_of(rng, number, kind) + strata[:, None]
                actions = np.eye(options)[rng.integers(0, options, number)]
                alarms += balance.pillai_test(contexts, actions, strata) < balance.LEVEL
            where = f"{kind}, {number} units, {options} options, {rounds} round(s)"
            print(f"  {where:50s} {rate(alarms, num_experiments // 4)}")


def null_returned(num_experiments: int) -> None:
    print(f"\nsample-ratio mismatch, told below {returned.LEVEL:.2%}; and below 5%, to see more")
    for number, options, back, part in ((1_000, 2, 0.8, 1), (300, 3, 0.5, 1), (60, 3, 0.9, 20)):
        rng, p_values = np.random.default_rng(0), []
        for _ in range(num_experiments // part):
            actions = rng.integers(0, options, number)
            came = rng.random(number) < back
            planned = np.bincount(actions, minlength=options)[None]
            p_values.append(returned.ratio_test(planned, np.bincount(actions[came], minlength=options)[None], 0))
        alarms = [rate(int(np.sum(np.array(p_values) < level)), len(p_values)) for level in (returned.LEVEL, 0.05)]
        print(f"  {f'{number} units, {options} options, {back:.0%} come back':50s} {alarms[0]}; {alarms[1]}")


def make_history(rng: np.random.Generator) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "customer": [f"c{row}" for row in range(NUM_UNITS)],
            "age": rng.normal(40, 10, NUM_UNITS).round(1),
            "spent": rng.lognormal(3, 1, NUM_UNITS).round(2),
            "city": rng.choice(["Bath", "Leeds", "York"], NUM_UNITS),
            "new": rng.integers(0, 2, NUM_UNITS),
            "action": rng.choice(["none", "mail", "call"], NUM_UNITS),
        }
    )


def lines(table: pd.DataFrame) -> np.ndarray:
    """A predictor of deviation about 1."""
    age = (table["age"] - 40) / 10
    return np.asarray(0.5 * age + 0.5 * (table["action"] == "mail") * age + 0.3 * (table["city"] == "York"))


def right(rng: np.random.Generator, table: pd.DataFrame) -> dict[str, np.ndarray]:
    """Outcomes of the law that the spec names, around lines."""
    eta = lines(table)
    return {
        "normal": 10 + 2 * eta + 2 * rng.normal(size=NUM_UNITS),
        "bernoulli": (rng.random(NUM_UNITS) < 1 / (1 + np.exp(-eta))).astype(int),
        "poisson": rng.poisson(np.exp(1 + 0.4 * eta)),
    }


def wrong(rng: np.random.Generator, table: pd.DataFrame) -> dict[str, np.ndarray]:
    """Outcomes of another law, or around something else than lines, by the likelihood of the spec."""
    eta, age = lines(table), (table["age"] - 40) / 10
    mean = np.exp(2 + 0.3 * eta)
    return {
        "normal": np.asarray(10 + 2 * eta + 2 * age**2 + 2 * rng.normal(size=NUM_UNITS)),
        "normal, 88% zeros": np.where(rng.random(NUM_UNITS) < 0.88, 0, rng.gamma(2, 5 * np.exp(0.3 * eta))),
        # Variance mean (1 + mean / shape) = 10 mean.
        "poisson, ten times the variance": rng.poisson(mean * rng.gamma(mean / 9, 9 / mean)),
    }


def run_campaigns(outcomes_of, num_campaigns: int, known: dict[str, str]) -> None:
    """Whole campaigns, from the table to the verdicts; `known` has what the spec says of deviations."""
    verdicts: dict[str, Counter] = {}
    for seed in range(num_campaigns):
        rng = np.random.default_rng(seed)
        table = make_history(rng)
        for case, outcomes in outcomes_of(rng, table).items():
            with tempfile.TemporaryDirectory() as folder:
                spec = Path(folder) / "campaign.toml"
                spec.write_text(SPEC.format(likelihood=case.split(",")[0], more=known.get(case, LEARNED)))
                campaign = cobed.Campaign.create(spec)
                campaign.add_outcomes(table.assign(amount=outcomes))
                count = verdicts.setdefault(case, Counter())
                evidence = gather(campaign, None)
                count.update(check.name for check in ASKED if check(evidence).verdict in ("look", "stop"))
                campaign.close()
    for case, count in verdicts.items():
        print(f"  {case}: " + "; ".join(f"{check.name} {rate(count[check.name], num_campaigns)}" for check in ASKED))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiments", type=int, default=20_000)
    parser.add_argument("--campaigns", type=int, default=60)
    parser.add_argument("--cases", nargs="+", choices=("null", "right", "wrong"), default=["null", "right", "wrong"])
    arguments = parser.parse_args()
    start = time.perf_counter()
    if "null" in arguments.cases:
        null_balance(arguments.experiments)
        null_returned(arguments.experiments)
    for name, outcomes_of, known in (("right", right, KNOWN), ("wrong", wrong, {})):
        if name in arguments.cases:
            print(f"\nthe model is {name}: look or stop, by check", flush=True)
            run_campaigns(outcomes_of, arguments.campaigns, known)
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
