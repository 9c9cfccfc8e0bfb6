"""Hyper-parameters of a Gaussian process: those under which the observations are likeliest.

    log p(y) = -1/2 r^T (K + S)^-1 r - 1/2 log det(K + S) - n/2 log 2 pi,   r = y - mean

climbed over the logarithms of the lengthscales, the variance and the noise by L-BFGS, in double precision.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

from cobed.compilation import lean_jit
from cobed.errors import ModelError
from cobed.models.kernels import AbstractKernel
from cobed.types import Array, Float

# What is tried, as multiples of the range of a column and of the spread of the outcomes.
LENGTHS, SPREADS, NOISES = (1e-2, 1e2), (1e-2, 1e2), (1e-3, 2.0)
# Of the variance: keeps repeated points apart.
JITTER = 1e-8


def maximise_likelihood(
    kernel: AbstractKernel,
    points: Float[np.ndarray, "O X"],
    residuals: Float[np.ndarray, " O"],
    fixed_noise: Float[np.ndarray, " O"] | None,
    noise_std: float,
    num_starts: int,
    seed: int,
) -> tuple[AbstractKernel, float]:
    """The kernel with the best lengthscales and variance, and the noise; `noise_std` as it is where the noise is fixed."""
    if num_starts < 1:
        raise ModelError(f"num_starts must be at least 1, got {num_starts}.")
    if len(residuals) < 3 or np.ptp(residuals) == 0:
        given = f"{len(residuals)} observation(s)" if len(residuals) < 3 else f"{len(residuals)} equal outcomes"
        raise ModelError(
            f"fit has {given} to learn from; at least 3, not all equal, are needed. Give the lengthscale, variance and "
            "noise that you expect, and fit when there are more rows."
        )
    low, high = _bounds(kernel, points, residuals)
    start = np.log([*np.ravel(np.asarray(kernel.lengthscale)), float(kernel.variance), noise_std])
    if fixed_noise is not None:
        low, high, start = low[:-1], high[:-1], start[:-1]
    rng = np.random.default_rng(seed)
    # Random starts in the middle half of the bounds: the ends are rarely right.
    others = low + (high - low) * rng.uniform(0.25, 0.75, (num_starts - 1, len(low)))
    with jax.enable_x64(True):
        data = (jnp.asarray(points), jnp.asarray(residuals))
        noise = None if fixed_noise is None else jnp.asarray(fixed_noise)

        def evaluate(theta: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope = _loss_and_slope(jnp.asarray(theta), kernel, *data, noise)
            return float(value), np.nan_to_num(np.asarray(slope))

        ends = [
            minimize(
                evaluate,
                np.clip(theta, low, high),
                jac=True,
                method="L-BFGS-B",
                bounds=list(zip(low, high, strict=True)),
            )
            for theta in (start, *others)
        ]
    best = min(ends, key=lambda end: end.fun)
    fitted = np.exp(best.x)
    num_lengths = kernel.lengthscale.size
    lengths = fitted[:num_lengths].reshape(kernel.lengthscale.shape)
    values = (jnp.asarray(lengths, jnp.float32), jnp.asarray(fitted[num_lengths], jnp.float32))
    return _replace(kernel, *values), noise_std if fixed_noise is not None else float(fitted[-1])


def _bounds(kernel: AbstractKernel, points: np.ndarray, residuals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest logarithms of the lengthscales, the variance and the noise."""
    ranges = np.ptp(points, axis=0)
    ranges = np.where(ranges > 0, ranges, 1.0)
    lengths = ranges if kernel.lengthscale.ndim else ranges.max(keepdims=True)
    # Not the standard deviation alone: a mean far from the outcomes is for the process to explain.
    spread = np.sqrt(np.mean(residuals**2))
    sides = [
        np.concatenate([lengths * LENGTHS[side], [(spread * SPREADS[side]) ** 2], [spread * NOISES[side]]])
        for side in (0, 1)
    ]
    return np.log(sides[0]), np.log(sides[1])


def _loss(
    theta: Float[Array, " P"], kernel: AbstractKernel, points: Array, residuals: Array, noise: Array | None
) -> Float[Array, ""]:
    """-log p(y) at the logarithms `theta`; large where the covariance cannot be factorised."""
    values, num_lengths = jnp.exp(theta), kernel.lengthscale.size
    kernel = _replace(kernel, values[:num_lengths].reshape(kernel.lengthscale.shape), values[num_lengths])
    variances = jnp.full(len(residuals), values[-1] ** 2) if noise is None else noise**2
    cov = kernel.matrix(points, points) + jnp.diag(variances + JITTER * kernel.variance)
    factor = jnp.linalg.cholesky(cov)
    white = jax.scipy.linalg.solve_triangular(factor, residuals, lower=True)
    loss = 0.5 * white @ white + jnp.sum(jnp.log(jnp.diagonal(factor))) + 0.5 * len(residuals) * jnp.log(2 * jnp.pi)
    return jnp.where(jnp.isfinite(loss), loss, 1e10)


_loss_and_slope = lean_jit(jax.value_and_grad(_loss))


def _replace(kernel: AbstractKernel, lengthscale: Any, variance: Any) -> AbstractKernel:
    return eqx.tree_at(lambda k: (k.lengthscale, k.variance), kernel, (lengthscale, variance))
