"""What tables would bring to a campaign, and everything that is wrong with them, judged together. Needs no JAX.

The store is asked where there is one: which outcomes belong to which round, which ids and levels it knows.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cobed.campaign import records as kept
from cobed.campaign.constraints import check_levels, unknown_levels
from cobed.campaign.encoding import Encoding, fit_encoding, read_actions, read_cells, read_outcomes
from cobed.campaign.gaps import count_gaps, gap_sentences
from cobed.campaign.ids import check_known, check_new, near_ids
from cobed.campaign.scaling import constant_columns, far_columns
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.tables import Complaints, Table

if TYPE_CHECKING:
    from cobed.campaign.campaign import Campaign


class Finding(NamedTuple):
    """What a table holds and would be used as, in a sentence, and what may be wrong with it."""

    table: str
    sentence: str
    warnings: list[str]


def check_tables(spec: CampaignSpec, tables: Sequence[Table], campaign: "Campaign | None" = None) -> list[Finding]:
    """What each table holds and would be used as; `TableError` where one cannot be used, alone or beside the others."""
    for table in tables:
        table.ids(spec.units.id)
        table.check_near(spec.action.columns, "the action that a unit really got", spec.columns)
        _check_purpose(spec, table)
    stored = None if campaign is None else campaign.encoding()
    whole = [table for table in tables if set(spec.context) <= set(table.frame.columns)]
    # Without a store, the tables without outcomes would be the first to be seen: units, and targets.
    first = [table for table in whole if spec.outcome.column not in table.frame.columns] or whole[:1]
    encoding = stored or (fit_encoding(spec, first) if first else None)
    if encoding is not None:
        check_levels(spec, encoding)
    findings = [_check_one(spec, table, encoding, campaign) for table in tables]
    if encoding is not None and findings:
        findings[0].warnings.extend(unknown_levels(spec, encoding))
    _check_ids_between(spec, tables, campaign)
    if first and stored is None:
        findings[tables.index(first[0])].warnings.extend(constant_columns(spec, first))
    if encoding is not None:
        # Without a store the first table is the measure for the others.
        scaled = {name: column for name, column in spec.context.items() if column.is_number}
        numbers = spec.model_copy(update={"context": scaled})
        measure = stored or (fit_encoding(numbers, first[:1]) if first else encoding)
        for finding, table in zip(findings, tables, strict=True):
            if stored is not None or (table in whole and table is not first[0]):
                finding.warnings.extend(far_columns(spec if stored else numbers, measure, table))
    if stored is None:
        _tell_levels(spec, first, findings, tables)
    return findings


def _check_purpose(spec: CampaignSpec, table: Table) -> None:
    columns = set(table.frame.columns)
    has_outcomes = spec.outcome.column in columns
    if not has_outcomes:
        table.check_near([spec.outcome.column], "the outcome of campaign.toml", spec.columns)
    if not has_outcomes and not columns & set(spec.context):
        table.require([*spec.context], "and neither the other context columns nor the outcome of campaign.toml")


def _check_one(spec: CampaignSpec, table: Table, encoding: Encoding | None, campaign: "Campaign | None") -> Finding:
    columns = set(table.frame.columns)
    present = [column for column in spec.context if column in columns]
    has_outcomes = spec.outcome.column in columns
    said = [f"{len(table):,} rows"]
    complaints = Complaints(table)
    counted, warnings = [], []
    # A table of outcomes alone is matched to its round by the ids.
    if len(present) == len(spec.context) or not has_outcomes:
        known = encoding or fit_encoding(spec, [table])
        cells = read_cells(spec, known, table, complaints, strict=has_outcomes)
        gaps = count_gaps(spec, known, cells, table.name)
        said.append(f"{len(spec.context)} context column(s)")
        counted, warnings = gap_sentences(gaps.summary(), gaps.rows), gaps.warnings
    back = np.zeros(len(table), bool)
    if has_outcomes:
        back = ~np.isnan(read_outcomes(spec, table, complaints))
        said.append(f"{int(back.sum()):,} outcomes")
    if all(column in columns for column in spec.action.columns):
        actions = read_actions(spec, table, complaints)
        said.append(f"{sum(action is not None for action in actions):,} actions")
    complaints.tell()
    passing = len(columns - set(spec.columns))
    said.append(f"{passing} other column(s), which pass through")
    sentence = "fine. " + ", ".join(said) + "."
    if campaign is not None:
        sentence += " " + _purpose(spec, table, campaign, back, has_outcomes)
    sentence = " ".join([sentence, *counted])
    return Finding(table.name, sentence, warnings)


def _purpose(spec: CampaignSpec, table: Table, campaign: "Campaign", back: np.ndarray, has_outcomes: bool) -> str:
    """What the table would be used as, by what the store knows of its units."""
    ids = table.ids(spec.units.id).to_numpy()
    with campaign.store.reading() as connection:
        last = {planned.row.unit: planned.round for planned in kept.read_units(connection, ids.tolist())}
        check_known(connection, spec, table, ids.tolist())
    if not has_outcomes:
        known = sum(unit in last for unit in ids)
        return f"As units or targets: {known:,} of them are in a round already."
    counts = Counter(last.get(unit) for unit in ids[back])
    parts = [
        f"{count:,} of {'history' if number == 0 else f'round {number}'}"
        for number, count in sorted((n, c) for n, c in counts.items() if n is not None)
    ]
    if counts[None]:
        unplanned = np.flatnonzero(back & np.array([unit not in last for unit in ids]))
        why = f"needed for {len(unplanned)} unit(s) that no round had planned, the first in row {table.rows[unplanned[0]]}"
        table.require([*spec.context, *spec.action.columns], why)
        parts.append(f"{counts[None]:,} of no round, which would be history")
    return f"As outcomes: {', '.join(parts) or 'none has come back yet'}."


def _check_ids_between(spec: CampaignSpec, tables: Sequence[Table], campaign: "Campaign | None") -> None:
    """Ids of outcomes that are nearly those of another table given with them."""
    if campaign is not None:
        return
    for table in tables:
        if spec.outcome.column not in table.frame.columns:
            continue
        ids = table.ids(spec.units.id).tolist()
        for other in tables:
            if other is not table and spec.outcome.column not in other.frame.columns:
                near = near_ids(ids, other.ids(spec.units.id).tolist())
                check_new(spec, table, ids, near, f"in {other.name}")


def _tell_levels(spec: CampaignSpec, first: list[Table], findings: list[Finding], tables: Sequence[Table]) -> None:
    """What only a later table has: a campaign that begins without it will not know it."""
    for name, column in spec.context.items():
        for table in first[1:]:
            sentence = column.unseen(name, first[0], table)
            if sentence is not None:
                findings[tables.index(table)].warnings.append(sentence)
