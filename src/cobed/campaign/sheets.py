"""Tables as files: CSV, Parquet and Excel, read with the row numbers a spreadsheet shows, written whole or not at all.

Spreadsheets take text such as `=cmd` for a formula. In a CSV such text stands behind an apostrophe, which is taken away
when the file is read again; Excel files hold it as text.
"""

import csv
import io
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from cobed.errors import TableError

PARQUET, EXCEL = (".parquet", ".pq"), (".xlsx", ".xlsm")
OTHER_SPREADSHEETS = (".xls", ".xlsb", ".ods", ".numbers")
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz"}
# What makes a spreadsheet take text for a formula, also in its wide forms. Numbers are numbers.
FORMULA = "=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20"
NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?%?"
DANGEROUS = re.compile(rf"(?!{NUMBER}\Z)'*[{FORMULA}]")
ESCAPED = rf"^'(?='*[{FORMULA}])"


def split_sheet(source: str | Path) -> tuple[Path, str | None]:
    """`file.xlsx#Sheet` as the file and the name of the sheet; None where no sheet is named."""
    path = Path(source)
    parts = re.fullmatch(r"(?i)(.*\.xls[xm])#(.+)", str(source), re.DOTALL)
    if parts is None or path.exists():
        return path, None
    return Path(parts[1]), parts[2]


def read_file(path: Path, content: bytes, name: str, sheet: str | None) -> tuple[pd.DataFrame, np.ndarray, list[str]]:
    """The cells of a file, what its rows are called, and what the user should know of how it was read."""
    suffix = path.suffix.lower()
    if suffix in OTHER_SPREADSHEETS:
        raise TableError(f"{name}: {suffix} files are not read. Save the table as .xlsx, CSV or Parquet.")
    if suffix in EXCEL:
        from cobed.campaign.excel import read_excel

        return read_excel(content, name, sheet)
    if suffix in PARQUET:
        try:
            frame = with_index(pd.read_parquet(io.BytesIO(content)))
        except Exception as error:  # of damaged files: whatever the damage leads pyarrow and pandas to
            raise TableError(
                f"{name} cannot be read as Parquet: {type(error).__name__}: {str(error).strip()}. Write it again."
            ) from error
        return frame, np.arange(1, len(frame) + 1), []
    return *_read_csv(content, COMPRESSIONS.get(suffix), name), []


def with_index(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with its index as columns: where the index has names, or is no plain counting."""
    index = frame.index
    named = [level for level in index.names if level is not None]
    if not named and (index.nlevels == 1 and pd.api.types.is_integer_dtype(index.dtype)):
        return frame.reset_index(drop=True)
    twice = [level for level in named if level in frame.columns]
    if twice:
        frame = frame.rename_axis([None if level in twice else level for level in index.names])
        return frame.reset_index(level=[p for p, level in enumerate(index.names) if level not in twice]).reset_index(
            drop=True
        )
    return frame.reset_index()


def _read_csv(content: bytes, compression: str | None, name: str) -> tuple[pd.DataFrame, np.ndarray]:
    options: dict[str, Any] = {
        "encoding": "utf-8-sig", "dtype": str, "keep_default_na": False, "na_filter": False, "compression": compression,
        "header": None, "skip_blank_lines": False,
    }  # fmt: skip
    head = pd.read_csv(io.BytesIO(content), nrows=1, sep="\x00", quoting=csv.QUOTE_NONE, **options)
    line = str(head.iloc[0, 0]) if len(head) else ""
    separator = max([",", ";", "\t"], key=line.count)
    columns = pd.read_csv(io.BytesIO(content), nrows=1, sep=separator, **options).iloc[0]
    names = [re.sub(ESCAPED, "", str(column).strip()) for column in columns]
    twice = sorted({column for column in names if names.count(column) > 1})
    if twice:
        what = f"two columns called {twice[0]!r}" if twice[0] else "two columns without a name"
        raise TableError(f"{name}, row 1: the table has {what}. Rename or drop one of them.")
    # One column more than the heading has, to see rows that are too long; more than that pandas tells itself.
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            frame = pd.read_csv(
                io.BytesIO(content), sep=separator, skiprows=1, names=[*names, None], index_col=False,
                on_bad_lines="error", **options,
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
            f"{str(extra.iloc[long[0]])[:60]!r} ({len(long)} such row(s) in all). Quote cells that hold {separator!r}."
        )
    frame = frame.fillna("")
    for column in names:
        escaped = frame[column].str.startswith("'")
        if escaped.any():
            frame.loc[escaped, column] = frame.loc[escaped, column].str.replace(ESCAPED, "", regex=True)
    rows = np.arange(2, len(frame) + 2)
    empty = np.logical_and.reduce([frame[column].str.strip() == "" for column in names])
    if empty.any():
        frame, rows = frame[~empty].reset_index(drop=True), rows[~empty]
    return frame, rows


def check_format(path: str | Path) -> None:
    """`TableError` where no table can be written under this name."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix in OTHER_SPREADSHEETS or suffix in (".xlsm", ".zip", ".zst") or split_sheet(path)[1] is not None:
        raise TableError(
            f"{path}: tables are written as CSV (.csv, .tsv, .csv.gz), Parquet (.parquet) or Excel (.xlsx, one sheet). "
            "Choose another name (--out)."
        )


def writer(frame: pd.DataFrame, path: Path) -> Callable[[IO[bytes]], Any]:
    """What writes the frame in the format that the name of the file asks for."""
    check_format(path)
    suffix = path.suffix.lower()
    if suffix in PARQUET:
        return lambda file: _write_parquet(frame, file)
    if suffix in EXCEL:
        from cobed.campaign.excel import write_excel

        return lambda file: write_excel(frame, file, path.name)
    method = COMPRESSIONS.get(suffix)
    compression: dict[str, Any] | None = {"method": method} if method else None
    if method == "gzip":
        # Without the time of day: the same table, the same file.
        compression = {"method": method, "mtime": 0}
    escaped = _without_formulas(frame)
    inner = path.stem if method else path.name
    # pandas leaves a carriage return unquoted, which ends the row for whoever reads it.
    returns = any(escaped[column].map(_holds_return).any() for column in _text_columns(escaped))
    return lambda file: escaped.to_csv(
        file, index=False, sep="\t" if inner.lower().endswith(".tsv") else ",", compression=compression, encoding="utf-8",
        quoting=csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL,
    )  # fmt: skip


def _write_parquet(frame: pd.DataFrame, file: IO[bytes]) -> None:
    try:
        frame.to_parquet(file, index=False)
    except (ValueError, TypeError):
        # A column of numbers and text together: as text.
        file.seek(0)
        file.truncate()
        text = {column: frame[column].map(str, na_action="ignore") for column in _text_columns(frame)}
        frame.assign(**text).to_parquet(file, index=False)


def _holds_return(value: Any) -> bool:
    return isinstance(value, str) and "\r" in value


def is_text(kind: Any) -> bool:
    """Whether a column of this type may hold text."""
    return pd.api.types.is_object_dtype(kind) or isinstance(kind, pd.StringDtype)


def _text_columns(frame: pd.DataFrame) -> list[Any]:
    return [name for name, kind in frame.dtypes.items() if is_text(kind)]


def _without_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with an apostrophe before each text, cell or heading, that a spreadsheet would compute."""
    changed = {}
    for name in [*_text_columns(frame), *frame.columns[[isinstance(k, pd.CategoricalDtype) for k in frame.dtypes]]]:
        cells = frame[name]
        dangerous = cells.map(_is_dangerous).to_numpy(dtype=bool)
        if dangerous.any():
            cells = cells.astype(object)
            changed[name] = cells.where(~dangerous, "'" + cells.astype(str))
    escaped = frame.assign(**changed) if changed else frame
    headings = ["'" + name if _is_dangerous(name) else name for name in frame.columns]
    return escaped if headings == list(frame.columns) else escaped.set_axis(headings, axis=1)


def _is_dangerous(value: Any) -> bool:
    return isinstance(value, str) and DANGEROUS.match(value) is not None
