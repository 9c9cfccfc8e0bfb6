"""The Gaussian around the mode of a linear predictor: H = I + S^T W S, for features S (N, P) in units of their deviations.

W (N,) is what each outcome informs of its predictor. With fewer coefficients than rows H itself is factored, a matrix (P, P);
with more, by Woodbury's identity, a matrix (N, N):

    H^-1 = I - U^T U,   U = L^-1 W^1/2 S,   L L^T = I + W^1/2 S S^T W^1/2,   det H = det(L L^T)
"""

import abc
import functools

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from cobed.errors import ModelError


class Curvature(abc.ABC):
    """H at some W, and what follows from it. z is standard normal before the outcomes, and has the covariance H^-1 after them."""

    half_log_det: float

    @abc.abstractmethod
    def solve(self, vector: np.ndarray) -> np.ndarray:
        """H^-1 vector, (P,)."""

    @abc.abstractmethod
    def cov(self, kept: np.ndarray) -> np.ndarray:
        """The entries of H^-1 for some coefficients (P0,), which are positions: (P0, P0)."""

    @abc.abstractmethod
    def leverage(self) -> np.ndarray:
        """The variance of each row's predictor, (N,)."""

    @abc.abstractmethod
    def learned(self) -> np.ndarray:
        """How much of the variance of each coefficient the outcomes took away, (P,)."""

    @abc.abstractmethod
    def learned_between(self, groups: np.ndarray, num_groups: int) -> np.ndarray:
        """The sum of the squares of I - H^-1 over the entries of each two groups of coefficients, (G, G)."""

    @abc.abstractmethod
    def draw(self, normals: np.ndarray) -> np.ndarray:
        """Standard normal rows (M, P) as rows of the covariance H^-1."""


class ByCoefficients(Curvature):
    """From H itself."""

    def __init__(self, scaled: np.ndarray, precision: np.ndarray):
        self.scaled = scaled
        precision[np.diag_indices_from(precision)] += 1
        self.factor = _cholesky(precision)
        self.half_log_det = float(np.log(np.diagonal(self.factor)).sum())

    @functools.cached_property
    def inverse(self) -> np.ndarray:
        return solve_triangular(self.factor, np.eye(len(self.factor)), lower=True, check_finite=False)

    def solve(self, vector):
        return cho_solve((self.factor, True), vector, check_finite=False)

    def cov(self, kept):
        return self.inverse[:, kept].T @ self.inverse[:, kept]

    def leverage(self):
        return ((self.scaled @ self.inverse.T) ** 2).sum(axis=1)

    def learned(self):
        return 1 - (self.inverse**2).sum(axis=0)

    def learned_between(self, groups, num_groups):
        squares = (np.eye(len(self.factor)) - self.inverse.T @ self.inverse) ** 2
        by_group = np.zeros((num_groups, len(groups)))
        np.add.at(by_group, groups, squares)
        between = np.zeros((num_groups, num_groups))
        np.add.at(between, groups, by_group.T)
        return between

    def draw(self, normals):
        return solve_triangular(self.factor, normals.T, lower=True, trans=1, check_finite=False).T


class ByRows(Curvature):
    """By Woodbury's identity: for more coefficients than rows."""

    def __init__(self, scaled: np.ndarray, kernel: np.ndarray, information: np.ndarray):
        """`kernel` (N, N) is S S^T, `information` (N,) is W."""
        self.scaled, self.root = scaled, np.sqrt(information)
        matrix = self.root[:, None] * kernel * self.root
        matrix[np.diag_indices_from(matrix)] += 1
        self.factor = _cholesky(matrix)
        self.half_log_det = float(np.log(np.diagonal(self.factor)).sum())

    @functools.cached_property
    def taken(self) -> np.ndarray:
        """U, (N, P)."""
        return solve_triangular(self.factor, self.root[:, None] * self.scaled, lower=True, check_finite=False)

    def solve(self, vector):
        inner = cho_solve((self.factor, True), self.root * (self.scaled @ vector), check_finite=False)
        return vector - self.scaled.T @ (self.root * inner)

    def cov(self, kept):
        return np.eye(len(kept)) - self.taken[:, kept].T @ self.taken[:, kept]

    def leverage(self):
        return (self.scaled**2).sum(axis=1) - ((self.scaled @ self.taken.T) ** 2).sum(axis=1)

    def learned(self):
        return (self.taken**2).sum(axis=0)

    def learned_between(self, groups, num_groups):
        parts = [self.taken[:, groups == group] for group in range(num_groups)]
        # sum_ij (u_i . u_j)^2 = <U_g U_g^T, U_h U_h^T>
        products = np.array([(part @ part.T).ravel() for part in parts])
        return products @ products.T

    def draw(self, normals):
        # (I - U^T C U)^2 = I - U^T U with C = V diag((1 - sqrt(1 - k)) / k) V^T, where U U^T = V diag(k) V^T.
        values, vectors = np.linalg.eigh(self.taken @ self.taken.T)
        values = np.clip(values, 1e-12, 1.0)
        shrink = (vectors * ((1 - np.sqrt(1 - values)) / values)) @ vectors.T
        return normals - normals @ self.taken.T @ shrink @ self.taken


def _cholesky(matrix: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError as error:
        raise ModelError(
            "The contexts are too large or too small for the engine. Scale the columns of the table."
        ) from error
