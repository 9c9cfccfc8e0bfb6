"""Excel files. A cell is what Excel computed last; rows are called as Excel shows them."""

import datetime
import io
import re
import zipfile
from typing import IO, Any

import numpy as np
import pandas as pd

from cobed.errors import TableError

MAX_ROWS, MAX_COLUMNS, MAX_CELL = 1_048_576, 16_384, 32_767
# Excel keeps 15 digits of a number.
MAX_WHOLE = 10**15


class Percent(float):
    """A number that Excel shows as a percentage: a number where numbers are asked for, '5%' where names are."""

    def __str__(self) -> str:
        return f"{self * 100:.12g}%"

    __repr__ = __str__


def read_excel(content: bytes, name: str, sheet: str | None) -> tuple[pd.DataFrame, np.ndarray, list[str]]:
    """The cells of a sheet, by default the first one, the numbers of its rows, and notes about what was read."""
    from openpyxl import load_workbook
    from openpyxl.worksheet.worksheet import Worksheet

    try:
        book = load_workbook(io.BytesIO(content), data_only=True)
        formulas = load_workbook(io.BytesIO(content)) if _has_formulas(content) else None
    except Exception as error:  # openpyxl raises whatever the damaged part led to
        raise TableError(f"{name} cannot be read as an Excel file: {error}. Save it again as .xlsx.") from error
    names = [page.title for page in book.worksheets]
    if sheet is not None and sheet not in names:
        raise TableError(f"{name} has no sheet {sheet!r}. Its sheets are: {', '.join(names)}.")
    if not names:
        raise TableError(f"{name} has no sheet with cells.")
    page = book[sheet or names[0]]
    assert isinstance(page, Worksheet)
    where = f"{name}#{page.title}" if len(names) > 1 else name
    notes = []
    if sheet is None and len(names) > 1:
        others = ", ".join(names[1:])
        notes.append(f"{name} has {len(names)} sheets; the first, {page.title!r}, was read. For another: {name}#{names[1]}."
                     f" The others: {others}.")  # fmt: skip
    if page.merged_cells.ranges:
        first = min(page.merged_cells.ranges, key=lambda area: (area.min_row, area.min_col))
        raise TableError(
            f"{where}: the cells {first.coord} are merged into one, so it is not known what the single cells hold. "
            "Unmerge them and fill each cell."
        )
    if formulas is not None:
        _check_computed(where, page, formulas[page.title])
    frame, rows = _cells(where, page)
    hidden = sum(bool(page.row_dimensions[int(row)].hidden) for row in rows if int(row) in page.row_dimensions)
    if hidden:
        notes.append(f"{where}: {hidden:,} of the rows are hidden in Excel; they were read like the others.")
    return frame, rows, notes


def _has_formulas(content: bytes) -> bool:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        sheets = [part for part in archive.namelist() if part.startswith("xl/worksheets/")]
        return any(re.search(rb"<f[ >/]", archive.read(part)) for part in sheets)


def _check_computed(where: str, page: Any, formulas: Any) -> None:
    for row in formulas.iter_rows():
        for cell in row:
            if cell.data_type == "f" and page[cell.coordinate].value is None:
                raise TableError(
                    f"{where}, cell {cell.coordinate}: the formula {str(cell.value)[:60]!r} has no computed value in the "
                    "file. Open it in Excel and save it, or put the value in the place of the formula."
                )


def _cells(where: str, page: Any) -> tuple[pd.DataFrame, np.ndarray]:
    numbered = [
        (number, [_value(cell) for cell in row])
        for number, row in enumerate(page.iter_rows(), start=page.min_row)
        if any(cell.value is not None and str(cell.value).strip() for cell in row)
    ]
    if not numbered:
        raise TableError(f"{where} has no cells. A heading and at least one row are needed.")
    (top, heading), body = numbered[0], numbered[1:]
    from openpyxl.utils import get_column_letter

    columns: dict[str, list[Any]] = {}
    for index, title in enumerate(heading):
        values = [row[index] for _, row in body]
        name = "" if title is None else str(title).strip()
        if not name:
            if any(value is not None for value in values):
                letter = get_column_letter(page.min_column + index)
                raise TableError(f"{where}, row {top}: column {letter} has cells and no heading. Name it, or empty it.")
            continue
        if name in columns:
            raise TableError(f"{where}, row {top}: the table has two columns called {name!r}. Rename or drop one.")
        columns[name] = values
    frame = pd.DataFrame({name: _column(values) for name, values in columns.items()})
    return frame, np.array([number for number, _ in body], dtype=int)


def _value(cell: Any) -> Any:
    """What a cell holds, as a person reads it: 7 shown as 007 is '007', 0.05 shown as 5% is a `Percent`."""
    value, shown = cell.value, cell.number_format or ""
    match value:
        case None | bool() | str():
            return value
        case int() if value >= 0 and re.fullmatch("0{2,}", shown):
            return str(value).zfill(len(shown))
        case int() | float():
            return Percent(value) if shown.endswith("%") else value
        case datetime.datetime() if value.time() == datetime.time():
            return value.date().isoformat()
        case datetime.datetime():
            return value.isoformat(sep=" ")
        case _:
            return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _column(values: list[Any]) -> pd.Series:
    """Numbers as numbers, so that they are numbers again where they are written; all else as it is."""
    given = [value for value in values if value is not None]
    if given and all(type(value) in (int, float) for value in given):
        whole = len(given) == len(values) and all(type(value) is int and abs(value) < 2**53 for value in given)
        return pd.Series(values, dtype="int64" if whole else "float64")
    if given and len(given) == len(values) and all(type(value) is bool for value in given):
        return pd.Series(values, dtype=bool)
    return pd.Series(values, dtype=object)


def write_excel(frame: pd.DataFrame, file: IO[bytes], name: str) -> None:
    """One sheet. Text stays text, whatever it begins with."""
    from openpyxl import Workbook
    from openpyxl.cell import WriteOnlyCell

    if len(frame) >= MAX_ROWS or len(frame.columns) > MAX_COLUMNS:
        raise TableError(
            f"{name}: an Excel sheet holds {MAX_ROWS:,} rows and {MAX_COLUMNS:,} columns, and the table has "
            f"{len(frame):,} and {len(frame.columns):,}. Write it as .csv or .parquet."
        )
    titles = [str(column) for column in frame.columns]
    for column, title in zip(frame.columns, titles, strict=True):
        for row, value in enumerate([title, *frame[column]], start=1):
            if isinstance(value, str):
                _check_text(value, f"{name}, row {row}, column {title[:60]!r}")
    book = Workbook(write_only=True)
    page = book.create_sheet("Sheet1")

    def cell(value: Any) -> Any:
        value = _plain(value)
        if isinstance(value, Percent):
            made = WriteOnlyCell(page, float(value))
            made.number_format = "0%" if f"{value * 100:.12g}".lstrip("-").isdigit() else "0.00%"
            return made
        if not isinstance(value, str):
            return value
        if not value.startswith(("=", "#", "+", "-", "@")):
            return value
        made = WriteOnlyCell(page, value)
        made.data_type = "s"
        made.quotePrefix = True  # pyright: ignore[reportAttributeAccessIssue]
        return made

    page.append([cell(title) for title in titles])
    for values in zip(*(frame[column] for column in frame.columns), strict=True):
        page.append([cell(value) for value in values])
    book.save(file)


def _plain(value: Any) -> Any:
    """What openpyxl can write: numbers, booleans, dates, text; None for missing."""
    if value is None or value is pd.NaT or value is pd.NA:
        return None
    match value.item() if isinstance(value, np.generic) else value:
        case str() | Percent() | bool() as written:
            return written
        case int() as number:
            return number if abs(number) < MAX_WHOLE else str(number)
        case float() as number:
            return None if np.isnan(number) else number if np.isfinite(number) else str(number)
        case pd.Timestamp() as time if time.tzinfo is None:
            return time.to_pydatetime()
        case other:
            return str(other)


def _check_text(value: str, where: str) -> None:
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    if len(value) > MAX_CELL:
        raise TableError(
            f"{where}: the cell has {len(value):,} characters, and Excel holds {MAX_CELL:,}. Write the table as .csv or "
            ".parquet."
        )
    if ILLEGAL_CHARACTERS_RE.search(value):
        raise TableError(f"{where}: {value[:60]!r} holds a character that Excel cannot. Write the table as .csv.")
