"""Rewards linear in psi with a Gaussian prior and Gaussian noise: everything has a closed form."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.errors import ModelError
from cobed.models.base import AbstractGaussianModel
from cobed.spaces import AbstractSpace
from cobed.types import Array, Float


class AbstractLinearGaussian(AbstractGaussianModel):
    """y = phi(c, a) . psi + noise, psi ~ Normal(prior_mean, prior_cov). Where phi comes from is left open."""

    # A method or a field: one context (C,) and one action (A,) to phi (P,).
    features: eqx.AbstractVar[Callable[[Array, Array], Array]]
    prior_mean: Float[Array, " P"]
    prior_cov: Float[Array, "P P"]
    prior_factor: Float[Array, "P P"]
    action_space: AbstractSpace
    context_dim: int = eqx.field(static=True)
    noise_std: float = eqx.field(static=True)

    def __init__(
        self,
        prior_mean: Array | np.ndarray,
        prior_cov: Array | np.ndarray,
        action_space: AbstractSpace,
        context_dim: int,
        noise_std: float,
    ):
        """`prior_cov` has shape (P, P), or (P,) for the variances of independent coefficients."""
        mean = np.atleast_1d(np.asarray(prior_mean, dtype=np.float32))
        cov = np.asarray(prior_cov, dtype=np.float32)
        cov = np.diag(cov) if cov.ndim == 1 else cov
        if cov.shape != (mean.size, mean.size):
            raise ModelError(
                f"prior_cov has shape {cov.shape}; a prior mean of length {mean.size} needs {(mean.size, mean.size)}."
            )
        eigenvalues, vectors = np.linalg.eigh(cov.astype(np.float64))
        if not np.allclose(cov, cov.T, atol=1e-5) or eigenvalues.min() < -1e-5 * max(eigenvalues.max(), 1e-30):
            raise ModelError("prior_cov must be symmetric and positive semi-definite.")
        if not noise_std > 0:
            raise ModelError(
                f"noise_std must be positive, got {noise_std!r}. For nearly exact outcomes give a small number."
            )
        self.prior_mean, self.prior_cov = jnp.asarray(mean), jnp.asarray(cov)
        self.prior_factor = jnp.asarray(vectors * np.sqrt(np.maximum(eigenvalues, 0)), dtype=jnp.float32)
        self.action_space = action_space
        self.context_dim = context_dim
        self.noise_std = float(noise_std)

    def sample_prior(self, key):
        return self.prior_mean + self.prior_factor @ jr.normal(key, self.prior_mean.shape)

    def mean_reward(self, params, context, action):
        return self.features(context, action) @ params

    def log_prior(self, params):
        """log Normal(psi; mean, cov); where the covariance is singular, the density within its range."""
        # prior_factor = V diag(s), so V^T (psi - mean) / s = factor^T (psi - mean) / s^2 is standard normal.
        scales = jnp.linalg.norm(self.prior_factor, axis=0)
        kept = scales > 1e-5 * jnp.max(scales)
        scales = jnp.where(kept, scales, 1.0)
        standard = jnp.where(kept, self.prior_factor.T @ (params - self.prior_mean) / scales**2, 0.0)
        return -0.5 * jnp.sum(standard**2) - jnp.sum(jnp.where(kept, jnp.log(scales * jnp.sqrt(2 * jnp.pi)), 0.0))

    def prior_moments(self):
        return self.prior_mean, self.prior_cov

    def design_matrix(self, contexts: Float[Array, "D C"], actions: Float[Array, "D A"]) -> Float[Array, "D P"]:
        return jax.vmap(self.features)(contexts, actions)


class LinearGaussian(AbstractLinearGaussian):
    """y = phi(c, a) . psi + noise, psi ~ Normal(prior_mean, prior_cov).

    `features(context, action)` maps one context of shape (C,) and one action of shape (A,) to phi of shape (P,). With
    discrete actions let it be linear in the one-hot vector, so that it means something between the actions.
    """

    features: Callable[[Array, Array], Array] = eqx.field(static=True)

    def __init__(
        self,
        features: Callable[[Array, Array], Array],
        prior_mean: Array | np.ndarray,
        prior_cov: Array | np.ndarray,
        action_space: AbstractSpace,
        context_dim: int,
        noise_std: float,
    ):
        """`prior_cov` has shape (P, P), or (P,) for the variances of independent coefficients."""
        super().__init__(prior_mean, prior_cov, action_space, context_dim, noise_std)
        self.features = features


def linear_information(
    model: AbstractLinearGaussian, contexts: np.ndarray, actions: np.ndarray, quantity: np.ndarray | None = None
) -> float:
    """I(T psi; y) in nats for the rows `quantity` = T of shape (Q, P); all of psi where it is None. Float64 on the host.

    T psi and y are jointly Gaussian, so I = 1/2 (log det S - log det S|y), in the directions where S is not zero.
    """
    phi = np.asarray(model.design_matrix(jnp.asarray(contexts), jnp.asarray(actions)), dtype=np.float64)
    prior = np.asarray(model.prior_cov, dtype=np.float64)
    noise = model.noise_std**2 * np.eye(len(phi))
    posterior = prior - prior @ phi.T @ np.linalg.solve(phi @ prior @ phi.T + noise, phi @ prior)
    rows = np.eye(len(prior)) if quantity is None else np.asarray(quantity, dtype=np.float64)
    values, vectors = np.linalg.eigh(rows @ prior @ rows.T)
    basis = vectors[:, values > 1e-10 * values.max()]
    before, after = (basis.T @ rows @ cov @ rows.T @ basis for cov in (prior, posterior))
    return 0.5 * float(np.linalg.slogdet(before)[1] - np.linalg.slogdet(after)[1])
