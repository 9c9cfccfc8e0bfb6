"""Laws whose mean is exp(eta): what they share, whatever the scatter around it."""

from __future__ import annotations

import math

from cobed.lazy import jnp
from cobed.outcomes.base import AbstractLaw

# exp(15) is three million: means above that are a prior far too wide, and would overflow.
MAX_LOG_MEAN = 15.0


class AbstractLogLaw(AbstractLaw):
    """Outcomes from 0 up with the mean exp(eta)."""

    def mean(self, eta):
        return jnp.exp(jnp.minimum(eta, MAX_LOG_MEAN))

    def link(self, mean):
        return math.log(mean)

    def slope(self, mean):
        return mean

    def expected(self, mean, variance):
        return self.mean(mean + variance / 2)
