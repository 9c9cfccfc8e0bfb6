"""The paper's unknown causal graph: 200 units, actions in [0, 1]^l, deployment in all 255 contexts."""

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path

import jax.random as jr
import numpy as np

from cobed.budget import BUDGETS, Budget
from cobed.designers.baselines import RandomCorners, Thompson
from cobed.designers.cobed import design
from cobed.designers.sparse import EntrywiseUCB
from cobed.inference.lasso import cross_validate
from cobed.inference.spike_slab import SpikeAndSlab
from cobed.metrics import evaluate
from cobed.models import CausalGraph, causal
from cobed.problem import Problem
from cobed.reproduce import causal_report
from cobed.reproduce.study import Effort, Folder, Part, Record, Worlds, per_world
from cobed.types import Array, Key

SIZES = (5, 10, 15, 20, 25)
NUM_CONTEXTS = 200
# The paper draws the contexts once, for all methods and seeds.
CONTEXT_SEED = 0
# Draws of the spike-and-slab posterior in each world, and worlds computed at once.
NUM_DRAWS, NUM_TOGETHER = 64, 50

# `num_worlds` are worlds decided by the posterior, `num_paper_worlds` by the Lasso.
EFFORTS = {
    "smoke": Effort(BUDGETS["smoke"], BUDGETS["smoke"], num_worlds=4, num_paper_worlds=20, num_seeds=1),
    "quick": Effort(
        Budget(num_steps=500, batch_size=512, settle_steps=0, num_evaluation_batches=1),
        Budget(num_steps=200, batch_size=512, settle_steps=0, num_evaluation_batches=4),
        num_worlds=100, num_paper_worlds=2_000, num_seeds=1,
    ),
    # The critic's settings of the paper; CO-BED's own objective needs few steps and no critic.
    "paper": Effort(
        Budget(num_steps=50_000, batch_size=2_048),
        Budget(num_steps=50_000, batch_size=2_048, settle_batch_size=4_096),
        num_worlds=2_000, num_paper_worlds=10_000, num_seeds=4,
    ),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Plan:
    """For which l, and for which of them also by InfoNCE; how many units."""

    sizes: tuple[int, ...]
    infonce_sizes: tuple[int, ...]
    num_contexts: int = NUM_CONTEXTS


PLANS = {"smoke": Plan((5,), (5,), 30), "quick": Plan(SIZES, (20,)), "paper": Plan(SIZES, SIZES)}

BASELINES = (*map(RandomCorners, (0.5, 0.667, 0.75, 0.833)), EntrywiseUCB(1.0), Thompson())


def make_problem(num_actions: int, num_contexts: int = NUM_CONTEXTS) -> Problem:
    """The paper's problem with l = `num_actions` activities."""
    contexts = causal.contexts(jr.key(CONTEXT_SEED), num_contexts)
    return Problem(CausalGraph(num_actions), contexts, causal.targets())


def make_parts(budget: str, effort: Effort, num_seeds: int) -> list[Part]:
    plan = PLANS[budget]
    parts = []
    for size in plan.sizes:
        problem = make_problem(size, plan.num_contexts)
        for seed in range(num_seeds):
            make = functools.partial(Part, setting={"l": size}, seed=seed, problem=problem, scores=both_scores)
            parts += [make(baseline.name, design=baseline, work=size) for baseline in BASELINES]
            ours = functools.partial(design, budget=effort.design)
            parts.append(make("CO-BED", design=ours, trains=True, work=3 * size))
            if size in plan.infonce_sizes:
                infonce = functools.partial(design, objective="infonce", budget=effort.design)
                parts.append(make("CO-BED (infonce)", design=infonce, trains=True, work=3 * size))
    return parts


def both_scores(key: Key[Array, ""], problem: Problem, actions: np.ndarray, effort: Effort) -> Worlds:
    """Protocol `paper`: the Lasso, its penalty cross-validated once for the design. `exact`: the spike-and-slab posterior."""
    penalty_key, lasso_key, posterior_key = jr.split(key, 3)
    lasso = cross_validate(penalty_key, problem, actions)
    posterior = SpikeAndSlab(NUM_DRAWS)
    found = {
        "paper": evaluate(problem, actions, effort.num_paper_worlds, sampler=lasso, batch_size=250, seed=lasso_key),
        "exact": evaluate(
            problem, actions, effort.num_worlds, sampler=posterior, batch_size=NUM_TOGETHER, seed=posterior_key
        ),
    }
    return {protocol: per_world(scores) for protocol, scores in found.items()}


def write_report(folder: Folder, records: Sequence[Record]) -> Path:
    plan = PLANS[folder.budget]
    # The picture is of the largest graph the paper's text speaks of, or the largest there is.
    size = 20 if 20 in plan.sizes else plan.sizes[-1]
    return causal_report.write(folder, records, make_problem(size, plan.num_contexts), size)
