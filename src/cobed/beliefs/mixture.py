"""Psi is one of several Gaussians: posteriors of linear models whose deviations are not known, one for each setting of these."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.beliefs.base import AbstractBelief
from cobed.types import Array, Float


class Mixture(AbstractBelief):
    """psi ~ sum_j weights_j N(means_j, roots_j roots_j^T)."""

    weights: Float[Array, " J"]
    means: Float[Array, "J P"]
    roots: Float[Array, "J P Q"]

    def sample(self, key):
        component_key, psi_key = jr.split(key)
        chosen = jr.categorical(component_key, jnp.log(self.weights))
        return self.means[chosen] + self.roots[chosen] @ jr.normal(psi_key, self.roots.shape[2:])

    def moments(self, key):
        weights, means = np.asarray(self.weights, np.float64), np.asarray(self.means, np.float64)
        mean = weights @ means
        away = means - mean
        cov = (away.T * weights) @ away
        for weight, root in zip(weights, np.asarray(self.roots), strict=True):
            cov += weight * (root @ root.T)
        return mean, cov

    def matched(self):
        return self.moments(jr.key(0))
