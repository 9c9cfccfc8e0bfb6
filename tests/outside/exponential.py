"""An outcome law that another package brings: waiting times, exponential with the mean exp(eta)."""

from __future__ import annotations

from cobed.lazy import jnp, jr
from cobed.outcomes import MAX_LOG_MEAN, AbstractLogLaw, register


class Exponential(AbstractLogLaw):
    name = "exponential"
    describes = "waiting times"
    predictor_words = "logarithms of waiting times"
    allowed = "Allowed: numbers from 0 up, because the likelihood is exponential."
    default_typical = 1.0

    def variance(self, eta, scale):
        return self.mean(eta) ** 2

    def sample(self, key, eta, scale):
        return self.mean(eta) * jr.exponential(key, jnp.shape(eta))

    def log_density(self, outcome, eta, scale):
        eta = jnp.minimum(eta, MAX_LOG_MEAN)
        return -eta - outcome * jnp.exp(-eta)

    def information(self, mean, variance, scale):
        # d log p / d eta = y exp(-eta) - 1, whose variance is 1 whatever eta is.
        return jnp.ones_like(mean)

    def refuses(self, values):
        return values < 0

    def suits(self, values):
        return (values > 0).all() and abs(values.std() / values.mean() - 1) < 0.2

    def problem_of_typical(self, value):
        return None if value > 0 else f"typical is a time above 0 for exponential outcomes, got {value:g}"


register(Exponential())
