"""Generalised linear models: a linear predictor in context, action and their products, with independent Gaussian priors.

    eta = b0 + b . c + u . f(a) + f(a)^T B c,    E[y | a, c, psi] = link^-1(eta)

f(a) is the one-hot vector of a named action; for bounded numbers, scaled to [-1, 1], the numbers, their squares and
their products. Only the numbers themselves meet the context: a context then moves the best action, and may do so in
every direction.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from cobed.beliefs import AbstractBelief, Gaussian
from cobed.errors import ModelError
from cobed.models.base import AbstractBeliefModel, AbstractLikelihoodModel, LinearForm
from cobed.models.linear import LinearGaussian
from cobed.outcomes import AbstractLaw, law_named
from cobed.spaces import AbstractSpace
from cobed.types import Array, Float


class LinearFeatures(eqx.Module):
    """phi(c, a) of shape (P,): 1, the context, the action's own terms, and action by context."""

    action_space: AbstractSpace
    context_dim: int = eqx.field(static=True)

    def __check_init__(self):
        space = self.action_space
        if space.options is None and space.bounds() is None:
            raise ModelError(
                f"A linear model takes named actions, Discrete([...]), or bounded numbers, Box(low, high); got {space}."
            )

    def __call__(self, context: Float[Array, " C"], action: Float[Array, " A"]) -> Float[Array, " P"]:
        alone, moved = self.action_terms(action)
        return jnp.concatenate([jnp.ones(1), context, alone, jnp.outer(moved, context).ravel()])

    def action_terms(self, action: Float[Array, " A"]) -> tuple[Float[Array, " K"], Float[Array, " M"]]:
        """The terms of the action alone, and those of them that meet the context."""
        bounds = self.action_space.bounds()
        if bounds is None:
            return action, action
        low, high = bounds
        unit = (2 * action - low - high) / (high - low)
        rows, columns = np.triu_indices(self.action_space.dim)
        return jnp.concatenate([unit, unit[rows] * unit[columns]]), unit

    @property
    def num_own(self) -> int:
        """How many terms an action has by itself."""
        dim = self.action_space.dim
        return dim + dim * (dim + 1) // 2 if self.action_space.continuous else dim

    def by_kind(self, baseline: float, context: float, action: float, interaction: float) -> np.ndarray:
        """A vector of length P with one number for each kind of coefficient."""
        counts = (1, self.context_dim, self.num_own, self.action_space.dim * self.context_dim)
        return np.repeat(np.array([baseline, context, action, interaction], np.float32), counts)

    def names(self, contexts: list[str], actions: list[str]) -> list[str]:
        """What each coefficient stands for, given the names of the context columns and of the actions' entries."""
        alone = list(actions)
        if self.action_space.continuous:
            rows, columns = np.triu_indices(self.action_space.dim)
            alone += [
                f"{actions[i]} squared" if i == j else f"{actions[i]} by {actions[j]}"
                for i, j in zip(rows, columns, strict=True)
            ]
        return ["baseline", *contexts, *alone, *(f"{action} by {name}" for action in actions for name in contexts)]


class GeneralisedLinear(AbstractBeliefModel, AbstractLikelihoodModel):
    """Outcomes of a law whose mean follows a linear predictor. psi is the flat vector of coefficients, each Gaussian."""

    features: LinearFeatures
    belief: AbstractBelief
    law: AbstractLaw = eqx.field(static=True)
    scale: float = eqx.field(static=True)
    action_space: AbstractSpace
    context_dim: int = eqx.field(static=True)

    def __init__(
        self,
        features: LinearFeatures,
        prior_mean: Array | np.ndarray,
        prior_std: Array | np.ndarray,
        law: str | AbstractLaw,
        scale: float = 1.0,
    ):
        """`prior_mean` and `prior_std` have shape (P,), on the scale of the predictor: log-odds, or logarithms of rates.

        `law` is a law of `cobed.outcomes` or its name, `scale` its second number where it has one.
        """
        mean, std = np.asarray(prior_mean, np.float32), np.asarray(prior_std, np.float32)
        size = features.by_kind(0, 0, 0, 0).size
        if mean.shape != (size,) or std.shape != (size,):
            raise ModelError(
                f"These features have {size} coefficients; the prior has means {mean.shape} and deviations {std.shape}."
            )
        if not (np.isfinite(mean).all() and np.isfinite(std).all() and (std > 0).all()):
            raise ModelError("Prior means must be finite, and prior standard deviations positive and finite.")
        self.features, self.law = features, law_named(law) if isinstance(law, str) else law
        self.scale = float(scale)
        self.belief = Gaussian(mean, std**2, np.diag(std))
        self.action_space, self.context_dim = features.action_space, features.context_dim

    def mean_reward(self, params, context, action):
        return self.law.mean(self.features(context, action) @ params)

    def linear_form(self):
        return LinearForm(self.features, self.law, self.scale)

    def outcome_variance(self, params, context, action):
        """Var[y | a, c, psi]."""
        return self.law.variance(self.features(context, action) @ params, self.scale)

    def sample_outcome(self, key, params, context, action):
        """An exact draw. Where it is 0 or 1, or a count, its gradient in the action is that of its mean (straight-through)."""
        return self.law.sample(key, self.features(context, action) @ params, self.scale)

    def log_likelihood(self, params, context, action, outcome):
        return self.law.log_density(outcome, self.features(context, action) @ params, self.scale)


def linear_gaussian(
    features: LinearFeatures, prior_mean: Array | np.ndarray, prior_std: Array | np.ndarray, noise_std: float
) -> LinearGaussian:
    """The same predictor with normal outcomes: everything has a closed form."""
    variances = np.asarray(prior_std, np.float32) ** 2
    return LinearGaussian(
        features, prior_mean, variances, features.action_space, features.context_dim, noise_std
    )  # fmt: skip


def linear_model(
    features: LinearFeatures,
    prior_mean: Array | np.ndarray,
    prior_std: Array | np.ndarray,
    law: AbstractLaw,
    scale: float = 1.0,
) -> LinearGaussian | GeneralisedLinear:
    """The predictor with outcomes of a law: with closed forms where it is normal."""
    if law.gaussian:
        return linear_gaussian(features, prior_mean, prior_std, scale)
    return GeneralisedLinear(features, prior_mean, prior_std, law, scale)
