"""Psi is one of several Gaussians: posteriors of linear models whose deviations are not known, one for each setting of these."""

import equinox as eqx
import jax.random as jr
import numpy as np

from cobed.beliefs.base import AbstractBelief, Moments, moments_of
from cobed.types import Array, Float


class Mixture(AbstractBelief):
    """`draws` of psi, of equal weight. The mean, and the covariance `cov` of the entries at `known`, are exact."""

    draws: Float[Array, "N P"]
    mean: Float[np.ndarray, " P"]
    known: tuple[int, ...] = eqx.field(static=True)
    cov: Float[np.ndarray, "Q Q"]

    def sample(self, key):
        return self.draws[jr.randint(key, (), 0, len(self.draws))]

    def moments(self, key):
        _, cov = moments_of(np.asarray(self.draws, np.float64))
        cov[np.ix_(self.known, self.known)] = self.cov
        return self.mean, cov

    def matched(self) -> Moments:
        return self.moments(jr.key(0))
