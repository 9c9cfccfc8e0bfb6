"""Covariance functions k(x, x') of a Gaussian process, and the random features whose inner products approximate them.

Stationary kernels are Fourier transforms of a density p(w) (Bochner): with frequencies w_1..w_H drawn from it,

    phi(x) = sqrt(variance / H) (cos w_1.x, ..., cos w_H.x, sin w_1.x, ..., sin w_H.x)  has  E[phi(x).phi(x')] = k(x, x').
"""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri
from scipy.stats import chi2, qmc

from cobed.errors import ModelError
from cobed.types import Array, Float

SMOOTHNESS = (0.5, 1.5, 2.5)


class AbstractKernel(eqx.Module):
    """variance * rho(r), r the distance in units of `lengthscale`: one number, or one an entry of x."""

    lengthscale: eqx.AbstractVar[Float[Array, " *dim"]]
    variance: eqx.AbstractVar[Float[Array, ""]]

    @abc.abstractmethod
    def correlation(self, squared: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """rho for squared distances in units of the lengthscale, with a finite slope at zero."""

    @abc.abstractmethod
    def spectrum(self, uniforms: Float[np.ndarray, "H U"]) -> Float[np.ndarray, "H dim"]:
        """Frequencies for lengthscale 1 from points of the unit cube, of one more dimension than x."""

    def __call__(self, x: Float[Array, " dim"], other: Float[Array, " dim"]) -> Float[Array, ""]:
        """k(x, x') of one pair."""
        return self.matrix(x[None], other[None])[0, 0]

    def matrix(self, points: Float[Array, "N dim"], others: Float[Array, "M dim"]) -> Float[Array, "N M"]:
        """k of every pair."""
        first, second = points / self.lengthscale, others / self.lengthscale
        # Differences rather than |x|^2 + |x'|^2 - 2 x.x', which loses the digits of short distances.
        squared = jnp.sum((first.T[:, :, None] - second.T[:, None, :]) ** 2, axis=0)
        return self.variance * self.correlation(squared)

    def frequencies(self, seed: int, num_frequencies: int, dim: int) -> Float[Array, "H dim"]:
        """Frequencies of the spectral density, spread evenly over it by a scrambled Sobol sequence."""
        sobol = qmc.Sobol(dim + 1, scramble=True, rng=np.random.default_rng(seed))
        uniforms = sobol.random_base2(int(np.ceil(np.log2(num_frequencies))))[:num_frequencies]
        # The ends of the unit interval are infinitely far out.
        spread = self.spectrum(np.clip(uniforms, 2.0**-32, 1 - 2.0**-32))
        return jnp.asarray(spread / np.asarray(self.lengthscale, np.float64), jnp.float32)


class RBF(AbstractKernel):
    """rho = exp(-r^2 / 2): infinitely smooth."""

    lengthscale: Float[Array, " *dim"]
    variance: Float[Array, ""]

    def __init__(self, lengthscale: Any = 1.0, variance: Any = 1.0):
        self.lengthscale, self.variance = _positive(lengthscale, variance)

    def correlation(self, squared):
        return jnp.exp(-0.5 * squared)

    def spectrum(self, uniforms):
        return ndtri(uniforms[:, :-1])


class Matern(AbstractKernel):
    """Rougher functions: nu = 1/2 is continuous, 3/2 has one derivative, 5/2 two."""

    lengthscale: Float[Array, " *dim"]
    variance: Float[Array, ""]
    nu: float = eqx.field(static=True)

    def __init__(self, nu: float = 2.5, lengthscale: Any = 1.0, variance: Any = 1.0):
        if nu not in SMOOTHNESS:
            raise ModelError(f"Matern needs nu = 0.5, 1.5 or 2.5, got {nu!r}. For a smoother function use RBF.")
        self.nu = float(nu)
        self.lengthscale, self.variance = _positive(lengthscale, variance)

    def correlation(self, squared):
        # The square root has no slope at zero: both branches stay finite, and so does the gradient.
        apart = squared > 0
        r = jnp.where(apart, jnp.sqrt(2 * self.nu * jnp.where(apart, squared, 1.0)), 0.0)
        if self.nu == 0.5:
            polynomial = 1.0
        elif self.nu == 1.5:
            polynomial = 1.0 + r
        else:
            polynomial = 1.0 + r + r**2 / 3
        return polynomial * jnp.exp(-r)

    def spectrum(self, uniforms):
        # Student-t with 2 nu degrees of freedom: a normal vector over the root of an independent chi^2 / (2 nu).
        scale = chi2.ppf(uniforms[:, -1:], 2 * self.nu) / (2 * self.nu)
        return ndtri(uniforms[:, :-1]) / np.sqrt(scale)


def _positive(lengthscale: Any, variance: Any) -> tuple[Float[Array, " *dim"], Float[Array, ""]]:
    for name, value, most in (("lengthscale", lengthscale, 1), ("variance", variance, 0)):
        array = np.asarray(value, dtype=np.float64)
        if array.ndim > most or array.size == 0 or not (np.isfinite(array) & (array > 0)).all():
            wanted = (
                "a positive number" if most == 0 else "a positive number, or one for each entry of (context, action)"
            )
            raise ModelError(f"The {name} of a kernel is {wanted}, got {value!r}.")
    return jnp.asarray(lengthscale, jnp.float32), jnp.asarray(variance, jnp.float32)
