"""Users' tables: files and DataFrames. Every bad cell is told by file, row, column, value and what is allowed.

Rows of a CSV are counted as a spreadsheet shows them: the heading is row 1. Cells of a CSV stay text until a column is
asked for as something else, so ids such as 007 survive.
"""

import dataclasses
import functools
import hashlib
import lzma
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cobed.campaign.complaints import Complaints, short
from cobed.campaign.near import near, nearest, plain
from cobed.campaign.sheets import is_text, read_file, split_sheet, with_index, writer
from cobed.errors import TableError
from cobed.outcomes import NO, YES
from cobed.storage import write_output

MAX_ID = 500
# The words that mean "missing" in a cell, in any case. A level or an option of that name wins; among names `none` is a name.
MISSING = (
    "", "na", "n/a", "n.a.", "#n/a", "nan", "nat", "<na>", "none", "null", "missing", "unknown", "not available", "not known",
    "?", ".", "-", "--", "\u2013", "\u2014",
)  # fmt: skip


@dataclasses.dataclass(frozen=True, eq=False)
class Table:
    """A table as the user gave it. `frame` keeps its rows, columns, index and order; `rows` says what the user calls them."""

    frame: pd.DataFrame
    name: str
    rows: np.ndarray
    hash: str
    notes: tuple[str, ...] = ()  # what the user should know of how it was read
    original: pd.DataFrame | None = None  # a DataFrame as it was given, where `frame` has its index as columns

    def __len__(self) -> int:
        return len(self.frame)

    def part(self, places: np.ndarray) -> "Table":
        """Some of its rows, in the order given."""
        original = None if self.original is None else self.original.iloc[places]
        return dataclasses.replace(self, frame=self.frame.iloc[places], rows=self.rows[places], original=original)

    def with_columns(self, columns: dict[str, Any]) -> pd.DataFrame:
        """A copy as the user gave it, index included, with these columns added."""
        frame = (self.frame if self.original is None else self.original).copy()
        for name, values in columns.items():
            frame[name] = values
        return frame

    def where(self, position: int) -> str:
        return f"{self.name}, row {self.rows[position]}"

    def require(self, columns: Sequence[str], why: str) -> None:
        """Raise `TableError` where a column is missing."""
        for column in columns:
            if column not in self.frame.columns:
                names = [str(name) for name in self.frame.columns]
                listed = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
                raise TableError(
                    f"{self.name} has no column {column!r}, {why}.{nearest(column, names)} Its columns are: {listed}. "
                    "Rename the column in the table, or in campaign.toml."
                )

    def ids(self, column: str) -> pd.Series:
        """The ids as text, one per row, all different."""
        self.require([column], "which names the units")
        text = self.text(column)
        complaints = Complaints(self)
        self.check_ids(column, complaints)
        complaints.tell()
        return text

    def check_ids(self, column: str, complaints: Complaints) -> None:
        """Complain about ids that are missing or stand in an earlier row already."""
        text = self.text(column)
        complaints.add((text == "").to_numpy(), column, "Every row needs an id.")
        complaints.add((text.str.len() > MAX_ID).to_numpy(), column, f"An id has at most {MAX_ID:,} characters.")
        repeated = (text.duplicated() & (text != "")).to_numpy()
        first = text.drop_duplicates()
        seen = dict(zip(first, first.index, strict=True)) if repeated.any() else {}

        def sentence(position: int) -> str:
            other = self.rows[seen[text.iloc[position]]]
            return (
                f"the id {short(text.iloc[position])} stands in row {other} already. A unit has one row in a table: drop one "
                "of them."
            )

        complaints.add_rows(repeated, column, sentence)

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
        if values.dtype == object:
            # Excel has numbers and text in one column.
            cells = [int(value) if type(value) is float and value.is_integer() else value for value in values]
            values = pd.Series(cells, dtype=object)
        return pd.Series(values.astype(str).str.strip().where(~missing, ""), dtype=object)

    def numbers(self, column: str, complaints: Complaints, *, allow_missing: bool = False) -> np.ndarray:
        """A column as float64; cells that are no finite number are complained about."""
        values = self.frame[column].reset_index(drop=True)
        if not pd.api.types.is_numeric_dtype(values.dtype) or pd.api.types.is_bool_dtype(values.dtype):
            numbers = pd.Series(pd.to_numeric(self.text(column), errors="coerce"))
            # A number that Excel shows as a percentage.
            percentages = values.astype(object).map(lambda value: isinstance(value, float))
            values = numbers.where(numbers.notna() | ~percentages, values)
        array = values.to_numpy(dtype="float64", na_value=np.nan)
        # The engine computes in single precision.
        bad = ~(np.abs(array) <= np.finfo(np.float32).max)
        if allow_missing:
            bad &= ~self.missing(column)
        advice = "A finite number is expected, with a point for decimals. Fill it or drop the row."
        complaints.add(bad, column, advice, _likely_number)
        return array

    def missing(self, column: str, names: Sequence[str] = ()) -> np.ndarray:
        """Which cells are empty, or say so in a word of `MISSING` that is none of these names."""
        values = self.frame[column]
        if pd.api.types.is_numeric_dtype(values.dtype):
            return values.isna().to_numpy(dtype=bool)
        words = set(MISSING) - {plain(name) for name in names}
        return self.text(column).str.lower().isin(words).to_numpy(dtype=bool)

    def binary(self, column: str, complaints: Complaints, *, allow_missing: bool = False) -> np.ndarray:
        """A column of 0/1, yes/no or true/false as floats; not a number where missing."""
        text = self.text(column).str.lower().replace({"1.0": "1", "0.0": "0"})
        array = np.where(text.isin(YES), 1.0, np.where(text.isin(NO), 0.0, np.nan))
        bad = np.isnan(array)
        if allow_missing:
            bad &= ~self.missing(column)
        likely = functools.partial(nearest, valid=["yes", "no", "true", "false"])
        complaints.add(bad, column, "Allowed: 0 or 1, yes or no, true or false.", likely)
        return array

    def one_of(
        self, column: str, levels: Sequence[str], complaints: Complaints, advice: str, *, allow_missing: bool = False
    ) -> np.ndarray:
        """Positions of the cells among `levels`; -1 where missing or not among them."""
        text = self.text(column)
        places = pd.Index(levels, dtype=object).get_indexer_for(text)
        bad = places < 0
        if allow_missing:
            # 'None' may mean missing, or the level 'none': where there is such a level, only an empty cell is missing.
            doubtful = any(plain(level) in MISSING for level in levels)
            bad = bad & ~((text == "").to_numpy(dtype=bool) if doubtful else self.missing(column))
        shown = ", ".join(map(_cut, levels[:20])) + (", ..." if len(levels) > 20 else "")
        complaints.add(
            bad, column, f"Allowed: {shown}. {advice}".strip(), functools.partial(nearest, valid=list(levels))
        )
        return places

    def check_near(self, columns: Sequence[str], why: str, known: Sequence[str] = ()) -> None:
        """`TableError` where columns that may be left out are there under nearly the same name, or only some of them.
        Those in `known` have another meaning."""
        names = [str(name) for name in self.frame.columns]
        absent = [column for column in columns if column not in names]
        for column in absent:
            likely = near(column, [name for name in names if name not in (*columns, *known)])
            if likely is not None:
                raise TableError(
                    f"{self.name} has no column {column!r}, {why}. Did you mean {likely!r}? Rename that column, or drop it."
                )
        if absent and len(absent) < len(columns):
            given = next(column for column in columns if column in names)
            raise TableError(
                f"{self.name} has the column {given!r} but not {absent[0]!r}; both are {why}. Give all of them, or none."
            )


def read_table(source: Any, frame_name: str = "the table") -> Table:
    """A table from a path (.csv, .csv.gz, .tsv, .parquet, .xlsx, .xlsx#Sheet) or a DataFrame, which messages call by this
    name; `TableError` where it cannot be read."""
    if isinstance(source, Table):
        return source
    if isinstance(source, pd.DataFrame):
        return _from_frame(source, frame_name)
    if not isinstance(source, str | Path):
        raise TableError(f"A table is a path or a pandas DataFrame, got {type(source).__name__}.")
    path, sheet = split_sheet(source)
    # A name the store and the terminal can hold, whatever bytes the file system allows.
    name = path.name.encode("utf-8", "backslashreplace").decode()
    if "\x00" in str(path) or not path.is_file():
        what = "is a directory" if "\x00" not in str(path) and path.is_dir() else "does not exist"
        raise TableError(f"{path} {what}. Give a CSV, Parquet or Excel file.")
    try:
        content = path.read_bytes()
        frame, rows, notes = read_file(path, content, name, sheet)
    except UnicodeDecodeError as error:
        raise TableError(
            f"{name} is not UTF-8 text ({error.reason} at byte {error.start}). Save it as UTF-8."
        ) from error
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise TableError(
            f"{name} cannot be read as CSV: {str(error).strip()}. Quote cells that hold commas."
        ) from error
    except (OSError, ValueError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise TableError(f"{name} cannot be read: {error}.") from error
    digest = hashlib.sha256(content + (sheet or "").encode("utf-8", "surrogatepass")).hexdigest()
    return _checked(Table(frame, name, rows, digest, tuple(notes)))


def _from_frame(frame: pd.DataFrame, name: str) -> Table:
    if frame.columns.nlevels > 1:
        raise TableError(f"{name} has headings of {frame.columns.nlevels} levels. Give each column one name.")
    rows, original = np.asarray(frame.index), frame
    try:
        # An index with names is columns like the others; one without is what the rows are called.
        frame = with_index(frame) if any(level is not None for level in frame.index.names) else frame
        digest = _hash(frame)
    except UnicodeEncodeError as error:
        raise TableError(
            f"{name}: a cell holds a character that is no valid text ({error.reason}). Correct the cell."
        ) from error
    return _checked(Table(frame, name, rows, digest, original=original))


def _hash(frame: pd.DataFrame) -> str:
    hashes = np.asarray(pd.util.hash_pandas_object(frame.astype(str), index=False))  # pyright: ignore[reportAttributeAccessIssue]
    return hashlib.sha256(hashes.tobytes() + repr([str(column) for column in frame.columns]).encode()).hexdigest()


def _checked(table: Table) -> Table:
    columns = [str(column) for column in table.frame.columns]
    twice = sorted({column for column in columns if columns.count(column) > 1})
    if twice:
        raise TableError(f"{table.name} has two columns called {twice[0]!r}. Rename or drop one of them.")
    for column in columns:
        if not _is_text(column):
            raise TableError(f"{table.name}: the heading {short(column)} holds a character that is no text. Rename it.")
    if len(table) == 0:
        raise TableError(f"{table.name} has no rows. At least one unit is needed.")
    for name, kind in table.frame.dtypes.items():
        if is_text(kind):
            cells = [value if isinstance(value, str) else "" for value in table.frame[name]]
            if not _is_text("".join(cells)):
                row = next(row for row, cell in enumerate(cells) if not _is_text(cell))
                raise TableError(
                    f"{table.where(row)}, column {name!r}: {short(cells[row])} holds a character that is no text "
                    "(NUL, or half of a pair). Correct the cell."
                )
    return table


def _is_text(value: str) -> bool:
    """Whether files and databases can hold it: no NUL character, no half of a surrogate pair."""
    try:
        return b"\x00" not in value.encode()
    except UnicodeEncodeError:
        return False


def write_table(frame: pd.DataFrame, path: str | Path) -> Path:
    """The frame as CSV, Parquet or Excel, by the name of the file: whole or not at all, over nothing that cobed did not
    write there."""
    return write_output(path, writer(frame, Path(path)))


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _likely_number(text: str) -> str:
    """' Did you mean 1.5?' for numbers written in another country's way."""
    number = re.sub(r"^[^\d+.,-]+|[^\d.,]+$", "", re.sub(r"[\s\u00a0'\u2019_]", "", text))
    if number.count(",") == 1 and number.rfind(",") > number.rfind("."):
        number = number.replace(".", "").replace(",", ".")
    number = number.replace(",", "")
    try:
        return f" Did you mean {float(number):.12g}?" if number != text and np.isfinite(float(number)) else ""
    except ValueError:
        return ""
