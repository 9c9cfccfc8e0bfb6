"""Designs by objectives without a network: many starts, the poor ones dropped early; exchange of actions."""

import itertools
import time

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.designers.baselines import RandomUniform, Thompson
from cobed.designers.local_penalisation import LEVI, UCBLocalPenalisation, has_moments
from cobed.designers.result import StartRecord
from cobed.designers.run import Finish, Run
from cobed.errors import NoDensityError, ProblemError
from cobed.information import Estimate, estimate
from cobed.models.gaussian import num_params
from cobed.objectives import AbstractObjective, by_second_moments
from cobed.optimum import AbstractOptimum, check_optimum, is_linear_in_action
from cobed.problem import Problem
from cobed.search import Found, by_gradient, exchange, exchange_together, scores
from cobed.search.gradient import KEPT
from cobed.types import Array, Float, Key

# So many starts, fewer where a design has many numbers: then each costs more, and matters less.
CLOSED_FORM_STARTS, MANY_NUMBERS = 16, 500
# Starts of the short climb that finds where an objective with a network begins.
WARM_STARTS = 4
# Above so many pairs of unit and action a sweep takes too long.
MAX_EXCHANGES = 4096
# Below so many units, designs made by gains are exchanged unit by unit at the end.
FEW_UNITS = 100


def search(run: Run, objective: AbstractObjective, num_starts: int | None) -> Finish:
    """The best allowed design found from `num_starts`: by exchange where actions are named and few, else by the gradient.

    Where the objective knows what every action of every unit would add, or tries it, units are exchanged together.
    """
    problem = run.problem
    start_key, search_key = jr.split(run.start_key)
    rank_key, _ = jr.split(run.evaluation_key)
    started = time.perf_counter()
    if num_starts is None:
        large = problem.num_contexts * problem.action_dim > MANY_NUMBERS
        num_starts = CLOSED_FORM_STARTS // 4 if large else CLOSED_FORM_STARTS
    first = initial_designs(start_key, problem, num_starts)
    named, gains = problem.model.action_space.options is not None, objective.with_gains()
    limited = problem.feasible.is_limited
    if named and limited and gains is None and can_exchange(problem):
        # To try every action of every unit takes as long as a sweep, and a step under limits changes less.
        climbs = run.climb(exchange_together, search_key, objective, first[: max(1, round(KEPT * num_starts))])
    elif named and gains is not None:
        climbs = run.climb(exchange_together, search_key, objective, first)
        if not limited and problem.num_contexts < FEW_UNITS:
            # One of few units changes too much for its slope to tell: the best designs are exchanged unit by unit.
            order = np.argsort(-scores(rank_key, objective, [design for design, _ in climbs], run.budget))
            best = [climbs[i].actions for i in order[: max(1, round(KEPT * len(climbs)))]]
            climbs = run.climb(exchange, search_key, objective, jnp.stack(best))
    elif can_exchange(problem):
        climbs = run.climb(exchange, search_key, objective, first)
    else:
        climbs = _with_corners(problem, run.climb(by_gradient, search_key, objective, first))
    designs, histories = zip(*climbs, strict=True)
    run.seconds_design += time.perf_counter() - started
    started = time.perf_counter()
    offset, offset_error = objective.offset
    records = [
        StartRecord(history + np.float32(offset), design, Estimate(float(score) + offset, offset_error, objective.unit))
        for design, history, score in zip(
            designs, histories, scores(rank_key, objective, designs, run.budget), strict=True
        )
    ]
    best = max(records, key=lambda record: record.score.value)
    score = measure(run, objective, best.actions)
    run.seconds_evaluation += time.perf_counter() - started
    return Finish(best, score, records, [])


def warm_start(run: Run, objective: AbstractObjective) -> Float[Array, "D A"] | None:
    """Where an objective with a network begins: the best design by second moments of the same simulated experiments.

    None where there is none: the budget has no steps for it, actions are named, the objective does not simulate, or m* has no
    density.
    """
    problem, num_steps = run.problem, run.budget.warm_steps
    space = problem.model.action_space
    named = len(space.continuous) < space.dim
    if num_steps == 0 or named:
        return None
    started = time.perf_counter()
    # Other branches of these keys draw the random starts and judge them.
    moment_key, start_key, climb_key = jr.split(jr.fold_in(run.setup_key, 2), 3)
    try:
        moments = by_second_moments(moment_key, objective, num_params(problem.model))
    except NoDensityError:
        moments = None
    if moments is None:
        return None
    run.session.follow(moments)
    designs = initial_designs(start_key, problem, WARM_STARTS)
    short = run.budget.replace(closed_form_steps=num_steps)
    run.session.prefix = "warm start, "
    climbed = by_gradient(run.session, climb_key, moments, designs, problem.feasible, short)
    run.session.prefix = ""
    climbs = [design for design, _ in _with_corners(problem, climbed)]
    if run.session.interrupted:
        # Nothing is known yet about these designs in terms of the objective.
        raise KeyboardInterrupt
    ranks = scores(moment_key, moments, climbs, run.budget)
    run.session.follow(objective)
    run.seconds_design += time.perf_counter() - started
    return jnp.asarray(climbs[int(np.argmax(ranks))])


def initial_designs(key: Key[Array, ""], problem: Problem, num_designs: int) -> Float[Array, "S D A"]:
    """Half of them random, half by Thompson sampling: a draw of the prior for each unit, and the best action in it.

    Where moments of rewards are known and units few, the first two are those of the baselines that keep units apart.
    """
    sampled = itertools.cycle([Thompson(_optimum_of_units(problem)), RandomUniform()])
    few = problem.num_contexts * problem.action_dim <= MANY_NUMBERS
    apart = [LEVI(penalised=True), UCBLocalPenalisation()] if few and has_moments(problem) else []
    designers = itertools.chain(apart, sampled)
    return jnp.stack([next(designers).allowed_actions(k, problem) for k in jr.split(key, num_designs)])


def _optimum_of_units(problem: Problem) -> AbstractOptimum | None:
    """The way to the best action of a target, where it also finds that of a unit; None to choose another."""
    try:
        check_optimum(problem.optimum, problem.model, problem.contexts, problem.feasible.mask)
    except ProblemError:
        return None
    return problem.optimum


def _with_corners(problem: Problem, climbs: list[Found]) -> list[Found]:
    """The designs, and those at the nearer bound of every number; these alone where they are the best to try."""
    bounds, feasible = problem.model.action_space.bounds(), problem.feasible
    if bounds is None:
        return climbs
    corners = [(to_corners(bounds, actions), history) for actions, history in climbs]
    if feasible.binds:
        # Drawn back to the limits these are no corners.
        return climbs + [Found(np.asarray(feasible.drawn_back(jnp.asarray(a))), history) for a, history in corners]
    return [*([] if wants_corners(problem) else climbs), *(Found(*pair) for pair in corners)]


def wants_corners(problem: Problem) -> bool:
    """Whether the bounds are the best actions to try: where rewards are linear in the action they tell most for a given noise.

    An ascent only comes near them. Moments see no difference between a corner and a point within, but sharper posteriors do.
    """
    bounded = problem.model.action_space.bounds() is not None
    return bounded and is_linear_in_action(problem.model, problem.contexts)


def to_corners(bounds: tuple[np.ndarray, np.ndarray], actions: np.ndarray) -> np.ndarray:
    """The nearer bound of every number."""
    low, high = (np.asarray(bound, np.float32) for bound in bounds)
    return np.where(actions > (low + high) / 2, high, low)


def measure(run: Run, objective: AbstractObjective, actions: np.ndarray) -> Estimate:
    """The objective of the design that was kept, on draws that did not choose it."""
    _, key = jr.split(run.evaluation_key)
    keys = jr.split(key, run.budget.num_evaluation_batches)
    return estimate(np.concatenate([scores(k, objective, [actions], run.budget) for k in keys]), objective)


def can_exchange(problem: Problem) -> bool:
    """Whether designs are searched by exchange: named actions, and few enough values to compute."""
    space = problem.model.action_space
    return space.options is not None and problem.num_contexts * space.dim <= MAX_EXCHANGES
