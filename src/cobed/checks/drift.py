"""Drift: how far the targets differ from the units of the experiment, context column by context column.

Of numbers the Kolmogorov-Smirnov distance, the largest difference of the two shares below one value; of names the total variation
distance, the share that would have to change its level. Both are 0 for equal columns and 1 for such that have nothing in common.
The population stability index, sum (p - q) log(p / q) over tenths of the units or levels, is told beside it, with its usual limits.
Of N units and T targets of one law it is chi-square of the number of bins less one, times 1/N + 1/T: smaller ones are chance.
"""

from typing import ClassVar, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import chi2

from cobed.checks.base import AbstractCheck
from cobed.checks.evidence import Column
from cobed.checks.words import amount, percent

# Usual limits of the stability index: from .1 on a column has shifted somewhat, from .25 on much.
SOMEWHAT, MUCH = 0.1, 0.25
# Distances from which on targets have next to nothing to do with the units; shares of new levels and missing cells that matter.
APART, MANY_NEW = 0.95, 0.05
# Half a row in each bin, so that an empty one is not infinitely rare.
HALF_A_ROW = 0.5
# Of columns of one law, chance alone gives a larger index so often.
LEVEL = 0.01


class Drift(AbstractCheck):
    """Targets beside units, by context column."""

    name: ClassVar[str] = "drift"
    asks: ClassVar[str] = "Are the targets like the units of the experiment?"

    def __call__(self, evidence):
        units, targets = evidence.units, evidence.targets
        if targets is None:
            return self.says(
                "open",
                "No targets were given to compare the units with.",
                "Give their table: `cobed trust TARGETS.csv`.",
            )
        tried = units.is_back if units.is_back.any() else np.ones(len(units), bool)
        if not tried.any():
            return self.says("open", "No unit has been assigned yet.", "Design a round, or tell what was done before.")
        shifts = [
            shift_of(ours.part(tried), theirs) for ours, theirs in zip(units.columns, targets.columns, strict=True)
        ]
        shifts.sort(key=lambda shift: (shift.new < MANY_NEW, not shift.is_real, -shift.stability))
        table = pd.DataFrame([shift.row() for shift in shifts])
        apart = [shift for shift in shifts if shift.distance >= APART and shift.is_real]
        strong = [shift for shift in shifts if (shift.stability >= MUCH and shift.is_real) or shift.new >= MANY_NEW]
        some = sum(SOMEWHAT <= shift.stability < MUCH and shift.is_real for shift in shifts)
        if apart:
            return self.says(
                "stop",
                f"Hardly a target is like any unit in {_names(apart)}. {apart[0].words}",
                "Is the column in the same unit and spelling in both tables? If so, experiment on units that are like the "
                "targets: the policy has nothing to go by.",
                table,
            )
        if strong:
            return self.says(
                "look",
                f"The targets differ much from the units in {_names(strong)}. {strong[0].words}",
                "What is said of such targets rests on the model more than on outcomes like theirs. Experiment on units like "
                "them where you can; otherwise mind the intervals.",
                table,
            )
        mild = f", {some} column(s) somewhat different" if some else ""
        words = f" The largest difference: {shifts[0].words}" if shifts else ""
        return self.says("fine", f"The targets are like the units of the experiment{mild}.{words}", "Nothing.", table)


class Shift(NamedTuple):
    """How far one column differs: the distance, the stability index and whether it is more than chance, the share of targets with
    a new level; the middle of both columns, and the difference, in words."""

    name: str
    distance: float = 0.0
    stability: float = 0.0
    is_real: bool = False
    new: float = 0.0
    units: str = ""
    targets: str = ""
    words: str = ""

    def row(self) -> dict[str, str]:
        return {
            "column": self.name,
            "units": self.units,
            "targets": self.targets,
            "distance, 0 to 1": f"{self.distance:.2f}",
            "stability index": f"{self.stability:.2f}",
            "new levels": percent(self.new) if self.new else "",
        }


def _names(shifts: list[Shift]) -> str:
    return ", ".join(repr(shift.name) for shift in shifts)


def shift_of(units: Column, targets: Column) -> Shift:
    """How far a column of targets (T rows) differs from that of units (N rows). Missing cells are a value of their own."""
    ours, theirs = units.values, targets.values
    shift = Shift(units.name)
    if len(ours) and len(theirs):
        shift = _of_numbers(units.name, ours, theirs) if units.is_number else _of_names(units.name, ours, theirs)
    num_missing = len(units.cells) - len(ours), len(targets.cells) - len(theirs)
    if any(num_missing):
        index, is_real = _stability(np.array([num_missing[0], len(ours)]), np.array([num_missing[1], len(theirs)]))
        shares = percent(num_missing[1] / len(targets.cells)), percent(num_missing[0] / len(units.cells))
        words = (
            f"{shift.words} Missing in {units.name!r}: {shares[0]} of the targets, {shares[1]} of the units.".strip()
        )
        shift = shift._replace(stability=max(shift.stability, index), is_real=shift.is_real or is_real, words=words)
    return shift


def _of_numbers(name: str, ours: np.ndarray, theirs: np.ndarray) -> Shift:
    places = np.unique(np.concatenate([ours, theirs]))
    below = [np.searchsorted(np.sort(part), places, side="right") / len(part) for part in (ours, theirs)]
    widest = int(np.argmax(np.abs(below[0] - below[1])))
    distance = float(np.abs(below[0] - below[1])[widest])
    bounds = np.unique(np.quantile(ours, np.arange(1, 10) / 10))
    # A constant column has three bins: below, at and above its value.
    bounds = bounds if len(bounds) > 1 else np.array([np.nextafter(bounds[0], -np.inf), bounds[0]])
    counts = [np.bincount(np.searchsorted(bounds, part), minlength=len(bounds) + 1) for part in (ours, theirs)]
    words = (
        f"{name!r} is {amount(float(theirs.mean()))} on average among targets and {amount(float(ours.mean()))} among units; "
        f"{percent(below[1][widest])} of the targets are at or below {amount(float(places[widest]))}, and "
        f"{percent(below[0][widest])} of the units."
    )
    stability, is_real = _stability(*counts)
    return Shift(name, distance, stability, is_real, 0.0, _middle(ours), _middle(theirs), words)


def _of_names(name: str, ours: np.ndarray, theirs: np.ndarray) -> Shift:
    counted = [pd.Series(part, dtype=object).map(str).value_counts() for part in (ours, theirs)]
    levels = counted[0].index.union(counted[1].index)
    counts = [part.reindex(levels, fill_value=0).to_numpy() for part in counted]
    shares = [count / count.sum() for count in counts]
    distance = float(np.abs(shares[0] - shares[1]).sum() / 2)
    new = float(shares[1][counts[0] == 0].sum())
    most = int(np.argmax(np.abs(shares[0] - shares[1])))
    ours_most, theirs_most = (percent(share[most]) for share in shares)
    words = f"{name!r} is {levels[most]!r} for {theirs_most} of the targets and {ours_most} of the units."
    if new:
        words += f" {percent(new)} of the targets have a level that no unit has."
    shown = [f"{levels[int(np.argmax(part))]} ({percent(part.max())})" for part in shares]
    stability, is_real = _stability(*counts)
    return Shift(name, distance, stability, is_real, new, shown[0], shown[1], words)


def _middle(values: np.ndarray) -> str:
    low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
    return f"{amount(middle)} ({amount(low)} to {amount(high)})"


def _stability(ours: np.ndarray, theirs: np.ndarray) -> tuple[float, bool]:
    """The population stability index of counts by bin, and whether it is larger than chance alone gives."""
    if len(ours) < 2:
        return 0.0, False
    p, q = ((counts + HALF_A_ROW) / (counts + HALF_A_ROW).sum() for counts in (ours, theirs))
    index = float(np.sum((q - p) * np.log(q / p)))
    return index, bool(index > chi2.isf(LEVEL, len(ours) - 1) * (1 / ours.sum() + 1 / theirs.sum()))
