"""What a Gaussian process has observed: read from the user, and solved once in double precision on the host."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from cobed.compilation import lean_jit
from cobed.errors import ModelError, ProblemError
from cobed.models.kernels import AbstractKernel
from cobed.tables import read_numbers
from cobed.types import Array, Float

# Solving n equations takes n^3 operations and n^2 numbers: 10 seconds and 100 MB at this many.
MAX_OBSERVATIONS = 5000
# Of the kernel's variance: what double precision adds to the diagonal at first, and what single precision needs on it.
FIRST_JITTER, LAST_JITTER, SINGLE_PRECISION = 1e-10, 1e-2, 1e-6


def read_rows(
    contexts: Any, actions: Any, outcomes: Any, context_dim: int, action_dim: int
) -> tuple[np.ndarray, np.ndarray]:
    """Points (O, X) and outcomes (O,) in double precision; `ModelError` says what is wrong with others."""
    try:
        tables = [read_numbers(contexts, "contexts", 2), read_numbers(actions, "actions", 2)]
        values = read_numbers(outcomes, "outcomes", 1)
    except ProblemError as error:
        raise ModelError(f"The observations of the process: {error}") from error
    for name, table, width in zip(("context", "action"), tables, (context_dim, action_dim), strict=True):
        if table.shape[1] != width:
            raise ModelError(
                f"The observations have {table.shape[1]} {name} column(s) and the process {width}. "
                "Give the columns in its order; named actions one-hot, as action_space.parse writes them."
            )
        if len(table) != len(values):
            raise ModelError(
                f"The observations have {len(table)} {name}s and {len(values)} outcomes; one of each is expected in a row."
            )
    if len(values) > MAX_OBSERVATIONS:
        raise ModelError(
            f"{len(values):,} observations; an exact Gaussian process takes at most {MAX_OBSERVATIONS:,}. Keep a random "
            "part of the rows, average repeated ones, or use LinearGaussian with features of your own."
        )
    return np.concatenate(tables, axis=1), values


def read_noise(noise: Any, num_rows: int) -> np.ndarray:
    values = np.asarray(noise, dtype=np.float64)
    if values.shape not in ((), (num_rows,)) or not (np.isfinite(values) & (values >= 0)).all():
        raise ModelError(
            f"noise is one standard deviation for all rows or one for each of {num_rows}, none negative; got {noise!r}."
        )
    return np.broadcast_to(values, (num_rows,))


@lean_jit
def _covariance(kernel: AbstractKernel, points: Float[Array, "O X"]) -> Float[Array, "O O"]:
    return kernel.matrix(points, points)


def whiten(kernel: AbstractKernel, points: np.ndarray, noise: np.ndarray) -> Float[np.ndarray, "O O"]:
    """L^-1 with L L^T = K + S in double precision.

    Repeated points without noise have no inverse: the diagonal is raised tenfold until single precision can use the factor.
    """
    if not len(points):
        return np.zeros((0, 0))
    with jax.enable_x64(True):
        cov = np.array(_covariance(kernel, jnp.asarray(points, jnp.float64)))
    variance, diagonal = float(kernel.variance), np.arange(len(points))
    jitter = FIRST_JITTER
    cov[diagonal, diagonal] += noise**2
    while jitter <= LAST_JITTER:
        cov[diagonal, diagonal] += 0.9 * jitter * variance  # the steps before have added the tenth
        try:
            factor = scipy.linalg.cholesky(cov, lower=True)
        except (np.linalg.LinAlgError, ValueError):
            factor = np.zeros_like(cov)
        if factor.diagonal().min() ** 2 > 0.5 * SINGLE_PRECISION * variance:
            # The inverse of a triangle; a general solve would take three times as long.
            return np.tril(scipy.linalg.lapack.dtrtri(factor, lower=1)[0])  # pyright: ignore[reportAttributeAccessIssue]
        jitter *= 10
    raise ModelError(
        f"The covariance of the {len(points)} observations has no inverse, even with {LAST_JITTER:g} of the variance added to "
        "its diagonal. Check the kernel: a lengthscale or variance that is not finite, or very far from the data's scale."
    )
