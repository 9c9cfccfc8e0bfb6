"""Psi is Gaussian around a mean with deviations that are not known: what is believed of a table before its outcomes."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.beliefs.base import AbstractBelief
from cobed.types import Array, Bool, Float


class Scaled(AbstractBelief):
    """psi = mean + deviation * normal; log deviations = `log_medians` + `directions` @ u in each group, u standard normal.

    The last entry of psi is the logarithm of a law's scale, with the deviation `scale_deviation` of its own.
    """

    mean: Float[Array, " P"]
    groups: tuple[int, ...] = eqx.field(static=True)  # of all entries but the last
    log_medians: Float[np.ndarray, " G"]
    directions: Float[np.ndarray, "G U"]
    scale_deviation: float = eqx.field(static=True)
    families: dict[str, Bool[np.ndarray, " P"]]  # by name, which entries of psi a family of models has
    designed_for: Bool[np.ndarray, " P"]  # entries whose covariance is wanted exactly after data, for designs

    def __init__(
        self,
        mean: Float[np.ndarray, " P"],
        groups: Sequence[int],
        log_medians: Float[np.ndarray, " G"],
        directions: Float[np.ndarray, "G U"],
        scale_deviation: float,
        families: dict[str, Bool[np.ndarray, " P"]] | None = None,
        designed_for: Bool[np.ndarray, " P"] | None = None,
    ):
        self.mean, self.groups = jnp.asarray(mean, jnp.float32), tuple(groups)
        self.log_medians, self.directions = np.asarray(log_medians), np.asarray(directions)
        self.scale_deviation = float(scale_deviation)
        everything = np.ones(len(mean), bool)
        self.families = families or {"all": everything}
        self.designed_for = everything if designed_for is None else designed_for

    def sample(self, key):
        scales_key, psi_key = jr.split(key)
        logs = self.log_medians + self.directions @ jr.normal(scales_key, (self.directions.shape[1],))
        deviations = jnp.append(jnp.exp(logs)[np.array(self.groups)], self.scale_deviation)
        return self.mean + deviations * jr.normal(psi_key, self.mean.shape)

    def moments(self, key):
        """Exact: E exp(2 N(m, s^2)) = exp(2 m + 2 s^2)."""
        variances = np.exp(2 * self.log_medians + 2 * (self.directions**2).sum(axis=1))[list(self.groups)]
        return np.asarray(self.mean, np.float64), np.diag(np.append(variances, self.scale_deviation**2))

    def scaled(self):
        return self

    def matched(self):
        """At the medians: the moments are those of few worlds with very large effects."""
        deviations = np.append(np.exp(self.log_medians)[list(self.groups)], 0.0)
        return np.asarray(self.mean, np.float64), np.diag(deviations**2)
