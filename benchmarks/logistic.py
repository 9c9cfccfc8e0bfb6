"""A synthetic campaign with yes/no outcomes: how much less CO-BED's decisions lose than those after random assignment.

Four offers, five context columns (independent standard normals), 500 units to experiment on, 200 others where the policy
will be deployed. Truth is drawn from the campaign's default prior: success in about a quarter of the cases (log-odds -1),
deviations of 1 for the baseline, .5 for contexts and offers, .25 for each offer's interaction with each context. Two cases:

  known   two of the offers have been in use: 500 rows of history, each unit with either of the two at random; two are new
  cold    no history: all offers are alike before the experiment

Regret is the probability of success lost at a target against its best offer. All methods see the same worlds, units and
luck. With `--rounds`: two adaptive rounds of 150 units against one round of 300 (case cold), all by CO-BED.
Run: python benchmarks/logistic.py [--cases known cold] [--replays 400] [--rounds]
"""

import argparse
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from replay import METHODS, TEMPLATE, Known, decide, design, joined, learn, outcomes, prior, replays, table

import cobed
from cobed.campaign.engine import DEFAULT_DEVIATIONS
from cobed.data import Data
from cobed.decide import mean_rewards
from cobed.inference.importance import MAX_PARETO_K
from cobed.metrics import Score
from cobed.models.glm import GeneralisedLinear, LinearFeatures

NUM_OFFERS, NUM_COLUMNS, NUM_UNITS, NUM_TARGETS, NUM_HISTORY = 4, 5, 500, 200, 500
# Of the units, for what fraction would have been enough.
SHARES = (0.25, 0.5, 0.75)
FEATURES = LinearFeatures(cobed.Discrete(NUM_OFFERS), NUM_COLUMNS)
MODEL = GeneralisedLinear(
    FEATURES, FEATURES.by_kind(-1.0, 0, 0, 0), FEATURES.by_kind(**DEFAULT_DEVIATIONS), "bernoulli"
)


class World(NamedTuple):
    """One truth: its units and targets, what each unit would show under each offer (D, K), the chances at the targets."""

    units: jax.Array
    potential: jax.Array
    targets: jax.Array
    chances: jax.Array
    history: Data


def draw_world(seed, num_units: int) -> World:
    psi_key, key = jr.split(jr.key(seed))
    psi = MODEL.sample_prior(psi_key)
    unit_key, target_key, past_key, offer_key, luck_key, past_luck_key = jr.split(key, 6)
    units, targets, past = (
        jr.normal(k, (n, NUM_COLUMNS))
        for k, n in ((unit_key, num_units), (target_key, NUM_TARGETS), (past_key, NUM_HISTORY))
    )

    def chances(contexts):
        return mean_rewards(MODEL, psi[None], contexts, jnp.eye(NUM_OFFERS))[:, :, 0]

    def shown(key, contexts):
        return (jr.uniform(key, (len(contexts), 1)) < chances(contexts)).astype(jnp.float32)

    old = jnp.eye(NUM_OFFERS)[jr.randint(offer_key, (NUM_HISTORY,), 0, 2)]
    history = outcomes(TEMPLATE, past, old, shown(past_luck_key, past))
    return World(units, shown(luck_key, units), targets, chances(targets), history)


def regret(world: World, known: Known):
    """Probability of success lost at the targets."""
    chosen = decide(MODEL, known, world.targets)
    return jnp.mean(jnp.max(world.chances, axis=1) - world.chances[jnp.arange(NUM_TARGETS), chosen])


def one_world(case: str, seed) -> dict[str, jax.Array]:
    world = draw_world(seed, NUM_UNITS)
    keys = jr.split(jr.fold_in(jr.key(1), seed), 3)
    history = world.history if case == "known" else None
    now = prior(keys[0], MODEL) if history is None else learn(keys[0], MODEL, history)
    found, ks = {}, [now.pareto_k]

    def run(method: str, num: int):
        actions = design(method, keys[1], MODEL, now, world.units[:num], world.targets)
        data = joined(history, outcomes(TEMPLATE, world.units[:num], actions, world.potential[:num]))
        after = learn(keys[2], MODEL, data)
        ks.append(after.pareto_k)
        return regret(world, after)

    for method in METHODS:
        found[method] = run(method, NUM_UNITS)
    for share in SHARES:
        found[f"CO-BED, {share:.0%}"] = run("CO-BED", round(share * NUM_UNITS))
    found["no experiment"] = regret(world, now)
    found["k"] = jnp.max(jnp.stack(ks))
    return found


def two_rounds(seed) -> dict[str, jax.Array]:
    world, half = draw_world(seed, 300), 150
    keys = jr.split(jr.fold_in(jr.key(2), seed), 4)
    now = prior(keys[0], MODEL)
    found, ks = {}, []

    def run(name: str, *rounds: tuple[str, slice]):
        data, known = None, now
        for method, part in rounds:
            actions = design(method, keys[1], MODEL, known, world.units[part], world.targets)
            data = joined(data, outcomes(TEMPLATE, world.units[part], actions, world.potential[part]))
            known = learn(keys[2], MODEL, data)
            ks.append(known.pareto_k)
        found[name] = regret(world, known)

    first, second, both = slice(0, half), slice(half, None), slice(None)
    run("one round of 300", ("CO-BED", both))
    run("two rounds of 150", ("CO-BED", first), ("CO-BED", second))
    run("random, 300", ("Random", both))
    return {**found, "k": jnp.max(jnp.stack(ks))}


def needed(scores: dict[str, Score]) -> float:
    """The share of the units at which CO-BED's regret, interpolated between the shares, equals random assignment's."""
    regrets = [scores[f"CO-BED, {share:.0%}"].mean for share in SHARES] + [scores["CO-BED"].mean]
    # np.interp wants ascending x: regret falls as the share grows.
    return float(np.interp(-np.log(scores["Random"].mean), -np.log(regrets), [*SHARES, 1.0]))


def show(found: dict[str, np.ndarray], reference: str) -> dict[str, Score]:
    k = found.pop("k")
    scores = table(found, reference, "regret")
    print(f"Worst Pareto k of a world's posteriors: median {np.median(k):.2f}, {(k > MAX_PARETO_K).sum()} above .7.")
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", default=["known", "cold"], choices=["known", "cold"])
    parser.add_argument("--replays", type=int, default=400)
    parser.add_argument("--rounds", action="store_true")
    arguments = parser.parse_args()
    if arguments.rounds:
        show(replays(two_rounds, arguments.replays), "one round of 300")
        return
    for case in arguments.cases:
        print(f"case {case}: {NUM_UNITS} units, {arguments.replays} worlds")
        scores = show(replays(functools.partial(one_world, case), arguments.replays), "Random")
        print(f"CO-BED needs {needed(scores):.0%} of the units for the regret of random assignment.", flush=True)


if __name__ == "__main__":
    main()
