"""Outcomes that come back: matched to the round that planned them, kept with everything told before. And withdrawals."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cobed.campaign import records as kept
from cobed.campaign.database import DAMAGED
from cobed.campaign.encoding import (
    UNFIT,
    Encoding,
    encode_contexts,
    encode_rows,
    first_or_grown,
    read_actions,
    read_outcomes,
    rows_of,
)
from cobed.campaign.gaps import count_gaps
from cobed.campaign.ids import check_known, likely_id
from cobed.campaign.records import Assignment, Outcome, Planned, Round
from cobed.campaign.scaling import constant_columns, far_columns
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.store import Store
from cobed.campaign.summary import PROPENSITY, own_names
from cobed.campaign.tables import Complaints, Table
from cobed.errors import CampaignError, StorageError


@dataclasses.dataclass(frozen=True)
class Receipt:
    """What a table of outcomes changed."""

    added: int = 0
    corrected: int = 0
    unchanged: int = 0
    waiting: int = 0  # rows whose outcome is still empty
    unplanned: int = 0  # of the added and corrected: units no round had planned
    other_action: int = 0  # of the added and corrected: units that got something else than planned
    with_chance: int = 0  # units that no round planned, with the probability of the action they got
    duplicate: bool = False  # the same table was taken before
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.duplicate:
            return "This table was taken before; nothing changed."
        parts = [f"{self.added} outcome(s) added", f"{self.corrected} corrected", f"{self.unchanged} known already"]
        parts += [f"{self.waiting} still empty"] if self.waiting else []
        parts += [f"{self.unplanned} of units that no round had planned"] if self.unplanned else []
        parts += [f"{self.other_action} with another action than planned"] if self.other_action else []
        parts += [f"{self.with_chance} with the probability of their action"] if self.with_chance else []
        return ", ".join(parts) + "."


def add_outcomes(store: Store, spec: CampaignSpec, table: Table, round: int | None = None) -> Receipt:
    """Store the outcomes of a table, in one transaction."""
    ids = table.ids(spec.units.id).to_numpy()
    table.check_near(spec.action.columns, "the action that a unit really got", spec.columns)
    complaints = Complaints(table)
    values = read_outcomes(spec, table, complaints)
    given = read_actions(spec, table, complaints) if _has_actions(spec, table) else [None] * len(table)
    chances = read_chances(spec, table, complaints)
    complaints.tell()
    back = ~np.isnan(values)
    with store.transaction() as connection:
        planned = _planned(connection, round, ids[back].tolist())
        seen = kept.rounds_of_hash(connection, table.hash)
        if round is None and seen is not None:
            _check_meaning(table, seen, planned)
        last = {unit: entries[-1] for unit, entries in planned.items()}
        unplanned = np.flatnonzero(back & ~np.array([unit in last for unit in ids], bool))
        warnings: list[str] = []
        if len(unplanned):
            check_known(connection, spec, table.part(unplanned), ids[unplanned].tolist())
            made, warnings = _history(connection, spec, table, ids, given, unplanned, round)
            last |= {row.unit: Planned(0, row, None) for row in made}
        by_chance = _with_chance(connection, ids, chances, last)
        new: list[Outcome] = []
        counts = dict.fromkeys(("added", "corrected", "unchanged", "unplanned", "other_action"), 0)
        for position in np.flatnonzero(back):
            number, row, before = last[ids[position]]
            # A table that says nothing of the action leaves what was told of it before.
            action = (before or row).action if given[position] is None else given[position]
            outcome = Outcome(number, row.unit, float(values[position]), action)
            if before == outcome:
                counts["unchanged"] += 1
                continue
            counts["added" if before is None else "corrected"] += 1
            counts["unplanned"] += number == 0
            counts["other_action"] += action != row.action
            new.append(outcome)
        if seen is not None and not new and not by_chance:
            return Receipt(duplicate=True)
        upload = kept.write_upload(connection, table.hash, table.name, round)
        kept.write_outcomes(connection, new, upload)
    return Receipt(**counts, with_chance=by_chance, waiting=int((~back).sum()), warnings=tuple(warnings))


def read_chances(spec: CampaignSpec, table: Table, complaints: Complaints) -> np.ndarray | None:
    """The probability with which each row got its action, not a number where the cell is empty; None without such a column."""
    name = own_names([PROPENSITY], spec.columns)[PROPENSITY]
    if name not in table.frame.columns or spec.action.options is None:
        return None
    values = table.numbers(name, complaints, allow_missing=True)
    complaints.add(
        (values <= 0) | (values > 1),
        name,
        "It is the probability with which the unit got its action: above 0, at most 1.",
    )
    return values


def _with_chance(connection: Any, ids: np.ndarray, chances: np.ndarray | None, last: Mapping[str, Planned]) -> int:
    """Store the probabilities of units that no round planned; what a round planned has its own. How many are new."""
    if chances is None:
        return 0
    probabilities = {unit: float(chance) for unit, chance in zip(ids, chances, strict=True) if np.isfinite(chance)}
    rows = [last[unit].row for unit in probabilities if unit in last and last[unit].round == 0]
    changed = [row._replace(chance={"probability": probabilities[row.unit]}) for row in rows]
    changed = [row for row, before in zip(changed, rows, strict=True) if row != before]
    if changed:
        kept.write_assignments(connection, 0, changed)
    return len(changed)


def stored_encoding(connection: Any, spec: CampaignSpec) -> Encoding | None:
    """How contexts become numbers; None before the first table."""
    text = kept.read_meta(connection).get("encoding")
    if text is None:
        return None
    try:
        encoding = Encoding.from_json(text)
        # Every column has what its kind needs.
        encode_rows(spec, encoding, [])
    except UNFIT as error:
        raise StorageError(
            f"The stored scaling of the context columns cannot be read ({error!r}). {DAMAGED}"
        ) from error
    return encoding


def engine_rows(
    spec: CampaignSpec, encoding: Encoding, contexts: list[dict[str, Any]], actions: list[Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Stored contexts and actions in the engine's numbers, (N, C) and (N, A)."""
    try:
        return encode_rows(spec, encoding, contexts), spec.action.space.parse_all(actions)
    except UNFIT as error:
        raise StorageError(
            f"A stored context or action does not fit the columns and options of campaign.toml ({error!r}). {DAMAGED}"
        ) from error


def _has_actions(spec: CampaignSpec, table: Table) -> bool:
    return all(column in table.frame.columns for column in spec.action.columns)


def _planned(connection: Any, round: int | None, units: list[str]) -> dict[str, list[Planned]]:
    """For each of these units the rounds it is in, the last one last; of one round alone where it is given."""
    numbers = [r.id for r in kept.read_rounds(connection)]
    if round is not None and round not in numbers:
        raise CampaignError(f"There is no round {round}. Rounds so far: {', '.join(map(str, numbers)) or 'none'}.")
    by_unit: dict[str, list[Planned]] = {}
    for planned in sorted(kept.read_units(connection, units, round), key=lambda planned: planned.round):
        by_unit.setdefault(planned.row.unit, []).append(planned)
    return by_unit


def _check_meaning(table: Table, seen: set[int], planned: dict[str, list[Planned]]) -> None:
    """A table taken for one round may come again, or be what came back of a later round by chance: only the user knows."""
    for unit, entries in planned.items():
        earlier = [entry.round for entry in entries[:-1] if entry.round in seen]
        if earlier and entries[-1].outcome is None and entries[-1].round not in seen:
            raise CampaignError(
                f"{table.name} was taken before, for round {earlier[-1]}. Unit {unit!r} is in round {entries[-1].round} too, "
                f"and has no outcome there yet. The same table once more: --round {earlier[-1]}, which changes nothing. "
                f"What came back of round {entries[-1].round}, which happens to be the same: --round {entries[-1].round}."
            )


def _history(
    connection: Any,
    spec: CampaignSpec,
    table: Table,
    ids: np.ndarray,
    given: list[Any],
    rows: np.ndarray,
    round: int | None,
) -> tuple[list[Assignment], list[str]]:
    """Round 0 takes the units that no round planned, with the context and the action they come with. And warnings."""
    if round:
        raise CampaignError(
            f"{table.where(rows[0])}: unit {ids[rows[0]]!r} is not in round {round} ({len(rows)} such row(s)). "
            "Leave the round out, and each outcome finds its own."
        )
    why = f"needed for {len(rows)} unit(s) that no round had planned, the first in row {table.rows[rows[0]]}"
    table.require([*spec.context, *spec.action.columns], why)
    part = table.part(rows)
    complaints = Complaints(part)
    missing = np.array([given[position] is None for position in rows])
    complaints.add(missing, spec.action.columns[0], "A unit that no round had planned needs the action it got.")
    complaints.tell()
    known = stored_encoding(connection, spec)
    encoding = first_or_grown(spec, known, [part])
    _, cells = encode_contexts(spec, encoding, part)
    warnings = far_columns(spec, encoding, part) if known is not None else constant_columns(spec, [part])
    warnings += count_gaps(spec, known or encoding, cells, part.name).warnings
    if encoding != known:
        kept.write_meta(connection, "encoding", encoding.to_json())
    made = [
        Assignment(str(ids[position]), context, given[position], "unplanned")
        for position, context in zip(rows, rows_of(cells), strict=True)
    ]
    kept.write_round(connection, Round(0, kept.now(), "", spec.seed, 1, {"method": "history"}), made)
    return made, warnings


@dataclasses.dataclass(frozen=True)
class Withdrawal:
    """What a withdrawal changed."""

    withdrawn: int  # units without an outcome now
    restored: int = 0  # units whose outcome from before counts again
    unchanged: int = 0  # units for which something told since counts

    def __str__(self) -> str:
        parts = [f"{self.withdrawn} outcome(s) withdrawn"]
        parts += [f"{self.restored} as they were before"] if self.restored else []
        parts += [f"{self.unchanged} told anew since and kept"] if self.unchanged else []
        return ", ".join(parts) + "."


def withdraw_units(store: Store, units: Sequence[str], round: int | None = None) -> Withdrawal:
    """Take back the outcomes of single units, each in the last round it is in: they are awaited again."""
    with store.transaction() as connection:
        planned = _planned(connection, round, list(units))
        rows: list[Outcome] = []
        for unit in dict.fromkeys(units):
            entries = planned.get(unit)
            if entries is None:
                where = "no round" if round is None else f"not in round {round}"
                likely = likely_id(unit, kept.known_units(connection, None))
                raise CampaignError(
                    f"Unit {unit!r} is {'in ' if round is None else ''}{where}.{likely} Nothing was withdrawn."
                )
            number, row, outcome = entries[-1]
            if outcome is None:
                others = [entry.round for entry in entries if entry.outcome is not None]
                advice = f" It has one in round {others[-1]}: --round {others[-1]}." if others else ""
                raise CampaignError(f"Unit {unit!r} has no outcome in round {number}.{advice} Nothing was withdrawn.")
            rows.append(Outcome(number, row.unit, None, outcome.action))
        upload = kept.write_upload(connection, "", "withdrawal", round, "withdrawal")
        kept.write_outcomes(connection, rows, upload)
    return Withdrawal(len(rows))


def withdraw_upload(store: Store, upload: int) -> Withdrawal:
    """Take back all that one upload said: what counted before it counts again. Also of a withdrawal."""
    with store.transaction() as connection:
        uploads = {row["id"]: row for row in kept.read_uploads(connection)}
        if upload not in uploads:
            known = f"Numbers so far: 1 to {max(uploads)}." if uploads else "There is none yet."
            raise CampaignError(f"There is no upload {upload}. {known} `cobed status --uploads` lists them.")
        if uploads[upload]["withdrawn"] is not None:
            raise CampaignError(f"Upload {upload} was withdrawn already, on {uploads[upload]['withdrawn'][:10]}.")
        return Withdrawal(*kept.withdraw_upload(connection, upload))
