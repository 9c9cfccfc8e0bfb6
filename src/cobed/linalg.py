"""Linear algebra for the hot loop, by products of matrices alone.

On a CPU, XLA's triangular solves, and with them every gradient of a Cholesky factor, are slow: 31 ms for the gradient of an
inverse factor of 49 rows. By products it takes 0.2 ms (measured; docs/decisions.md), and they suit any device.
"""

import jax
import jax.numpy as jnp
import numpy as np

from cobed.types import Array, Float


def lower_inverse(lower: Float[Array, "N N"]) -> Float[Array, "N N"]:
    """The inverse of a lower triangular matrix, its diagonal blocks merged two by two.

    [[A, 0], [B, C]]^-1 = [[A^-1, 0], [-C^-1 B A^-1, C^-1]]
    """
    size = lower.shape[0]
    padded = 1 << (size - 1).bit_length()
    full = jnp.eye(padded, dtype=lower.dtype).at[:size, :size].set(lower)
    inverses = (1 / jnp.diagonal(full))[:, None, None]
    while (width := inverses.shape[1]) < padded:
        count = padded // (2 * width)
        numbers = np.arange(count)
        blocks = full.reshape(count, 2 * width, count, 2 * width)[numbers, :, numbers, :]
        first, second = inverses[0::2], inverses[1::2]
        corner = -second @ blocks[:, width:, :width] @ first
        top = jnp.concatenate([first, jnp.zeros_like(first)], axis=2)
        inverses = jnp.concatenate([top, jnp.concatenate([corner, second], axis=2)], axis=1)
    return inverses[0, :size, :size]


@jax.custom_jvp
def whitener(matrix: Float[Array, "N N"]) -> Float[Array, "N N"]:
    """W with W matrix W^T = I, lower triangular: the inverse of the Cholesky factor of a positive definite matrix."""
    return lower_inverse(jnp.linalg.cholesky(matrix))


@whitener.defjvp
def _whitener_jvp(primals, tangents):
    (matrix,), (change,) = primals, tangents
    white = whitener(matrix)
    # L = W^-1 moves by L tril(W dM W^T), half of the diagonal, so W moves by - tril(W dM W^T) W.
    inner = white @ change @ white.T
    lower = jnp.tril(inner, -1) + 0.5 * jnp.diag(jnp.diagonal(inner))
    return white, -lower @ white


def lower_root(matrix: Float[Array, "N N"], raised: Float[Array, ""] | float) -> Float[Array, "N N"]:
    """L with L L^T = matrix + raised I, lower triangular; `raised` lifts a singular matrix above its rounding error."""
    positive = matrix + raised * jnp.eye(matrix.shape[0])
    # L = M W^T for W M W^T = I
    return positive @ whitener(positive).T


def log_det(matrix: Float[Array, "N N"]) -> Float[Array, ""]:
    """log det of a positive definite matrix."""
    return -2 * jnp.sum(jnp.log(jnp.diagonal(whitener(matrix))))


def covariance_root(cov, xp):
    """L with L L^T = cov, in the array library `xp`; from the correlations, so that small scales keep their digits."""
    scales = xp.sqrt(xp.diagonal(cov))
    safe = xp.where(scales > 0, scales, 1.0)
    values, vectors = xp.linalg.eigh(cov / safe[:, None] / safe[None, :])
    return scales[:, None] * vectors * xp.sqrt(xp.maximum(values, 0.0))
