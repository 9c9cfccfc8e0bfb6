"""How an outcome scatters around its mean: one law per file, registered by its name in campaign.toml.

A law knows everything that depends on it: the link between mean and linear predictor eta, draws, log-density, what a Gaussian
belief about eta says of the outcome and what an outcome says of eta, what a cell of a table may hold, how a person reads it.
`scale` is its second number (the noise of normal outcomes); laws without one ignore it. Laws hold no arrays: they are
hashable, and static in compiled code.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from cobed.errors import ModelError
from cobed.lazy import jnp
from cobed.registry import Registry

if TYPE_CHECKING:
    from cobed.types import Array, Float, Key

# The largest deviation of outcomes on the scale of a predictor that has a link: log-odds, or logarithms.
MAX_UNIT = 2.5

_LAWS: Registry[AbstractLaw] = Registry("outcome law", "cobed.outcomes", ModelError)


class AbstractLaw(abc.ABC):
    """The law of an outcome given the linear predictor eta. Methods take arrays of one shape, or that broadcast."""

    name: ClassVar[str]  # in campaign.toml
    describes: ClassVar[str]  # what such outcomes are, for people
    predictor_words: ClassVar[str]  # the scale of eta, for people
    allowed: ClassVar[str]  # what a cell may hold: a sentence
    words: ClassVar[Mapping[str, float]] = {}  # cells that stand for numbers, in lower case
    has_scale: ClassVar[bool] = False
    # Whether outcomes are normal around eta itself, so that posteriors are exact.
    gaussian: ClassVar[bool] = False
    default_typical: ClassVar[float | None] = None  # None: the user must say it
    # Whether people add up the outcomes of many units, as they do with visits and revenue: so many per 1,000 customers.
    adds_up: ClassVar[bool] = False
    # The names of two laws, of whether an outcome is above zero and how large it is then, where each has a predictor of its own.
    parts: ClassVar[tuple[str, str] | None] = None

    # The predictor.

    @abc.abstractmethod
    def mean(self, eta: Float[Array, ...]) -> Float[Array, ...]:
        """E[y | eta]."""

    @abc.abstractmethod
    def variance(self, eta: Float[Array, ...], scale: float | Array) -> Float[Array, ...]:
        """Var[y | eta]."""

    @abc.abstractmethod
    def sample(self, key: Key[Array, ""], eta: Float[Array, ...], scale: float | Array) -> Float[Array, ...]:
        """A draw of y. Where y is discrete its gradient in eta is that of its mean (straight-through)."""

    @abc.abstractmethod
    def log_density(
        self, outcome: Float[Array, ...], eta: Float[Array, ...], scale: float | Array
    ) -> Float[Array, ...]:
        """log p(y | eta)."""

    @abc.abstractmethod
    def link(self, mean: float) -> float:
        """The eta of this mean, on the host."""

    @abc.abstractmethod
    def slope(self, mean: float) -> float:
        """d mean / d eta where the mean is this, on the host."""

    # A Gaussian belief about the predictor.

    @abc.abstractmethod
    def expected(self, mean: Float[Array, ...], variance: Float[Array, ...]) -> Float[Array, ...]:
        """E[y] where eta ~ N(mean, variance). Averaged over what `mean` will be, it stays what it is now."""

    @abc.abstractmethod
    def information(
        self, mean: Float[Array, ...], variance: Float[Array, ...], scale: float | Array
    ) -> Float[Array, ...]:
        """Fisher information of one outcome about eta, where eta ~ N(mean, variance)."""

    # What is believed before any outcome.

    def unit(self, center: float, spread: float | None) -> float:
        """A deviation of outcomes on the scale of the predictor, where an average unit gives `center`; on the host."""
        variance = float(self.variance(jnp.asarray(self.link(center)), math.exp(self.log_scale(center, spread)[0])))
        # Rare outcomes say little of the predictor; effects on it are no larger for that.
        return min(math.sqrt(variance) / abs(self.slope(center)), MAX_UNIT)

    def log_scale(self, center: float, spread: float | None) -> tuple[float, float]:
        """Mean and deviation of the logarithm of `scale`, where outcomes have the mean `center` and this deviation."""
        return 0.0, 0.0

    # Tables and people.

    def refuses(self, values: np.ndarray) -> np.ndarray:
        """Which of these finite numbers (N,) cannot be outcomes."""
        return values != values

    @abc.abstractmethod
    def suits(self, values: np.ndarray) -> bool:
        """Whether a column of these finite numbers (N,) looks like such outcomes."""

    def misfit(self, outcomes: np.ndarray, expected: np.ndarray) -> str | None:
        """What shows that outcomes (N,) with these expected values (N,) are of another law: a sentence; None where nothing does."""
        return None

    def typical_of(self, values: np.ndarray) -> float:
        """What an average unit gives, from outcomes (N,): strictly within what `problem_of_typical` allows."""
        return float(values.mean())

    def problem_of_typical(self, value: float) -> str | None:
        """Why an average unit cannot give this; None where it can."""
        return None


def register(law: AbstractLaw) -> AbstractLaw:
    """Make a law known by its name. `cobed init` tries later ones earlier when it looks for one that suits a column."""
    return _LAWS.add(law.name, law)


def laws() -> tuple[AbstractLaw, ...]:
    """All registered laws, in the order in which a column is tried: special ones come later and are asked earlier."""
    return tuple(_LAWS)[::-1]


def law_named(name: str) -> AbstractLaw:
    """The law of this name; `ModelError` where there is none."""
    return _LAWS.named(name)
