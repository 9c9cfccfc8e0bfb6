"""The contract of a model: a belief about psi, the reward of one action in one context, and the law of outcomes. Callers vmap.

A model must offer `sample_prior`, `mean_reward` and `sample_outcome`. Everything else is something that only some models can do,
and None elsewhere: the engine asks by calling, never by the type.
"""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.beliefs.base import AbstractBelief, Known, Moments, sampled_moments
from cobed.beliefs.scaled import Scaled
from cobed.compilation import check_compiler
from cobed.errors import ModelError
from cobed.models.forms import LinearForm, Terms
from cobed.spaces import AbstractSpace
from cobed.types import Array, Float, Key, Params

LogLikelihood = Callable[[Params, Array, Array, Array], Float[Array, ""]]


class AbstractModel(eqx.Module):
    """What is known about psi, and the reward and the outcomes of one action in one context."""

    action_space: eqx.AbstractVar[AbstractSpace]
    # None: contexts of any length will do.
    context_dim: eqx.AbstractVar[int | None]

    def __check_init__(self):
        # Nothing is computed without a model, so no program with wrong numbers gets past this line.
        check_compiler()

    def for_contexts(self, context_dim: int) -> "AbstractModel":
        """The model, told the number of context columns where it must know it and does not yet."""
        return self

    # The belief about psi. `P` numbers are in psi laid out flat by `jax.flatten_util.ravel_pytree`.

    @abc.abstractmethod
    def sample_prior(self, key: Key[Array, ""]) -> Params:
        """One draw of psi ~ p(psi)."""

    def log_prior(self, params: Params) -> Float[Array, ""] | None:
        """log p(psi), minus infinity outside the support; psi is then a pytree of floats."""
        return None

    def prior_moments(self) -> tuple[Float[Array, " P"], Float[Array, "P P"]] | None:
        """Mean and covariance of the flat psi, where it is Gaussian."""
        return None

    def prior_root(self) -> Float[Array, "P P"] | None:
        """R with R R^T = the covariance of the flat psi, where it is Gaussian and a root is at hand."""
        return None

    def sparse_prior(self) -> tuple[Float[Array, " P"], Float[Array, " P"]] | None:
        """See `AbstractBelief.sparse`."""
        return None

    def prior_bounds(self) -> tuple[Params, Params] | None:
        """The lowest and the highest psi, all finite, where it lives in a box."""
        return None

    def psi_moments(self, key: Key[Array, ""]) -> Moments:
        """Mean and covariance of the flat psi in double precision: exact where they are known, otherwise from draws."""
        exact = self.prior_moments()
        if exact is None:
            return sampled_moments(key, self.sample_prior)
        mean, cov = jax.device_get(exact)
        return mean.astype(float), cov.astype(float)

    def sample_prior_of(
        self, key: Key[Array, ""], contexts: Float[Array, "n C"], actions: Float[Array, "n A"]
    ) -> Params | None:
        """psi as a program draws it beside these units, which it must not depend on."""
        return None

    def bound_sites(self) -> list[str]:
        """Parts of psi whose entries obey an equation (a simplex, a correlation matrix): a small step leaves their support."""
        return []

    def log_volume(self, params: Params) -> Float[Array, ""] | None:
        """log |d psi / d line| of the model's own map from the whole line to the support of psi."""
        return None

    def given(self, known: Known) -> "AbstractModel":
        """The same reward and the same law with a posterior, or a belief, in the place of what was known about psi.

        Nothing is estimated where the posterior is exact.
        """
        return Given(self, known.as_belief())

    def unknown_scales(self) -> Scaled | None:
        """The belief about a linear predictor whose deviations, and the scale of whose law, are to be learned."""
        return None

    def parts(self) -> "tuple[AbstractModel, AbstractModel] | None":
        """Where an outcome is a product: the models of whether it is above zero and of how large it is then. psi is their pair."""
        return None

    def matched(self) -> "AbstractModel":
        """The model with a Gaussian belief in the place of one whose deviations are unknown: for designs and plans."""
        return self

    # The reward.

    @abc.abstractmethod
    def mean_reward(self, params: Params, context: Float[Array, " C"], action: Float[Array, " A"]) -> Float[Array, ""]:
        """What the action earns: E[y | a, c, psi], or what `terms` leave of it. For discrete actions also defined, and smooth,
        between the one-hot vectors."""

    def mean_outcome(self, params: Params, context: Float[Array, " C"], action: Float[Array, " A"]) -> Float[Array, ""]:
        """E[y | a, c, psi]: what outcomes scatter around, whatever they are worth."""
        return self.mean_reward(params, context, action)

    def terms(self, action: Float[Array, " A"]) -> Terms:
        """How the reward of an action follows from its expected outcome: mean_reward = terms(a).net(mean_outcome)."""
        return Terms()

    def best_action(self, params: Params, context: Float[Array, " C"]) -> Float[Array, " A"] | None:
        """argmax_a E[y | a, c, psi] in closed form."""
        return None

    def linear_form(self) -> LinearForm | None:
        """The linear predictor behind rewards and outcomes."""
        return None

    def average_params(self, draws: Params, weights: Float[Array, " N"]) -> Params | None:
        """The psi whose reward is the weighted average of the rewards of the draws, stacked N: for rewards affine in psi."""
        return None

    def shared_params(self, params: Params) -> Params | None:
        """A tree of the structure of psi: True for the leaves that all draws of one posterior share."""
        return None

    def posterior_mean(
        self, contexts: Float[Array, "D C"], actions: Float[Array, "D A"], surprise: Float[Array, " D"]
    ) -> Params | None:
        """Where rewards and outcomes are jointly Gaussian: the psi with mean_reward(psi, c, a) = E[f(c, a) | y] everywhere, for
        the outcomes y = E[y] + L surprise.

        L L^T is the covariance of y before the experiment: with standard normal `surprise` this is a draw of what the
        posterior mean will be. Differentiable in the actions.
        """
        return None

    def moments(
        self, contexts: Float[Array, "N C"], actions: Float[Array, "N A"]
    ) -> tuple[Float[Array, " N"], Float[Array, "N N"]] | None:
        """Mean and covariance of E[y | a, c, psi] at N pairs before the experiment, where rewards are jointly Gaussian."""
        return None

    def covariance(self, points: Float[Array, "N X"], others: Float[Array, "M X"]) -> Float[Array, "N M"] | None:
        """Covariance of the rewards at two sets of points, each a context and an action laid end to end."""
        return None

    def process(self) -> Any:
        """The Gaussian process whose draws are psi."""
        return None

    # The law of outcomes.

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

    def likelihood(self) -> LogLikelihood | None:
        """log p(y | a, c, psi) as a function of psi, the context, the action and the outcome."""
        return None

    def conditioned(
        self, contexts: Float[Array, "D C"], actions: Float[Array, "D A"], outcomes: Float[Array, " D"]
    ) -> Callable[[], None] | None:
        """A NumPyro program in which these outcomes are observed."""
        return None

    def gaussian_noise(self) -> float | None:
        """The standard deviation of outcomes, where they are normal around the expected one with the same everywhere."""
        return None

    def noise_in(self, params: Params) -> float | None:
        """The same in one world, where it is learned with the rest of psi."""
        return self.gaussian_noise()


class AbstractLikelihoodModel(AbstractModel):
    """A model whose likelihood can be evaluated."""

    @abc.abstractmethod
    def log_likelihood(
        self, params: Params, context: Float[Array, " C"], action: Float[Array, " A"], outcome: Float[Array, ""]
    ) -> Float[Array, ""]:
        """log p(y | a, c, psi)."""

    def likelihood(self):
        return self.log_likelihood


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

    def gaussian_noise(self):
        return self.noise_std


class AbstractBeliefModel(AbstractModel):
    """A model that holds its belief as a part, so that data replace that part and the model stays what it is."""

    belief: eqx.AbstractVar[AbstractBelief]

    def sample_prior(self, key):
        return self.belief.sample(key)

    def log_prior(self, params):
        return self.belief.log_density(params)

    def prior_moments(self):
        return self.belief.gaussian()

    def prior_root(self):
        return self.belief.gaussian_root()

    def sparse_prior(self):
        return self.belief.sparse()

    def unknown_scales(self):
        return self.belief.scaled()

    def psi_moments(self, key):
        return self.belief.moments(key)

    @property
    def prior_mean(self) -> np.ndarray:
        """Of the flat psi, (P,)."""
        return self.belief.moments(jr.key(0))[0]

    @property
    def prior_cov(self) -> np.ndarray:
        """Of the flat psi, (P, P)."""
        return self.belief.moments(jr.key(0))[1]

    def given(self, known):
        return eqx.tree_at(lambda model: model.belief, self, known.as_belief())


class Given(AbstractBeliefModel):
    """The reward and the law of a model with a sampler of its own, and another belief."""

    model: AbstractModel
    belief: AbstractBelief
    action_space: AbstractSpace
    context_dim: int | None = eqx.field(static=True)

    def __init__(self, model: AbstractModel, belief: AbstractBelief):
        self.model, self.belief = model, belief
        self.action_space, self.context_dim = model.action_space, model.context_dim

    def mean_reward(self, params, context, action):
        return self.model.mean_reward(params, context, action)

    def best_action(self, params, context):
        return self.model.best_action(params, context)

    def linear_form(self):
        return self.model.linear_form()

    def average_params(self, draws, weights):
        return self.model.average_params(draws, weights)

    def shared_params(self, params):
        return self.model.shared_params(params)

    def sample_outcome(self, key, params, context, action):
        return self.model.sample_outcome(key, params, context, action)

    def sample_outcomes(self, key, params, contexts, actions):
        return self.model.sample_outcomes(key, params, contexts, actions)

    def likelihood(self):
        return self.model.likelihood()

    def gaussian_noise(self):
        return self.model.gaussian_noise()


def over_draws(model: AbstractModel, function: Callable[[Params], Any], draws: Params) -> Any:
    """`function` of every draw of one posterior, stacked N. What the draws share is computed once."""
    shared = model.shared_params(draws)
    if shared is None:
        return jax.vmap(function)(draws)
    axes = jax.tree.map(lambda common: None if common else 0, shared)
    first = jax.tree.map(lambda common, leaf: leaf[0] if common else leaf, shared, draws)
    return jax.vmap(function, in_axes=(axes,))(first)


def params_shape(model: AbstractModel) -> Params:
    """psi as shapes and types, without a number computed."""
    return jax.eval_shape(model.sample_prior, jr.key(0))


def has_log_prior(model: AbstractModel) -> bool:
    """Whether the density of the prior can be evaluated."""
    return jax.eval_shape(model.log_prior, params_shape(model)) is not None


def has_best_action(model: AbstractModel, contexts: Float[Array, "N C"]) -> bool:
    """Whether the best action has a closed form."""
    return jax.eval_shape(model.best_action, params_shape(model), contexts[0]) is not None


def require_space(space: Any) -> None:
    """Raise `ModelError` where the actions of a model are no space."""
    if not isinstance(space, AbstractSpace):
        raise ModelError(
            f"The actions of a model must be a space such as cobed.Discrete([...]) or cobed.Box(0, 1), got {space!r}."
        )


def require_count(value: Any, least: int, words: str) -> None:
    """Raise `ModelError` with these words where the value is no whole number from `least` on."""
    if not (isinstance(value, int) and value >= least):
        raise ModelError(f"{words}; got {value!r}.")
