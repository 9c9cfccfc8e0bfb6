"""Missing cells and new levels of a table, counted by context column, and what to say of them."""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import Any

from cobed.campaign.encoding import FACTS, MISSING_CELL, NEW_VALUE, Cells, Encoding
from cobed.campaign.near import near
from cobed.campaign.spec import CampaignSpec

# Shares of the rows from which on it is a warning: of what the first tables had too, and of what no row has taught anything about.
MANY, MANY_UNLEARNED = 0.5, 0.05
MAX_COLUMNS, MAX_WARNED, MAX_LEVELS_TOLD = 60, 5, 3
KINDS = {MISSING_CELL: "Missing cells", NEW_VALUE: "Cells with a rare or new level"}


@dataclasses.dataclass(frozen=True)
class Gaps:
    """How many rows of a table there are, and how many of them have a missing or a new cell, by column."""

    rows: int
    missing: dict[str, int]
    new: dict[str, int]
    warnings: list[str]

    def summary(self) -> dict[str, Any]:
        """The counts as they are stored beside a round or a policy."""
        return {MISSING_CELL: self.missing, NEW_VALUE: self.new}


def gap_sentences(summary: Mapping[str, Any], rows: int) -> list[str]:
    """The counts in words, the largest first; nothing where there are none."""
    said = []
    for fact, words in KINDS.items():
        counts = sorted(summary.get(fact, {}).items(), key=lambda item: -item[1])
        parts = [f"{_cut(name)} {count:,} ({share(count / rows)})" for name, count in counts[:MAX_COLUMNS]]
        more = f", and {len(counts) - MAX_COLUMNS} more columns" if len(counts) > MAX_COLUMNS else ""
        said += [f"{words}, of {rows:,} rows, by column: {', '.join(parts)}{more}."] if parts else []
    return said


def count_gaps(spec: CampaignSpec, encoding: Encoding, cells: Cells, table: str) -> Gaps:
    """What is missing or new in the cells of a table of this name to a campaign with this encoding."""
    counts: dict[str, dict[str, int]] = {fact: {} for fact in FACTS}
    rows, warnings = len(next(iter(cells.values()))), []
    sparse: list[str] = []
    for name, column in spec.context.items():
        absent = encoding.absent(name, column, cells[name])
        for fact in FACTS:
            count = int(absent[fact].sum())
            if not count:
                continue
            counts[fact][name] = count
            is_learned = fact in encoding.facts.get(name, ())
            if fact == NEW_VALUE:
                levels = Counter(cell for cell, is_new in zip(cells[name], absent[fact], strict=True) if is_new)
                warnings += _near_levels(name, levels, encoding.fitted.get(name) or [], table)
            if count >= MANY * rows and is_learned:
                sparse.append(f"{_cut(name)} ({share(count / rows)})")
            elif count >= MANY_UNLEARNED * rows and not is_learned:
                what = "hold nothing" if fact == MISSING_CELL else "hold a level that was not there before"
                warnings.append(
                    f"{table}, column {name!r}: {share(count / rows)} of the cells {what}, of which no outcome has told anything. "
                    "They count as an average unit, with wider intervals."
                )
    if sparse:
        more = f", and {len(sparse) - MAX_WARNED} more columns" if len(sparse) > MAX_WARNED else ""
        which = ", ".join(sparse[:MAX_WARNED]) + more
        warnings.append(f"{table}: at least half of the cells are missing, or have rare levels, in {which}.")
    if spec.model.program is not None and any(
        fact not in encoding.facts.get(name, ()) for fact in FACTS for name in counts[fact]
    ):
        warnings.append(
            f"{table}: where cells are missing or new, the program sees an average unit; intervals are not wider."
        )
    return Gaps(rows, counts[MISSING_CELL], counts[NEW_VALUE], warnings)


def _near_levels(column: str, levels: Counter[str], known: list[str], table: str) -> list[str]:
    """A sentence for the new levels that are nearly known ones."""
    likely = {level: near(level, known) for level, _ in levels.most_common(100)}
    said = [
        f"{level!r} ({levels[level]:,} row(s)) is new. Did you mean {meant!r}?"
        for level, meant in likely.items()
        if meant
    ]
    return [f"{table}, column {column!r}: {' '.join(said[:MAX_LEVELS_TOLD])}"] if said else []


def _cut(name: str) -> str:
    return name if len(name) <= 40 else f"{name[:37]}..."


def share(value: float) -> str:
    """A share in words: 20%, 0.3%, under 0.1%."""
    if value >= 0.01:
        return f"{value:.0%}"
    return f"{value:.1%}" if value >= 0.001 else "under 0.1%"
