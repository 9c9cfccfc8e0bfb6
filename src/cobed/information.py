"""How much a given design tells: measured on fresh draws, never on training batches."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.bounds import is_saturated, prior_contrastive
from cobed.budget import Budget, find_budget, make_optimiser
from cobed.compilation import lean_jit
from cobed.critics import Joint, Separable
from cobed.errors import BudgetError, ModelError
from cobed.keys import Seed, as_key, key_came_first
from cobed.objectives import AbstractObjective, FixedDesign, InfoNCE, Trainable, make_simulation
from cobed.problem import Problem
from cobed.search import AscentResult, ChunkReport, Stage, ascend
from cobed.types import Array, Float, Key, PyTree, present

# So many contrasts are weighed against all experiments at once.
CONTRAST_CHUNK = 512


class Estimate(NamedTuple):
    """A number with its standard error: information in nats, or a value in units of the reward."""

    value: float
    standard_error: float
    unit: str = "nats"

    def __str__(self) -> str:
        digits = ".3f" if self.unit == "nats" else ".4g"
        return f"{self.value:{digits}} ± {self.standard_error:{digits}} {self.unit}"


def settle(
    key: Key[Array, ""],
    objective: AbstractObjective,
    actions: Float[Array, "D A"],
    network: PyTree,
    budget: Budget,
    num_steps: int,
    stage: Stage = Stage("settle"),  # noqa: B008
) -> tuple[PyTree, AscentResult | None]:
    """Train the network for one fixed design."""
    if num_steps == 0 or network is None:
        return network, None
    optimiser = make_optimiser(budget, num_steps)
    trainable = Trainable(FixedDesign(actions), network)
    result = ascend(key, objective, trainable, optimiser, num_steps, stage)
    return result.trainable.network, result


def evaluate_objective(
    key: Key[Array, ""], objective: AbstractObjective, actions: Float[Array, "D A"], network: PyTree, budget: Budget
) -> Estimate:
    """The objective of a hardened design with a given network, on fresh draws, in the objective's unit."""
    batches = _evaluate(
        key, objective.resized(budget.settle_batch_size), actions, network, budget.num_evaluation_batches
    )
    return estimate(np.asarray(batches), objective)


def estimate(batches: np.ndarray, objective: AbstractObjective) -> Estimate:
    """What independent values of an objective say, in its unit."""
    values = np.asarray(batches, np.float64)
    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("inf")
    offset, offset_error = objective.offset
    return Estimate(float(values.mean()) + offset, float(np.hypot(error, offset_error)), objective.unit)


@lean_jit
def _evaluate(key, objective, actions, network, num_batches: int):
    freeze_key, *keys = jr.split(key, num_batches + 1)
    design = FixedDesign(actions)
    trainable = Trainable(design, objective.freeze(network, freeze_key, design))
    return jax.lax.map(lambda k: objective(trainable, k, jnp.ones(())), jnp.stack(keys))


@key_came_first
def max_value_information(
    problem: Problem,
    design: Any,
    *,
    seed: Seed,
    budget: str | Budget = "quick",
    critic: Separable | Joint | None = None,
    on_chunk: ChunkReport | None = None,
) -> Estimate:
    """CMV-EIG of a `DesignResult` or any actions (D, A): a lower bound on I(m*; y) by a critic trained for it from scratch.

    Trained on small batches, settled on large ones, evaluated on fresh draws. At most
    log(budget.settle_batch_size): see `cobed.bounds.is_saturated`.
    """
    key, actions, budget = as_key(seed), problem.check_actions(design), find_budget(budget)
    return measure_information(
        key, prepare_measurement(key, problem, budget, critic), actions, budget, on_chunk=on_chunk
    )


class Measurement(NamedTuple):
    """What a critic is trained by, and what it is evaluated by. Both serve every design of a problem."""

    training: InfoNCE
    evaluation: InfoNCE


def prepare_measurement(
    key: Key[Array, ""], problem: Problem, budget: Budget, critic: Separable | Joint | None = None
) -> Measurement:
    """The draws behind `max_value_information`."""
    setup_key, *_ = jr.split(key, 5)
    simulation, _ = make_simulation(setup_key, problem, budget)
    training = InfoNCE(simulation, critic or Separable())
    return Measurement(training, training.on_unseen_draws(jr.fold_in(setup_key, 1), budget))


def measure_information(
    key: Key[Array, ""],
    measurement: Measurement,
    actions: Float[Array, "D A"],
    budget: Budget,
    *,
    on_chunk: ChunkReport | None = None,
) -> Estimate:
    """What `prepare_measurement` says of one design, by a critic trained for it. One key serves both."""
    _, network_key, train_key, settle_key, evaluation_key = jr.split(key, 5)
    objective = measurement.training
    network = objective.initial_network(network_key)
    for stage_key, num_steps, batch_size in (
        (train_key, budget.num_steps, budget.batch_size),
        (settle_key, budget.settle_steps, budget.settle_batch_size),
    ):
        sized, stage = objective.resized(batch_size), Stage("settle", on_chunk)
        network, _ = settle(stage_key, sized, actions, network, budget, num_steps, stage)
    return evaluate_objective(evaluation_key, measurement.evaluation, actions, network, budget)


@key_came_first
def parameter_information(
    problem: Problem,
    design: Any,
    *,
    seed: Seed,
    num_outer: int = 1_024,
    num_contrasts: int = 131_072,
) -> tuple[Estimate, Estimate]:
    """EIG(psi) of a design (D, A) between a lower and an upper bound, from the likelihood.

    m* is a function of psi, so CMV-EIG <= EIG(psi). The lower bound is at most log(num_contrasts + 1); where the two
    are far apart, draw more contrasts.
    """
    log_likelihood = problem.model.likelihood()
    if log_likelihood is None:
        raise ModelError("EIG(psi) needs a model with a likelihood (log_likelihood); this one can only be sampled.")
    if num_outer < 2 or num_contrasts < 1:
        raise BudgetError(f"EIG(psi) needs num_outer >= 2 and num_contrasts >= 1, got {num_outer} and {num_contrasts}.")
    lower, upper = _contrasts(as_key(seed), problem, problem.check_actions(design), num_outer, num_contrasts)
    return tuple(  # pyright: ignore[reportReturnType]
        Estimate(float(bound.mean()), float(bound.std(ddof=1) / np.sqrt(num_outer)))
        for bound in (np.asarray(lower, np.float64), np.asarray(upper, np.float64))
    )


@lean_jit
def _contrasts(key, problem: Problem, actions, num_outer: int, num_contrasts: int):
    """Both bounds for `num_outer` experiments, the contrasts drawn in chunks that share a running log-sum-exp."""
    model, of_row = problem.model, present(problem.model.likelihood())
    outer_key, noise_key, contrast_key = jr.split(key, 3)
    params = jax.vmap(model.sample_prior)(jr.split(outer_key, num_outer))
    outcomes = jax.vmap(problem.sample_outcomes, in_axes=(0, 0, None))(jr.split(noise_key, num_outer), params, actions)

    def log_likelihood(params, outcomes):
        each = jax.vmap(of_row, in_axes=(None, 0, 0, 0))
        return jnp.sum(each(params, problem.contexts, actions, outcomes))

    def add_chunk(evidence, chunk):
        contrasts = jax.vmap(model.sample_prior)(jr.split(jr.fold_in(contrast_key, chunk), CONTRAST_CHUNK))
        others = jax.vmap(lambda y: jax.vmap(lambda p: log_likelihood(p, y))(contrasts))(outcomes)
        counted = chunk * CONTRAST_CHUNK + jnp.arange(CONTRAST_CHUNK) < num_contrasts
        return jnp.logaddexp(evidence, jax.nn.logsumexp(jnp.where(counted, others, -jnp.inf), axis=1)), None

    num_chunks = -(-num_contrasts // CONTRAST_CHUNK)
    evidence, _ = jax.lax.scan(add_chunk, jnp.full(num_outer, -jnp.inf), jnp.arange(num_chunks))
    return prior_contrastive(jax.vmap(log_likelihood)(params, outcomes), evidence, num_contrasts)


def saturation_warning(information: Estimate, batch_size: int) -> str | None:
    """A sentence where the estimate is near log(batch), so that it says little about the information itself."""
    if not is_saturated(information.value, batch_size):
        return None
    return (
        f"The bound, {information.value:.2f} nats, is near its ceiling log({batch_size}) = {np.log(batch_size):.2f}: "
        "the design may carry far more information than this. objective='barber-agakov' has no ceiling."
    )


def looseness_warning(score: Estimate, objective: str) -> str | None:
    """A sentence where a bound on information is below zero by more than its noise."""
    if score.unit != "nats" or score.value > -2 * score.standard_error:
        return None
    below = f"The bound, {score.value:.2f} nats, is below zero, and information never is: "
    if objective == "infonce":
        return below + "the outcomes tell nearly nothing, or the critic needs more steps."
    return below + (
        "the best rewards at the targets are too far from Gaussian for it to say how much the design tells. It still ranks "
        "designs; objective='infonce' needs no density."
    )
