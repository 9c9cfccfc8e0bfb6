"""What is wrong with the cells of a table: collected over its columns, told together or row by row."""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cobed.errors import TableError

if TYPE_CHECKING:
    from cobed.campaign.tables import Table

MAX_TOLD = 20


class Fault(NamedTuple):
    """The rows, by position, with one kind of fault, the column it is in, and what to say of each."""

    positions: np.ndarray
    column: str
    sentence: Callable[[int], str]


class Complaints:
    """Bad cells of one table."""

    def __init__(self, table: "Table"):
        self.table = table
        self.faults: list[Fault] = []

    def add(self, bad: np.ndarray, column: str, allowed: str, likely: Callable[[str], str] | None = None) -> None:
        """`bad` marks the rows whose cell of `column` is wrong; `allowed` says what is allowed and what to do, `likely`
        what was probably meant by a cell."""

        def sentence(position: int) -> str:
            value = self.table.frame[column].iloc[position]
            empty = is_missing(value) and str(value).strip() == ""
            meant = "" if likely is None or is_missing(value) else likely(str(value).strip())
            return f"{'the cell is empty' if empty else f'{short(value)} is not allowed'}. {allowed}{meant}"

        self.add_rows(bad, column, sentence)

    def add_rows(self, bad: np.ndarray, column: str, sentence: Callable[[int], str]) -> None:
        """The same with a sentence for each position."""
        positions = np.flatnonzero(bad)
        if len(positions):
            self.faults.append(Fault(positions, column, sentence))

    def take(self, other: "Complaints", positions: np.ndarray) -> None:
        """Those about a part of the table, whose rows stand at these positions, in their order."""
        for fault in other.faults:

            def sentence(position: int, fault: Fault = fault) -> str:
                return fault.sentence(int(np.searchsorted(positions, position)))

            self.faults.append(Fault(positions[fault.positions], fault.column, sentence))

    def tell(self) -> None:
        """Raise `TableError` with the first of them, in the order of the rows, where there are any."""
        if not self.faults:
            return
        first = sorted(
            (int(position), which) for which, fault in enumerate(self.faults) for position in fault.positions[:MAX_TOLD]
        )
        said = []
        for position, which in first[:MAX_TOLD]:
            fault = self.faults[which]
            said.append(f"{self.table.where(position)}, column {fault.column!r}: {fault.sentence(position)}")
        more = sum(len(fault.positions) for fault in self.faults) - len(said)
        raise TableError("\n".join([*said, f"... and {more:,} more in {self.table.name}."] if more else said))

    def by_row(self) -> dict[int, str]:
        """All that is wrong with each bad row, by its position."""
        sentences: dict[int, list[str]] = {}
        for fault in self.faults:
            for position in fault.positions.tolist():
                sentences.setdefault(position, []).append(f"column {fault.column!r}: {fault.sentence(position)}")
        return {position: " ".join(said) for position, said in sorted(sentences.items())}

    def by_column(self) -> dict[str, int]:
        """How many cells of each column are wrong."""
        counts: Counter[str] = Counter()
        for fault in self.faults:
            counts[fault.column] += len(fault.positions)
        return dict(counts)


def is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value)) or str(value).strip() == ""


def short(value: Any) -> str:
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 60 else text[:57] + "..."
