"""Outcome laws. `register` adds one; `laws` lists them in the order in which `cobed init` tries them on a column."""

from cobed.outcomes.base import AbstractLaw, law_named, laws, register
from cobed.outcomes.bernoulli import NO, YES, Bernoulli
from cobed.outcomes.gamma import Gamma
from cobed.outcomes.hurdle import Hurdle
from cobed.outcomes.log_link import MAX_LOG_MEAN, AbstractLogLaw
from cobed.outcomes.negative_binomial import NegativeBinomial
from cobed.outcomes.normal import Normal
from cobed.outcomes.poisson import Poisson
from cobed.outcomes.student import Student
from cobed.outcomes.tweedie import Tweedie

# The narrowest last, because it is asked first: every count is an amount too. Of two predictors and one, the one is proposed.
NORMAL, STUDENT, GAMMA, HURDLE, TWEEDIE, POISSON, NEGATIVE_BINOMIAL, BERNOULLI = map(
    register, (Normal(), Student(), Gamma(), Hurdle(), Tweedie(), Poisson(), NegativeBinomial(), Bernoulli())
)

__all__ = [
    "BERNOULLI", "GAMMA", "HURDLE", "MAX_LOG_MEAN", "NEGATIVE_BINOMIAL", "NO", "NORMAL", "POISSON", "STUDENT", "TWEEDIE", "YES",
    "AbstractLaw", "AbstractLogLaw", "Bernoulli", "Gamma", "Hurdle", "NegativeBinomial", "Normal", "Poisson", "Student", "Tweedie",
    "law_named", "laws", "register",
]  # fmt: skip
