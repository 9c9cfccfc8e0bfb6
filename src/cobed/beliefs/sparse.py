"""Psi is sparse: its entries are independent, and each is either exactly zero or half-normal."""

import jax.numpy as jnp
import jax.random as jr

from cobed.beliefs.base import AbstractBelief
from cobed.types import Array, Float


class Sparse(AbstractBelief):
    """Entries are zero with probability 1 - `inclusion`, otherwise |N(0, scale^2)|. Both have the shape of psi."""

    inclusion: Float[Array, "..."]
    scale: Float[Array, "..."]

    def sample(self, key):
        graph_key, strength_key = jr.split(key)
        strengths = self.scale * jnp.abs(jr.normal(strength_key, self.scale.shape))
        return jnp.where(jr.bernoulli(graph_key, self.inclusion), strengths, 0.0)

    def sparse(self):
        return self.inclusion.ravel(), self.scale.ravel()
