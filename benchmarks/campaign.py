"""How long a campaign takes for 100,000 rows: reading and checking them, choosing an action for each, taking them as history.

python benchmarks/campaign.py [--rows 100000]
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import cobed
from cobed.campaign.check import check_tables
from cobed.campaign.tables import read_table

SPEC = """name = "benchmark"
[units]
id = "customer"
[context]
recency = "numeric"
history = "numeric"
zip = "categorical"
channel = "categorical"
newbie = "binary"
[action]
{action}
[outcome]
column = "visit"
likelihood = "bernoulli"
typical = 0.15
"""
ACTIONS = {
    "3 options": 'column = "offer"\noptions = ["none", "mens", "womens"]',
    "1 number": "numbers = { discount = { low = 0.0, high = 0.3 } }",
}


def people(num_rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "customer": [f"{seed}-{i:07d}" for i in range(num_rows)],
            "recency": rng.integers(1, 13, num_rows),
            "history": rng.lognormal(5, 1, num_rows).round(2),
            "zip": rng.choice(["Urban", "Rural", "Suburban"], num_rows),
            "channel": rng.choice(["Web", "Phone", "Multichannel"], num_rows),
            "newbie": rng.choice(["yes", "no"], num_rows),
        }
    )


def past(num_rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    chosen = {"offer": rng.choice(["none", "mens", "womens"], num_rows), "discount": rng.uniform(0, 0.3, num_rows)}
    return people(num_rows, seed).assign(**chosen, visit=rng.integers(0, 2, num_rows))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        people(rows, 1).to_csv(place / "region.csv", index=False)
        past(rows, 3).to_csv(place / "history.csv", index=False)
        for name, action in ACTIONS.items():
            spec = place / f"{name}.toml"
            spec.write_text(SPEC.format(action=action))
            campaign = cobed.Campaign.create(spec, place / f"{name}.db")
            campaign.add_outcomes(past(300, 2))
            timed = {}
            started = time.perf_counter()
            check_tables(campaign.spec, [read_table(place / "region.csv")])
            timed["check"] = time.perf_counter() - started
            started = time.perf_counter()
            _, posterior = campaign.posterior()
            timed[f"posterior of 300 outcomes by {posterior.method}"] = time.perf_counter() - started
            started = time.perf_counter()
            campaign.deploy(place / "region.csv")
            timed["deploy"] = time.perf_counter() - started
            started = time.perf_counter()
            campaign.add_outcomes(place / "history.csv")
            timed["observe as history"] = time.perf_counter() - started
            campaign.close()
            print(f"{name}, {rows:,} rows: " + ", ".join(f"{what} {seconds:.1f} s" for what, seconds in timed.items()))


if __name__ == "__main__":
    main()
