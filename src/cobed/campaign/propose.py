"""Which columns of a table could be contexts of a new campaign, of which kind, and why the others are left out."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from cobed.campaign.columns import kinds, read_column
from cobed.campaign.columns.base import Column
from cobed.campaign.columns.categorical import MAX_LEVELS
from cobed.campaign.near import plain
from cobed.campaign.tables import Table

# A column with a larger share of missing cells is left out.
MAX_MISSING = 0.9
# Whole numbers with so few different values may be codes of something.
MAX_CODES = 10
# In fewer rows two columns agree by chance.
FEW_ROWS = 20
DATE = r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([ T].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}( .*)?"
# Names of columns that are probably known only once the outcome is.
AFTERWARDS = {"after", "afterwards", "outcome", "outcomes", "result", "results", "response"}


class Proposal(NamedTuple):
    """How [context] names a column, None where it is left out; and a sentence about it."""

    kind: Any
    why: str = ""


def propose(tables: Sequence[Table], columns: Sequence[str], used: Sequence[str] = ()) -> dict[str, Proposal]:
    """A proposal for each column of the first table. The others say where a policy will be deployed, `used` are the columns of
    past actions and outcomes."""
    patterns = {_pattern(tables[:1], name): name for name in used}
    made: dict[str, Proposal] = {}
    for name in columns:
        if not all(name in table.frame.columns for table in tables):
            made[name] = Proposal(None, "the table of targets does not have it.")
            continue
        words = set(re.split(r"[^a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower()))
        if used and len(tables) == 1 and words & AFTERWARDS:
            made[name] = Proposal(None, "by its name it is known only afterwards. Add it if it is known before.")
            continue
        pattern = _pattern(tables, name)
        if pattern is not None and pattern in patterns:
            made[name] = Proposal(None, f"its cells differ where those of {patterns[pattern]!r} do, and nowhere else.")
            continue
        made[name] = _propose(tables, name)
        if made[name].kind is not None:
            patterns[pattern] = name
    return made


def _pattern(tables: Sequence[Table], column: str) -> bytes | None:
    """Which rows have the same cell; None where that is nothing special: few rows, or most of them different."""
    codes, values = pd.factorize(pd.concat([table.text(column) for table in tables], ignore_index=True))
    return codes.tobytes() if len(codes) >= FEW_ROWS and 2 * len(values) <= len(codes) else None


def _propose(tables: Sequence[Table], column: str) -> Proposal:
    rows = sum(map(len, tables))
    num_missing = sum(int(table.missing(column, ["none"]).sum()) for table in tables)
    gaps = f"{num_missing:,} of {rows:,} cells are missing" if num_missing else ""
    if num_missing > MAX_MISSING * rows:
        return Proposal(None, f"{gaps}.")
    constant = False
    for kind in kinds():
        column_of_kind = read_column(kind.name)
        parts = [table.part(np.flatnonzero(~column_of_kind.missing(column, table, None))) for table in tables]
        cells = pd.concat([part.text(column) for part in parts], ignore_index=True)
        if cells.str.fullmatch(DATE).mean() > 0.9:
            return Proposal(None, "dates. A column with a number of days could be a context.")
        constant = cells.nunique() < 2
        if constant or not all(kind.suits(part, column) for part in parts if len(part)):
            continue
        proposal = _of_kind(column_of_kind, column, cells)
        if proposal is not None:
            return proposal._replace(why=" ".join(filter(None, [gaps and f"{gaps}.", proposal.why])))
    if constant:
        return Proposal(None, " ".join(["the same value in every row that has one.", gaps and f"{gaps}."]).strip())
    texts = pd.concat([table.text(column) for table in tables], ignore_index=True)
    return Proposal(None, f"{texts.nunique():,} different texts in {rows:,} rows, like ids or free text.")


def _of_kind(kind: Column, column: str, cells: pd.Series) -> Proposal | None:
    """The proposal for cells that suit a kind; None where they are no such thing all the same."""
    counts = cells.value_counts()
    has_levels = "levels" in type(kind).model_fields
    if kind.is_number:
        if cells.str.fullmatch(r"0\d+").any():
            return None  # 02139 is the name of a place
        # Some cells show a number in another way, such as a percentage.
        numbers = pd.Series(pd.to_numeric(cells, errors="coerce"))
        whole = bool((numbers == numbers.round()).all())
        if whole and len(counts) == len(cells) and numbers.max() - numbers.min() == len(cells) - 1:
            return Proposal(None, "it counts the rows.")
        if whole and 2 < len(counts) <= MAX_CODES:
            low, high = numbers.min(), numbers.max()
            return Proposal(
                kind.name, f'whole numbers from {low:.0f} to {high:.0f}: "categorical" if they name something.'
            )
    elif has_levels and len({plain(level) for level in cells.unique()}) < len(counts) <= MAX_LEVELS:
        levels: Mapping[str, Any] = {"type": kind.name, "levels": sorted(counts.index)}
        return Proposal(
            levels, "some levels differ in case, spaces or accents alone: they are listed, so that both count."
        )
    elif has_levels and len(counts) > MAX_LEVELS:
        rare = counts.iloc[MAX_LEVELS:]
        return Proposal(
            kind.name, f"{len(counts):,} levels: the {len(rare):,} rarest ({rare.sum():,} rows) count as one."
        )
    return Proposal(kind.name)
