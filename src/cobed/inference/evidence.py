"""How well a setting of the deviations explains outcomes, and what is known of the coefficients of a linear predictor under it.

Coefficients are mean + D(u) z with z standard normal and log D = medians + directions @ u (`beliefs/scaled.py`). For given u the
posterior of z is a Gaussian around its mode, exact for normal outcomes:

    H = I + D Phi^T W Phi D,   log p(y | u) = log p(y | z) - |z|^2 / 2 - log det H / 2

Fisher scoring climbs log p(y | u) + log p(u): with S = H^-1, the slope in log D_g is sum_g (z^2 + S_ii) - P_g, and the expected
curvature between two groups is 2 sum_gh (I - S)_ij^2. Settings drawn around the top are weighed by their density. In double
precision on the host: few and small matrices, nothing to compile but the law. `inference/curvature.py` has H.
"""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm, qmc

from cobed.beliefs import Scaled
from cobed.errors import ModelError
from cobed.inference.curvature import ByCoefficients, ByRows, Curvature
from cobed.outcomes import AbstractLaw

MAX_STEPS, MAX_NEWTON = 20, 40
# Fisher scoring ends where a step promises less, in nats.
ENOUGH = 0.02
# Rows that are enough to find the deviations by, and how many rows are gone through for all settings together.
MANY_ROWS, ROWS_AND_SETTINGS = 3_000, 50_000
# Nodes of the quadrature over a predictor when a row is predicted without its outcome.
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(12)


@dataclasses.dataclass(frozen=True)
class Component:
    """What is known of psi for one setting of the deviations: psi = mean + deviations * z of the family's coefficients, its
    log-weight, and the log-density of each outcome given all others (N,)."""

    mean: np.ndarray
    deviations: np.ndarray
    coefficients: np.ndarray
    curvature: Curvature
    log_weight: float
    left_out: np.ndarray

    def draw(self, normals: np.ndarray) -> np.ndarray:
        """Draws of psi (M, P) less their mean, from standard normal numbers (M, P)."""
        away = np.zeros_like(normals)
        away[:, self.coefficients] = self.curvature.draw(normals[:, self.coefficients]) * self.deviations
        return away

    def cov(self, kept: np.ndarray) -> np.ndarray:
        """The covariance of the entries of psi at these positions, (P0, P0)."""
        own, shared = np.flatnonzero(np.isin(self.coefficients, kept)), np.flatnonzero(np.isin(kept, self.coefficients))
        cov = np.zeros((len(kept), len(kept)))
        deviations = self.deviations[own]
        cov[np.ix_(shared, shared)] = deviations[:, None] * self.curvature.cov(own) * deviations
        return cov


@dataclasses.dataclass
class Fit:
    """One data set under one family: the rows of features (N, P), and which coefficients the family has, (P,)."""

    law: AbstractLaw
    belief: Scaled
    phi: np.ndarray
    outcomes: np.ndarray
    kept: np.ndarray

    def __post_init__(self):
        coefficients = np.flatnonzero(self.kept[:-1])
        used, self.groups = np.unique(np.array(self.belief.groups)[coefficients], return_inverse=True)
        moving = np.abs(self.belief.directions[used]).sum(axis=0) > 0
        self.log_medians = np.asarray(self.belief.log_medians, np.float64)[used]
        self.directions = np.asarray(self.belief.directions, np.float64)[used][:, moving]
        self.coefficients, self.rows = coefficients, self.phi[:, coefficients]
        self.mean = np.asarray(self.belief.mean, np.float64)
        self.offset = self.rows @ self.mean[coefficients]
        self.scale_deviation = self.belief.scale_deviation if self.law.has_scale else 0.0
        self.num_unknown = self.directions.shape[1] + (self.scale_deviation > 0)
        self.start = np.zeros(len(coefficients))
        self.by_rows = len(self.outcomes) < len(coefficients)
        # Normal outcomes inform alike, so that products of the rows are taken once.
        self.gram = self.rows.T @ self.rows if self.law.gaussian and not self.by_rows else None

    def components(self, num_settings: int, seed: int) -> list[Component]:
        """Settings around the top of their posterior density, and what is known of psi under each.

        Many rows determine the deviations well: the top is searched for with some of them, and fewer settings are enough.
        """
        num_rows = len(self.outcomes)
        some = (
            self if num_rows <= MANY_ROWS else self.part(np.random.default_rng(seed).permutation(num_rows)[:MANY_ROWS])
        )
        # A power of two, as Sobol's points are balanced.
        num_settings = 2 ** int(np.log2(np.clip(ROWS_AND_SETTINGS // num_rows, 1, num_settings)))
        top, curvature = some.climb()
        root = np.linalg.cholesky(np.linalg.inv(curvature))
        uniform = qmc.Sobol(self.num_unknown, rng=seed).random(num_settings)
        # One setting is the top itself.
        points = norm.ppf(np.clip(uniform, 1e-6, 1 - 1e-6)) if num_settings > 1 else np.zeros_like(uniform)
        return [self.component(top + root @ point, point) for point in points]

    def part(self, places: np.ndarray) -> "Fit":
        """The same for some of the rows."""
        return dataclasses.replace(self, phi=self.phi[places], outcomes=self.outcomes[places])

    def climb(self) -> tuple[np.ndarray, np.ndarray]:
        """The setting of the largest posterior density, and the expected curvature there."""
        u = np.zeros(self.num_unknown)
        value, slope, curvature = self.slopes(u)
        for _ in range(MAX_STEPS):
            step = np.linalg.solve(curvature, slope)
            if slope @ step < ENOUGH:
                break
            step *= min(1.0, 2 / np.abs(step).max())
            for length in (1.0, 0.3, 0.1):
                new = self.slopes(u + length * step)
                if new[0] > value:
                    break
            else:
                break
            u, (value, slope, curvature) = u + length * step, new
        return u, curvature

    def slopes(self, u: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """log p(y, u), its slope in u, and its expected curvature."""
        deviations, log_scale = self.setting(u)
        top = self.mode(deviations, log_scale)
        self.start = deviations * top.z
        num_groups = len(self.log_medians)
        slope = self.directions.T @ np.bincount(self.groups, top.z**2 - top.curvature.learned(), num_groups)
        between = top.curvature.learned_between(self.groups, num_groups)
        curvature = self.directions.T @ (2 * between) @ self.directions
        if self.scale_deviation > 0:
            scores = self.scale_deviation * top.law.scale_slope
            leverage = top.curvature.leverage()
            slope_in_scale = scores.sum() - 0.5 * self.scale_deviation * leverage @ top.law.information_slope
            slope = np.append(slope, slope_in_scale)
            curvature = np.block(
                [[curvature, np.zeros((len(curvature), 1))], [np.zeros((1, len(curvature))), scores @ scores]]
            )
        return float(top.value - 0.5 * u @ u), slope - u, curvature + np.eye(len(u))

    def setting(self, u: np.ndarray) -> tuple[np.ndarray, float]:
        """The deviation of each coefficient, and the logarithm of the law's scale."""
        free = self.directions.shape[1]
        # Far from anything that outcomes could ask for, and within what squares can hold.
        logs = np.clip(self.directions @ u[:free], -8, 8)
        own = self.scale_deviation * u[-1] if self.scale_deviation > 0 else 0.0
        return np.exp(self.log_medians + logs)[self.groups], self.mean[-1] + own

    def mode(self, deviations: np.ndarray, log_scale: float) -> "Mode":
        """Newton's method with the expected information in the place of the curvature, which is never negative."""
        scaled = self.rows * deviations
        kernel = scaled @ scaled.T if self.by_rows else None
        z = self.start / deviations
        law = self.law_at(z, scaled, log_scale)
        value = law.density.sum() - 0.5 * z @ z
        curvature = self.curvature(scaled, deviations, kernel, law)
        for _ in range(MAX_NEWTON):
            step = curvature.solve(scaled.T @ law.slope - z)
            for length in 0.5 ** np.arange(12):
                new = self.law_at(z + length * step, scaled, log_scale)
                new_value = new.density.sum() - 0.5 * np.sum((z + length * step) ** 2)
                if new_value >= value - 1e-6 * abs(value):
                    break
            else:
                break
            z, gain, value = z + length * step, new_value - value, new_value
            # Normal outcomes inform alike whatever the predictor: their first step is the last.
            same, law = np.array_equal(new.information, law.information), new
            curvature = curvature if same else self.curvature(scaled, deviations, kernel, law)
            if same or (gain < 1e-6 * (1 + abs(value)) and length == 1):
                break
        if not np.isfinite(value):
            raise ModelError("The outcomes have no positive density under any coefficients. Check their column.")
        return Mode(z, scaled, curvature, law, float(value - curvature.half_log_det))

    def curvature(
        self, scaled: np.ndarray, deviations: np.ndarray, kernel: np.ndarray | None, law: "LawAt"
    ) -> Curvature:
        if kernel is not None:
            return ByRows(scaled, kernel, law.information)
        if self.gram is not None:
            return ByCoefficients(scaled, law.information[0] * deviations[:, None] * self.gram * deviations)
        return ByCoefficients(scaled, (scaled * law.information[:, None]).T @ scaled)

    def law_at(self, z: np.ndarray, scaled: np.ndarray, log_scale: float) -> "LawAt":
        outcomes, eta = (jnp.asarray(array, jnp.float32) for array in (self.outcomes, self.offset + scaled @ z))
        parts = _law_at(self.law, outcomes, eta, log_scale)
        density, slope, information, *scale = (np.asarray(part, np.float64) for part in parts)
        return LawAt(density, slope, np.maximum(information, 0.0), *scale)

    def component(self, u: np.ndarray, point: np.ndarray) -> Component:
        deviations, log_scale = self.setting(u)
        top = self.mode(deviations, log_scale)
        mean = self.mean.copy()
        mean[self.coefficients] += deviations * top.z
        mean[-1] = log_scale
        log_weight = float(top.value - 0.5 * u @ u + 0.5 * point @ point)
        left_out = self.without_row(top, top.curvature.leverage(), log_scale)
        return Component(mean, deviations, self.coefficients, top.curvature, log_weight, left_out)

    def without_row(self, top: "Mode", leverage: np.ndarray, log_scale: float) -> np.ndarray:
        """log p(y_i | all others) under one setting: the predictor without the row's own pull, averaged over what is left open."""
        remaining = np.maximum(1 - leverage * top.law.information, 1e-3)
        eta = self.offset + top.scaled @ top.z - leverage * top.law.slope / remaining
        deviation = np.sqrt(leverage / remaining)
        nodes = eta[:, None] + deviation[:, None] * NODES
        outcomes = np.broadcast_to(self.outcomes[:, None], nodes.shape)
        logs = log_densities(self.law, jnp.asarray(outcomes, jnp.float32), jnp.asarray(nodes, jnp.float32), log_scale)
        weights = np.log(NODE_WEIGHTS / NODE_WEIGHTS.sum())
        return np.logaddexp.reduce(np.asarray(logs, np.float64) + weights, axis=1)


class LawAt(NamedTuple):
    """Of each outcome at its predictor: log-density, its slope, the information, and slopes in the log-scale of both."""

    density: np.ndarray
    slope: np.ndarray
    information: np.ndarray
    scale_slope: np.ndarray
    information_slope: np.ndarray


class Mode(NamedTuple):
    """The mode z, features times deviations, H there, the law there, and log p(y | u)."""

    z: np.ndarray
    scaled: np.ndarray
    curvature: Curvature
    law: LawAt
    value: float


@eqx.filter_jit
def _law_at(law: AbstractLaw, outcomes: jax.Array, eta: jax.Array, log_scale: Any) -> tuple[jax.Array, ...]:
    def density(eta, log_scale):
        return law.log_density(outcomes, eta, jnp.exp(log_scale))

    def information(log_scale):
        return law.information(eta, jnp.zeros_like(eta), jnp.exp(log_scale))

    log_scale = jnp.asarray(log_scale, jnp.float32)
    slope = jax.grad(lambda eta: jnp.sum(density(eta, log_scale)))(eta)
    one = jnp.ones(())
    values, scale_slope = jax.jvp(lambda s: density(eta, s), (log_scale,), (one,))
    info, information_slope = jax.jvp(information, (log_scale,), (one,))
    return values, slope, info, scale_slope, information_slope


@eqx.filter_jit
def log_densities(law: AbstractLaw, outcomes: jax.Array, eta: jax.Array, log_scale: Any) -> jax.Array:
    return law.log_density(outcomes, eta, jnp.exp(jnp.asarray(log_scale, jnp.float32)))
