"""Users' tables: CSV, Parquet and DataFrames. Every bad cell is told by file, row, column, value and what is allowed.

Rows of a CSV are counted as a spreadsheet shows them: the heading is row 1. Cells of a CSV stay text until a column is
asked for as something else, so ids such as 007 survive.
"""

import dataclasses
import hashlib
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cobed.campaign.toml import nearest
from cobed.errors import TableError
from cobed.outcomes import NO, YES

MAX_TOLD = 20
MISSING = ("", "na", "n/a", "nan", "none", "null", "<na>", "-")


class Complaints:
    """Bad cells of one table, collected over its columns and told together."""

    def __init__(self, table: "Table"):
        self.table = table
        self._found: list[tuple[int, str]] = []
        self._count = 0

    def add(self, bad: np.ndarray, column: str, allowed: str) -> None:
        """`bad` marks the rows whose cell of `column` is wrong; `allowed` says what is allowed and what to do."""
        positions = np.flatnonzero(bad)
        self._count += len(positions)
        for position in positions[:MAX_TOLD]:
            value = self.table.frame[column].iloc[position]
            told = "the cell is empty" if _is_missing(value) and str(value).strip() == "" else f"{_short(value)}"
            joint = ". " if told == "the cell is empty" else " is not allowed. "
            self._found.append((position, f"{self.table.where(position)}, column {column!r}: {told}{joint}{allowed}"))

    def add_row(self, position: int, sentence: str) -> None:
        """Something wrong with a row that is not in one cell."""
        self._count += 1
        self._found.append((position, f"{self.table.where(position)}: {sentence}"))

    def tell(self) -> None:
        """Raise `TableError` with the first of them, in the order of the rows, where there are any."""
        if self._count:
            first = [sentence for _, sentence in sorted(self._found)[:MAX_TOLD]]
            more = self._count - len(first)
            raise TableError("\n".join([*first, f"... and {more:,} more in {self.table.name}."] if more else first))


@dataclasses.dataclass(frozen=True)
class Table:
    """A table as the user gave it. `frame` keeps its rows, columns, index and order; `rows` says what the user calls them."""

    frame: pd.DataFrame
    name: str
    rows: np.ndarray
    hash: str

    def __len__(self) -> int:
        return len(self.frame)

    def sample(self, number: int, seed: int) -> "Table":
        """So many of its rows, drawn at random, in their order; the same rows for the same seed."""
        if not 1 <= number <= len(self):
            raise TableError(
                f"{self.name} has {len(self):,} rows; {number:,} of them cannot be drawn. Allowed: 1 to that."
            )
        places = np.sort(np.random.default_rng(seed).choice(len(self), number, replace=False))
        digest = hashlib.sha256(f"{self.hash} {number} {seed}".encode()).hexdigest()
        return Table(self.frame.iloc[places], self.name, self.rows[places], digest)

    def where(self, position: int) -> str:
        return f"{self.name}, row {self.rows[position]}"

    def require(self, columns: Sequence[str], why: str) -> None:
        """Raise `TableError` where a column is missing."""
        for column in columns:
            if column not in self.frame.columns:
                found = [str(name) for name in self.frame.columns]
                listed = ", ".join(found[:20]) + (", ..." if len(found) > 20 else "")
                raise TableError(
                    f"{self.name} has no column {column!r}, {why}.{nearest(column, found)} Its columns are: {listed}. "
                    "Rename the column in the table, or in campaign.toml."
                )

    def ids(self, column: str) -> pd.Series:
        """The ids as text, one a row, all different."""
        self.require([column], "which names the units")
        text = self.text(column)
        complaints = Complaints(self)
        complaints.add((text == "").to_numpy(), column, "Every row needs an id.")
        first = text.drop_duplicates()
        repeated = text.duplicated() & (text != "")
        seen = dict(zip(first, first.index, strict=True)) if repeated.any() else {}
        for position in np.flatnonzero(repeated.to_numpy())[:MAX_TOLD]:
            other = self.rows[seen[text.iloc[position]]]
            complaints.add_row(
                position,
                f"the id {text.iloc[position]!r} in column {column!r} stands in row {other} already. "
                "A unit has one row in a table: drop one of them.",
            )
        complaints._count += max(0, int(repeated.sum()) - MAX_TOLD)
        complaints.tell()
        return text

    def text(self, column: str) -> pd.Series:
        """A column as stripped text by position; whole numbers without a decimal point, missing cells empty."""
        values = self.frame[column].reset_index(drop=True)
        if pd.api.types.is_bool_dtype(values.dtype):
            return values.astype("string").fillna("").str.lower().astype(object)
        if pd.api.types.is_float_dtype(values.dtype):
            # Whole numbers become floats where a cell of the column is missing.
            numbers = values.astype("float64")
            whole = numbers.notna() & (numbers == numbers.round()) & (numbers.abs() < 2**53)
            text = numbers.astype(object).where(numbers.notna(), "").astype(str)
            text[whole] = numbers[whole].astype("int64").astype(str)
            return pd.Series(text, dtype=object)
        missing = values.isna()
        return pd.Series(values.astype(str).str.strip().where(~missing, ""), dtype=object)

    def numbers(self, column: str, complaints: Complaints, *, allow_missing: bool = False) -> np.ndarray:
        """A column as float64; cells that are no finite number are complained about."""
        values = self.frame[column].reset_index(drop=True)
        if not pd.api.types.is_numeric_dtype(values.dtype) or pd.api.types.is_bool_dtype(values.dtype):
            values = pd.Series(pd.to_numeric(self.text(column), errors="coerce"))
        array = values.to_numpy(dtype="float64", na_value=np.nan)
        # The engine computes in single precision.
        bad = ~(np.abs(array) <= np.finfo(np.float32).max)
        if allow_missing:
            bad &= ~self.missing(column)
        complaints.add(bad, column, "A finite number is expected, with a point for decimals. Fill it or drop the row.")
        return array

    def missing(self, column: str) -> np.ndarray:
        """Which cells are empty, or say so in words."""
        return self.text(column).str.lower().isin(MISSING).to_numpy(dtype=bool)

    def binary(self, column: str, complaints: Complaints, *, allow_missing: bool = False) -> np.ndarray:
        """A column of 0/1, yes/no or true/false as floats; not a number where missing."""
        text = self.text(column).str.lower().replace({"1.0": "1", "0.0": "0"})
        array = np.where(text.isin(YES), 1.0, np.where(text.isin(NO), 0.0, np.nan))
        bad = np.isnan(array)
        if allow_missing:
            bad &= ~self.missing(column)
        complaints.add(bad, column, "Allowed: 0 or 1, yes or no, true or false.")
        return array

    def one_of(
        self, column: str, levels: Sequence[str], complaints: Complaints, advice: str, *, allow_missing: bool = False
    ) -> np.ndarray:
        """Positions of the cells among `levels`; -1 where missing or not among them."""
        text = self.text(column)
        places = pd.Index(levels, dtype=object).get_indexer_for(text)
        bad = places < 0
        if allow_missing:
            bad = bad & ~self.missing(column)
        shown = ", ".join(map(str, levels[:20])) + (", ..." if len(levels) > 20 else "")
        complaints.add(bad, column, f"Allowed: {shown}. {advice}".strip())
        return places


def read_table(source: Any, name: str | None = None) -> Table:
    """A table from a path (.csv, .csv.gz, .tsv, .parquet) or a DataFrame; `TableError` where it cannot be read."""
    if isinstance(source, Table):
        return source
    if isinstance(source, pd.DataFrame):
        return _from_frame(source, name or "the table")
    if not isinstance(source, str | Path):
        raise TableError(f"A table is a path or a pandas DataFrame, got {type(source).__name__}.")
    path = Path(source)
    name = name or path.name
    if not path.is_file():
        raise TableError(
            f"{path} {'is a directory' if path.is_dir() else 'does not exist'}. Give a CSV or Parquet file."
        )
    try:
        content_hash = hashlib.sha256(path.read_bytes()).hexdigest()
        if path.suffix.lower() in (".parquet", ".pq"):
            frame = pd.read_parquet(path)
            rows = np.arange(1, len(frame) + 1)
        else:
            frame, rows = _read_csv(path, name)
    except UnicodeDecodeError as error:
        raise TableError(
            f"{name} is not UTF-8 text ({error.reason} at byte {error.start}). Save it as UTF-8."
        ) from error
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise TableError(
            f"{name} cannot be read as CSV: {str(error).strip()}. Quote cells that hold commas."
        ) from error
    except (OSError, ValueError, EOFError) as error:
        raise TableError(f"{name} cannot be read: {error}.") from error
    return _checked(Table(frame, name, rows, content_hash))


def _from_frame(frame: pd.DataFrame, name: str) -> Table:
    hashes = np.asarray(pd.util.hash_pandas_object(frame.astype(str), index=False))  # pyright: ignore[reportAttributeAccessIssue]
    digest = hashlib.sha256(hashes.tobytes() + repr([str(column) for column in frame.columns]).encode())
    return _checked(Table(frame, name, np.asarray(frame.index), digest.hexdigest()))


def _read_csv(path: Path, name: str) -> tuple[pd.DataFrame, np.ndarray]:
    options: dict[str, Any] = {"encoding": "utf-8-sig", "dtype": str, "keep_default_na": False, "na_filter": False}
    head = pd.read_csv(path, header=None, nrows=1, sep="\x00", quoting=3, skip_blank_lines=False, **options)
    line = str(head.iloc[0, 0]) if len(head) else ""
    separator = max([",", ";", "\t"], key=line.count)
    columns = pd.read_csv(path, header=None, nrows=1, sep=separator, skip_blank_lines=False, **options).iloc[0]
    names = [str(column).strip() for column in columns]
    twice = sorted({column for column in names if names.count(column) > 1})
    if twice:
        what = f"two columns called {twice[0]!r}" if twice[0] else "two columns without a name"
        raise TableError(f"{name}, row 1: the table has {what}. Rename or drop one of them.")
    # One column more than the heading has, to see rows that are too long; more than that pandas tells itself.
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            frame = pd.read_csv(
                path, sep=separator, header=None, skiprows=1, names=[*names, None], index_col=False,
                skip_blank_lines=False, on_bad_lines="error", **options,
            )  # fmt: skip
        except pd.errors.ParserWarning as error:
            raise TableError(
                f"{name}: rows have more cells than the heading, {len(names)}. Quote cells that hold {separator!r}."
            ) from error
    extra = frame.pop(frame.columns[-1])
    long = np.flatnonzero((extra.fillna("").astype(str).str.strip() != "").to_numpy())
    if len(long):
        raise TableError(
            f"{name}, row {long[0] + 2}: the row has more cells than the heading, {len(names)}; the first too many is "
            f"{_short(extra.iloc[long[0]])} ({len(long)} such row(s) in all). Quote cells that hold {separator!r}."
        )
    frame = frame.fillna("")
    rows = np.arange(2, len(frame) + 2)
    empty = np.logical_and.reduce([frame[column].str.strip() == "" for column in names])
    if empty.any():
        frame, rows = frame[~empty].reset_index(drop=True), rows[~empty]
    return frame, rows


def _checked(table: Table) -> Table:
    columns = [str(column) for column in table.frame.columns]
    twice = sorted({column for column in columns if columns.count(column) > 1})
    if twice:
        raise TableError(f"{table.name} has two columns called {twice[0]!r}. Rename or drop one of them.")
    if len(table) == 0:
        raise TableError(f"{table.name} has no rows. At least one unit is needed.")
    return table


def write_table(frame: pd.DataFrame, path: Path) -> Path:
    """The frame as CSV or Parquet, by the name of the file, whole or not at all."""
    from cobed.storage import write_whole

    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() in (".parquet", ".pq"):
        write_whole(path, lambda file: frame.to_parquet(file, index=False))
    else:
        write_whole(path, lambda file: frame.to_csv(file, index=False))
    return path


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value)) or str(value).strip() == ""


def _short(value: Any) -> str:
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 60 else text[:57] + "..."
