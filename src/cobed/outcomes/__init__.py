"""Outcome laws. `register` adds one; `laws` lists them in the order in which `cobed init` tries them on a column."""

from cobed.outcomes.base import AbstractLaw, law_named, laws, register
from cobed.outcomes.bernoulli import NO, YES, Bernoulli
from cobed.outcomes.log_link import MAX_LOG_MEAN, AbstractLogLaw
from cobed.outcomes.normal import Normal
from cobed.outcomes.poisson import Poisson

# The narrowest first: every count is an amount too.
BERNOULLI, POISSON, NORMAL = map(register, (Bernoulli(), Poisson(), Normal()))

__all__ = [
    "BERNOULLI", "MAX_LOG_MEAN", "NO", "NORMAL", "POISSON", "YES", "AbstractLaw", "AbstractLogLaw", "Bernoulli", "Normal",
    "Poisson", "law_named", "laws", "register",
]  # fmt: skip
