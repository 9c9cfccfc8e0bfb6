"""Contexts, actions and outcomes of a campaign as the engine's numbers. The scaling is found once and stored."""

import dataclasses
import json
from typing import Any

import numpy as np

from cobed.campaign.near import plain
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.tables import MISSING, Complaints, Table
from cobed.errors import TableError

# More levels than this are probably an id or a free text.
MAX_LEVELS = 50
# In deviations. Beyond it single precision, in which the engine computes, has few digits left for the others.
FARTHEST = 1e6


@dataclasses.dataclass(frozen=True)
class Encoding:
    """How each context column becomes numbers: mean and deviation of a numeric one, the levels of a categorical one."""

    scales: dict[str, tuple[float, float]]
    levels: dict[str, tuple[str, ...]]

    def to_json(self) -> str:
        return json.dumps({"scales": self.scales, "levels": self.levels})

    @classmethod
    def from_json(cls, text: str) -> "Encoding":
        document = json.loads(text)
        return cls(
            {name: (float(pair[0]), float(pair[1])) for name, pair in document["scales"].items()},
            {name: tuple(levels) for name, levels in document["levels"].items()},
        )

    def names(self, spec: CampaignSpec) -> list[str]:
        """What each encoded column stands for, in its order."""
        return [
            entry
            for name, column in spec.context.items()
            for entry in (
                [f"{name}={level}" for level in self.levels[name]] if column.type == "categorical" else [name]
            )
        ]

    def starts(self, spec: CampaignSpec) -> dict[str, int]:
        """At which encoded column each context column begins."""
        widths = [len(self.levels[name]) if name in self.levels else 1 for name in spec.context]
        return dict(zip(spec.context, np.cumsum([0, *widths]).tolist(), strict=False))


def fit_encoding(spec: CampaignSpec, tables: list[Table]) -> Encoding:
    """The encoding of the first tables a campaign sees. Bad cells are left out here: `encode_contexts` tells them."""
    scales: dict[str, tuple[float, float]] = {}
    levels: dict[str, tuple[str, ...]] = {}
    for table in tables:
        table.require(list(spec.context), "a context column of campaign.toml")
    for name, column in spec.context.items():
        if column.type == "numeric":
            values = np.concatenate([table.numbers(name, Complaints(table)) for table in tables])
            finite = values[np.abs(values) <= np.finfo(np.float32).max]
            mean, deviation = (float(finite.mean()), float(finite.std())) if finite.size else (0.0, 0.0)
            # A constant column stays at zero; mean and deviation of equal numbers have rounding errors.
            scales[name] = (mean, deviation) if deviation > 1e-9 * abs(mean) else (float([*finite, 0.0][0]), 1.0)
        elif column.type == "categorical":
            levels[name] = column.levels or _find_levels(name, tables)
    return Encoding(scales, levels)


def _find_levels(name: str, tables: list[Table]) -> tuple[str, ...]:
    found = {value for table in tables for value in table.text(name).unique() if value}
    _check_alike(name, sorted(found), tables)
    if len(found) > MAX_LEVELS:
        raise TableError(
            f"{tables[0].name}, column {name!r} has {len(found):,} different values; at most {MAX_LEVELS} are taken for "
            "levels. Group them, or leave the column out of [context]: other columns pass through untouched."
        )
    if len(found) < 2:
        raise TableError(
            f"{tables[0].name}, column {name!r} has the one value {sorted(found)}, which tells nothing about a unit. "
            "Leave it out of [context], or list its levels in campaign.toml."
        )
    return tuple(sorted(found))


def _check_alike(name: str, levels: list[str], tables: list[Table]) -> None:
    """Two levels that differ in case, spaces or accents alone are one level, misspelled."""
    first: dict[str, str] = {}
    for level in levels:
        other = first.setdefault(plain(level), level)
        if other != level:
            rare, common = sorted([level, other], key=lambda text: sum((t.text(name) == text).sum() for t in tables))
            table = next(table for table in tables if (table.text(name) == rare).any())
            rows = (table.text(name) == rare).to_numpy()
            raise TableError(
                f"{table.where(int(np.argmax(rows)))}, column {name!r}: {rare!r} ({int(rows.sum()):,} such row(s)) is nearly "
                f"{common!r}. Did you mean {common!r}? Correct it, or, if they are two levels, list all levels in campaign.toml."
            )


def encode_contexts(spec: CampaignSpec, encoding: Encoding, table: Table) -> tuple[np.ndarray, dict[str, list[Any]]]:
    """Encoded contexts (N, C), and the cells they came from, column by column. Bad cells are told."""
    complaints = Complaints(table)
    found = check_contexts(spec, encoding, table, complaints)
    complaints.tell()
    return found


def check_contexts(
    spec: CampaignSpec, encoding: Encoding, table: Table, complaints: Complaints
) -> tuple[np.ndarray, dict[str, list[Any]]]:
    """The same with the bad cells complained about; their rows mean nothing."""
    table.require(list(spec.context), "a context column of campaign.toml")
    parts: list[np.ndarray] = []
    cells: dict[str, list[Any]] = {}
    for name, column in spec.context.items():
        if column.type == "numeric":
            mean, deviation = encoding.scales[name]
            values = table.numbers(name, complaints)
            scaled = (values - mean) / deviation
            advice = f"It is more than a million deviations from the others: mean {mean:g}, deviation {deviation:g}."
            complaints.add(np.isfinite(values) & (np.abs(scaled) > FARTHEST), name, advice)
            parts.append(np.clip(scaled, -FARTHEST, FARTHEST)[:, None])
            cells[name] = values.tolist()
        elif column.type == "binary":
            values = table.binary(name, complaints)
            parts.append(values[:, None])
            cells[name] = values.tolist()
        else:
            levels = encoding.levels[name]
            advice = "Correct it, or start a new campaign that knows this level."
            places = table.one_of(name, levels, complaints, advice)
            parts.append(np.eye(len(levels))[places])
            cells[name] = np.array(levels, dtype=object)[places].tolist()
    return np.concatenate(parts, axis=1).astype(np.float32), cells


def pick_targets(spec: CampaignSpec, encoded: np.ndarray) -> np.ndarray:
    """Some of the encoded targets, to stand for all while a round is designed."""
    count = spec.design.max_targets
    if len(encoded) <= count:
        return encoded
    chosen = np.random.default_rng(spec.seed).choice(len(encoded), count, replace=False)
    return encoded[np.sort(chosen)]


def rows_of(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Columns as one dictionary a row."""
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def encode_cells(spec: CampaignSpec, encoding: Encoding, cells: list[dict[str, Any]]) -> np.ndarray:
    """Encoded contexts (N, C) of cells that were checked before."""
    parts: list[np.ndarray] = []
    for name, column in spec.context.items():
        values = [row[name] for row in cells]
        if column.type == "categorical":
            places = {level: place for place, level in enumerate(encoding.levels[name])}
            parts.append(np.eye(len(places))[[places[value] for value in values]])
        else:
            mean, deviation = encoding.scales.get(name, (0.0, 1.0))
            parts.append(((np.asarray(values, float) - mean) / deviation)[:, None])
    return np.concatenate(parts, axis=1).astype(np.float32)


def read_actions(spec: CampaignSpec, table: Table, complaints: Complaints) -> list[Any]:
    """The action of each row in the user's words, a name or a dictionary of numbers; None where the cell is empty."""
    if spec.action.options is not None:
        advice = "Correct the cell; only the options of campaign.toml can be learned from."
        places = table.one_of(spec.action.column, spec.action.options, complaints, advice, allow_missing=True)
        _check_lost_options(spec, table, places, complaints)
        return [spec.action.options[place] if place >= 0 else None for place in places]
    numbers = spec.action.numbers or {}
    columns: list[list[float]] = []
    for name, bounds in numbers.items():
        values = table.numbers(name, complaints, allow_missing=True)
        outside = (values < bounds.low) | (values > bounds.high)
        complaints.add(outside, name, f"Allowed: from {bounds.low:g} to {bounds.high:g}.")
        columns.append(values.tolist())
    return [
        None if any(np.isnan(value) for value in row) else dict(zip(numbers, row, strict=True))
        for row in zip(*columns, strict=True)
    ]


def _check_lost_options(spec: CampaignSpec, table: Table, places: np.ndarray, complaints: Complaints) -> None:
    """An empty cell beside an outcome may have been the option 'none' before some program took it for missing."""
    column = spec.action.column
    named = [option for option in spec.action.options or () if plain(option) in MISSING]
    if not named or spec.outcome.column not in table.frame.columns:
        return
    # Empty text in a DataFrame was written by somebody; in a file it may stand for a missing value.
    lost = table.frame[column].isna().to_numpy(dtype=bool)
    if table.original is None:
        lost = lost | (table.text(column) == "").to_numpy(dtype=bool)
    empty = (places < 0) & lost & ~table.missing(spec.outcome.column)
    complaints.add(
        empty, column,
        f"Programs such as pandas take the option {named[0]!r} for an empty cell, so it is not known what this unit got. "
        f"Write the option into the cell, or leave the whole column out where every unit got what was planned (reading with "
        "pandas: keep_default_na=False).",
    )  # fmt: skip


def action_vectors(spec: CampaignSpec, actions: list[Any]) -> np.ndarray:
    """Actions in the user's words as the engine's vectors (N, A)."""
    if spec.action.options is not None:
        places = {name: place for place, name in enumerate(spec.action.options)}
        return np.eye(len(places), dtype=np.float32)[[places[action] for action in actions]]
    names = list(spec.action.numbers or {})
    return np.array([[action[name] for name in names] for action in actions], dtype=np.float32).reshape(-1, len(names))


def action_words(spec: CampaignSpec, vectors: np.ndarray) -> list[Any]:
    """The engine's vectors in the user's words: names, or dictionaries of numbers (six digits are shown and kept)."""
    if spec.action.options is not None:
        return [spec.action.options[place] for place in np.argmax(vectors, axis=1)]
    numbers = spec.action.numbers or {}
    rows = []
    for row in np.asarray(vectors, float):
        values = [float(f"{value:.6g}") for value in row]
        clipped = [min(max(v, b.low), b.high) for v, b in zip(values, numbers.values(), strict=True)]
        rows.append(dict(zip(numbers, clipped, strict=True)))
    return rows


def action_columns(spec: CampaignSpec, words: list[Any]) -> dict[str, list[Any]]:
    """Actions in the user's words as the columns of a table."""
    if spec.action.options is not None:
        return {spec.action.column: words}
    return {name: [word[name] for word in words] for name in spec.action.columns}


def read_outcomes(spec: CampaignSpec, table: Table, complaints: Complaints) -> np.ndarray:
    """The outcomes as floats; not a number where none has come back yet."""
    column = spec.outcome.column
    table.require([column], "the outcome of campaign.toml")
    law = spec.outcome.law
    read = table.binary if law.words else table.numbers
    values = read(column, complaints, allow_missing=True)
    complaints.add(np.isfinite(values) & law.refuses(values), column, law.allowed)
    return values
