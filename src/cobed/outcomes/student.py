"""Amounts with outliers on both sides: y is Student t around eta, with `scale` as its unit."""

from __future__ import annotations

import math

import numpy as np

from cobed.lazy import jnp, jr
from cobed.outcomes.normal import Normal

# Degrees of freedom: tails far heavier than normal, and a variance that exists.
FREEDOM = 4.0
LOG_NORMALISER = math.lgamma((FREEDOM + 1) / 2) - math.lgamma(FREEDOM / 2) - 0.5 * math.log(FREEDOM * math.pi)
# An outcome is far out at so many robust deviations from the median; `cobed init` proposes this law where a larger share is.
FAR, SHARE = 4.0, 0.001


class Student(Normal):
    name = "student"
    describes = "amounts with outliers on both sides"
    gaussian = False

    def variance(self, eta, scale):
        return jnp.broadcast_to(FREEDOM / (FREEDOM - 2) * jnp.asarray(scale) ** 2, jnp.shape(eta))

    def sample(self, key, eta, scale):
        return eta + scale * jr.t(key, FREEDOM, jnp.shape(eta))

    def log_density(self, outcome, eta, scale):
        standardised = (outcome - eta) / scale
        return LOG_NORMALISER - jnp.log(scale) - (FREEDOM + 1) / 2 * jnp.log1p(standardised**2 / FREEDOM)

    def information(self, mean, variance, scale):
        return jnp.broadcast_to((FREEDOM + 1) / (FREEDOM + 3) / jnp.asarray(scale) ** 2, jnp.shape(mean))

    def log_scale(self, center, spread):
        return math.log(0.6 * (spread or 1.0)), 0.7

    def suits(self, values):
        away = values - np.median(values)
        deviation = 1.4826 * np.median(np.abs(away))
        return bool(deviation > 0 and all((side > FAR * deviation).mean() > SHARE for side in (away, -away)))

    def misfit(self, outcomes, expected):
        return None
