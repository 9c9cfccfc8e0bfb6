"""The paper's linear bandit: which of ten actions to try in three contexts, when few of them can earn anything."""

import dataclasses
import functools
import time
from collections.abc import Sequence
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.budget import BUDGETS, Budget
from cobed.designers.baselines import RandomUniform, Thompson
from cobed.designers.cobed import design
from cobed.designers.linear_bandit import Const, LargestNorm, SamplerPlanner
from cobed.designers.result import DesignResult
from cobed.models import bandit
from cobed.problem import Problem
from cobed.reproduce import bandit_report
from cobed.reproduce.bandit_exact import CoordinateExchange, ExactReward
from cobed.reproduce.study import Effort, Folder, Part, Record, Worlds
from cobed.types import Array, Key

SIZES = (2, 5, *range(10, 61, 5))
NOISE, MORE_NOISE = 0.1, 1.0
# What training a critic costs beside the closed forms of 30 units.
CRITIC_WORK = 50.0
# Starts of CO-BED's exchange from so many units on. With two, one in a few designs of two units ended at a poor place; from 15
# units on one start has .9999 of the optimum or more in every one of 20 draws.
STARTS = {2: 8, 5: 2, 15: 1}

EFFORTS = {
    "smoke": Effort(BUDGETS["smoke"], BUDGETS["smoke"], num_worlds=0, num_paper_worlds=0, num_seeds=2),
    "quick": Effort(
        Budget(num_starts=2, num_steps=500, batch_size=512, settle_steps=0, num_evaluation_batches=1),
        Budget(num_steps=400, batch_size=512, settle_steps=0, num_evaluation_batches=8),
        num_worlds=0, num_paper_worlds=0, num_seeds=20,
    ),
    "paper": Effort(BUDGETS["paper"], BUDGETS["paper"], num_worlds=0, num_paper_worlds=0, num_seeds=20),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Plan:
    """Which sizes are measured: at noise .1 and 1 on all feature draws; by critics, and designed by InfoNCE, on some."""

    sizes: tuple[int, ...]
    noisy_sizes: tuple[int, ...]
    critic_sizes: tuple[int, ...]
    critic_seeds: int
    infonce_sizes: tuple[int, ...]
    infonce_seeds: int


PLANS = {
    "smoke": Plan((2, 10), (10,), (10,), 1, (10,), 1),
    "quick": Plan(SIZES, (2, 5, 10, 15, 30), (2, 10, 30, 60), 1, (10, 30), 2),
    "paper": Plan(SIZES, SIZES, SIZES, 3, SIZES, 20),
}

BASELINES = (SamplerPlanner(), LargestNorm(), Const(), RandomUniform(), Thompson())
OPTIMA = (CoordinateExchange(), CoordinateExchange(bandit.PAPER_DECOYS))


def make_problem(key: Key[Array, ""], num_contexts: int, noise_std: float = NOISE) -> Problem:
    """`num_contexts` units in contexts 1, 2 or 3; deployment in each of the three. The key draws features and contexts.

    The paper does not state the noise.
    """
    feature_key, context_key = jr.split(key)
    contexts = jnp.asarray(bandit.contexts(context_key, num_contexts))
    return eqx.tree_at(
        lambda problem: (problem.model.table, problem.contexts),
        _template(noise_std),
        (bandit.paper_features(feature_key), contexts),
    )


@functools.cache
def _template(noise_std: float) -> Problem:
    """The model is checked once: features and contexts change nothing of what is checked."""
    return Problem(bandit.paper_bandit(jr.key(0), noise_std), bandit.targets(), bandit.targets())


def make_parts(budget: str, effort: Effort, num_seeds: int) -> list[Part]:
    plan = PLANS[budget]
    parts = []
    for noise, sizes in ((NOISE, plan.sizes), (MORE_NOISE, plan.noisy_sizes)):
        parts += [_supervised_part(noise, seed) for seed in range(num_seeds)]
        for size in sizes:
            setting = {"D": size, "noise": noise}
            starts = next(starts for least, starts in sorted(STARTS.items(), reverse=True) if size >= least)
            for seed in range(num_seeds):
                problem = make_problem(jr.key(seed), size, noise)
                informative = noise == NOISE and size in plan.critic_sizes and seed < plan.critic_seeds
                make = functools.partial(
                    Part, setting=setting, seed=seed, problem=problem, scores=exact_scores, informative=informative
                )
                work = size / 30 + CRITIC_WORK * informative
                ours = functools.partial(design, budget=effort.design.replace(num_starts=starts))
                parts += [make(d.name, design=d, work=work) for d in (*BASELINES, *OPTIMA)]
                parts.append(make("CO-BED", design=ours, trains=True, work=size / 10 + CRITIC_WORK * informative))
                if noise == NOISE and size in plan.infonce_sizes and seed < plan.infonce_seeds:
                    infonce = functools.partial(design, objective="infonce", budget=effort.design)
                    parts.append(make("CO-BED (infonce)", design=infonce, trains=True, work=5 * CRITIC_WORK))
    # Closed forms first: they are most of the report, and take a small part of the time.
    return sorted(parts, key=lambda part: part.work >= CRITIC_WORK)


def exact_scores(key: Key[Array, ""], problem: Problem, actions: np.ndarray, effort: Effort) -> Worlds:
    """The average deployed reward and its distance to that of known psi, in closed form: there are no worlds to draw."""
    exact = ExactReward(problem)
    reward = exact.of_actions(actions)
    return {"exact": {"reward": np.array([reward]), "regret": np.array([exact.of_everything() - reward])}}


def known_scores(key: Key[Array, ""], problem: Problem, actions: np.ndarray, effort: Effort) -> Worlds:
    """The reward of decisions that know psi, which no experiment exceeds. Seen once with noise, rewards earn less than that,
    and less than the best designs of 15 units."""
    return {"exact": {"reward": np.array([ExactReward(problem).of_everything()]), "regret": np.zeros(1)}}


def _supervised_part(noise: float, seed: int) -> Part:
    """SL: every action in every target context, and its reward without noise."""
    problem = make_problem(jr.key(seed), 1, noise)
    combinations = problem.model.action_space.enumerate_discrete()
    contexts = jnp.repeat(problem.targets, len(combinations), axis=0)
    problem = eqx.tree_at(lambda problem: problem.contexts, problem, contexts)
    return Part("SL", {"noise": noise}, seed, problem, _try_everything, scores=known_scores, informative=False)


def _try_everything(problem: Problem, *, seed: int) -> DesignResult:
    started = time.perf_counter()
    combinations = np.asarray(problem.model.action_space.enumerate_discrete())
    actions = np.tile(combinations, (problem.num_contexts // len(combinations), 1))
    return DesignResult(
        method="SL", actions=actions, labels=[problem.model.action_space.label(action) for action in actions],
        contexts=np.asarray(problem.contexts), score=None, starts=[], stop_reason="Nothing to train.", seed=seed,
        seconds_design=time.perf_counter() - started, seconds_evaluation=0.0,
    )  # fmt: skip


def write_report(folder: Folder, records: Sequence[Record]) -> Path:
    return bandit_report.write(folder, records, PLANS[folder.budget].infonce_seeds)
