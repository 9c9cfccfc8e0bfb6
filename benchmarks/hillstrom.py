"""Replays of a real e-mail campaign: does the policy after a designed round earn more than after random assignment?

The data (MineThatData 2008) are 32,000 customers of a randomised campaign: Mens E-Mail, Womens E-Mail, No E-Mail, a third
each; the outcome is a visit. Half of the customers make the world, the other half is held out. A replay: 300 rows of the
world with the e-mail they got as history (round 0), 300 other customers to experiment on. Each method assigns e-mails to
these from the same posterior; a customer shows the outcome of one who got that e-mail and is of the same cell: mens,
womens, newbie, zip code, thirds of recency and of history. A policy is learned from all 600 rows, and its value is the share of
visits on held-out rows, by inverse propensity (each e-mail went to a random third), the same rows for all methods. Regret
is measured against the policy learned from all rows of the world. Prior: deviations by hand, as in a [prior] section, for a
typical share of .15.
Run: python benchmarks/hillstrom.py [PATH to hillstrom.csv.gz] [--replays 200]
"""

import argparse
import functools
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pandas as pd
from replay import METHODS, TEMPLATE, decide, design, joined, learn, outcomes, replays, table

import cobed
from cobed.campaign.engine import DEFAULT_DEVIATIONS
from cobed.compilation import lean_jit
from cobed.data import Data
from cobed.inference.importance import MAX_PARETO_K
from cobed.models.glm import GeneralisedLinear, LinearFeatures

DEFAULT = Path(__file__).parents[2] / "shared" / "data" / "hillstrom.csv.gz"
ARMS = ["Mens E-Mail", "Womens E-Mail", "No E-Mail"]
NUM_HISTORY, NUM_UNITS, NUM_HELD_OUT, NUM_TARGETS = 300, 300, 8_000, 200
# A cell lends outcomes if each e-mail went to so many of its customers.
FEWEST = 5


def encode(customers: pd.DataFrame) -> np.ndarray:
    """Numbers scaled to mean 0 and deviation 1, yes/no as -.5 and .5, categories one column each but the commonest."""
    numbers = np.stack([customers.recency, np.log(customers.history)], axis=1)
    numbers = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    flags = customers[["mens", "womens", "newbie"]].to_numpy() - 0.5
    places = np.stack([customers.zip_code == "Rural", customers.zip_code == "Urban"], axis=1)
    channels = np.stack([customers.channel == "Phone", customers.channel == "Multichannel"], axis=1)
    return np.concatenate([numbers, flags, places, channels], axis=1).astype(np.float32)


class Records:
    """The customers as arrays, and the pools from which outcomes are drawn."""

    def __init__(self, customers: pd.DataFrame):
        self.contexts = encode(customers)
        self.arms = np.array([ARMS.index(name) for name in customers.segment])
        self.visits = customers.visit.to_numpy(np.float32)
        rng = np.random.default_rng(0)
        order = rng.permutation(len(customers))
        self.world, self.held_out = np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :])
        cells = customers[["mens", "womens", "newbie", "zip_code"]].assign(
            recency=pd.qcut(customers.recency, 3, labels=False), history=pd.qcut(customers.history, 3, labels=False)
        )
        self.cell = cells.groupby(list(cells.columns)).ngroup().to_numpy()
        self.pools = {
            (cell, arm): rows
            for (cell, arm), rows in pd.Series(self.world).groupby([self.cell[self.world], self.arms[self.world]]).groups.items()
        }  # fmt: skip
        complete = [
            cell for cell in range(self.cell.max() + 1) if all(len(self.pool(cell, a)) >= FEWEST for a in range(3))
        ]
        self.usable = self.world[np.isin(self.cell[self.world], complete)]
        print(
            f"{len(customers):,} customers; {len(complete)} of {self.cell.max() + 1} cells, with {len(self.usable):,} of the "
            f"{len(self.world):,} customers of the world, lend outcomes."
        )

    def pool(self, cell: int, arm: int) -> np.ndarray:
        """Customers of the world in a cell who got an e-mail."""
        return self.world[self.pools.get((cell, arm), [])]

    def replay(self, seed: int) -> tuple[np.ndarray, ...]:
        """Rows of history and units, what each unit shows under each e-mail (D, 3), held-out rows."""
        rng = np.random.default_rng(1 + seed)
        chosen = rng.choice(self.usable, NUM_HISTORY + NUM_UNITS, replace=False)
        units = chosen[NUM_HISTORY:]
        shown = np.stack([[self.visits[rng.choice(self.pool(self.cell[u], a))] for a in range(3)] for u in units])
        return chosen[:NUM_HISTORY], units, shown, rng.choice(self.held_out, NUM_HELD_OUT, replace=False)


def make_model(num_columns: int) -> GeneralisedLinear:
    features = LinearFeatures(cobed.Discrete(ARMS), num_columns)
    center = float(np.log(0.15 / 0.85))
    return GeneralisedLinear(
        features, features.by_kind(center, 0, 0, 0), features.by_kind(**DEFAULT_DEVIATIONS), "bernoulli"
    )


def one(model: GeneralisedLinear, records: dict[str, jax.Array], best, seed, history, units, shown, held_out):
    keys = jr.split(jr.key(seed), 3)
    contexts, arms, visits = records["contexts"], records["arms"], records["visits"]
    past = outcomes(TEMPLATE, contexts[history], jnp.eye(3)[arms[history]], jnp.tile(visits[history, None], 3))
    now = learn(keys[0], model, past)

    def value(chosen):
        # Each e-mail went to a third: a row that got what the policy says counts three times.
        return jnp.mean(3 * (chosen == arms[held_out]) * visits[held_out])

    found, ks = {}, [now.pareto_k]
    for method in METHODS:
        actions = design(method, keys[1], model, now, contexts[units], contexts[held_out[:NUM_TARGETS]])
        after = learn(keys[2], model, joined(past, outcomes(TEMPLATE, contexts[units], actions, shown)))
        found[method] = value(decide(model, after, contexts[held_out]))
        ks.append(after.pareto_k)
    found["no second round"] = value(decide(model, now, contexts[held_out]))
    found["all get Mens"] = value(jnp.zeros(len(held_out), int))
    found["all rows"] = value(best[held_out])
    found["k"] = jnp.max(jnp.stack(ks))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="?", type=Path, default=DEFAULT)
    parser.add_argument("--replays", type=int, default=200)
    arguments = parser.parse_args()
    if not arguments.path.exists():
        sys.exit(f"There is no data at {arguments.path}: give the path of hillstrom.csv.gz. Nothing was measured.")
    records = Records(pd.read_csv(arguments.path))
    model = make_model(records.contexts.shape[1])
    world = records.world
    everything = Data(records.contexts[world], np.eye(3)[records.arms[world]], records.visits[world])
    names = ("contexts", "arms", "visits")
    arrays = {name: jnp.asarray(getattr(records, name)) for name in names}
    # The contexts of all customers in blocks: the rewards of every draw at once would be large.
    blocks = np.array_split(records.contexts, 16)
    fit = lean_jit(learn)(jr.key(0), model, everything)
    best = jnp.concatenate([lean_jit(decide)(model, fit, jnp.asarray(block)) for block in blocks])
    shares = np.bincount(np.asarray(best), minlength=3) / len(best)
    print("All rows of the world: " + ", ".join(f"{share:.0%} {arm}" for arm, share in zip(ARMS, shares, strict=True)))
    rows = [records.replay(seed) for seed in range(arguments.replays)]
    stacked = [np.stack(column) for column in zip(*rows, strict=True)]
    found = replays(functools.partial(one, model, arrays, best), arguments.replays, *stacked)
    k = found.pop("k")
    table(found, "CO-BED", "value")
    reference = found["all rows"]
    table({name: reference - values for name, values in found.items() if name != "all rows"}, "CO-BED", "regret")
    print(f"Worst Pareto k of a replay's posteriors: median {np.median(k):.2f}, {(k > MAX_PARETO_K).sum()} above .7.")


if __name__ == "__main__":
    main()
