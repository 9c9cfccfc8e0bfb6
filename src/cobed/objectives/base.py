"""What every objective shares: a design, perhaps a network, one batch of simulated experiments, a scalar to climb."""

import abc
import dataclasses
from typing import NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.compilation import quick_jit
from cobed.critics import OutcomeScale, ValueScale
from cobed.errors import ModelError
from cobed.policies import FreeDesign, Temperature
from cobed.pool import AbstractSource, ParameterDraws
from cobed.problem import Problem
from cobed.types import Array, Bool, Float, Key, Params, PyTree


class FixedDesign(eqx.Module):
    """A design that is not trained: for a network to settle on, and for baselines."""

    actions: Float[Array, "D A"]

    def sample(self, key: Key[Array, ""], temperature: Float[Array, ""], hard: Bool[Array, ""]) -> Float[Array, "D A"]:
        return jax.lax.stop_gradient(self.actions)

    def harden(self) -> Float[Array, "D A"]:
        return self.actions


class Trainable(eqx.Module):
    """What the gradient moves. Objectives in closed form have no network."""

    design: FreeDesign | FixedDesign
    network: PyTree


class AbstractObjective(eqx.Module):
    """A function of a design and a network, estimated afresh at every step; larger is better."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """As the user asks for it."""

    @property
    def unit(self) -> str:
        """Of what the objective measures."""
        return "nats"

    @property
    def offset(self) -> tuple[float, float]:
        """What is added to a value so that it is in `unit`, with its standard error; does not depend on the design."""
        return 0.0, 0.0

    @abc.abstractmethod
    def __call__(self, trainable: Trainable, key: Key[Array, ""], progress: Float[Array, ""]) -> Float[Array, ""]:
        """The objective at `progress` in [0, 1) of the training."""

    @abc.abstractmethod
    def initial_network(self, key: Key[Array, ""]) -> PyTree:
        """The network before training; None where there is none."""

    @abc.abstractmethod
    def resized(self, batch_size: int) -> Self:
        """The same objective for one sample of the design and batches of that size."""

    def freeze(self, network: PyTree, key: Key[Array, ""], design: FixedDesign) -> PyTree:
        """The network as it is evaluated: what it takes from a batch in training is fixed."""
        return network


class Batch(NamedTuple):
    """Simulated experiments with one sample of the design, as networks see them."""

    params: Params
    max_values: Float[Array, "B T"]
    outcomes: Float[Array, "B D"]  # scaled
    weights: Float[Array, "D J"]  # shares of the discrete actions


class Simulation(eqx.Module):
    """How experiments are simulated: the source of (psi, m*), the fixed statistics of the prior, the temperatures.

    A random design is sampled `num_samples` times a step, each sample with a batch of its own.
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

    simulation: eqx.AbstractVar[Simulation]

    @abc.abstractmethod
    def score(self, network: PyTree, batch: Batch) -> Float[Array, ""]:
        """The objective on one batch."""

    def __call__(self, trainable, key, progress):
        def one(key):
            return self.score(trainable.network, self.simulation.batch(trainable.design, key, progress))

        num_samples = self.simulation.num_samples
        return one(key) if num_samples == 1 else jnp.mean(jax.vmap(one)(jr.split(key, num_samples)))

    def resized(self, batch_size):
        return dataclasses.replace(
            self, simulation=dataclasses.replace(self.simulation, batch_size=batch_size, num_samples=1)
        )


def value_at(objective: AbstractObjective, actions: Float[Array, "D A"], key: Key[Array, ""]) -> Float[Array, ""]:
    """The value of a design by an objective without a network, with these draws."""
    return objective(Trainable(FixedDesign(actions), None), key, jnp.ones(()))


def largest(values: Float[Array, "... K"]) -> Float[Array, "..."]:
    """The maximum over the last axis, whose gradient goes to one entry.

    That of `jnp.max` looks for the entries equal to it; compiled, they may be computed twice with different rounding, and
    where none is equal it is not a number.
    """
    best = jnp.argmax(jax.lax.stop_gradient(values), axis=-1)
    return jnp.sum(values * jax.nn.one_hot(best, values.shape[-1]), axis=-1)


def action_rewards(problem: Problem, psi: Params) -> Float[Array, "T K"]:
    """The mean reward of every discrete action at every target in one world."""
    rows = jnp.asarray(problem.model.action_space.enumerate_discrete())
    at = jax.vmap(jax.vmap(problem.model.mean_reward, in_axes=(None, None, 0)), in_axes=(None, 0, None))
    return at(psi, problem.targets, rows)


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
    if len(bad) and isinstance(source, ParameterDraws):
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
    num_draws = min(num_draws if problem.num_targets <= 512 else 1024, getattr(source, "size", num_draws))
    return np.asarray(_max_values(source, key, num_draws))


@quick_jit
def _max_values(source: AbstractSource, key: Key[Array, ""], num_draws: int) -> Float[Array, "N T"]:
    return source.batch(key, num_draws)[1]
