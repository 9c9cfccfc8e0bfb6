"""Outcomes that come back: matched to the round that planned them, kept with everything told before."""

import dataclasses
from typing import Any

import numpy as np

from cobed.campaign import store as kept
from cobed.campaign.encoding import (
    Encoding,
    encode_contexts,
    fit_encoding,
    read_actions,
    read_outcomes,
    rows_of,
)
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.store import Assignment, Outcome, Round, Store
from cobed.campaign.tables import Complaints, Table
from cobed.errors import CampaignError


@dataclasses.dataclass(frozen=True)
class Receipt:
    """What a table of outcomes changed."""

    added: int = 0
    corrected: int = 0
    unchanged: int = 0
    waiting: int = 0  # rows whose outcome is still empty
    unplanned: int = 0  # of the added and corrected: units no round had planned
    other_action: int = 0  # of the added and corrected: units that got something else than planned
    duplicate: bool = False  # the same table was taken before

    def __str__(self) -> str:
        if self.duplicate:
            return "This table was taken before; nothing changed."
        parts = [f"{self.added} outcome(s) added", f"{self.corrected} corrected", f"{self.unchanged} known already"]
        parts += [f"{self.waiting} still empty"] if self.waiting else []
        parts += [f"{self.unplanned} of units that no round had planned"] if self.unplanned else []
        parts += [f"{self.other_action} with another action than planned"] if self.other_action else []
        return ", ".join(parts) + "."


def add_outcomes(store: Store, spec: CampaignSpec, table: Table, round: int | None = None) -> Receipt:
    """Store the outcomes of a table, in one transaction."""
    ids = table.ids(spec.units.id).to_numpy()
    complaints = Complaints(table)
    values = read_outcomes(spec, table, complaints)
    given = read_actions(spec, table, complaints) if _has_actions(spec, table) else [None] * len(table)
    complaints.tell()
    back = ~np.isnan(values)
    with store.transaction() as connection:
        upload = kept.write_upload(connection, table.hash, _kind(round), table.name)
        if upload is None:
            return Receipt(duplicate=True)
        planned = _planned(connection, round)
        known = np.array([unit in planned for unit in ids], bool)
        unplanned = np.flatnonzero(back & ~known)
        if len(unplanned):
            rows = _history(connection, spec, table, ids, given, unplanned, round)
            planned |= {row.unit: (0, row.action) for row in rows}
        current = {(row.round, row.unit): row for row in kept.read_outcomes(connection)}
        new: list[Outcome] = []
        counts = dict.fromkeys(("added", "corrected", "unchanged", "unplanned", "other_action"), 0)
        for place in np.flatnonzero(back):
            number, action = planned[ids[place]]
            told = Outcome(
                number, ids[place], float(values[place]), given[place] if given[place] is not None else action
            )
            before = current.get((number, told.unit))
            if before == told:
                counts["unchanged"] += 1
                continue
            counts["added" if before is None else "corrected"] += 1
            counts["unplanned"] += number == 0
            counts["other_action"] += told.action != action
            new.append(told)
        kept.write_outcomes(connection, new, upload)
    return Receipt(**counts, waiting=int((~back).sum()))


def _kind(round: int | None) -> str:
    return "outcomes" if round is None else f"outcomes of round {round}"


def _has_actions(spec: CampaignSpec, table: Table) -> bool:
    return all(column in table.frame.columns for column in spec.action.columns)


def _planned(connection: Any, round: int | None) -> dict[str, tuple[int, Any]]:
    """For each unit the round its outcome belongs to, the last it is in, and the action planned there."""
    numbers = [r.id for r in kept.read_rounds(connection)]
    if round is not None and round not in numbers:
        raise CampaignError(f"There is no round {round}. Rounds so far: {', '.join(map(str, numbers)) or 'none'}.")
    found: dict[str, tuple[int, Any]] = {}
    for number in numbers if round is None else [round]:
        found |= {row.unit: (number, row.action) for row in kept.read_assignments(connection, number)}
    return found


def _history(
    connection: Any,
    spec: CampaignSpec,
    table: Table,
    ids: np.ndarray,
    given: list[Any],
    rows: np.ndarray,
    round: int | None,
) -> list[Assignment]:
    """Round 0 takes the units that no round planned, with the context and the action they come with."""
    if round:
        raise CampaignError(
            f"{table.where(rows[0])}: unit {ids[rows[0]]!r} is not in round {round} ({len(rows)} such row(s)). "
            "Leave the round out, and each outcome finds its own."
        )
    why = f"needed for {len(rows)} unit(s) that no round had planned, the first in row {table.rows[rows[0]]}"
    table.require([*spec.context, *spec.action.columns], why)
    part = table.part(rows)
    complaints = Complaints(part)
    missing = np.array([given[place] is None for place in rows])
    complaints.add(missing, spec.action.columns[0], "A unit that no round had planned needs the action it got.")
    complaints.tell()
    text = kept.read_meta(connection).get("encoding")
    encoding = fit_encoding(spec, [part]) if text is None else Encoding.from_json(text)
    _, cells = encode_contexts(spec, encoding, part)
    if text is None:
        kept.write_meta(connection, "encoding", encoding.to_json())
    made = [
        Assignment(str(ids[place]), context, given[place], "unplanned")
        for place, context in zip(rows, rows_of(cells), strict=True)
    ]
    kept.write_round(connection, Round(0, kept.now(), "", spec.seed, 1, {"method": "history"}), made)
    return made
