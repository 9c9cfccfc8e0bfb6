"""Counts: y is Poisson with the rate exp(eta)."""

from __future__ import annotations

import numpy as np

from cobed.lazy import jax, jnp, jr, jsp
from cobed.outcomes.log_link import MAX_LOG_MEAN, AbstractLogLaw

# Above this a column of whole numbers is more likely one of amounts.
MAX_TYPICAL_COUNT = 50
# Counts with so many times the variance of Poisson ones are told.
TOO_VARIED = 2.0


class Poisson(AbstractLogLaw):
    name = "poisson"
    describes = "counts"
    predictor_words = "logarithms of counts"
    adds_up = True
    allowed = "Allowed: whole numbers from 0 up, because the likelihood is poisson."
    default_typical = 1.0

    def variance(self, eta, scale):
        return self.mean(eta)

    def sample(self, key, eta, scale):
        mean = self.mean(eta)
        fixed = jax.lax.stop_gradient(mean)
        # mean - fixed is exactly zero.
        return jr.poisson(key, fixed).astype(jnp.float32) + (mean - fixed)

    def log_density(self, outcome, eta, scale):
        eta = jnp.minimum(eta, MAX_LOG_MEAN)
        return outcome * eta - jnp.exp(eta) - jsp.gammaln(outcome + 1)

    def information(self, mean, variance, scale):
        # At the middle of the belief: the mean of a rate is that of few very large ones, which most worlds lack.
        return self.mean(mean)

    def refuses(self, values):
        return (values < 0) | (values != np.round(values))

    def suits(self, values):
        return not self.refuses(values).any() and bool(values.max() <= MAX_TYPICAL_COUNT)

    def misfit(self, outcomes, expected):
        ratio = float(np.mean((outcomes - expected) ** 2 / np.maximum(expected, 1e-6)))
        # Of 50 outcomes and more, chance alone gives twice the variance less than once in a million.
        if len(outcomes) >= 50 and ratio > TOO_VARIED:
            return (
                f"The counts vary {ratio:.1f} times as much as Poisson counts of these means would. "
                'Use likelihood = "negative_binomial"; intervals are too narrow otherwise.'
            )
        return None

    def typical_of(self, values):
        return float(max(values.mean(), 0.01))

    def problem_of_typical(self, value):
        return None if value > 0 else f"typical is a count above 0 for poisson outcomes, got {value:g}"
