"""Gaussian beliefs about the coefficients of a linear predictor, and what one outcome tells about them.

    eta = phi(c, a) . psi,   psi ~ N(mean, cov),   precision after the outcomes = cov^-1 + sum_d w_d phi_d phi_d^T

w is the Fisher information of one outcome about eta, averaged over the belief: 1 / sigma^2 for normal outcomes, where the
update is exact, E[p (1 - p)] for binary ones, the rate for counts. It does not depend on the outcomes, so the covariance
after an experiment is known before it, and the design enters by a sum over units. The averages over eta ~ N(m, s^2) are the
law's (`cobed.outcomes`).
"""

from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.models.base import AbstractModel, HasGaussianPrior
from cobed.models.conditioned import Conditioned, ConditionedGaussian, NormalStandIn
from cobed.models.gaussian import MOMENT_DRAWS, covariance_root
from cobed.models.glm import GeneralisedLinear
from cobed.models.linear import AbstractLinearGaussian
from cobed.models.routed import Routed
from cobed.outcomes import NORMAL, AbstractLaw
from cobed.types import Array, Float, Key


class PredictorBelief(eqx.Module):
    """Mean and a root of the covariance of the coefficients, and the law of an outcome given the predictor."""

    mean: Float[Array, " P"]
    root: Float[Array, "P P"]
    scale: Float[Array, ""]
    law: AbstractLaw = eqx.field(static=True)

    def expected(self, mean: Array, variance: Array) -> Array:
        """E[y] where eta ~ N(mean, variance)."""
        return self.law.expected(mean, variance)

    def information(self, mean: Array, variance: Array) -> Array:
        """Fisher information of one outcome about eta, where eta ~ N(mean, variance)."""
        return self.law.information(mean, variance, self.scale)

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
    # A linear-Gaussian model has normal outcomes by its name.
    law, scale = (core.law, core.scale) if isinstance(core, GeneralisedLinear) else (NORMAL, core.noise_std)
    mean, root, scale = (jnp.asarray(moment, jnp.float32) for moment in (mean, covariance_root(cov, np), scale))
    return PredictorBelief(mean, root, scale, law)
