"""Transductive information: units chosen one after another, each for what it adds to I(f at the targets; y).

    gain of (c, a) = 1/2 log( Var[y | y before] / Var[y | y before, f at targets x action grid] )

A greedy choice that has no regard for which actions are good. In double precision on the host.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import solve_triangular

from cobed.compilation import lean_jit
from cobed.designers.baselines import AbstractBaseline
from cobed.designers.local_penalisation import require_moments
from cobed.errors import ProblemError
from cobed.types import Array, Float

# Targets times actions: the covariance of their rewards is factorised.
MAX_POINTS = 8_000
# Of the largest variance, on the diagonal at first: neighbours on a fine grid are nearly one point.
FIRST_JITTER, LAST_JITTER = 1e-8, 1e-2

Covariance = Callable[[np.ndarray, np.ndarray], np.ndarray]


class TransductiveInformation(AbstractBaseline):
    """ITL: the greedy design for information about the rewards of all actions at the targets.

    `num_points` on the grid over continuous actions; None: 128 on a line, more in more dimensions.
    """

    num_points: int | None = eqx.field(static=True, default=None)

    @property
    def name(self):
        return "ITL"

    def actions(self, key, problem):
        model = require_moments(problem, self.name)
        candidates = model.action_space.grid(self.num_points)
        wanted = _pairs(np.asarray(problem.targets), candidates)
        if len(wanted) > MAX_POINTS:
            raise ProblemError(
                f"ITL looks at {problem.num_targets} targets x {len(candidates)} actions = {len(wanted):,} rewards, more than "
                f"{MAX_POINTS:,}. Give fewer targets, or TransductiveInformation(num_points=...) for a coarser grid."
            )
        covariance = _in_double_precision(model)
        chosen = np.zeros((problem.num_contexts, wanted.shape[1]))
        alone = _Known(covariance, np.zeros((0, wanted.shape[1])), chosen, model.noise_std)
        given_targets = _Known(covariance, wanted, chosen, model.noise_std)
        for unit, context in enumerate(np.asarray(problem.contexts)):
            points = _pairs(context[None], candidates)
            (before, *rest), (after, *more) = alone.variances(points, unit), given_targets.variances(points, unit)
            best = int(np.argmax(np.log(before / after)))
            chosen[unit] = points[best]
            alone.add(unit, before[best], *(columns[:, best] for columns in rest))
            given_targets.add(unit, after[best], *(columns[:, best] for columns in more))
        return jnp.asarray(chosen[:, problem.contexts.shape[1] :], jnp.float32)


class _Known:
    """Variances of outcomes, given the rewards at some points and the outcomes of the units before: a growing factor."""

    def __init__(self, covariance: Covariance, points: np.ndarray, chosen: np.ndarray, noise_std: float):
        self.covariance, self.points, self.chosen, self.noise = covariance, points, chosen, noise_std**2
        self.root = _root(covariance(points, points))
        self.columns = np.zeros((len(points), len(chosen)))
        self.factor = np.zeros((len(chosen), len(chosen)))

    def variances(self, points: np.ndarray, unit: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Variance of the outcome at each point, and the columns by which it would enter the factor."""
        # All units in one call, also those to come: the shapes stay the same, and nothing is compiled twice.
        others = np.concatenate([self.points, self.chosen, points])
        cov = self.covariance(others, points)
        num_known, num_units = self.columns.shape
        # L^-1 k(known, x), and for the units so far the same of what is left
        known = solve_triangular(self.root, cov[:num_known], lower=True)
        left = cov[num_known : num_known + unit] - self.columns[:, :unit].T @ known
        before = solve_triangular(self.factor[:unit, :unit], left, lower=True)
        variances = np.diagonal(cov[num_known + num_units :]) - np.sum(known**2, axis=0) - np.sum(before**2, axis=0)
        return np.maximum(variances, 0.0) + self.noise, known, before

    def add(self, unit: int, variance: float, known: np.ndarray, before: np.ndarray) -> None:
        self.columns[:, unit] = known
        self.factor[unit, :unit], self.factor[unit, unit] = before, np.sqrt(variance)


def _pairs(contexts: np.ndarray, actions: np.ndarray) -> Float[np.ndarray, "CJ X"]:
    """Every context with every action, laid end to end."""
    left, right = np.repeat(contexts, len(actions), axis=0), np.tile(actions, (len(contexts), 1))
    return np.concatenate([left, right], axis=1).astype(np.float64)


@lean_jit
def _covariance(model: Any, points: Float[Array, "N X"], others: Float[Array, "M X"]) -> Float[Array, "N M"]:
    return model.covariance(points, others)


def _in_double_precision(model) -> Covariance:
    def covariance(points: np.ndarray, others: np.ndarray) -> np.ndarray:
        with jax.enable_x64(True):
            return np.asarray(_covariance(model, jnp.asarray(points), jnp.asarray(others)))

    return covariance


def _root(cov: np.ndarray) -> np.ndarray:
    """Lower triangular root, with as little on the diagonal as lets it exist."""
    jitter = FIRST_JITTER
    while cov.size and jitter <= LAST_JITTER:
        try:
            return np.linalg.cholesky(cov + jitter * np.diagonal(cov).max() * np.eye(len(cov)))
        except np.linalg.LinAlgError:
            jitter *= 10
    if cov.size:
        raise ProblemError(
            "The covariance of the rewards at the targets cannot be factorised. Check that the model's `covariance` is "
            "symmetric, finite and positive semi-definite."
        )
    return cov
