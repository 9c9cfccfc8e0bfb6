"""Columns of numbers, scaled by the mean and deviation of the first tables."""

import itertools
from typing import ClassVar

import numpy as np
import pandas as pd

from cobed.campaign.columns.base import Column
from cobed.campaign.tables import Complaints

# In deviations. Beyond it single precision, in which the engine computes, has few digits left for the others.
FARTHEST = 1e6
# In deviations of the first table: how far the mean of a later one may be; of one with fewer rows than FEW, how far.
FAR_MEAN, FAR_FEW, FEW = 3.0, 6.0, 10
# How many times wider or narrower a column may be.
WIDER = 10.0
# A share of single cells so far out that they are of another kind.
FAR_CELL, FAR_SHARE = 6.0, 0.01


class Numeric(Column):
    """A column of numbers. Its fitted part is their mean and deviation."""

    name: ClassVar[str] = "numeric"
    describes: ClassVar[str] = "a number, scaled by the mean and deviation of the first table"
    is_number: ClassVar[bool] = True

    @classmethod
    def suits(cls, table, column):
        return bool(np.isfinite(table.numbers(column, Complaints(table))).all())

    def fit(self, column, tables):
        values = _values(column, tables)
        mean, deviation = (float(values.mean()), float(values.std())) if values.size else (0.0, 0.0)
        # A constant column stays at zero; mean and deviation of equal numbers have rounding errors.
        return [mean, deviation] if deviation > 1e-9 * abs(mean) else [float([*values, 0.0][0]), 1.0]

    def read(self, column, table, fitted, complaints):
        values = table.numbers(column, complaints)
        mean, deviation = fitted
        advice = f"It is more than a million deviations from the others: mean {mean:g}, deviation {deviation:g}."
        far = np.isfinite(values) & (np.abs(values - mean) > FARTHEST * deviation)
        complaints.add(far, column, advice)
        return values.tolist()

    def encode(self, cells, fitted):
        mean, deviation = fitted
        scaled = (np.asarray(cells, float) - float(mean)) / float(deviation)
        return np.clip(scaled, -FARTHEST, FARTHEST)[:, None]

    def groups(self, cells):
        """Thirds."""
        values = np.array(cells, float)
        bounds = np.unique(np.quantile(values, [0, 1 / 3, 2 / 3, 1]))
        if len(bounds) < 3:
            return np.full(len(values), f"{values.min():.4g} to {values.max():.4g}", dtype=object)
        labels = [f"{low:.4g} to {high:.4g}" for low, high in itertools.pairwise(bounds)]
        return pd.cut(values, bounds, include_lowest=True, labels=labels if len(set(labels)) == len(labels) else None)

    def unvarying(self, column, tables):
        values = _values(column, tables)
        if not values.size or values.std() > 1e-9 * abs(values.mean()):
            return None
        return (
            f"{tables[0].name}, column {column!r} is {values[0]:g} in every row, so it is not known how much it varies: it "
            "is not scaled. Begin with a table in which it varies, or leave it out of [context]."
        )

    def far(self, column, fitted, table):
        values = _values(column, [table])
        mean, deviation = fitted
        reason = _reason((values - mean) / deviation) if values.size else None
        if reason is None:
            return None
        return (
            f"{table.name}, column {column!r}: {reason}. Here it goes from {values.min():.6g} to {values.max():.6g} (mean "
            f"{values.mean():.6g}, deviation {values.std():.3g}); the first table of the campaign had mean {mean:.6g} and "
            f"deviation {deviation:.3g}, by which the column is scaled. Is it in the same unit? While there are no "
            "outcomes, `cobed design --refit` scales by the new table."
        )


def _values(column, tables) -> np.ndarray:
    """The finite numbers of the column."""
    values = np.concatenate([table.numbers(column, Complaints(table)) for table in tables])
    return values[np.abs(values) <= np.finfo(np.float32).max]


def _reason(scaled: np.ndarray) -> str | None:
    few = len(scaled) < FEW
    if abs(scaled.mean()) > (FAR_FEW if few else FAR_MEAN):
        return "its values lie far from those the campaign began with"
    if not few and scaled.std() > WIDER:
        return f"its values vary {scaled.std():.0f} times as much as those the campaign began with"
    if not few and scaled.std() < 1 / WIDER:
        return "its values vary far less than those the campaign began with"
    share = float((np.abs(scaled) > FAR_CELL).mean())
    if not few and share >= FAR_SHARE:
        return f"{share:.0%} of its values lie far from those the campaign began with"
    return None
