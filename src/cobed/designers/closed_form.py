"""Designs by objectives without a network: many starts at once, the poor ones dropped early; exchange of actions."""

import time
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.ascent import ascend
from cobed.budget import Budget, make_optimiser
from cobed.compilation import lean_jit, quick_jit
from cobed.designers.baselines import RandomUniform, Thompson
from cobed.designers.gains import Rule, exchange_together
from cobed.designers.result import StartRecord
from cobed.designers.run import Finish, Run
from cobed.information import Estimate, estimate
from cobed.objectives import AbstractObjective, FixedDesign, HasGains, Trainable
from cobed.policies import FreeDesign
from cobed.problem import Problem
from cobed.spaces import Box, Discrete
from cobed.types import Array, Float, Key

# So many starts, fewer where a design has many numbers: then each costs more, and matters less.
CLOSED_FORM_STARTS, MANY_NUMBERS = 16, 500
# Of all starts, this share goes on after this share of the steps.
KEPT = 0.25
FIRST_SHARE = 0.25
# Sweeps of the exchange before it is stopped; it mostly ends by itself after three or four.
MAX_SWEEPS = 30
# Above so many pairs of unit and action a sweep takes too long.
MAX_EXCHANGES = 4096
# Below so many units, designs made by gains are exchanged unit by unit at the end.
FEW_UNITS = 100


class Together(eqx.Module):
    """The mean of an objective over several designs (S, D, A): the gradient moves each by itself."""

    objective: AbstractObjective

    def __call__(self, trainable: Trainable, key: Key[Array, ""], progress: Float[Array, ""]) -> Float[Array, ""]:
        design = cast(FreeDesign, trainable.design)

        def one(raw):
            return self.objective(Trainable(FreeDesign(design.space, raw), None), key, progress)

        # One after the other, also in `_sweep`: XLA was seen to hang on two cores in the batched versions.
        return jnp.mean(jax.lax.map(one, design.raw))


def search(run: Run, objective: AbstractObjective, num_starts: int | None, rule: Rule | None = None) -> Finish:
    """The best design found from `num_starts`: by exchange where actions are named and few, else by the gradient.

    Where the objective knows what every action of every unit would add, units are exchanged together and obey `rule`.
    """
    problem = run.problem
    start_key, search_key = jr.split(run.start_key)
    rank_key, measure_key = jr.split(run.evaluation_key)
    started = time.perf_counter()
    if num_starts is None:
        large = problem.num_contexts * problem.action_dim > MANY_NUMBERS
        num_starts = CLOSED_FORM_STARTS // 4 if large else CLOSED_FORM_STARTS
    first = initial_designs(start_key, problem, num_starts)
    if isinstance(objective, HasGains) and isinstance(problem.model.action_space, Discrete):
        designs, history = exchange_together(run, objective, np.asarray(first), rule)
        if rule is None and problem.num_contexts < FEW_UNITS:
            # One of few units changes too much for its slope to tell: the best designs are exchanged unit by unit.
            order = np.argsort(-scores(rank_key, objective, designs, run.budget))
            best = designs[order[: max(1, round(KEPT * len(designs)))]]
            designs, history = _exchange(run, search_key, objective, jnp.asarray(best))
    elif can_exchange(problem):
        designs, history = _exchange(run, search_key, objective, first)
    else:
        designs, history = _climb(run, search_key, objective, first)
    run.seconds_design += time.perf_counter() - started
    started = time.perf_counter()
    offset, offset_error = objective.offset
    records = [
        StartRecord(history + np.float32(offset), design, Estimate(float(score) + offset, offset_error, objective.unit))
        for design, score in zip(designs, scores(rank_key, objective, designs, run.budget), strict=True)
    ]
    best = max(records, key=lambda record: record.score.value)
    score = _measure(measure_key, objective, best.actions, run.budget)
    run.seconds_evaluation += time.perf_counter() - started
    return Finish(best, score, records, [])


def initial_designs(key: Key[Array, ""], problem: Problem, num_designs: int) -> Float[Array, "S D A"]:
    """Half of them random, half by Thompson sampling: a draw of the prior for each unit, and the best action in it."""
    designers = [Thompson(problem.optimum), RandomUniform()]
    keys = jr.split(key, num_designs)
    return jnp.stack([designers[i % 2].actions(keys[i], problem) for i in range(num_designs)])


def _climb(
    run: Run, key: Key[Array, ""], objective: AbstractObjective, designs: Float[Array, "S D A"]
) -> tuple[np.ndarray, np.ndarray]:
    """Gradient ascent from all designs for a share of the steps, then from the best of them. Designs and history."""
    space, budget = run.problem.model.action_space, run.budget
    raw = jax.vmap(jax.vmap(space.to_raw))(designs)
    score_key, *keys = jr.split(key, 3)
    num_steps = budget.closed_form_steps
    first = max(1, round(FIRST_SHARE * num_steps))
    rounds = [(first, len(raw)), (num_steps - first, max(1, round(KEPT * len(raw))))]
    if len(raw) == 1 or first == num_steps:
        rounds = [(num_steps, len(raw))]
    run.expect(sum(num_steps * num for num_steps, num in rounds))
    history = np.zeros(0, np.float32)
    for number, (num_steps, num_kept) in enumerate(rounds):
        if len(raw) > num_kept:
            ranks = scores(score_key, objective, jax.vmap(jax.vmap(space.harden))(raw), budget)
            raw = raw[np.argsort(-ranks)[:num_kept]]
        result = ascend(
            keys[number],
            Together(objective),
            Trainable(FreeDesign(space, raw), None),
            make_optimiser(budget, num_steps),
            num_steps,
            name=f"starts{number}",
            on_chunk=run.report(f"{num_kept} start(s): design", num_steps, num_kept),
            checkpoint=run.checkpoint,
        )
        raw, history = result.trainable.design.raw, np.concatenate([history, result.history])
        run.stop_reason, run.interrupted = result.stop_reason, result.interrupted
        if run.interrupted:
            break
    found = np.asarray(jax.vmap(jax.vmap(space.harden))(raw))
    if isinstance(space, Box) and space.bounded:
        # Where rewards are linear in the action the best designs are at the bounds, which the ascent only comes near.
        low, high = np.asarray(space.low, np.float32), np.asarray(space.high, np.float32)
        found = np.concatenate([found, np.where(found > (low + high) / 2, high, low)])
    return found, history


def _exchange(
    run: Run, key: Key[Array, ""], objective: AbstractObjective, designs: Float[Array, "S D K"]
) -> tuple[np.ndarray, np.ndarray]:
    """Give each unit in turn its best action, the others as they are, until nothing changes; all designs side by side.

    The objective is estimated with the same draws throughout. Designs, and the best value after each sweep.
    """
    history: list[float] = []
    run.expect(MAX_SWEEPS)
    report = run.report("exchange", MAX_SWEEPS)
    run.stop_reason = f"Stopped after {MAX_SWEEPS} sweeps of exchange."
    for sweep in range(1, MAX_SWEEPS + 1):
        started = time.perf_counter()
        try:
            changed, values = jax.block_until_ready(_sweep(key, objective, designs))
        except KeyboardInterrupt:
            if sweep == 1:
                raise
            run.interrupt(f"Interrupted after {sweep - 1} sweeps of exchange.")
            break
        history.append(float(jnp.max(values)))
        settled = bool(jnp.all(changed == designs))
        designs = changed
        report(sweep, history[-1], time.perf_counter() - started, sweep == 1)
        if settled:
            run.stop_reason = f"No change of one action is better, after {sweep} sweeps."
            break
    return np.asarray(designs), np.asarray(history, np.float32)


@lean_jit
def _sweep(key, objective: AbstractObjective, designs: Float[Array, "S D K"]):
    num_units, num_actions = designs.shape[1:]
    end = jnp.ones(())

    def value(actions):
        return objective(Trainable(FixedDesign(actions), None), key, end)

    def visit(unit, carry):
        actions, _ = carry
        candidates = jax.vmap(lambda row: actions.at[unit].set(row))(jnp.eye(num_actions))
        values = jax.lax.map(value, candidates)
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
    return objective(Trainable(FixedDesign(actions), None), key, jnp.ones(()))


def _measure(key: Key[Array, ""], objective: AbstractObjective, actions: np.ndarray, budget: Budget) -> Estimate:
    """The objective of the design that was kept, on draws that did not choose it."""
    keys = jr.split(key, budget.num_evaluation_batches)
    return estimate(np.concatenate([scores(k, objective, [actions], budget) for k in keys]), objective)


def can_exchange(problem: Problem) -> bool:
    """Whether designs are searched by exchange: named actions, and few enough values to compute."""
    space = problem.model.action_space
    return isinstance(space, Discrete) and problem.num_contexts * space.dim <= MAX_EXCHANGES
