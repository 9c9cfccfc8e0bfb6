"""Columns that hold one of some names."""

from collections import Counter
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import pandas as pd
from pydantic import Field, field_validator

from cobed.campaign.columns.base import Column, Name
from cobed.campaign.near import near, plain
from cobed.errors import TableError

# So many levels have coefficients of their own; the rarest of more share one, as levels do that come later.
MAX_LEVELS = 50
# The share of rows with one of these levels that `cobed init` asks for: below it a column is free text.
COMMON = 0.8


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
        """Some names that come back: not as many as rows, and few rows with a rare one."""
        counts = table.text(column).value_counts()
        return 2 <= len(counts) < len(table) and counts.iloc[:MAX_LEVELS].sum() >= COMMON * len(table)

    def fit(self, column, tables):
        if self.levels is not None:
            return list(self.levels)
        counts = sum((Counter(_names(self, table, column)) for table in tables), Counter())
        _check_alike(column, sorted(counts), tables)
        levels = sorted(level for level, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MAX_LEVELS])
        if len(counts) > MAX_LEVELS and 2 * len(counts) > counts.total():
            raise TableError(
                f"{tables[0].name}, column {column!r} has {len(counts):,} different values in {counts.total():,} rows, like ids or "
                "free text. Group them, or leave the column out of [context]: other columns pass through untouched."
            )
        if len(levels) < 2 and not (levels and any(self.missing(column, table, None).any() for table in tables)):
            what = f"the one value {levels}" if levels else "no value at all"
            raise TableError(
                f"{tables[0].name}, column {column!r} has {what}, which tells nothing about a unit. "
                "Leave it out of [context], or list its levels in campaign.toml."
            )
        return levels

    def grow(self, fitted, cells):
        """Levels of later tables become known, where the spec has no list of them, as long as there are not too many."""
        levels = fitted if self.levels is not None else list(dict.fromkeys([*fitted, *sorted({*cells} - {*fitted})]))
        return levels[: max(MAX_LEVELS, len(fitted))]

    def missing(self, column, table, fitted):
        # Where there are names, "none" is one of them.
        return table.missing(column, ["none", *(fitted or self.levels or ())])

    def new(self, column, table, fitted, *, strict):
        text = table.text(column)
        absent = ~text.isin(fitted).to_numpy(dtype=bool) & ~self.missing(column, table, fitted)
        if not strict:
            return absent
        if self.levels is not None:
            return np.zeros(len(table), bool)
        return absent & ~text.isin([word for word in {*text[absent]} if near(word, fitted)]).to_numpy(dtype=bool)

    def knows(self, cells, fitted):
        return pd.Index(fitted, dtype=object).get_indexer_for(list(cells)) >= 0

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
        if not absent or len(fitted) >= MAX_LEVELS:
            return None
        return (
            f"names {', '.join(absent)}, and no unit has this level in the column {column!r}: it forbids nothing. "
            f"The levels are {', '.join(fitted)}."
        )

    def unseen(self, column, first, later):
        if self.levels is not None:
            return None
        new = sorted({*_names(self, later, column)} - {*_names(self, first, column)})
        if not new:
            return None
        return (
            f"{later.name}, column {column!r}: {', '.join(map(repr, new[:5]))} is not in {first.name}. Nothing will be learned "
            "about it there; a policy for it rests on what is known of the population."
        )


def _names(kind, table, column) -> Iterator[str]:
    """The names in a column of a table before anything was fitted."""
    return iter(table.text(column)[~kind.missing(column, table, None)])


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
