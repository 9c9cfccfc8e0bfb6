"""The entropy of m*, which no design changes, and second moments in the place of densities."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.special import digamma

from cobed.linalg import log_det
from cobed.types import Array, Float

# An estimate is trusted where it changes by less than this, in nats, between an eighth of the draws and all of them.
STABLE = 0.1
NEIGHBOUR_ROWS = 1024
MIN_POINTS = 512


class Negentropy(NamedTuple):
    """How far the entropy of a vector is below that of a Gaussian with its covariance, in nats, for its first entries."""

    value: float
    standard_error: float
    num_entries: int


def negentropy(values: Float[np.ndarray, "N R"], seed: int = 0) -> Negentropy:
    """By distances to the nearest neighbour, beside those of a Gaussian sample of the same size and covariance.

    The comparison takes away what such distances get wrong in many dimensions. Where entries are (nearly) a function of
    the others there is no density: the estimate then falls with the number of draws, and trailing entries are left out
    until it does not, perhaps all of them.
    """
    # A prior made of draws repeats them; single values repeat themselves and leave too few.
    values = np.unique(np.asarray(values, np.float64), axis=0)
    if len(values) < MIN_POINTS:
        return Negentropy(0.0, 0.0, 0)
    values = np.random.default_rng(seed + 1).permutation(values)
    normal = np.random.default_rng(seed).standard_normal(values.shape)
    for num_entries in range(values.shape[1], 0, -1):
        white, like = _whiten(values[:, :num_entries]), _whiten(normal[:, :num_entries])
        if white is None or like is None:
            continue
        gaps = [_log_distances(like[:n]) - _log_distances(white[:n]) for n in (len(values) // 8, len(values))]
        few, many = (num_entries * gap.mean() for gap in gaps)
        error = num_entries * float(np.std(gaps[1], ddof=1) / np.sqrt(len(values)))
        if abs(many - few) < max(STABLE, 4 * np.sqrt(8) * error):
            return Negentropy(float(many), error, num_entries)
    return Negentropy(0.0, 0.0, 0)


def _whiten(values: np.ndarray) -> np.ndarray | None:
    """The same entries with covariance I; None where it is singular."""
    centred = values - values.mean(axis=0)
    sizes, vectors = np.linalg.eigh(np.atleast_2d(np.cov(centred, rowvar=False)))
    if sizes[0] <= 1e-10 * sizes[-1]:
        return None
    return centred @ (vectors / np.sqrt(sizes))


def _log_distances(points: np.ndarray) -> np.ndarray:
    """log distance of each point (N, R) to its nearest neighbour, in double precision."""
    squares = np.sum(points**2, axis=1)
    nearest = np.empty(len(points))
    for first in range(0, len(points), NEIGHBOUR_ROWS):
        rows = slice(first, first + NEIGHBOUR_ROWS)
        distances = squares[rows, None] + squares[None, :] - 2 * points[rows] @ points.T
        within = np.arange(len(distances))
        distances[within, first + within] = np.inf
        nearest[rows] = distances.min(axis=1)
    return 0.5 * np.log(np.maximum(nearest, 1e-20))


def gaussian_information(
    first: Float[Array, "B D"], second: Float[Array, "B R"], shrinkage: float = 0.0
) -> Float[Array, ""]:
    """I between two jointly Gaussian vectors from a sample of pairs, in nats; its mean is exact without shrinkage.

    -1/2 log det(I - R^T R) of the cross-correlations R. Off-diagonal moments are multiplied by 1 - shrinkage.
    """
    batch, dims = first.shape[0], (first.shape[1], second.shape[1])
    joint = jnp.concatenate([first, second], axis=1)
    joint = (joint - joint.mean(axis=0)) / (joint.std(axis=0) + 1e-12)
    moments = joint.T @ joint / batch
    # The ridge keeps the factorisation alive where entries are constant or copies of each other.
    moments = (1 - shrinkage) * moments + (shrinkage + 1e-6) * jnp.eye(sum(dims))
    parts = (moments[: dims[0], : dims[0]], moments[dims[0] :, dims[0] :], moments)
    first_part, second_part, whole = (log_det(part) for part in parts)
    return 0.5 * (first_part + second_part - whole) - (0.0 if shrinkage else _excess(batch, *dims))


def _excess(batch: int, *dims: int) -> float:
    """What the information of a Gaussian sample of this size exceeds the true one by, on average."""

    def expected(size: int) -> float:
        # E log det of a Wishart matrix with batch - 1 degrees of freedom, beyond the log det of its scale.
        return float(np.sum(digamma((batch - 1 - np.arange(size)) / 2) + np.log(2 / (batch - 1))))

    return 0.5 * (expected(dims[0]) + expected(dims[1]) - expected(sum(dims)))
