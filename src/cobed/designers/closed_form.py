"""Designs by objectives without a network: many starts, the poor ones dropped early; exchange of actions."""

import itertools
import time
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.ascent import ascend
from cobed.budget import Budget, make_optimiser
from cobed.compilation import lean_jit, quick_jit
from cobed.designers.baselines import RandomUniform, Thompson
from cobed.designers.gains import ByTrial, exchange_together
from cobed.designers.local_penalisation import LEVI, UCBLocalPenalisation, has_moments
from cobed.designers.result import StartRecord
from cobed.designers.run import Finish, Run
from cobed.errors import NoDensityError, ProblemError
from cobed.information import Estimate, estimate
from cobed.models.gaussian import num_params
from cobed.objectives import AbstractObjective, Trainable, by_second_moments, value_at
from cobed.optimum import AbstractOptimum, check_optimum, is_linear_in_action
from cobed.policies import FreeDesign
from cobed.problem import Problem
from cobed.spaces import Box, Discrete
from cobed.types import AnyArray, Array, Bool, Float, Key

# So many starts, fewer where a design has many numbers: then each costs more, and matters less.
CLOSED_FORM_STARTS, MANY_NUMBERS = 16, 500
# Of all starts, this share goes on after this share of the steps.
KEPT = 0.25
FIRST_SHARE = 0.25
# Starts of the short climb that finds where an objective with a network begins.
WARM_STARTS = 4
# Sweeps of the exchange before it is stopped; it mostly ends by itself after three or four.
MAX_SWEEPS = 30
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
        first = np.asarray(first)[: max(1, round(KEPT * num_starts))]
        found = exchange_together(run, ByTrial(objective, search_key), first, problem.feasible)
    elif named and gains is not None:
        found = exchange_together(run, gains, np.asarray(first), problem.feasible)
        if not limited and problem.num_contexts < FEW_UNITS:
            # One of few units changes too much for its slope to tell: the best designs are exchanged unit by unit.
            order = np.argsort(-scores(rank_key, objective, [design for design, _ in found], run.budget))
            best = [found[i][0] for i in order[: max(1, round(KEPT * len(found)))]]
            found = exchange(run, search_key, objective, jnp.stack(best), problem.feasible.mask)
    elif can_exchange(problem):
        found = exchange(run, search_key, objective, first, problem.feasible.mask)
    else:
        found = _climb(run, search_key, objective, first, run.budget.closed_form_steps)
    designs, histories = zip(*found, strict=True)
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
    run.follow(moments)
    designs = initial_designs(start_key, problem, WARM_STARTS)
    found = [design for design, _ in _climb(run, climb_key, moments, designs, num_steps, "warm start, ")]
    if run.interrupted:
        # Nothing is known yet about these designs in terms of the objective.
        raise KeyboardInterrupt
    ranks = scores(moment_key, moments, found, run.budget)
    run.follow(objective)
    run.seconds_design += time.perf_counter() - started
    return jnp.asarray(found[int(np.argmax(ranks))])


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


def _climb(
    run: Run,
    key: Key[Array, ""],
    objective: AbstractObjective,
    designs: Float[Array, "S D A"],
    num_steps: int,
    stage: str = "",
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Gradient ascent from every design for a share of the steps, then from the best of them. Designs with histories."""
    problem, budget = run.problem, run.budget
    space = problem.model.action_space
    score_key, *keys = jr.split(key, 3)
    first = max(1, round(FIRST_SHARE * num_steps))
    rounds = [(first, len(designs)), (num_steps - first, max(1, round(KEPT * len(designs))))]
    if len(designs) == 1 or first == num_steps:
        rounds = [(num_steps, len(designs))]
    run.expect(sum(steps * num_kept for steps, num_kept in rounds))
    climbs = [(FreeDesign.at(problem, actions), np.zeros(0, np.float32)) for actions in designs]
    for number, (steps, num_kept) in enumerate(rounds):
        if len(climbs) > num_kept:
            ranks = scores(score_key, objective, [design.harden() for design, _ in climbs], budget)
            climbs = [climbs[i] for i in np.argsort(-ranks)[:num_kept]]
        for index, (design, history) in enumerate(climbs):
            try:
                result = ascend(
                    keys[number],
                    objective,
                    Trainable(design, None),
                    make_optimiser(budget, steps),
                    steps,
                    name=f"round{number}-start{index}",
                    on_chunk=run.report(f"{stage}start {index + 1} of {num_kept}: design", steps),
                    checkpoint=run.checkpoint,
                )
            except KeyboardInterrupt:
                if number == index == 0:
                    raise
                run.interrupt(f"Interrupted in start {index + 1} of {num_kept}; the others are kept as they were.")
                break
            climbs[index] = result.trainable.design, np.concatenate([history, result.history])
            run.stop_reason, run.interrupted = result.stop_reason, result.interrupted
            if run.interrupted:
                break
        if run.interrupted:
            break
    found = [(np.asarray(design.harden()), history) for design, history in climbs]
    if isinstance(space, Box) and space.bounded:
        corners = [(to_corners(space, actions), history) for actions, history in found]
        if problem.feasible.binds:
            # Drawn back to the limits these are no corners.
            found += [
                (np.asarray(problem.feasible.drawn_back(jnp.asarray(actions))), history) for actions, history in corners
            ]
        else:
            found = corners if wants_corners(problem) else found + corners
    return found


def wants_corners(problem: Problem) -> bool:
    """Whether the bounds are the best actions to try: where rewards are linear in the action they tell most for a given noise.

    An ascent only comes near them. Moments see no difference between a corner and a point within, but sharper posteriors do.
    """
    space = problem.model.action_space
    return isinstance(space, Box) and space.bounded and is_linear_in_action(problem.model, problem.contexts)


def to_corners(space: Box, actions: np.ndarray) -> np.ndarray:
    """The nearer bound of every number."""
    low, high = np.asarray(space.low, np.float32), np.asarray(space.high, np.float32)
    return np.where(actions > (low + high) / 2, high, low)


def exchange(
    run: Run,
    key: Key[Array, ""],
    objective: AbstractObjective,
    designs: Float[Array, "S D K"],
    mask: Bool[AnyArray, "D K"] | None = None,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Give each unit in turn its best allowed action, the others as they are, until nothing changes; all designs side by side.

    The objective is estimated with the same draws throughout. Designs, each with its value after every sweep.
    """
    history: list[np.ndarray] = []
    run.expect(MAX_SWEEPS)
    report = run.report("exchange", MAX_SWEEPS)
    run.stop_reason = f"Stopped after {MAX_SWEEPS} sweeps of exchange."
    for sweep in range(1, MAX_SWEEPS + 1):
        started = time.perf_counter()
        try:
            changed, values = jax.block_until_ready(_sweep(key, objective, designs, mask))
        except KeyboardInterrupt:
            if sweep == 1:
                raise
            run.interrupt(f"Interrupted after {sweep - 1} sweeps of exchange.")
            break
        history.append(np.asarray(values))
        settled = bool(jnp.all(changed == designs))
        designs = changed
        report(sweep, float(history[-1].max()), time.perf_counter() - started, sweep == 1)
        if settled:
            run.stop_reason = f"No change of one action is better, after {sweep} sweeps."
            break
    return list(zip(np.asarray(designs), np.stack(history, axis=1), strict=True))


@lean_jit
def _sweep(key, objective: AbstractObjective, designs: Float[Array, "S D K"], mask: Bool[AnyArray, "D K"] | None):
    num_units, num_actions = designs.shape[1:]

    def value(actions):
        return value_at(objective, actions, key)

    def visit(unit, carry):
        actions, _ = carry
        candidates = jax.vmap(lambda row: actions.at[unit].set(row))(jnp.eye(num_actions))
        # One after the other, also below: batched, XLA was seen to hang on two cores (docs/decisions.md).
        values = jax.lax.map(value, candidates)
        values = values if mask is None else jnp.where(mask[unit], values, -jnp.inf)
        now = jnp.argmax(actions[unit])
        # A tie keeps what there is, so that the exchange ends.
        winner = jnp.where(jnp.max(values) > values[now], jnp.argmax(values), now)
        return candidates[winner], values[winner]

    def one(actions):
        return jax.lax.fori_loop(0, num_units, visit, (actions, jnp.zeros(())))

    return jax.lax.map(one, designs)


def scores(key: Key[Array, ""], objective: AbstractObjective, designs: Any, budget: Budget) -> np.ndarray:
    """The objective of each hardened design (S, D, A), on the same fresh draws."""
    large = objective.resized(budget.settle_batch_size)
    return np.array([float(_score(key, large, jnp.asarray(actions))) for actions in designs])


# Compiled once for one design: rankings of any number of designs and the final measurement are few calls of it.
@quick_jit
def _score(key: Key[Array, ""], objective: AbstractObjective, actions: Float[Array, "D A"]) -> Float[Array, ""]:
    return value_at(objective, actions, key)


def measure(run: Run, objective: AbstractObjective, actions: np.ndarray) -> Estimate:
    """The objective of the design that was kept, on draws that did not choose it."""
    _, key = jr.split(run.evaluation_key)
    keys = jr.split(key, run.budget.num_evaluation_batches)
    return estimate(np.concatenate([scores(k, objective, [actions], run.budget) for k in keys]), objective)


def can_exchange(problem: Problem) -> bool:
    """Whether designs are searched by exchange: named actions, and few enough values to compute."""
    space = problem.model.action_space
    return isinstance(space, Discrete) and problem.num_contexts * space.dim <= MAX_EXCHANGES
