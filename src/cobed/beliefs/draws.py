"""Draws of psi that stand for what is known about it: the posterior of any model by any sampler."""

from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.flatten_util import ravel_pytree

from cobed.beliefs.base import AbstractBelief, moments_of
from cobed.types import Array, Float, Params


class Draws(AbstractBelief):
    """`params` are draws of psi, stacked N, of weights exp(`log_weights`); all alike where these are None."""

    params: Params
    heights: Float[Array, " N"] | None  # the weights added up; None where all are alike

    def __init__(self, params: Params, log_weights: Any = None):
        self.params, self.heights = params, None
        weights = None if log_weights is None else np.asarray(log_weights, np.float64)
        if weights is not None and np.ptp(weights) > 0:
            heights = np.cumsum(np.exp(weights - weights.max()))
            self.heights = jnp.asarray(heights / heights[-1], jnp.float32)

    def sample(self, key):
        num_draws = jax.tree.leaves(self.params)[0].shape[0]
        if self.heights is None:
            chosen = jr.randint(key, (), 0, num_draws)
        else:
            chosen = jnp.minimum(jnp.searchsorted(self.heights, jr.uniform(key), side="right"), num_draws - 1)
        return jax.tree.map(lambda leaf: leaf[chosen], self.params)

    def moments(self, key):
        flat = np.asarray(jax.vmap(lambda psi: ravel_pytree(psi)[0])(self.params), np.float64)
        return moments_of(flat, None if self.heights is None else np.diff(self.heights, prepend=0.0))
