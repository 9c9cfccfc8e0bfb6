"""A model that can only be sampled: a prior and a simulator, no likelihood."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from cobed.errors import ModelError
from cobed.models.base import AbstractModel, require_count, require_space
from cobed.spaces import AbstractSpace
from cobed.types import Array, Float, Params

SamplePrior = Callable[[Array], Params]
Simulate = Callable[[Array, Params, Array, Array], Array]
MeanReward = Callable[[Params, Array, Array], Array]


def from_simulator(
    sample_prior: SamplePrior,
    simulate: Simulate,
    actions: AbstractSpace,
    context_dim: int,
    *,
    mean_reward: MeanReward | None = None,
    num_mean_draws: int = 256,
    seed: int = 0,
) -> "SimulatorModel":
    """The model of a simulator.

    `sample_prior(key)` draws psi; `simulate(key, params, context (C,), action (A,))` draws one outcome, a scalar.
    Designs climb by its gradient in the action, and exchange actions where it has none. `mean_reward(params, context, action)`
    is its mean, where that is known. Where it is not, it is estimated from `num_mean_draws` simulations with the random numbers
    of `seed`: see `SimulatorModel.mean_reward`.
    """
    return SimulatorModel(
        action_space=actions,
        context_dim=context_dim,
        prior=sample_prior,
        simulate=simulate,
        exact_mean=mean_reward,
        num_mean_draws=num_mean_draws,
        seed=seed,
    )


class SimulatorModel(AbstractModel):
    """A prior over psi and a simulator of outcomes."""

    action_space: AbstractSpace
    context_dim: int = eqx.field(static=True)
    prior: SamplePrior = eqx.field(static=True)
    simulate: Simulate = eqx.field(static=True)
    exact_mean: MeanReward | None = eqx.field(static=True)
    num_mean_draws: int = eqx.field(static=True)
    seed: int = eqx.field(static=True)

    def __check_init__(self):
        for name, function in (("sample_prior", self.prior), ("simulate", self.simulate)):
            if not callable(function):
                raise ModelError(f"from_simulator: {name} must be a function, got {type(function).__name__}.")
        if self.exact_mean is not None and not callable(self.exact_mean):
            raise ModelError(
                f"from_simulator: mean_reward must be a function or None, got {type(self.exact_mean).__name__}."
            )
        require_space(self.action_space)
        require_count(self.context_dim, 1, "context_dim must be the number of context columns, at least 1")
        require_count(self.num_mean_draws, 2, "num_mean_draws must be at least 2, to have a mean and its error")

    def sample_prior(self, key):
        return self.prior(key)

    def sample_outcome(self, key, params, context, action):
        return _number(self.simulate(key, params, context, action))

    def mean_reward(self, params, context, action):
        """E[y | a, c, psi], given by the user or the average of `num_mean_draws` = N simulations.

        The average is off by about sd(y | a, c, psi) / sqrt(N), its standard error (`mean_reward_error`). All actions,
        contexts and psi share the N keys, so the average is a fixed function, smooth where the simulator is, and noise
        added to the outcome moves all actions alike: the best action stays the best. Where the noise depends on the
        action, the largest average of several is on average too large, by less than the standard error of their
        differences.
        """
        if self.exact_mean is not None:
            return self.exact_mean(params, context, action)
        return jnp.mean(self._simulations(params, context, action))

    def mean_reward_error(
        self, params: Params, context: Float[Array, " C"], action: Float[Array, " A"]
    ) -> Float[Array, ""]:
        """The standard error of `mean_reward`: zero where the user gave the mean."""
        if self.exact_mean is not None:
            return jnp.zeros(())
        return jnp.std(self._simulations(params, context, action), ddof=1) / jnp.sqrt(self.num_mean_draws)

    def _simulations(
        self, params: Params, context: Float[Array, " C"], action: Float[Array, " A"]
    ) -> Float[Array, " N"]:
        keys = jr.split(jr.key(self.seed), self.num_mean_draws)
        return jax.vmap(self.sample_outcome, in_axes=(0, None, None, None))(keys, params, context, action)


def _number(outcome: Any) -> Any:
    """A count or a truth value as a number; anything else as it is, for the check of the model to judge."""
    whole = isinstance(outcome, jax.Array) and not jnp.issubdtype(outcome.dtype, jnp.inexact)
    return outcome.astype(float) if whole else outcome
