"""Contexts, actions and outcomes of a campaign as the engine's numbers. The scaling is found once and stored."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cobed.campaign.columns import Column
from cobed.campaign.near import plain
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.tables import MISSING, Complaints, Table
from cobed.errors import SpaceError

# Stored cells by context column; None where one is missing.
Cells = Mapping[str, list[Any]]
# What reading numbers out of damaged cells raises.
UNFIT = (SpaceError, KeyError, ValueError, TypeError, AttributeError, IndexError, RecursionError)


# Facts about a cell that have a number of their own behind those of its column: the cell is missing, or its value is new.
MISSING_CELL, NEW_VALUE = "missing", "new"
FACTS = (MISSING_CELL, NEW_VALUE)


@dataclasses.dataclass(frozen=True)
class Encoding:
    """What the first tables said of each context column, as its kind keeps it: by column, nothing where a kind needs nothing.

    `facts` has the columns with missing or new cells, and which of both: each is an entry of the context behind those of the
    column, 1 where it is so, beside the numbers of an average unit. Its coefficients are learned like others; where no outcome
    says anything about them, they stay as uncertain as the prior, and intervals are wider.
    """

    fitted: dict[str, Any]
    facts: dict[str, list[str]] = dataclasses.field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps({"fitted": self.fitted} | ({"facts": self.facts} if self.facts else {}))

    @classmethod
    def from_json(cls, text: str) -> "Encoding":
        document = json.loads(text)
        # Stores of 0.1.0 have numeric columns and categorical ones apart.
        fitted = document["fitted"] if "fitted" in document else {**document["scales"], **document["levels"]}
        return cls(fitted, document.get("facts", {}))

    def names(self, spec: CampaignSpec) -> list[str]:
        """What each encoded column stands for, in its order."""
        return [label for labels in self.labels(spec).values() for label in labels]

    def labels(self, spec: CampaignSpec) -> dict[str, list[str]]:
        """The same by context column, those about missing and new cells included."""
        return {
            name: [
                *column.labels(name, self.fitted.get(name)),
                *(f"{name} ({fact})" for fact in self.facts.get(name, ())),
            ]
            for name, column in spec.context.items()
        }

    def absent(self, name: str, column: Column, cells: Sequence[Any]) -> dict[str, np.ndarray]:
        """Which stored cells of a column are missing, and which hold a value that is not known here, (N,) each."""
        missing = np.array([cell is None for cell in cells], bool)
        new = np.zeros(len(cells), bool)
        new[~missing] = ~column.knows([cell for cell in cells if cell is not None], self.fitted.get(name))
        return {MISSING_CELL: missing, NEW_VALUE: new}

    def knowing(self, spec: CampaignSpec, cells: Cells) -> "Encoding":
        """The encoding with an entry for each fact that these cells bring. A program keeps the contexts it was written for."""
        if spec.model.program is not None:
            return self
        facts = {}
        for name, column in spec.context.items():
            absent = self.absent(name, column, cells[name])
            facts[name] = [fact for fact in FACTS if fact in self.facts.get(name, ()) or absent[fact].any()]
        return Encoding(self.fitted, {name: present for name, present in facts.items() if present})

    def learning(self, spec: CampaignSpec, cells: Cells) -> "Encoding":
        """The encoding of a campaign that stores these cells: levels that are new become known."""
        known = {name: [cell for cell in column if cell is not None] for name, column in cells.items()}
        grown = {name: spec.context[name].grow(fitted, known[name]) for name, fitted in self.fitted.items()}
        return Encoding(grown, self.facts).knowing(spec, cells)

    def center(self, spec: CampaignSpec) -> np.ndarray:
        """The numbers of an average unit, (C,)."""
        return np.concatenate(
            [
                np.append(column.typical(self.fitted.get(name)), np.zeros(len(self.facts.get(name, ()))))
                for name, column in spec.context.items()
            ]
        )


def fit_encoding(spec: CampaignSpec, tables: Sequence[Table]) -> Encoding:
    """The encoding of the first tables a campaign sees. Bad cells are left out here: `encode_contexts` tells them."""
    for table in tables:
        table.require(list(spec.context), "a context column of campaign.toml")
    fitted = {name: column.fit(name, tables) for name, column in spec.context.items()}
    return grow_encoding(spec, Encoding({name: part for name, part in fitted.items() if part is not None}), tables)


def grow_encoding(spec: CampaignSpec, encoding: Encoding, tables: Sequence[Table]) -> Encoding:
    """The encoding where tables are added to a campaign. Cells known before keep their numbers."""
    for table in tables:
        encoding = encoding.learning(spec, read_cells(spec, encoding, table, Complaints(table)))
    return encoding


def first_or_grown(spec: CampaignSpec, stored: Encoding | None, tables: Sequence[Table]) -> Encoding:
    """The encoding once a campaign has these tables too; fitted to them where they are its first ones."""
    return fit_encoding(spec, tables) if stored is None else grow_encoding(spec, stored, tables)


def encode_contexts(spec: CampaignSpec, encoding: Encoding, table: Table) -> tuple[np.ndarray, Cells]:
    """Encoded contexts (N, C), and the cells they came from, column by column. Bad cells are told."""
    complaints = Complaints(table)
    cells = read_cells(spec, encoding, table, complaints)
    complaints.tell()
    return encode(spec, encoding, cells), cells


def read_cells(
    spec: CampaignSpec, encoding: Encoding, table: Table, complaints: Complaints, *, strict: bool = True
) -> Cells:
    """The cells of the context columns as they are stored, None where they are missing. Bad ones are complained about; theirs
    mean nothing. Without `strict`, as at deployment, new levels that may be typing errors are taken too."""
    table.require(list(spec.context), "a context column of campaign.toml")
    return {
        name: _read_column(name, column, encoding.fitted.get(name), complaints, strict)
        for name, column in spec.context.items()
    }


def _read_column(name: str, column: Column, fitted: Any, complaints: Complaints, strict: bool) -> list[Any]:
    table = complaints.table
    missing, new = column.missing(name, table, fitted), column.new(name, table, fitted, strict=strict)
    if not (missing | new).any():
        return column.read(name, table, fitted, complaints)
    known = np.flatnonzero(~(missing | new))
    inner = Complaints(dataclasses.replace(table, frame=table.frame[[name]], original=None).part(known))
    known_cells = iter(column.read(name, inner.table, fitted, inner))
    complaints.take(inner, known)
    text = table.text(name).to_numpy()
    return [
        None if is_missing else text[row] if is_new else next(known_cells)
        for row, (is_missing, is_new) in enumerate(zip(missing, new, strict=True))
    ]


def encode_rows(spec: CampaignSpec, encoding: Encoding, rows: list[dict[str, Any]]) -> np.ndarray:
    """Encoded contexts (N, C) of cells that were checked before, a dictionary a row."""
    return encode(spec, encoding, {name: [row[name] for row in rows] for name in spec.context})


def encode(spec: CampaignSpec, encoding: Encoding, cells: Cells) -> np.ndarray:
    """Encoded contexts (N, C) of stored cells."""
    parts = []
    for name, column in spec.context.items():
        fitted, absent = encoding.fitted.get(name), encoding.absent(name, column, cells[name])
        known = ~(absent[MISSING_CELL] | absent[NEW_VALUE])
        numbers = column.encode([cell for cell, is_known in zip(cells[name], known, strict=True) if is_known], fitted)
        part = np.tile(column.typical(fitted), (len(known), 1))
        part[known] = numbers
        parts += [part, *(absent[fact][:, None] for fact in encoding.facts.get(name, ()))]
    return np.concatenate(parts, axis=1).astype(np.float32)


def pick_targets(spec: CampaignSpec, encoded: np.ndarray) -> np.ndarray:
    """Some of the encoded targets, to stand for all while a round is designed."""
    count = spec.design.max_targets
    if len(encoded) <= count:
        return encoded
    chosen = np.random.default_rng(spec.seed).choice(len(encoded), count, replace=False)
    return encoded[np.sort(chosen)]


def rows_of(columns: Cells) -> list[dict[str, Any]]:
    """Columns as one dictionary a row."""
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def read_actions(spec: CampaignSpec, table: Table, complaints: Complaints) -> list[Any]:
    """The action of each row in the user's words, a name or a dictionary of numbers; None where the cell is empty."""
    if spec.action.options is not None:
        advice = "Correct the cell; only the options of campaign.toml can be learned from."
        indices = table.one_of(spec.action.column, spec.action.options, complaints, advice, allow_missing=True)
        _check_lost_options(spec, table, indices, complaints)
        return [spec.action.options[index] if index >= 0 else None for index in indices]
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


def _check_lost_options(spec: CampaignSpec, table: Table, indices: np.ndarray, complaints: Complaints) -> None:
    """An empty cell beside an outcome may have been the option 'none' before some program took it for missing."""
    column = spec.action.column
    named = [option for option in spec.action.options or () if plain(option) in MISSING]
    if not named or spec.outcome.column not in table.frame.columns:
        return
    # Empty text in a DataFrame was written by somebody; in a file it may stand for a missing value.
    lost = table.frame[column].isna().to_numpy(dtype=bool)
    if table.original is None:
        lost = lost | (table.text(column) == "").to_numpy(dtype=bool)
    empty = (indices < 0) & lost & ~table.missing(spec.outcome.column)
    complaints.add(
        empty, column,
        f"Programs such as pandas take the option {named[0]!r} for an empty cell, so it is not known what this unit got. "
        f"Write the option into the cell, or leave the whole column out where every unit got what was planned (reading with "
        "pandas: keep_default_na=False).",
    )  # fmt: skip


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
