"""Contexts, actions and outcomes of a campaign as the engine's numbers. The scaling is found once and stored."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from cobed.campaign.near import plain
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.tables import MISSING, Complaints, Table
from cobed.errors import SpaceError

# What reading numbers out of damaged cells raises.
UNFIT = (SpaceError, KeyError, ValueError, TypeError, AttributeError, IndexError, RecursionError)


@dataclasses.dataclass(frozen=True)
class Encoding:
    """What the first tables said of each context column, as its kind keeps it: by column, nothing where a kind needs nothing."""

    fitted: dict[str, Any]

    def to_json(self) -> str:
        return json.dumps({"fitted": self.fitted})

    @classmethod
    def from_json(cls, text: str) -> "Encoding":
        document = json.loads(text)
        # Stores of 0.1.0 have numeric columns and categorical ones apart.
        return cls(document["fitted"] if "fitted" in document else {**document["scales"], **document["levels"]})

    def names(self, spec: CampaignSpec) -> list[str]:
        """What each encoded column stands for, in its order."""
        return [label for labels in self.labels(spec).values() for label in labels]

    def labels(self, spec: CampaignSpec) -> dict[str, list[str]]:
        """The same by context column."""
        return {name: column.labels(name, self.fitted.get(name)) for name, column in spec.context.items()}


def fit_encoding(spec: CampaignSpec, tables: Sequence[Table]) -> Encoding:
    """The encoding of the first tables a campaign sees. Bad cells are left out here: `encode_contexts` tells them."""
    for table in tables:
        table.require(list(spec.context), "a context column of campaign.toml")
    fitted = {name: column.fit(name, tables) for name, column in spec.context.items()}
    return Encoding({name: part for name, part in fitted.items() if part is not None})


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
    cells = {
        name: column.read(name, table, encoding.fitted.get(name), complaints) for name, column in spec.context.items()
    }
    return _encode(spec, encoding, cells), cells


def encode_cells(spec: CampaignSpec, encoding: Encoding, cells: list[dict[str, Any]]) -> np.ndarray:
    """Encoded contexts (N, C) of cells that were checked before, a dictionary a row."""
    return _encode(spec, encoding, {name: [row[name] for row in cells] for name in spec.context})


def _encode(spec: CampaignSpec, encoding: Encoding, cells: dict[str, list[Any]]) -> np.ndarray:
    parts = [column.encode(cells[name], encoding.fitted.get(name)) for name, column in spec.context.items()]
    return np.concatenate(parts, axis=1).astype(np.float32)


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
