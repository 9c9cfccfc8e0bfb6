"""Columns that hold one of some names."""

from typing import ClassVar

import numpy as np
import pandas as pd
from pydantic import Field, field_validator

from cobed.campaign.columns.base import Column, Name
from cobed.campaign.near import near, plain
from cobed.errors import TableError

# More levels than this are probably an id or a free text; `cobed init` proposes a column with fewer.
MAX_LEVELS, MAX_PROPOSED = 50, 20


class Categorical(Column):
    """A column of names. Its fitted part is the list of its levels."""

    name: ClassVar[str] = "categorical"
    describes: ClassVar[str] = "one of some names"
    has_names: ClassVar[bool] = True

    levels: tuple[Name, ...] | None = Field(
        None, description="All values it can have. By default those of the first table."
    )

    @field_validator("levels")
    @classmethod
    def _different(cls, levels):
        if levels is not None and (len(levels) < 2 or len(set(levels)) < len(levels)):
            raise ValueError(f"levels need at least 2 different names, got {list(levels)}")
        return levels

    @classmethod
    def suits(cls, table, column):
        return 2 <= len({value for value in table.text(column).str.lower() if value}) <= MAX_PROPOSED

    def fit(self, column, tables):
        if self.levels is not None:
            return list(self.levels)
        levels = sorted({value for table in tables for value in _levels_of(table, column)})
        _check_alike(column, levels, tables)
        if len(levels) > MAX_LEVELS:
            raise TableError(
                f"{tables[0].name}, column {column!r} has {len(levels):,} different values; at most {MAX_LEVELS} are taken "
                "for levels. Group them, or leave the column out of [context]: other columns pass through untouched."
            )
        if len(levels) < 2:
            raise TableError(
                f"{tables[0].name}, column {column!r} has the one value {levels}, which tells nothing about a unit. "
                "Leave it out of [context], or list its levels in campaign.toml."
            )
        return levels

    def refit(self, old, new):
        """Levels that were known stay known."""
        return list(dict.fromkeys([*(old or ()), *new]))

    def read(self, column, table, fitted, complaints):
        advice = "Correct it, or start a new campaign that knows this level."
        places = table.one_of(column, fitted, complaints, advice)
        return np.array(fitted, dtype=object)[places].tolist()

    def encode(self, cells, fitted):
        places = pd.Index(fitted, dtype=object).get_indexer_for(list(cells))
        if (places < 0).any():
            raise ValueError(f"{cells[int(np.argmin(places))]!r} is no level of {fitted}")
        return np.eye(len(fitted))[places]

    def labels(self, column, fitted):
        return [f"{column}={level}" for level in fitted]

    def problem_of_values(self, column, values, fitted=None):
        for value in values:
            if self.levels is not None and value not in self.levels:
                return f"names {value!r}, which is no level of {column!r}: {', '.join(self.levels)}"
            if fitted is not None and value not in fitted:
                likely = near(value, [level for level in fitted if level not in values])
                if likely is not None:
                    return (
                        f"names {value!r}, and the column {column!r} has no such level: {', '.join(fitted)}. Did you mean "
                        f"{likely!r}? Correct it in campaign.toml"
                    )
        return None

    def unused(self, column, fitted, values):
        absent = [repr(value) for value in values if value not in fitted]
        if not absent:
            return None
        return (
            f"names {', '.join(absent)}, and no unit has this level in the column {column!r}: it forbids nothing. "
            f"The levels are {', '.join(fitted)}."
        )

    def unseen(self, column, first, later):
        if self.levels is not None:
            return None
        new = sorted(_levels_of(later, column) - _levels_of(first, column))
        if not new:
            return None
        return (
            f"{later.name}, column {column!r}: {', '.join(map(repr, new[:5]))} is not in {first.name}. A campaign learns "
            f"its levels from the first tables it sees: give {later.name} as --targets when you design, or list the "
            "levels in campaign.toml."
        )


def _levels_of(table, column) -> set[str]:
    return {value for value in table.text(column).unique() if value}


def _check_alike(column, levels, tables) -> None:
    """Two levels that differ in case, spaces or accents alone are one level, misspelled."""
    first: dict[str, str] = {}
    for level in levels:
        other = first.setdefault(plain(level), level)
        if other != level:
            rare, common = sorted([level, other], key=lambda text: sum((t.text(column) == text).sum() for t in tables))
            table = next(table for table in tables if (table.text(column) == rare).any())
            rows = (table.text(column) == rare).to_numpy()
            raise TableError(
                f"{table.where(int(np.argmax(rows)))}, column {column!r}: {rare!r} ({int(rows.sum()):,} such row(s)) is "
                f"nearly {common!r}. Did you mean {common!r}? Correct it, or, if they are two levels, list all levels in "
                "campaign.toml."
            )
