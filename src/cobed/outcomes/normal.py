"""Amounts: y is normal around eta, with the standard deviation `scale`."""

from __future__ import annotations

import math

from cobed.lazy import jnp, jr
from cobed.outcomes.base import AbstractLaw

# Such a share of amounts that are exactly zero is not of a normal law.
MANY_ZEROS = 0.2


class Normal(AbstractLaw):
    name = "normal"
    describes = "amounts"
    predictor_words = "units of the outcome"
    allowed = "A finite number is expected, with a point for decimals."
    has_scale = True
    gaussian = True

    def mean(self, eta):
        return eta

    def variance(self, eta, scale):
        return jnp.broadcast_to(jnp.asarray(scale) ** 2, jnp.shape(eta))

    def sample(self, key, eta, scale):
        return eta + scale * jr.normal(key, jnp.shape(eta))

    def log_density(self, outcome, eta, scale):
        return -0.5 * ((outcome - eta) / scale) ** 2 - jnp.log(scale * math.sqrt(2 * math.pi))

    def link(self, mean):
        return mean

    def slope(self, mean):
        return 1.0

    def expected(self, mean, variance):
        return mean

    def information(self, mean, variance, scale):
        return jnp.broadcast_to(1 / jnp.asarray(scale) ** 2, jnp.shape(mean))

    def unit(self, center, spread):
        return spread or 1.0

    def log_scale(self, center, spread):
        # Contexts and actions explain some of the spread.
        return math.log(0.8 * (spread or 1.0)), 0.5

    def misfit(self, outcomes, expected):
        zeros = (outcomes == 0).mean()
        if zeros >= MANY_ZEROS and (outcomes >= 0).all():
            below = (expected < 0).mean()
            return (
                f"{zeros:.0%} of the outcomes are exactly 0"
                + (f", and {below:.0%} of the units are expected to give less than 0" if below > 0 else "")
                + '. A normal law does not fit such amounts: use likelihood = "tweedie".'
            )
        return None

    def suits(self, values) -> bool:
        return True
