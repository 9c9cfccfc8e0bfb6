"""Binary outcomes: y is 1 with probability sigmoid(eta)."""

from __future__ import annotations

import math

import numpy as np

from cobed.lazy import jax, jnp, jr, jsp
from cobed.outcomes.base import AbstractLaw

# sigmoid(x) is about Phi(LAMBDA x): both have the slope 1/4 at 0. Averages over a Gaussian eta are then closed.
LAMBDA = math.sqrt(math.pi / 8)
# What a binary cell may say, in any case of letters.
YES, NO = ("1", "yes", "true", "y", "t"), ("0", "no", "false", "n", "f")


class Bernoulli(AbstractLaw):
    name = "bernoulli"
    describes = "0/1, yes/no"
    predictor_words = "log-odds"
    adds_up = True
    allowed = "Allowed: 0 or 1, yes or no, true or false."
    words = dict.fromkeys(YES, 1.0) | dict.fromkeys(NO, 0.0)
    default_typical = 0.5

    def mean(self, eta):
        return jax.nn.sigmoid(eta)

    def variance(self, eta, scale):
        return jax.nn.sigmoid(eta) * jax.nn.sigmoid(-eta)

    def sample(self, key, eta, scale):
        mean = self.mean(eta)
        fixed = jax.lax.stop_gradient(mean)
        # mean - fixed is exactly zero.
        return jr.bernoulli(key, fixed).astype(jnp.float32) + (mean - fixed)

    def log_density(self, outcome, eta, scale):
        # y log s(eta) + (1 - y) log s(-eta)
        return outcome * jax.nn.log_sigmoid(eta) + (1 - outcome) * jax.nn.log_sigmoid(-eta)

    def link(self, mean):
        return math.log(mean / (1 - mean))

    def slope(self, mean):
        return mean * (1 - mean)

    def expected(self, mean, variance):
        return jsp.ndtr(LAMBDA * mean / jnp.sqrt(1 + LAMBDA**2 * variance))

    def information(self, mean, variance, scale):
        # E[p (1 - p)]: the normal density in the place of the logistic one. LAMBDA phi(0) = 1/4.
        width = jnp.sqrt(1 + LAMBDA**2 * variance)
        return jnp.exp(-0.5 * (LAMBDA * mean / width) ** 2) / (4 * width)

    def refuses(self, values):
        return (values != 0) & (values != 1)

    def suits(self, values):
        return bool(np.isin(values, (0, 1)).all())

    def typical_of(self, values):
        return float(np.clip(values.mean(), 0.01, 0.99))

    def problem_of_typical(self, value):
        if not 0 < value < 1:
            return f"typical is a share of units between 0 and 1 for bernoulli outcomes, got {value:g}"
        return None
