"""What every objective shares: a design, perhaps a network, a scalar to climb. What only some can do is None elsewhere."""

import abc
from typing import Any, ClassVar, Protocol, Self

import equinox as eqx
import jax
import jax.numpy as jnp

from cobed.budget import Budget
from cobed.policies import FreeDesign
from cobed.problem import Problem, choices_at
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

    # Whether a network is trained with the design.
    trains: ClassVar[bool] = False
    # Whether it is at most the logarithm of the batch size, and has no slope to follow there.
    saturates: ClassVar[bool] = False

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

    def initial_network(self, key: Key[Array, ""]) -> PyTree:
        """The network before training; None where nothing is trained."""
        return None

    @abc.abstractmethod
    def resized(self, batch_size: int) -> Self:
        """The same objective for one sample of the design and batches of that size."""

    def freeze(self, network: PyTree, key: Key[Array, ""], design: FixedDesign) -> PyTree:
        """The network as it is evaluated: what it takes from a batch in training is fixed."""
        return network

    def on_unseen_draws(self, key: Key[Array, ""], budget: Budget) -> Self:
        """The objective by which a trained network is judged: with draws of psi that it was not trained on."""
        return self

    def simulated(self) -> Any:
        """The `Simulation` whose experiments it is estimated from."""
        return None

    def fitted_components(self) -> Any:
        """The `Components` of m* that it has computed already."""
        return None

    def with_gains(self) -> "HasGains | None":
        """Itself, where it knows at once what each named action of each unit would add."""
        return None


class HasGains(Protocol):
    """An objective that knows at once what each action of each unit would add."""

    def gains(self, shares: Float[Array, "D K"]) -> tuple[Float[Array, ""], Float[Array, "D K"]]:
        """The objective of a design of these shares of named actions, and its slope in every share."""
        ...


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
    """The mean reward of every discrete action that a target chooses among, in one world."""
    choices = choices_at(problem.places, jnp.asarray(problem.model.action_space.enumerate_discrete()))
    at = jax.vmap(jax.vmap(problem.model.mean_reward, in_axes=(None, None, 0)), in_axes=(None, 0, 0))
    return at(psi, problem.targets, choices)
