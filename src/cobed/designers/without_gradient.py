"""Designs where outcomes have no gradient in the action: units exchange actions, by what moments of simulated outcomes say."""

import time

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.compilation import lean_jit
from cobed.designers.closed_form import FEW_UNITS, can_exchange, initial_designs, measure
from cobed.designers.result import StartRecord
from cobed.designers.run import Finish, Run
from cobed.designers.training import measure_at
from cobed.information import Estimate
from cobed.objectives import About, AbstractObjective, MomentValue
from cobed.problem import Problem
from cobed.search import exchange, exchange_together
from cobed.spaces import AbstractSpace
from cobed.types import Array, Float, Key

NUM_STARTS = 8
# Values of a number to begin with, by how many numbers there are; later rounds try steps around the best, each time smaller.
FIRST_VALUES, MORE_VALUES = {1: 21, 2: 49}, 64
STEPS = (0.05, 0.015)
MAX_DIRECTIONS = 16
# Above so many pairs of unit and candidate, units are not exchanged one by one.
MAX_PAIRS = 512


def needs_exchange(problem: Problem, objective: AbstractObjective, closed_form: bool) -> bool:
    """Whether the gradient of outcomes would mislead the search for this objective."""
    if problem.gradient_gap is None or problem.model.linear_form() is not None:
        # Of linear predictors with binary outcomes and counts the straight-through gradient is known to do: docs/objectives.md.
        return False
    if not closed_form:
        # Another objective with a network may have a gradient of its own.
        return objective.simulated() is not None
    return isinstance(objective, MomentValue) or not can_exchange(problem)


def search_without_gradient(run: Run, objective: AbstractObjective, about: About) -> Finish:
    """The best design by moments; the objective that was asked for says what it is worth."""
    problem, space = run.problem, run.problem.model.action_space
    by_moments = MomentValue(problem, about)
    run.session.follow(by_moments)
    started = time.perf_counter()
    designs = initial_designs(run.start_key, problem, NUM_STARTS)
    records: list[StartRecord] = []
    for number, reach in enumerate((1.0, *STEPS) if space.continuous else (1.0,)):
        key = jr.fold_in(run.start_key, number)
        candidates = jnp.asarray(
            np.broadcast_to(_first(space), (problem.num_contexts, *_first(space).shape))
            if number == 0
            else _around(key, space, designs[0], reach)
        )
        records = _one_round(run, key, by_moments, candidates, designs)
        designs = jnp.asarray(max(records, key=lambda record: record.score.value).actions)[None]
        if run.session.interrupted:
            break
    best = max(records, key=lambda record: record.score.value)
    run.session.follow(objective)
    run.seconds_design += time.perf_counter() - started
    started = time.perf_counter()
    score = (measure_at if objective.trains else measure)(run, objective, best.actions)
    run.seconds_evaluation += time.perf_counter() - started
    return Finish(best, score, records, [])


def _one_round(
    run: Run,
    key: Key[Array, ""],
    objective: MomentValue,
    candidates: Float[Array, "D J A"],
    designs: Float[Array, "S D A"],
) -> list[StartRecord]:
    """Exchanges among the candidates, from those nearest to each of the designs."""
    feasible = run.problem.feasible
    if feasible.space.options is None:
        if feasible.anchor is not None:
            # So that some choice is within the limits.
            candidates = jnp.concatenate([candidates, jnp.asarray(feasible.anchor)[:, None]], axis=1)
        candidates = jax.vmap(feasible.with_fixed, in_axes=1, out_axes=1)(candidates)
        feasible = feasible.among(candidates)
    value = _moments(key, objective, candidates)
    away = jnp.sum((candidates[None] - designs[:, :, None]) ** 2, axis=3)
    shares = jax.nn.one_hot(jnp.argmin(away, axis=2), candidates.shape[1])
    climbs = exchange_together(run.session, key, value, shares, feasible, run.budget)
    few = len(candidates) < FEW_UNITS and candidates[..., 0].size <= MAX_PAIRS
    if not feasible.is_limited and few and not run.session.interrupted:
        # One of few units changes too much for its slope to tell.
        best = sorted(climbs, key=lambda pair: -pair[1][-1])[: max(1, len(climbs) // 4)]
        climbs = exchange(run.session, key, value, jnp.stack([design for design, _ in best]), feasible, run.budget)
    records = []
    for design, history in climbs:
        actions = candidates[jnp.arange(len(candidates)), np.argmax(design, axis=1)]
        # Rounding apart, the limits hold already.
        actions = run.problem.feasible.drawn_back(actions) if run.problem.feasible.anchor is not None else actions
        records.append(StartRecord(history, np.asarray(actions), Estimate(float(history[-1]), 0.0, value.unit)))
    return records


@lean_jit
def _moments(key: Key[Array, ""], objective: MomentValue, candidates: Float[Array, "D J A"]):
    return objective.of_candidates(key, candidates)


def _first(space: AbstractSpace) -> Float[np.ndarray, "J A"]:
    """Actions to begin with, the same for all units."""
    return space.grid(FIRST_VALUES.get(len(space.continuous), MORE_VALUES)).astype(np.float32)


def _around(
    key: Key[Array, ""], space: AbstractSpace, actions: Float[Array, "D A"], reach: float
) -> Float[np.ndarray, "D J A"]:
    """The action of each unit, and steps of its numbers to both sides, of this share of their range."""
    low, high = space.search_bounds()
    num = len(space.continuous)
    units = np.eye(num)[np.asarray(jr.permutation(key, num))[:MAX_DIRECTIONS]] * (high - low)
    moves = np.zeros((1 + 4 * len(units), space.dim), np.float32)
    moves[1:, list(space.continuous)] = reach * np.concatenate([units, -units, 2 * units, -2 * units])
    moved = np.asarray(actions)[:, None] + moves
    entries = list(space.continuous)
    moved[..., entries] = np.asarray(jax.vmap(jax.vmap(space.project))(jnp.asarray(moved)))[..., entries]
    return moved
