"""Positive amounts and waiting times: y is gamma with the mean exp(eta) and the deviation scale * mean."""

from __future__ import annotations

import math

import numpy as np

from cobed.lazy import jnp, jr, jsp
from cobed.outcomes.log_link import AbstractLogLaw

# `cobed init` proposes this law where the mean of positive amounts is so many times their median.
SKEWED = 1.2


class Gamma(AbstractLogLaw):
    name = "gamma"
    describes = "positive amounts, waiting times"
    predictor_words = "logarithms of amounts"
    allowed = "Allowed: numbers above 0, because the likelihood is gamma."
    has_scale = True
    default_typical = 1.0

    def variance(self, eta, scale):
        return (scale * self.mean(eta)) ** 2

    def sample(self, key, eta, scale):
        shape = 1 / jnp.asarray(scale) ** 2
        return self.mean(eta) * jr.gamma(key, jnp.broadcast_to(shape, jnp.shape(eta))) / shape

    def log_density(self, outcome, eta, scale):
        shape = 1 / jnp.asarray(scale) ** 2
        share = outcome * jnp.exp(-eta)
        return shape * (jnp.log(shape) + jnp.log(share) - share) - jnp.log(outcome) - jsp.gammaln(shape)

    def information(self, mean, variance, scale):
        return jnp.broadcast_to(1 / jnp.asarray(scale) ** 2, jnp.shape(mean))

    def log_scale(self, center, spread):
        return math.log(0.8 if spread is None else min(max(0.8 * spread / center, 0.05), 5.0)), 0.5

    def refuses(self, values):
        return values <= 0

    def suits(self, values):
        return not self.refuses(values).any() and bool(values.mean() > SKEWED * np.median(values))

    def problem_of_typical(self, value):
        return None if value > 0 else f"typical is an amount above 0 for gamma outcomes, got {value:g}"
