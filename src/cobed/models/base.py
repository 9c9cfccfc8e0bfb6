"""The contract of a model: a prior over psi and the reward of one action in one context. Callers vmap.

A model must offer `sample_prior`, `mean_reward` and `sample_outcome`. Everything else is a capability that the engine
uses where it finds it: a likelihood (`AbstractLikelihoodModel`), a best action in closed form (`HasBestAction`), and,
for inference, the density (`HasLogPrior`), the bounds (`HasPriorBounds`), the Gaussian moments (`HasGaussianPrior`) or
the spikes and slabs (`HasSparsePrior`) of the prior; for the value of an experiment in closed form, the mean of a Gaussian
posterior (`HasPosteriorMean`); for designs by covariances, the moments of the rewards (`HasRewardMoments`); for cheap
decisions, `HasAverageParams`.
"""

import abc
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from cobed.compilation import check_compiler
from cobed.spaces import AbstractSpace
from cobed.types import Array, Float, Key, Params


class AbstractModel(eqx.Module):
    """A prior over psi and the reward of one action in one context."""

    action_space: eqx.AbstractVar[AbstractSpace]
    # None: contexts of any length will do.
    context_dim: eqx.AbstractVar[int | None]

    def __check_init__(self):
        # Nothing is computed without a model, so no program with wrong numbers gets past this line.
        check_compiler()

    @abc.abstractmethod
    def sample_prior(self, key: Key[Array, ""]) -> Params:
        """One draw of psi ~ p(psi)."""

    @abc.abstractmethod
    def mean_reward(self, params: Params, context: Float[Array, " C"], action: Float[Array, " A"]) -> Float[Array, ""]:
        """E[y | a, c, psi]. For discrete actions also defined, and smooth, between the one-hot vectors."""

    @abc.abstractmethod
    def sample_outcome(
        self, key: Key[Array, ""], params: Params, context: Float[Array, " C"], action: Float[Array, " A"]
    ) -> Float[Array, ""]:
        """One draw of y ~ p(y | a, c, psi), differentiable in the action."""

    def sample_outcomes(
        self, key: Key[Array, ""], params: Params, contexts: Float[Array, "D C"], actions: Float[Array, "D A"]
    ) -> Float[Array, " D"]:
        """The outcomes of a whole design in one world. Override where one call is cheaper than D."""
        keys = jr.split(key, contexts.shape[0])
        return jax.vmap(self.sample_outcome, in_axes=(0, None, 0, 0))(keys, params, contexts, actions)


class AbstractLikelihoodModel(AbstractModel):
    """A model whose likelihood can be evaluated."""

    @abc.abstractmethod
    def log_likelihood(
        self, params: Params, context: Float[Array, " C"], action: Float[Array, " A"], outcome: Float[Array, ""]
    ) -> Float[Array, ""]:
        """log p(y | a, c, psi)."""


class AbstractGaussianModel(AbstractLikelihoodModel):
    """y ~ Normal(mean_reward, noise_std)."""

    noise_std: eqx.AbstractVar[float]

    def sample_outcome(self, key, params, context, action):
        return self.mean_reward(params, context, action) + self.noise_std * jr.normal(key)

    def sample_outcomes(self, key, params, contexts, actions):
        means = jax.vmap(self.mean_reward, in_axes=(None, 0, 0))(params, contexts, actions)
        return means + self.noise_std * jr.normal(key, means.shape)

    def log_likelihood(self, params, context, action, outcome):
        standardised = (outcome - self.mean_reward(params, context, action)) / self.noise_std
        return -0.5 * standardised**2 - jnp.log(self.noise_std * jnp.sqrt(2 * jnp.pi))


@runtime_checkable
class HasBestAction(Protocol):
    """A model that knows a*(c, psi) = argmax_a E[y | a, c, psi] in closed form."""

    def best_action(self, params: Params, context: Float[Array, " C"]) -> Float[Array, " A"]: ...


@runtime_checkable
class HasLogPrior(Protocol):
    """A model that can evaluate the density of its prior; psi is then a pytree of floats."""

    def log_prior(self, params: Params) -> Float[Array, ""]:
        """log p(psi), minus infinity outside the support."""
        ...


@runtime_checkable
class HasPriorBounds(Protocol):
    """A model whose psi lives in a bounded box."""

    def prior_bounds(self) -> tuple[Params, Params]:
        """The lowest and the highest psi: two pytrees of the shape of psi, all finite."""
        ...


@runtime_checkable
class HasGaussianPrior(Protocol):
    """A model whose psi, laid out flat by `jax.flatten_util.ravel_pytree`, is Gaussian."""

    def prior_moments(self) -> tuple[Float[Array, " P"], Float[Array, "P P"]]:
        """Mean and covariance of the flat psi."""
        ...


@runtime_checkable
class HasSparsePrior(Protocol):
    """A model whose psi, laid out flat, has independent entries, each either exactly zero or half-normal."""

    def sparse_prior(self) -> tuple[Float[Array, " P"], Float[Array, " P"]]:
        """For each entry of the flat psi: the probability that it is not zero, and s of its law |N(0, s^2)| then."""
        ...


@runtime_checkable
class HasPosteriorMean(Protocol):
    """A model whose rewards and outcomes are jointly Gaussian, so that a posterior mean reward is the reward of some psi."""

    def posterior_mean(
        self, contexts: Float[Array, "D C"], actions: Float[Array, "D A"], surprise: Float[Array, " D"]
    ) -> Params:
        """The psi with mean_reward(psi, c, a) = E[f(c, a) | y] everywhere, for the outcomes y = E[y] + L surprise.

        L L^T is the covariance of y before the experiment: with standard normal `surprise` this is a draw of what the
        posterior mean will be. Differentiable in the actions.
        """
        ...


@runtime_checkable
class HasRewardMoments(Protocol):
    """A model whose rewards are jointly Gaussian. A point is a context and an action laid end to end."""

    def moments(
        self, contexts: Float[Array, "N C"], actions: Float[Array, "N A"]
    ) -> tuple[Float[Array, " N"], Float[Array, "N N"]]:
        """Mean and covariance of E[y | a, c, psi] at N pairs, before the experiment."""
        ...

    def covariance(self, points: Float[Array, "N X"], others: Float[Array, "M X"]) -> Float[Array, "N M"]:
        """Covariance of the rewards at two sets of points, before the experiment."""
        ...


@runtime_checkable
class HasAverageParams(Protocol):
    """A model whose reward is affine in psi, so that an average of rewards is the reward of an average psi."""

    def average_params(self, draws: Params, weights: Float[Array, " N"]) -> Params:
        """The psi whose reward is the weighted average of the rewards of the draws, stacked N."""
        ...


@runtime_checkable
class HasSharedParams(Protocol):
    """A model with numbers in psi that are alike in all draws of one posterior."""

    def shared_params(self, params: Params) -> Params:
        """A tree of the structure of psi: True for the leaves that all draws share."""
        ...


def over_draws(model: AbstractModel, function: Callable[[Params], Any], draws: Params) -> Any:
    """`function` of every draw of one posterior, stacked N. What the draws share is computed once."""
    if not isinstance(model, HasSharedParams):
        return jax.vmap(function)(draws)
    shared = model.shared_params(draws)
    axes = jax.tree.map(lambda common: None if common else 0, shared)
    first = jax.tree.map(lambda common, leaf: leaf[0] if common else leaf, shared, draws)
    return jax.vmap(function, in_axes=(axes,))(first)
