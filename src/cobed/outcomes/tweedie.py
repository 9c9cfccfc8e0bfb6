"""Amounts with many zeros: y is the sum of a Poisson number of exponential amounts, with the mean exp(eta).

The variance is scale * mean^1.5 (Tweedie's law of power 1.5): a larger mean is more purchases and larger ones. One predictor
stands for both, so that the value of an experiment has the same closed form as for counts.

    rate = 2 sqrt(mean) / scale,   each amount has the mean scale sqrt(mean) / 2
"""

from __future__ import annotations

import math

from cobed.lazy import jax, jnp, jr
from cobed.outcomes.log_link import AbstractLogLaw

# `cobed init` proposes this law where at least such a share of amounts is exactly zero.
SOME_ZEROS = 0.05


class Tweedie(AbstractLogLaw):
    name = "tweedie"
    describes = "amounts with many zeros, such as revenue"
    predictor_words = "logarithms of amounts"
    adds_up = True
    allowed = "Allowed: 0 and numbers above, because the likelihood is tweedie."
    has_scale = True
    default_typical = 1.0

    def variance(self, eta, scale):
        return scale * self.mean(eta) ** 1.5

    def sample(self, key, eta, scale):
        count_key, amount_key = jr.split(key)
        root = jnp.sqrt(self.mean(eta))
        number = jr.poisson(count_key, jax.lax.stop_gradient(2 * root / scale)).astype(jnp.float32)
        # The sum of n exponentials is gamma of the shape n.
        total = jr.gamma(amount_key, jnp.maximum(number, 1.0))
        drawn = jax.lax.stop_gradient(jnp.where(number > 0, total * scale * root / 2, 0.0))
        mean = self.mean(eta)
        return drawn + (mean - jax.lax.stop_gradient(mean))

    def log_density(self, outcome, eta, scale):
        root = jnp.sqrt(self.mean(eta))
        positive = jnp.where(outcome > 0, outcome, 1.0)
        # rate / amount = 4 / scale^2; the number of purchases is summed over by a Bessel function.
        size = 4 * jnp.sqrt(positive) / scale
        amount = jnp.log(2 / scale) - 0.5 * jnp.log(positive) + jnp.log(jax.scipy.special.i1e(size)) + size
        return -2 * root / scale + jnp.where(outcome > 0, amount - 2 * positive / (scale * root), 0.0)

    def information(self, mean, variance, scale):
        # At the middle of the belief: the mean of a rate is that of few very large ones, which most worlds lack.
        return jnp.sqrt(self.mean(mean)) / scale

    def log_scale(self, center, spread):
        return math.log(math.sqrt(center) if spread is None else max(spread**2, 1e-12) / center**1.5), 0.5

    def refuses(self, values):
        return values < 0

    def suits(self, values):
        return not self.refuses(values).any() and bool((values == 0).mean() >= SOME_ZEROS)

    def typical_of(self, values):
        return float(max(values.mean(), 1e-6 + 1e-3 * values.std()))

    def problem_of_typical(self, value):
        return None if value > 0 else f"typical is an amount above 0 for {self.name} outcomes, got {value:g}"
