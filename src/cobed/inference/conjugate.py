"""Exact posterior: mean reward affine in psi, psi Gaussian, Gaussian noise.

    y = f(mu) + Phi (psi - mu) + sigma e,   psi = mu + L z,   z ~ N(0, I),   B = Phi L / sigma = U diag(s) V^T
    z | y ~ N( V diag(s / (1 + s^2)) U^T r, I - V diag(s^2 / (1 + s^2)) V^T ),   r = (y - f(mu)) / sigma

By the singular values of B nothing is inverted and no condition number is squared, so single precision is enough for
thousands of worlds; one posterior is computed in double precision on the host.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.stats import chi2

from cobed.beliefs import Gaussian
from cobed.data import Data
from cobed.errors import ProblemError
from cobed.inference.base import AbstractSampler, Draws, Posterior
from cobed.inference.second_route import check_densities, gaussian_witnesses
from cobed.linalg import covariance_root
from cobed.models.base import AbstractModel
from cobed.models.gaussian import is_affine, outcomes_and_slopes, unraveller
from cobed.types import Array, Float, Key, present

# Data this unlikely under the prior point to a wrong row or a wrong model.
SURPRISE = 1e-6


class Update(NamedTuple):
    """What a design does to the Gaussian, whatever the outcomes: arrays of numpy or of jax."""

    prior_mean: Any  # (P,)
    expected: Any  # (D,): the outcomes expected before the experiment
    gain: Any  # (P, D): posterior mean = prior_mean + gain @ (outcomes - expected)
    factor: Any  # (P, P): posterior covariance = factor @ factor.T
    whitener: Any  # (D, D): whitener @ (outcomes - expected) is standard normal before the experiment


class Conjugate(AbstractSampler):
    """Exact draws, in pairs mirrored at the posterior mean: averages of functions affine in psi have no sampling error."""

    exact = True
    reason = "the posterior is Gaussian and known in closed form."
    num_draws: int = eqx.field(static=True, default=2048)

    def __check_init__(self):
        if self.num_draws < 2 or self.num_draws % 2:
            raise ProblemError(
                f"Conjugate draws come in pairs: num_draws must be even and at least 2, got {self.num_draws}."
            )

    @property
    def name(self) -> str:
        return "conjugate"

    def for_worlds(self, num_draws):
        return Conjugate(2 * -(-num_draws // 2))

    def unfit(self, model, data):
        if model.gaussian_noise() is None or model.prior_moments() is None:
            return f"{type(model).__name__} is not Gaussian in psi and in the noise (AbstractGaussianModel, prior_moments)."
        if not is_affine(model, data.contexts, data.actions):
            return f"the mean reward of {type(model).__name__} is not affine in psi."
        return None

    def draw(self, key, model, data):
        update = design_update(model, data)
        mean = update.prior_mean + update.gain @ (data.outcomes - update.expected)
        return self._draw(key, model, mean, update.factor)

    def posterior(self, key, model, data):
        self.require_fit(model, data)
        linear, noise_std = _linearise_exactly(model, data), present(model.gaussian_noise())
        update = _update(*linear, noise_std, np)
        residuals = np.asarray(data.outcomes, np.float64) - update.expected
        mean = jnp.asarray(update.prior_mean + update.gain @ residuals, jnp.float32)
        draws = self._draw(key, model, mean, jnp.asarray(update.factor, jnp.float32))
        flat = jax.vmap(lambda psi: ravel_pytree(psi)[0])(draws.params)
        of_draws = residuals - (np.asarray(flat, np.float64) - update.prior_mean) @ linear[3].T
        check_densities(self.name, model, data, gaussian_witnesses(draws.params, of_draws, noise_std))
        surprise = update.whitener @ residuals
        diagnostics = {
            "ess": float(self.num_draws),
            "prior_predictive_p": float(chi2.sf(surprise @ surprise, data.num_rows)),
        }
        belief = Gaussian(unraveller(model)(mean), update.factor @ update.factor.T, update.factor)
        return Posterior(
            draws.params, draws.log_weights, self.name, diagnostics, self.judge(diagnostics), belief=belief
        )

    def judge(self, diagnostics):
        p = diagnostics.get("prior_predictive_p", 1.0)
        if p >= SURPRISE:
            return ()
        return (
            f"The prior expected data at least this far off with probability {p:.1g}. The posterior is exact for the "
            "model as written: check the outcomes for errors of unit or sign, and the scale of the prior and the noise.",
        )

    def _draw(
        self, key: Key[Array, ""], model: AbstractModel, mean: Float[Array, " P"], factor: Float[Array, "P P"]
    ) -> Draws:
        half = jr.normal(key, (self.num_draws // 2, mean.size)) @ factor.T
        flat = mean + jnp.concatenate([half, -half])
        return Draws(
            jax.vmap(unraveller(model))(flat), jnp.zeros(self.num_draws), {"ess": jnp.asarray(float(self.num_draws))}
        )


def exact_update(model: AbstractModel, data: Data) -> Update:
    """The update by the design of `data`, in double precision on the host. Its outcomes are not used."""
    return _update(*_linearise_exactly(model, data), present(model.gaussian_noise()), np)


def design_update(model: AbstractModel, data: Data) -> Update:
    """The same in single precision, inside compiled code: for thousands of worlds or designs."""
    return _update(*_linearise(model, data), present(model.gaussian_noise()), jnp)


def posterior_moments(model: AbstractModel, data: Data) -> tuple[np.ndarray, np.ndarray]:
    """Mean (P,) and covariance (P, P) of the flat psi given the data, in double precision."""
    update = exact_update(model, data)
    mean = update.prior_mean + update.gain @ (np.asarray(data.outcomes, np.float64) - update.expected)
    return mean, update.factor @ update.factor.T


def _update(mean: Any, cov: Any, expected: Any, slopes: Any, noise_std: float, xp: Any) -> Update:
    """The formulas at the top of this file, in the array library `xp`."""
    prior_factor = covariance_root(cov, xp)
    left, s, right = xp.linalg.svd(slopes @ prior_factor / noise_std, full_matrices=False)
    # gain = L V diag(s / (1 + s^2)) U^T / sigma
    gain = prior_factor @ (right.T * (s / (1 + s**2))) @ left.T / noise_std
    # (I - V diag(1 - 1/sqrt(1 + s^2)) V^T) is the symmetric root of the covariance of z given y; y itself has
    # covariance sigma^2 (I + U diag(s^2) U^T) before the experiment.
    shrink = 1 - 1 / xp.sqrt(1 + s**2)
    factor = prior_factor @ (xp.eye(len(mean)) - (right.T * shrink) @ right)
    whitener = (xp.eye(len(expected)) - (left * shrink) @ left.T) / noise_std
    return Update(mean, expected, gain, factor, whitener)


def _linearise_exactly(model: Any, data: Data) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """`_linearise`, in double precision on the host."""
    mean, cov, expected, slopes = (np.asarray(array, np.float64) for array in _linearise(model, data))
    return mean, cov, expected, slopes


def _linearise(model: Any, data: Data) -> tuple[Array, Array, Array, Array]:
    """Prior mean (P,) and covariance (P, P); mean outcomes (D,) and their slopes in psi (D, P) at the prior mean."""
    mean, cov = model.prior_moments()
    expected, slopes = outcomes_and_slopes(model, data.contexts, data.actions, mean)
    return mean, cov, expected, slopes
