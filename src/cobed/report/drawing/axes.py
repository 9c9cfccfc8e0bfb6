"""The axes of a panel: where a value lies, and which values are written beside it."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

# More ticks than this on a panel are not read.
MAX_TICKS = 6
# Bars and points of a category keep this distance to the ends, in categories.
BESIDE = 0.6


@dataclasses.dataclass(frozen=True)
class Axis:
    """A line from 0 to 1. `names` are the categories of one that has names; otherwise values lie between `low` and `high`."""

    title: str
    low: float
    high: float
    names: tuple[str, ...] = ()
    is_log: bool = False
    reverse: bool = False
    labels: tuple[tuple[float, str], ...] = ()

    def place(self, value: Any) -> float:
        """Where a value, or a name, lies."""
        number = float(self.names.index(str(value))) if self.names else float(value)
        low, high = self.low, self.high
        if self.is_log:
            number, low, high = (math.log10(max(part, 1e-300)) for part in (number, low, high))
        share = (number - low) / (high - low)
        return 1 - share if self.reverse else share

    def ticks(self) -> list[tuple[float, str]]:
        """Values with what is written beside them."""
        if self.names:
            return [(place, name) for place, name in enumerate(self.names)]
        if self.labels:
            return list(self.labels)
        if self.is_log:
            powers = range(math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9) + 1)
            return [(10.0**power, f"{10.0**power:,.10g}") for power in powers]
        step = nice_step((self.high - self.low) / (MAX_TICKS - 1))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        values = [number * step for number in range(first, last + 1)]
        # Beyond a million, or below a thousandth, digits alone are not read.
        odd = max(abs(self.low), abs(self.high)) >= 1e7 or digits > 4
        return [
            (value, f"{value:.3g}" if odd else f"{value:,.{digits}f}".replace("-", "\N{MINUS SIGN}"))
            for value in values
        ]

    def at(self, tick: float) -> float:
        """Where a tick lies: that of a name is its number."""
        if not self.names:
            return self.place(tick)
        share = (tick - self.low) / (self.high - self.low)
        return 1 - share if self.reverse else share


def nice_step(least: float) -> float:
    """1, 2 or 5 times a power of ten, at least this."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least * (1 - 1e-9))


def make_axis(settings: Any, values: Sequence[Any], *, from_zero: bool) -> Axis:
    """The axis for these values, by the settings that a plotly figure has for it."""
    title = settings.title.text or ""
    texts = any(isinstance(value, str) for value in values)
    if settings.type == "category" or texts:
        names = tuple(dict.fromkeys(str(value) for value in settings.categoryarray or values))
        reverse = settings.autorange == "reversed"
        return Axis(title, -BESIDE, len(names) - 1 + BESIDE, names, reverse=reverse)
    numbers = np.array([float(value) for value in values if value is not None], float)
    numbers = numbers[np.isfinite(numbers)]
    is_log = settings.type == "log"
    if is_log:
        numbers = numbers[numbers > 0]
    if not numbers.size:
        numbers = np.array([1.0, 10.0]) if is_log else np.array([0.0, 1.0])
    low, high = float(numbers.min()), float(numbers.max())
    if settings.range is not None:
        low, high = (10 ** float(end) if is_log else float(end) for end in settings.range)
    elif is_log:
        low, high = low / 1.15, high * 1.15
    else:
        if from_zero or settings.rangemode == "tozero":
            low, high = min(low, 0.0), max(high, 0.0)
        room = 0.04 * (high - low) or 0.5 * abs(high) or 0.5
        # A bar stands on its zero.
        low, high = low - room * (low != 0 or not from_zero), high + room * (high != 0 or not from_zero)
    given = [] if settings.tickvals is None else [float(value) for value in settings.tickvals]
    words = [f"{value:,.10g}" for value in given] if settings.ticktext is None else list(settings.ticktext)
    return Axis(title, low, high, is_log=is_log, labels=tuple(zip(given, words, strict=True)))
