"""A kind of context column that another package brings: a day of the week on a circle, so that Sunday is beside Monday."""

from typing import ClassVar

import numpy as np

from cobed.campaign.columns import Column, register

DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


@register
class Weekday(Column):
    """A column of names of days."""

    name: ClassVar[str] = "weekday"
    describes: ClassVar[str] = "a day of the week, on a circle"
    has_names: ClassVar[bool] = True

    @classmethod
    def suits(cls, table, column):
        return set(table.text(column)) <= set(DAYS)

    def read(self, column, table, fitted, complaints):
        places = table.one_of(column, DAYS, complaints, "Write the whole name.")
        return np.array(DAYS, dtype=object)[places].tolist()

    def encode(self, cells, fitted):
        angles = 2 * np.pi * np.array([DAYS.index(cell) for cell in cells], float) / len(DAYS)
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)

    def labels(self, column, fitted):
        return [f"{column} (cosine)", f"{column} (sine)"]

    def problem_of_values(self, column, values, fitted=None):
        odd = [value for value in values if value not in DAYS]
        return f"names {odd[0]!r}, which is no day; allowed: {', '.join(DAYS)}" if odd else None
