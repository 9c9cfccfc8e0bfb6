"""Designs by objectives with a network: design and network climb together, from several starts; the best is kept."""

import time
from functools import partial

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.allowed import Feasible
from cobed.bounds import is_saturated
from cobed.budget import make_optimiser
from cobed.compilation import quick_jit
from cobed.designers.closed_form import to_corners, wants_corners, warm_start
from cobed.designers.result import StartRecord
from cobed.designers.run import Finish, Run
from cobed.information import Estimate, evaluate_objective, saturation_warning, settle
from cobed.objectives import AbstractObjective, Trainable
from cobed.policies import FreeDesign
from cobed.search import ascend
from cobed.types import Array, Float, Key, PyTree, present

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
    run.session.expect(work + budget.settle_steps * budget.settle_batch_size / budget.batch_size)
    judge = objective.on_unseen_draws(jr.fold_in(run.setup_key, 1), budget)
    starts: list[StartRecord] = []
    networks: list[PyTree] = []
    for index in range(num_starts):
        begin = warm if index == 0 else None
        design = (
            FreeDesign.initial(_start_keys(run, index)[0], run.problem.feasible)
            if begin is None
            else FreeDesign.at(run.problem.feasible, begin)
        )
        trained = _start(run, objective, judge, index, design, begin is not None, bool(starts))
        if trained is not None:
            starts.append(trained[0])
            networks.append(trained[1])
        if run.session.interrupted:
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
            run.session.stage(f"start{index}-design", f"{name}: design", budget.num_steps),
            project=obey,
        )
    except KeyboardInterrupt:
        if not any_before:
            raise
        run.session.interrupt(f"Interrupted in {name}; kept the best of the {index} before.")
        return None
    finally:
        run.seconds_design += time.perf_counter() - started
    run.session.stop_reason, run.session.interrupted = trained.stop_reason, trained.interrupted
    started = time.perf_counter()
    actions, network = trained.trainable.design.harden(), trained.trainable.network
    if warm and objective.saturates and is_saturated(_end(trained.history), objective.simulated().batch_size):
        # At its ceiling the bound has no slope to follow: where it began is the better design.
        actions = design.harden()
        run.session.stop_reason += (
            " The bound was at its ceiling, so the design by second moments it began at was kept."
        )
        if not run.session.interrupted:
            # The network has followed the design away from there.
            run.session.expect_more(budget.num_steps)
            again = f"start{index}-again", f"{name}: again", budget.num_steps, budget.batch_size
            network = _settle(run, jr.fold_in(settle_key, 0), objective, actions, network, again)
    if not feasible.binds and wants_corners(run.problem):
        bounds = present(run.problem.model.action_space.bounds())
        actions = jnp.asarray(to_corners(bounds, np.asarray(actions)))
    if not run.session.interrupted and num_starts > 1:
        # Small batches are enough to rank the starts.
        ranking = f"start{index}-settle", name, budget.settle_steps, budget.batch_size
        network = _settle(run, settle_key, objective, actions, network, ranking)
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
    if not run.session.interrupted:
        last = "settle", "chosen design", budget.settle_steps, budget.settle_batch_size
        network = _settle(run, settle_key, objective, actions, network, last)
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
    run.session.expect(budget.num_steps + budget.settle_steps * budget.settle_batch_size / budget.batch_size)
    judge = objective.on_unseen_draws(jr.fold_in(run.setup_key, 1), budget)
    _, network_key, train_key, _ = _start_keys(run, 0)
    network, whole = _untrained(network_key, objective), ("again", "chosen design", budget.num_steps, budget.batch_size)
    network = _settle(run, train_key, objective, jnp.asarray(actions), network, whole)
    record = StartRecord(np.zeros(0, np.float32), actions, Estimate(0.0, 0.0, objective.unit))
    return _measure(run, objective, judge, record, network)[0]


def _settle(
    run: Run,
    key: Key[Array, ""],
    objective: AbstractObjective,
    actions: Float[Array, "D A"],
    network: PyTree,
    work: tuple[str, str, int, int],
) -> PyTree:
    """The network trained for one design. `work`: its name in the checkpoint and in the progress, the steps, the batch size."""
    name, words, num_steps, batch_size = work
    session, budget = run.session, run.budget
    stage = session.stage(name, f"{words}: network", num_steps, batch_size / budget.batch_size)
    try:
        network, result = settle(key, objective.resized(batch_size), actions, network, budget, num_steps, stage)
    except KeyboardInterrupt:
        session.interrupt(f"{session.stop_reason} Interrupted before the network could settle.")
    else:
        if result is not None and result.interrupted:
            session.interrupt(f"{session.stop_reason} Network: {result.stop_reason}")
    return network
