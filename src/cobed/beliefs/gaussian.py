"""Psi is Gaussian: priors of linear models, and their exact posteriors."""

from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.flatten_util import ravel_pytree

from cobed.beliefs.base import AbstractBelief
from cobed.errors import ModelError
from cobed.types import Array, Float, Params

# Directions of psi whose deviation is a smaller share of the largest are taken for known exactly.
KNOWN_EXACTLY = 1e-5


class Gaussian(AbstractBelief):
    """psi ~ N(mean, cov). `mean` is a psi, so that draws have its structure."""

    mean: Params
    cov: Float[Array, "P P"]
    root: Float[Array, "P P"]  # root @ root.T = cov
    whitener: Float[Array, "P P"]  # whitener @ (psi - mean) is standard normal, and zero in directions without variance
    log_volume: Float[Array, ""]  # log-density of psi at the mean, with the sign changed

    def __init__(self, mean: Params, cov: Any, root: Any = None):
        """`cov` (P, P), or the variances (P,) of independent numbers; `root` (P, P) where one is known."""
        # A model may be made while a function that uses it is traced: its numbers are known all the same.
        with jax.ensure_compile_time_eval():
            flat, unravel = ravel_pytree(mean)
        cov = np.asarray(cov, np.float32)
        cov = np.diag(cov) if cov.ndim == 1 else cov
        if cov.shape != (flat.size, flat.size):
            raise ModelError(
                f"The covariance has shape {cov.shape}; a mean of length {flat.size} needs {(flat.size, flat.size)}."
            )
        if not (np.isfinite(flat).all() and np.isfinite(cov).all()):
            raise ModelError("The mean and the covariance of a Gaussian belief must be finite numbers.")
        root = _root(cov) if root is None else np.asarray(root, np.float64)
        whitener, log_volume = _inverse(root)
        self.mean = unravel(flat.astype(jnp.float32))
        self.cov, self.root, self.whitener, self.log_volume = (
            jnp.asarray(array, jnp.float32) for array in (cov, root, whitener, log_volume)
        )

    def sample(self, key):
        flat, unravel = ravel_pytree(self.mean)
        return unravel(flat + self.root @ jr.normal(key, flat.shape))

    def log_density(self, params):
        """Where the covariance is singular, the density within its range."""
        standard = self.whitener @ (ravel_pytree(params)[0] - ravel_pytree(self.mean)[0])
        return -0.5 * jnp.sum(standard**2) - self.log_volume

    def gaussian(self):
        return ravel_pytree(self.mean)[0], self.cov

    def gaussian_root(self):
        return self.root

    def moments(self, key):
        mean, cov = (np.asarray(moment, np.float64) for moment in self.gaussian())
        return mean, cov


def _root(cov: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(cov.astype(np.float64))
    if not np.allclose(cov, cov.T, atol=1e-5) or values.min() < -1e-5 * max(values.max(), 1e-30):
        raise ModelError("The covariance must be symmetric and positive semi-definite.")
    return vectors * np.sqrt(np.maximum(values, 0))


def _inverse(root: np.ndarray) -> tuple[np.ndarray, float]:
    """The whitener, and the log-volume, of a root."""
    scales = np.linalg.norm(root, axis=1)
    scales = scales if scales.min() > 0 else np.ones(len(root))
    # In units of each number where all vary, so that numbers of any size keep their digits.
    left, sizes, right = np.linalg.svd(root / scales[:, None])
    kept = sizes > KNOWN_EXACTLY * sizes.max()
    if not kept.all():
        scales = np.ones(len(root))
        left, sizes, right = np.linalg.svd(root)
        kept = sizes > KNOWN_EXACTLY * sizes.max()
    inverse = np.where(kept, 1 / np.where(kept, sizes, 1.0), 0.0)
    log_volume = np.log(sizes[kept]).sum() + np.log(scales).sum() + 0.5 * kept.sum() * np.log(2 * np.pi)
    return right.T @ (inverse[:, None] * left.T) / scales, float(log_volume)
