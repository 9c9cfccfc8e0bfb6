"""Columns of 0 and 1, yes and no, true and false."""

from typing import ClassVar

import numpy as np

from cobed.campaign.columns.base import Column
from cobed.campaign.tables import Complaints
from cobed.outcomes import NO, YES


class Binary(Column):
    """A column of 0 and 1. Its fitted part is the share of ones."""

    name: ClassVar[str] = "binary"
    describes: ClassVar[str] = "0/1, yes/no, true/false"
    has_names: ClassVar[bool] = True
    spellings: ClassVar = {"yes": YES, "no": NO}

    @classmethod
    def suits(cls, table, column):
        values = {value for value in table.text(column).str.lower() if value}
        return bool(values) and values <= {*YES, *NO}

    def fit(self, column, tables):
        values = np.concatenate([table.binary(column, Complaints(table)) for table in tables])
        return [float(np.mean(values[~np.isnan(values)]))] if not np.isnan(values).all() else None

    def typical(self, fitted):
        # Campaigns of earlier versions do not have the share.
        return np.array(fitted or [0.5])

    def read(self, column, table, fitted, complaints):
        return table.binary(column, complaints).tolist()

    def encode(self, cells, fitted):
        return np.asarray(cells, float)[:, None]

    def groups(self, cells):
        return np.array(["yes" if cell else "no" for cell in cells], dtype=object)

    def problem_of_values(self, column, values, fitted=None):
        odd = [value for value in values if value.lower() not in (*YES, *NO)]
        return f"names {odd[0]!r} for the binary column {column!r}; allowed: yes or no, 1 or 0" if odd else None

    def holds(self, cells, values):
        return np.isin(cells, [float(value.lower() in YES) for value in values])
