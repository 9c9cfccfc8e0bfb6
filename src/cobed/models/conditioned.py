"""A model after data: what the posterior knows takes the place of the prior, for any model and any inference."""

from typing import Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from cobed.models.base import AbstractGaussianModel, AbstractModel
from cobed.spaces import AbstractSpace
from cobed.types import Array, Float, Key, Params


class Conditioned(AbstractModel):
    """Another model whose prior draws are taken from `draws`: psi given data, stacked N, all of one weight."""

    model: AbstractModel
    draws: Params
    action_space: AbstractSpace
    context_dim: int | None = eqx.field(static=True)

    def __init__(self, model: AbstractModel, draws: Params):
        self.model, self.draws = model, draws
        self.action_space, self.context_dim = model.action_space, model.context_dim

    def sample_prior(self, key):
        return _one_of(key, self.draws)

    def mean_reward(self, params, context, action):
        return self.model.mean_reward(params, context, action)

    def sample_outcome(self, key, params, context, action):
        return self.model.sample_outcome(key, params, context, action)

    def sample_outcomes(self, key, params, contexts, actions):
        return self.model.sample_outcomes(key, params, contexts, actions)


class ConditionedGaussian(AbstractGaussianModel):
    """The same of a model with Gaussian noise, which it keeps: its rewards, where affine in psi, still have closed forms."""

    model: AbstractGaussianModel
    draws: Params
    action_space: AbstractSpace
    context_dim: int | None = eqx.field(static=True)
    noise_std: float = eqx.field(static=True)

    def __init__(self, model: AbstractGaussianModel, draws: Params):
        self.model, self.draws, self.noise_std = model, draws, model.noise_std
        self.action_space, self.context_dim = model.action_space, model.context_dim

    def sample_prior(self, key):
        return _one_of(key, self.draws)

    def mean_reward(self, params, context, action):
        return self.model.mean_reward(params, context, action)


def condition(model: AbstractModel, draws: Params) -> AbstractModel:
    """The model with `draws` of psi, stacked, in the place of its prior."""
    return ConditionedGaussian(model, draws) if isinstance(model, AbstractGaussianModel) else Conditioned(model, draws)


def _one_of(key: Key[Array, ""], draws: Params) -> Params:
    chosen = jr.randint(key, (), 0, jax.tree.leaves(draws)[0].shape[0])
    return jax.tree.map(lambda leaf: leaf[chosen], draws)


@runtime_checkable
class HasOutcomeVariance(Protocol):
    """A model that knows Var[y | a, c, psi]."""

    def outcome_variance(
        self, params: Params, context: Float[Array, " C"], action: Float[Array, " A"]
    ) -> Float[Array, ""]: ...


class NormalStandIn(AbstractModel):
    """Normal outcomes in the place of binary ones or counts: the same mean, and the variance at one central psi.

    Its outcomes can be differentiated in the action. The variance is that at `centre`, whatever psi is: a variance that
    moved with psi would itself tell about psi, which one 0 or 1 does not.
    """

    model: AbstractModel
    centre: Params
    action_space: AbstractSpace
    context_dim: int | None = eqx.field(static=True)

    def __init__(self, model: AbstractModel, centre: Params):
        self.model, self.centre = model, centre
        self.action_space, self.context_dim = model.action_space, model.context_dim

    def sample_prior(self, key):
        return self.model.sample_prior(key)

    def mean_reward(self, params, context, action):
        return self.model.mean_reward(params, context, action)

    def sample_outcome(self, key, params, context, action):
        variance = self.model.outcome_variance(self.centre, context, action)  # pyright: ignore[reportAttributeAccessIssue]
        return self.mean_reward(params, context, action) + jnp.sqrt(variance) * jr.normal(key)


def without_gradient_gap(model: AbstractModel, draws: Params) -> AbstractModel:
    """The model itself, or its normal stand-in where its outcomes are binary or counts; `draws` of psi give the centre."""
    if isinstance(model, HasOutcomeVariance) and not isinstance(model, AbstractGaussianModel):
        return NormalStandIn(model, jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), draws))
    return model
