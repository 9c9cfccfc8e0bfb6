"""Gaussian beliefs about the coefficients of a linear predictor, and what one outcome tells about them.

    eta = phi(c, a) . psi,   psi ~ N(mean, cov),   precision after the outcomes = cov^-1 + sum_d w_d phi_d phi_d^T

w is the Fisher information of one outcome about eta, averaged over the belief: 1 / sigma^2 for normal outcomes, where the
update is exact, E[p (1 - p)] for binary ones, the rate for counts. It does not depend on the outcomes, so the covariance
after an experiment is known before it, and the design enters by a sum over units. The averages over eta ~ N(m, s^2) are
closed: the logistic curve is taken for the normal distribution function of the same slope, of sd 1 / LAMBDA.
"""

from typing import Literal, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.scipy.stats import norm

from cobed.models.base import AbstractModel, HasGaussianPrior
from cobed.models.conditioned import Conditioned, ConditionedGaussian, NormalStandIn
from cobed.models.gaussian import MOMENT_DRAWS, covariance_root
from cobed.models.glm import MAX_LOG_RATE, GeneralisedLinear
from cobed.models.linear import AbstractLinearGaussian
from cobed.models.routed import Routed
from cobed.types import Array, Float, Key

# sigmoid(x) is about Phi(LAMBDA x): both have the slope 1/4 at 0.
LAMBDA = float(np.sqrt(np.pi / 8))

Outcome = Literal["normal", "bernoulli", "poisson"]


class PredictorBelief(eqx.Module):
    """Mean and a root of the covariance of the coefficients, and the law of an outcome given the predictor."""

    mean: Float[Array, " P"]
    root: Float[Array, "P P"]
    noise_std: Float[Array, ""]
    outcome: Outcome = eqx.field(static=True)

    def expected(self, mean: Array, variance: Array) -> Array:
        """E[y] where eta ~ N(mean, variance). Averaged over what `mean` will be, it stays what it is now."""
        if self.outcome == "bernoulli":
            return norm.cdf(LAMBDA * mean / jnp.sqrt(1 + LAMBDA**2 * variance))
        return jnp.exp(jnp.minimum(mean + variance / 2, MAX_LOG_RATE)) if self.outcome == "poisson" else mean

    def information(self, mean: Array, variance: Array) -> Array:
        """Fisher information of one outcome about eta, where eta ~ N(mean, variance)."""
        if self.outcome == "bernoulli":
            width = jnp.sqrt(1 + LAMBDA**2 * variance)
            # E[p (1 - p)]: the normal density in the place of the logistic one. LAMBDA phi(0) = 1/4.
            return LAMBDA * norm.pdf(LAMBDA * mean / width) / width
        if self.outcome == "poisson":
            # At the middle of the belief: the mean of a rate is that of few very large ones, which most worlds lack.
            return jnp.exp(jnp.minimum(mean, MAX_LOG_RATE))
        return jnp.broadcast_to(1 / self.noise_std**2, mean.shape)

    def whitened(self, features: Float[Array, "... P"]) -> tuple[Array, Array, Array]:
        """Features of coefficients whose belief is standard normal, and mean and variance of the predictor there."""
        white = features @ self.root
        return white, features @ self.mean, jnp.sum(white**2, axis=-1)


def core_of(model: AbstractModel) -> GeneralisedLinear | AbstractLinearGaussian | None:
    """The model with a linear predictor behind data and routes; None where there is none."""
    while isinstance(model, Conditioned | ConditionedGaussian | NormalStandIn | Routed):
        model = model.model
    return model if isinstance(model, GeneralisedLinear | AbstractLinearGaussian) else None


def predictor_features(model: AbstractModel, context: Float[Array, " C"], action: Float[Array, " A"]) -> Array:
    """phi(c, a) of the model's core, (P,), of the action that is really taken."""
    if isinstance(model, Routed):
        context, action = model.route(context, action)
    if isinstance(model, Conditioned | ConditionedGaussian | NormalStandIn | Routed):
        return predictor_features(model.model, context, action)
    return cast(GeneralisedLinear, model).features(context, action)


def _draws(key: Key[Array, ""], model: AbstractModel) -> Float[Array, "N P"]:
    if isinstance(model, Conditioned | ConditionedGaussian):
        return model.draws
    if isinstance(model, NormalStandIn | Routed):
        return _draws(key, model.model)
    return jax.vmap(model.sample_prior)(jr.split(key, MOMENT_DRAWS))


def find_predictor_belief(key: Key[Array, ""], model: AbstractModel) -> PredictorBelief | None:
    """What is believed about the coefficients: the moments of the prior, or of the draws that took its place."""
    core = core_of(model)
    if core is None:
        return None
    if isinstance(model, HasGaussianPrior):
        mean, cov = (np.asarray(moment, np.float64) for moment in model.prior_moments())
    else:
        draws = np.asarray(_draws(key, model), np.float64)
        mean, cov = draws.mean(axis=0), np.cov(draws, rowvar=False)
    noise = core.noise_std if isinstance(core, AbstractLinearGaussian) else 1.0
    outcome: Outcome = core.likelihood if isinstance(core, GeneralisedLinear) else "normal"
    mean, root, noise = (jnp.asarray(moment, jnp.float32) for moment in (mean, covariance_root(cov, np), noise))
    return PredictorBelief(mean, root, noise, outcome)
