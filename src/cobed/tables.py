"""Reading users' numbers: arrays, lists and DataFrames, with errors that name the row and the column."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cobed.errors import ProblemError


def read_numbers(values: Any, name: str, ndim: int, advice: str = "Fill them or drop the rows.") -> np.ndarray:
    """The values as float64 with `ndim` axes, finite in single precision, in which the engine computes.

    A vector becomes one column where two axes are asked for, and one column a vector. `ProblemError` says what is wrong
    with other values, by the labels of a DataFrame where it is one; `advice` what to do about missing ones.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise ProblemError(
            f"{name} must be numbers in rows of one length: {error}. Encode categories as numbers first."
        ) from error
    if array.ndim == 1 and ndim == 2:
        array = array[:, None]
    if array.ndim == 2 and ndim == 1 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != ndim:
        wanted = "one number per unit, (D,)" if ndim == 1 else "one row per unit, (rows, columns)"
        raise ProblemError(f"{name} have shape {array.shape}; {wanted}, is expected.")
    bad = np.argwhere(~(np.abs(array) <= np.finfo(np.float32).max))
    if len(bad):
        first = bad[0]
        where = f"row {values.index[first[0]] if hasattr(values, 'index') and hasattr(values, 'iloc') else first[0]}"
        if ndim == 2:
            column = repr(values.columns[first[1]]) if hasattr(values, "columns") else first[1]
            where += f", column {column}"
        value = array[tuple(first)]
        single = " in single precision" if np.isfinite(value) else ""
        raise ProblemError(
            f"{name}, {where}: {value} is not a finite number{single} ({len(bad)} such value(s) in all). {advice}"
        )
    return array


def read_amounts(values: Mapping[str, float] | Any, names: Sequence[str], what: str) -> np.ndarray:
    """One finite number for each name, (A,): from a vector, or by name with 0 where there is none; None is 0 for all."""
    if isinstance(values, Mapping):
        unknown = [name for name in values if name not in names]
        if unknown:
            raise ProblemError(f"{what} names {unknown[0]!r}, which is no action. Allowed: {', '.join(names)}.")
        values = [values.get(name, 0.0) for name in names]
    amounts = np.zeros(len(names)) if values is None else np.asarray(values, float)
    if amounts.shape != (len(names),) or not np.isfinite(amounts).all():
        raise ProblemError(f"{what} needs a finite number for each of {len(names)} action entries, got {amounts}.")
    return amounts
