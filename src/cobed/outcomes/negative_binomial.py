"""Counts that vary more than chance alone: y has the mean exp(eta) and the variance mean + scale * mean^2."""

from __future__ import annotations

import math

from cobed.lazy import jax, jnp, jr, jsp
from cobed.outcomes.poisson import Poisson

# Below this it is Poisson for every purpose, and single precision loses the difference.
LEAST = 0.01
# `cobed init` proposes this law where counts have more than so many times the variance of Poisson ones.
OVERDISPERSED = 1.5


class NegativeBinomial(Poisson):
    name = "negative_binomial"
    describes = "counts that vary more than their mean"
    allowed = "Allowed: whole numbers from 0 up, because the likelihood is negative_binomial."
    has_scale = True

    def variance(self, eta, scale):
        mean = self.mean(eta)
        return mean + scale * mean**2

    def sample(self, key, eta, scale):
        rate_key, count_key = jr.split(key)
        mean = self.mean(eta)
        shape = 1 / jnp.maximum(scale, LEAST)
        fixed = jax.lax.stop_gradient(mean)
        rate = fixed * jr.gamma(rate_key, jnp.broadcast_to(shape, jnp.shape(fixed))) / shape
        # mean - fixed is exactly zero.
        return jr.poisson(count_key, rate).astype(jnp.float32) + (mean - fixed)

    def log_density(self, outcome, eta, scale):
        mean, shape = self.mean(eta), 1 / jnp.maximum(scale, LEAST)
        counts = jsp.gammaln(outcome + shape) - jsp.gammaln(shape) - jsp.gammaln(outcome + 1)
        # log(shape / (shape + mean)) and log(mean / (shape + mean))
        return counts - shape * jnp.log1p(mean / shape) - outcome * jnp.log1p(shape / mean)

    def information(self, mean, variance, scale):
        rate = self.mean(mean)
        return rate / (1 + jnp.maximum(scale, LEAST) * rate)

    def log_scale(self, center, spread):
        excess = 1.0 if spread is None else (spread**2 - center) / center**2
        return math.log(max(excess, 0.1)), 0.7

    def suits(self, values):
        return super().suits(values) and bool(values.var() > OVERDISPERSED * values.mean())

    def misfit(self, outcomes, expected):
        return None
