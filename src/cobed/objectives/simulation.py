"""Simulated experiments: what objectives that need no closed form are estimated from."""

import abc
import dataclasses
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.budget import Budget
from cobed.compilation import quick_jit
from cobed.critics import OutcomeScale, ValueScale
from cobed.errors import BudgetError, ModelError
from cobed.objectives.base import AbstractObjective, FixedDesign
from cobed.policies import FreeDesign, Temperature
from cobed.pool import AbstractSource, ParameterDraws, make_source
from cobed.problem import Problem
from cobed.types import Array, Float, Key, Params, PyTree

About = Literal["max-values", "parameters"]


class Batch(NamedTuple):
    """Simulated experiments with one sample of the design, as networks see them."""

    params: Params
    max_values: Float[Array, "B T"]
    outcomes: Float[Array, "B D"]  # scaled
    weights: Float[Array, "D J"]  # shares of the discrete actions


class Simulation(eqx.Module):
    """How experiments are simulated: the source of (psi, m*), the fixed statistics of the prior, the temperatures.

    A random design is sampled `num_samples` times per step, each sample with a batch of its own.
    """

    problem: Problem
    source: AbstractSource
    outcome_scale: OutcomeScale
    value_scale: ValueScale
    temperature: Temperature
    batch_size: int = eqx.field(static=True)
    num_samples: int = eqx.field(static=True, default=1)

    def batch(self, design: FreeDesign | FixedDesign, key: Key[Array, ""], progress: Float[Array, ""]) -> Batch:
        draw_key, noise_key, design_key = jr.split(key, 3)
        params, values = self.source.batch(draw_key, self.batch_size)
        actions = design.sample(design_key, *self.temperature(progress))
        keys = jr.split(noise_key, self.batch_size)
        outcomes = jax.vmap(self.problem.sample_outcomes, in_axes=(0, 0, None))(keys, params, actions)
        weights = jax.vmap(self.problem.model.action_space.discrete_weights)(actions)
        return Batch(params, values, self.outcome_scale(outcomes, weights), weights)


class AbstractSimulated(AbstractObjective):
    """An objective that is the mean of scores of simulated batches."""

    trains = True
    simulation: eqx.AbstractVar[Simulation]

    @abc.abstractmethod
    def score(self, network: PyTree, batch: Batch) -> Float[Array, ""]:
        """The objective on one batch."""

    def __call__(self, trainable, key, progress):
        def one(key):
            return self.score(trainable.network, self.simulation.batch(trainable.design, key, progress))

        num_samples = self.simulation.num_samples
        return one(key) if num_samples == 1 else jnp.mean(jax.vmap(one)(jr.split(key, num_samples)))

    def simulated(self):
        return self.simulation

    def on_unseen_draws(self, key, budget):
        # A network knows the draws it was trained on, also with other noise: on a Gaussian process a critic scored 0.4 nats
        # too much on them after 300 steps.
        source = self.simulation.source.unseen(key, self.simulation.problem, budget.settle_batch_size)
        if source is self.simulation.source:
            return self
        return dataclasses.replace(self, simulation=dataclasses.replace(self.simulation, source=source))

    def resized(self, batch_size):
        return dataclasses.replace(
            self, simulation=dataclasses.replace(self.simulation, batch_size=batch_size, num_samples=1)
        )


def make_simulation(
    key: Key[Array, ""], problem: Problem, budget: Budget, about: About = "max-values"
) -> tuple[Simulation, np.ndarray]:
    """How experiments are simulated, with its fixed statistics; and the draws of m* (or psi) they were computed from."""
    if about not in ("max-values", "parameters"):
        raise BudgetError(
            f"Information is about 'max-values' (the paper's) or 'parameters' (classical), got {about!r}."
        )
    pool_key, outcome_key, value_key = jr.split(key, 3)
    source = ParameterDraws(problem) if about == "parameters" else make_source(pool_key, problem, budget.pool_size)
    values = draw_max_values(value_key, problem, source)
    num_samples = budget.num_samples or 1
    simulation = Simulation(
        problem=problem,
        source=source,
        outcome_scale=outcome_scale(outcome_key, problem),
        value_scale=value_scale(values, problem, source),
        # As arrays: another schedule is not another program.
        temperature=jax.tree.map(jnp.asarray, budget.temperature),
        batch_size=budget.batch_size // num_samples,
        num_samples=num_samples,
    )
    return simulation, values


@quick_jit
def outcome_scale(key: Key[Array, ""], problem: Problem, num_draws: int = 512) -> OutcomeScale:
    """Prior mean and standard deviation of y at each context, under random continuous and every discrete action."""
    space = problem.model.action_space
    entries = jnp.asarray(space.continuous, dtype=int)

    def outcomes(key, row):
        prior_key, action_key, noise_key = jr.split(key, 3)
        actions = jax.vmap(space.sample)(jr.split(action_key, problem.num_contexts))
        actions = jnp.broadcast_to(row, actions.shape).at[:, entries].set(actions[:, entries])
        return problem.sample_outcomes(noise_key, problem.model.sample_prior(prior_key), actions)

    keys = jr.split(key, num_draws)
    rows = jnp.asarray(space.enumerate_discrete())
    draws = jax.lax.map(lambda row: jax.vmap(lambda k: outcomes(k, row))(keys), rows)  # (J, N, D)
    std = draws.std(axis=1).T
    # An action whose outcome never varies would divide by zero; its outcome carries nothing, at any scale.
    return OutcomeScale(draws.mean(axis=1).T, jnp.where(std > 1e-9 * jnp.max(std), std, 1.0))


def value_scale(values: np.ndarray, problem: Problem, source: AbstractSource) -> ValueScale:
    """Statistics under the prior of what the design is to tell about, from draws `values` (N, T)."""
    bad = np.argwhere(~np.isfinite(values))
    num_bad, num_draws = len(np.unique(bad[:, 0])), len(values)
    if len(bad) and source.about == "parameters":
        raise ModelError(f"The prior gives parameters that are not finite numbers in {num_bad} of {num_draws} draws.")
    if len(bad):
        row = int(bad[0, 1])
        raise ModelError(
            f"The best reward at target row {row}, context {np.asarray(problem.targets)[row].tolist()}, is not a finite number "
            f"in {num_bad} of {num_draws} draws of the prior. Check the model's mean reward there."
        )
    return ValueScale.fit(jnp.asarray(values))


def draw_max_values(
    key: Key[Array, ""], problem: Problem, source: AbstractSource, num_draws: int = 4096
) -> Float[np.ndarray, "N T"]:
    """Draws of what the design is to tell about; fewer where targets are many."""
    # Decompositions of them cost N x T x min(N, T).
    num_draws = min(num_draws if problem.num_targets <= 512 else 1024, source.size or num_draws)
    return np.asarray(_max_values(source, key, num_draws))


@quick_jit
def _max_values(source: AbstractSource, key: Key[Array, ""], num_draws: int) -> Float[Array, "N T"]:
    return source.batch(key, num_draws)[1]
