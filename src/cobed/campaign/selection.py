"""Who is in a round: the units of a table that are free, all or drawn at random; and who is still out in the field."""

import dataclasses
import hashlib
from typing import Any

import numpy as np

from cobed.campaign import records as kept
from cobed.campaign.encoding import Encoding
from cobed.campaign.observe import engine_rows
from cobed.campaign.records import Assignment, Round
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.tables import Table
from cobed.errors import CampaignError, TableError


@dataclasses.dataclass(frozen=True)
class Selection:
    """The units of a round as rows of the user's table, in its order.

    Where it is the last round once more, `states` has their assignments and `done` those with an outcome.
    """

    table: Table
    take: int | None
    rounds: list[Round]  # all that were designed so far
    states: dict[str, Assignment]
    done: set[str]
    left_out: str | None = None  # a sentence about the others

    @property
    def number(self) -> int:
        """Of the round that these units are in, or will be."""
        last = self.rounds[-1].id if self.rounds else 0
        return last if self.states else last + 1

    @property
    def version(self) -> int:
        """Of the next design of this round."""
        return self.rounds[-1].version + 1 if self.states else 1

    @property
    def is_stale(self) -> bool:
        """Whether the round is to be designed anew because of pins or rejections."""
        return bool(self.states) and bool(self.rounds[-1].summary.get("stale", False))


def select_units(
    connection: Any, spec: CampaignSpec, table: Table, take: int | None, *, again: bool, new_round: bool = False
) -> Selection:
    """The rows of a table that a round is about: with `take` so many of them drawn at random.

    Units that have an outcome or wait for one are left out unless `again`. The last round comes once more where the table
    and `take` mean the same units, and none of them has an outcome or it is to be designed anew; never with `new_round`.
    """
    ids = table.ids(spec.units.id).tolist()
    rounds = [r for r in kept.read_rounds(connection) if r.id > 0]
    busy = _busy(connection, ids, None)
    is_stale = bool(rounds) and bool(rounds[-1].summary.get("stale", False))
    if new_round and is_stale:
        raise CampaignError(
            f"Round {rounds[-1].id} was pinned or rejected in part and is to be designed anew before another one begins. "
            "Give the command that designed it, without --next (in Python new_round=True)."
        )
    if rounds and not new_round and (rounds[-1].num_outcomes == 0 or is_stale):
        planned = list(kept.read_planned(connection, kept.in_round(rounds[-1].id)))
        members = {entry.row.unit for entry in planned}
        if take is not None:
            same = take == len(planned) and rounds[-1].summary.get("take", take) == take and members <= set(ids)
        else:
            elsewhere = _busy(connection, ids, rounds[-1].id)
            same = members == {unit for unit in ids if unit in members or again or unit not in elsewhere}
        if same:
            part = _part(spec, table, ids, np.array([unit in members for unit in ids]), take)
            done = {entry.row.unit for entry in planned if entry.outcome is not None}
            return Selection(part, take, rounds, {entry.row.unit: entry.row for entry in planned}, done)
    free = np.array([again or unit not in busy for unit in ids])
    counts = [sum(has_outcome is which for has_outcome in busy.values()) for which in (True, False)]
    why = f"{counts[0]:,} have an outcome, {counts[1]:,} wait for one"
    more = "--again (in Python again=True) takes them too."
    if not free.any():
        raise CampaignError(
            f"All {len(ids):,} units of {table.name} have been in a round or in history: {why}. Give other units. {more}"
        )
    if take is not None:
        _check_take(table, take, int(free.sum()), f"{why}. {more}" if busy and not again else "")
        places = np.flatnonzero(free)
        drawn = np.sort(np.random.default_rng(spec.seed).choice(len(places), take, replace=False))
        free = np.isin(np.arange(len(ids)), places[drawn])
        return Selection(_part(spec, table, ids, free, take), take, rounds, {}, set())
    left_out = None
    if not free.all():
        left_out = f"{len(busy):,} of the {len(ids):,} units of {table.name} are left out: {why}. {more}"
    return Selection(_part(spec, table, ids, free, None), None, rounds, {}, set(), left_out)


def _busy(connection: Any, ids: list[str], except_round: int | None) -> dict[str, bool]:
    """The units that were in a round or in history: True with an outcome, False where one is awaited."""
    busy: dict[str, bool] = {}
    for number, row, outcome in kept.read_units(connection, ids):
        # History was not planned: without an outcome, nothing is awaited of it.
        if number != except_round and (outcome is not None or number > 0):
            busy[row.unit] = busy.get(row.unit, False) or outcome is not None
    return busy


def _check_take(table: Table, take: int, free: int, why: str) -> None:
    if 1 <= take <= free:
        return
    if why:
        raise TableError(
            f"{table.name} has {len(table):,} units, of which {free:,} are free; {take:,} of them cannot be drawn. {why}"
        )
    raise TableError(f"{table.name} has {free:,} rows; {take:,} of them cannot be drawn. Allowed: 1 to that.")


def _part(spec: CampaignSpec, table: Table, ids: list[str], chosen: np.ndarray, take: int | None) -> Table:
    """Some rows of a table, with a hash that says which. That of rows drawn is as version 0.1.0 made it."""
    if chosen.all() and take is None:
        return table
    which = f" {take} {spec.seed}" if take is not None else "\n".join(np.array(ids, object)[chosen])
    digest = hashlib.sha256(f"{table.hash}{which}".encode()).hexdigest()
    return dataclasses.replace(table.part(np.flatnonzero(chosen)), hash=digest)


@dataclasses.dataclass(frozen=True)
class Field:
    """Units of other rounds whose outcomes are awaited, in the engine's numbers: contexts (N, C) and actions (N, A)."""

    contexts: np.ndarray
    actions: np.ndarray
    warning: str | None = None

    def __len__(self) -> int:
        return len(self.contexts)


def read_field(connection: Any, spec: CampaignSpec, encoding: Encoding, number: int, num_units: int) -> Field | None:
    """Who is out in the field while round `number` is designed; some of them at random where a design cannot hold all."""
    total = sum(r.num_waiting for r in kept.read_rounds(connection) if r.id != number)
    most = max(0, spec.max_units - num_units)
    chosen = set(range(total))
    warning = None
    if total > most:
        chosen = set(np.random.default_rng(spec.seed).choice(total, most, replace=False).tolist())
        warning = (
            f"{total:,} units of other rounds wait for their outcomes; {most:,} of them, drawn at random, count in this "
            f"design, because one of this spec holds at most {spec.max_units:,} units."
        )
    waiting = kept.read_planned(connection, kept.is_waiting, kept.is_designed, ~kept.in_round(number))
    rows = [entry.row for position, entry in enumerate(waiting) if position in chosen]
    if not total:
        return None
    if not rows:
        return Field(np.zeros((0, 0)), np.zeros((0, 0)), warning)
    return Field(*engine_rows(spec, encoding, [row.context for row in rows], [row.action for row in rows]), warning)
