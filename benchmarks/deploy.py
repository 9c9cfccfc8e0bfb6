"""A policy for many targets under a budget: seconds and memory of each step. `python benchmarks/deploy.py --rows 1000000`."""

import argparse
import resource
import time

import jax
import jax.random as jr
import numpy as np

import cobed
from cobed.allocation import allocate
from cobed.campaign.engine import POLICY_DRAWS, candidate_actions, policy_optimum
from cobed.decide import compare, decide
from cobed.models import NetReward
from cobed.models.glm import LinearFeatures, linear_gaussian
from cobed.rules import Limit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    num_rows = parser.parse_args().rows
    space = cobed.Discrete(["none", "mail", "call", "coupon"])
    features = LinearFeatures(space, 5)
    size = features.by_kind(0, 0, 0, 0).size
    model = NetReward(
        linear_gaussian(features, features.by_kind(5, 0, 0, 0), np.full(size, 0.5), 1.0),
        costs={"mail": 0.1, "call": 0.4}, shares={"coupon": 0.2},
    )  # fmt: skip
    draws = jax.vmap(model.sample_prior)(jr.split(jr.key(0), POLICY_DRAWS))
    # As after an experiment: close around one world.
    draws = model.sample_prior(jr.key(1)) + 0.1 * (draws - draws.mean(axis=0))
    targets = np.random.default_rng(0).normal(size=(num_rows, 5)).astype(np.float32)
    started = time.perf_counter()

    def say(step: str) -> None:
        nonlocal started
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"{step:<40}{time.perf_counter() - started:8.1f} s   peak {peak:.2f} GiB", flush=True)
        started = time.perf_counter()

    choices = decide(model, policy_optimum(space), draws, targets)
    assert choices.values is not None
    say(f"values of {num_rows:,} rows x 4 actions")
    spent = np.maximum(choices.values, 0) * np.array([0, 0, 0, 0.25]) + np.array([0, 0.1, 0.4, 0])
    limits = [
        Limit("coupons", np.eye(4)[3], most=num_rows // 500),
        Limit("money", spent.astype(np.float32), most=0.02 * num_rows),
    ]
    found = allocate(choices.values, None, limits)
    say("budget: 0.2% coupons, 0.02 per row")
    gap = found.bound - found.value
    print(f"  used {found.used}; one more brings {found.loosened}; {gap:.3g} below the bound of {found.bound:,.6g}")
    candidates = candidate_actions(space)
    moved = {"chosen": found.chosen, "actions": candidates[found.chosen]}
    compared = compare(model, draws, targets, candidates, type(choices)(**{**vars(choices), **moved}))
    say("gains, intervals and P(best) of all")
    print(f"  {compared.value}")


if __name__ == "__main__":
    main()
