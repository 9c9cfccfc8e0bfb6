"""Designs by objectives with a network: design and network climb together, from several starts; the best is kept."""

import time
from functools import partial

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.allowed import Feasible
from cobed.ascent import ascend
from cobed.bounds import is_saturated
from cobed.budget import make_optimiser
from cobed.compilation import quick_jit
from cobed.designers.closed_form import to_corners, wants_corners, warm_start
from cobed.designers.result import StartRecord
from cobed.designers.run import Finish, Run
from cobed.information import Estimate, evaluate_objective, saturation_warning, settle
from cobed.objectives import AbstractObjective, Trainable
from cobed.policies import FreeDesign
from cobed.types import Array, Float, Key, PyTree

# A saturated bound is measured again with more contrasts, up to so many.
MAX_CONTRASTS = 16_384


def train(run: Run, objective: AbstractObjective) -> Finish:
    """Every start of the budget, one after the other.

    Every step is allowed but for limits over named actions: these are taken back to an allowed assignment after every chunk of
    steps, and so end in one.
    """
    budget = run.budget
    num_starts = budget.num_starts or 1
    warm = warm_start(run, objective)
    # Work in units of one training step at the design's batch size.
    work = num_starts * (budget.num_steps + (budget.settle_steps if num_starts > 1 else 0))
    run.expect(work + budget.settle_steps * budget.settle_batch_size / budget.batch_size)
    judge = objective.on_unseen_draws(jr.fold_in(run.setup_key, 1), budget)
    starts: list[StartRecord] = []
    networks: list[PyTree] = []
    for index in range(num_starts):
        begin = warm if index == 0 else None
        design = (
            FreeDesign.initial(_start_keys(run, index)[0], run.problem)
            if begin is None
            else FreeDesign.at(run.problem, begin)
        )
        found = _start(run, objective, judge, index, design, begin is not None, bool(starts))
        if found is not None:
            starts.append(found[0])
            networks.append(found[1])
        if run.interrupted:
            break
    chosen = max(range(len(starts)), key=lambda i: starts[i].score.value)
    score, warnings = _measure(run, objective, judge, starts[chosen], networks[chosen])
    return Finish(starts[chosen], score, starts, warnings)


def _start_keys(run: Run, index: int) -> Key[Array, " 4"]:
    """For the design, the network, its training and its settling."""
    return jr.split(jr.fold_in(run.start_key, index), 4)


@quick_jit
def _untrained(key: Key[Array, ""], objective: AbstractObjective) -> PyTree:
    return objective.initial_network(key)


def _start(
    run: Run,
    objective: AbstractObjective,
    judge: AbstractObjective,
    index: int,
    design: FreeDesign,
    warm: bool,
    any_before: bool,
) -> tuple[StartRecord, PyTree] | None:
    """Train from one start and measure the design it ends in. None where it was interrupted at once."""
    budget, num_starts = run.budget, run.budget.num_starts or 1
    _, network_key, train_key, settle_key = _start_keys(run, index)
    name = f"start {index + 1} of {num_starts}"
    trainable = Trainable(design, _untrained(network_key, objective))
    feasible = run.problem.feasible
    obey = partial(_obey, feasible) if feasible.is_limited and feasible.space.options is not None else None
    started = time.perf_counter()
    try:
        trained = ascend(
            train_key,
            objective,
            trainable if obey is None else obey(trainable),
            make_optimiser(budget, budget.num_steps),
            budget.num_steps,
            name=f"start{index}-design",
            on_chunk=run.report(f"{name}: design", budget.num_steps),
            checkpoint=run.checkpoint,
            project=obey,
        )
    except KeyboardInterrupt:
        if not any_before:
            raise
        run.interrupt(f"Interrupted in {name}; kept the best of the {index} before.")
        return None
    finally:
        run.seconds_design += time.perf_counter() - started
    run.stop_reason, run.interrupted = trained.stop_reason, trained.interrupted
    started = time.perf_counter()
    actions, network = trained.trainable.design.harden(), trained.trainable.network
    if warm and objective.saturates and is_saturated(_end(trained.history), objective.simulated().batch_size):
        # At its ceiling the bound has no slope to follow: where it began is the better design.
        actions = design.harden()
        run.stop_reason += " The bound was at its ceiling, so the design by second moments it began at was kept."
        if not run.interrupted:
            # The network has followed the design away from there.
            run.expect_more(budget.num_steps)
            network = _settle(
                run, objective, jr.fold_in(settle_key, 0), f"{name}: again", actions, network, f"start{index}-again",
                budget.batch_size, budget.num_steps,
            )  # fmt: skip
    if not feasible.binds and wants_corners(run.problem):
        actions = jnp.asarray(to_corners(run.problem.model.action_space, np.asarray(actions)))  # pyright: ignore[reportArgumentType]
    if not run.interrupted and num_starts > 1:
        # Small batches are enough to rank the starts.
        network = _settle(run, objective, settle_key, name, actions, network, f"start{index}-settle", budget.batch_size)
    # Every start is judged on the same draws.
    score = evaluate_objective(jr.fold_in(run.evaluation_key, 0), judge, actions, network, budget)
    run.seconds_evaluation += time.perf_counter() - started
    return StartRecord(trained.history + np.float32(objective.offset[0]), np.asarray(actions), score), network


def _obey(feasible: Feasible, trainable: Trainable) -> Trainable:
    """With the allowed assignment of the largest total of logits: units that must change exchange their two logits."""
    assert isinstance(trainable.design, FreeDesign)
    raw = np.array(trainable.design.raw)
    units, wanted, allowed = np.arange(len(raw)), np.argmax(raw, axis=1), feasible.options(raw.astype(np.float64))
    raw[units, wanted], raw[units, allowed] = raw[units, allowed], raw[units, wanted]
    return eqx.tree_at(lambda t: t.design.raw, trainable, jnp.asarray(raw))


def _end(history: np.ndarray) -> float:
    """Where an ascent ended, from its last steps."""
    return float(np.mean(history[-max(1, len(history) // 10) :]))


def _measure(
    run: Run, objective: AbstractObjective, judge: AbstractObjective, record: StartRecord, network: PyTree
) -> tuple[Estimate, list[str]]:
    """The score of the start that was kept: network settled on large batches, draws that did not choose it."""
    started = time.perf_counter()
    budget, actions = run.budget, jnp.asarray(record.actions)
    settle_key, measure_key = jr.split(jr.fold_in(run.evaluation_key, 1))
    if not run.interrupted:
        network = _settle(
            run, objective, settle_key, "chosen design", actions, network, "settle", budget.settle_batch_size
        )
    score = evaluate_objective(measure_key, judge, actions, network, budget)
    warnings = []
    if objective.saturates:
        while is_saturated(score.value, budget.settle_batch_size) and budget.settle_batch_size < MAX_CONTRASTS:
            # The critic scores pairs, so it serves any number of contrasts.
            size = min(4 * budget.settle_batch_size, MAX_CONTRASTS)
            budget = budget.replace(settle_batch_size=size, num_evaluation_batches=4)
            score = evaluate_objective(measure_key, judge, actions, network, budget)
        warning = saturation_warning(score, budget.settle_batch_size)
        warnings = [warning] if warning else []
    run.seconds_evaluation += time.perf_counter() - started
    return score, warnings


def measure_at(run: Run, objective: AbstractObjective, actions: np.ndarray) -> Estimate:
    """The objective of a design that it did not choose, by a network trained for it."""
    budget = run.budget
    run.expect(budget.num_steps + budget.settle_steps * budget.settle_batch_size / budget.batch_size)
    judge = objective.on_unseen_draws(jr.fold_in(run.setup_key, 1), budget)
    _, network_key, train_key, _ = _start_keys(run, 0)
    network = _settle(
        run, objective, train_key, "chosen design", jnp.asarray(actions), _untrained(network_key, objective), "again",
        budget.batch_size, budget.num_steps,
    )  # fmt: skip
    record = StartRecord(np.zeros(0, np.float32), actions, Estimate(0.0, 0.0, objective.unit))
    return _measure(run, objective, judge, record, network)[0]


def _settle(
    run: Run,
    objective: AbstractObjective,
    key: Key[Array, ""],
    stage: str,
    actions: Float[Array, "D A"],
    network: PyTree,
    name: str,
    batch_size: int,
    num_steps: int | None = None,
) -> PyTree:
    budget, num_steps = run.budget, run.budget.settle_steps if num_steps is None else num_steps
    on_chunk = run.report(f"{stage}: network", num_steps, batch_size / budget.batch_size)
    try:
        network, result = settle(
            key, objective, actions, network, budget, num_steps, batch_size,
            name=name, on_chunk=on_chunk, checkpoint=run.checkpoint,
        )  # fmt: skip
    except KeyboardInterrupt:
        run.interrupt(f"{run.stop_reason} Interrupted before the network could settle.")
    else:
        if result is not None and result.interrupted:
            run.interrupt(f"{run.stop_reason} Network: {result.stop_reason}")
    return network
