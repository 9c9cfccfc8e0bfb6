"""The rows of a campaign's database: rounds, assignments, outcomes, uploads, policies. Reading and writing them in SQL."""

import contextlib
import datetime
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection

from cobed.campaign.database import DAMAGED
from cobed.campaign.schema import assignments, meta, outcomes, policies, rounds, uploads
from cobed.errors import StorageError

# Units asked for in one query.
CHUNK = 10_000


class Assignment(NamedTuple):
    """What one unit of a round is to get. `chance` is how its action was drawn (`chance.py`), None where it was not."""

    unit: str
    context: dict[str, Any]
    action: Any
    state: str = "planned"
    rejected: tuple[Any, ...] = ()
    chance: dict[str, Any] | None = None


class Round(NamedTuple):
    """One round as stored. `revision` counts every change of it; the numbers are kept by the store."""

    id: int
    created: str
    units_hash: str
    seed: int
    version: int
    summary: dict[str, Any]
    revision: int = 0
    num_units: int = 0
    num_outcomes: int = 0

    @property
    def num_waiting(self) -> int:
        """Outcomes still awaited. History was not planned, so nothing is awaited of it."""
        return self.num_units - self.num_outcomes if self.id > 0 else 0


class Outcome(NamedTuple):
    """What came back of one unit of a round; no value where it was withdrawn."""

    round: int
    unit: str
    value: float | None
    action: Any


class Planned(NamedTuple):
    """A unit of a round, with the outcome that counts now."""

    round: int
    row: Assignment
    outcome: Outcome | None


# Conditions for `read_planned`.
is_back, is_waiting = assignments.c.outcome.is_not(None), assignments.c.outcome.is_(None)
is_designed = assignments.c.round > 0


def in_round(round: int) -> sa.ColumnElement[bool]:
    return assignments.c.round == round


# Each of these runs inside a transaction of the caller.


def read_meta(connection: Connection) -> dict[str, str]:
    return {row.key: row.value for row in connection.execute(sa.select(meta))}


def write_meta(connection: Connection, key: str, value: str) -> None:
    connection.execute(sa.delete(meta).where(meta.c.key == key))
    connection.execute(sa.insert(meta), {"key": key, "value": value})


def read_rounds(connection: Connection) -> list[Round]:
    rows = connection.execute(sa.select(rounds).order_by(rounds.c.id))
    made = [Round(**{**r._mapping, "summary": _json(r.summary, f"round {r.id}", dict)}) for r in rows]
    for r in made:
        if not all(isinstance(number, int) for number in (r.id, r.version, *r[6:])):
            raise StorageError(f"What is stored of round {r.id} cannot be read. {DAMAGED}")
    return made


def write_round(connection: Connection, round: Round, rows: Sequence[Assignment]) -> None:
    """A round with its assignments, new or in the place of what was there; units that are not in `rows` keep theirs."""
    values = {name: getattr(round, name) for name in ("id", "created", "units_hash", "seed", "version")}
    values["summary"] = json.dumps(round.summary)
    known = connection.execute(sa.select(rounds.c.id).where(rounds.c.id == round.id)).first()
    if known is None:
        connection.execute(sa.insert(rounds), values)
    else:
        connection.execute(sa.update(rounds).where(rounds.c.id == round.id), values)
    write_assignments(connection, round.id, rows)


def write_assignments(connection: Connection, round: int, rows: Sequence[Assignment]) -> None:
    """Add assignments to a round, or change those of units it has already."""
    known = {
        row.unit for row in _of_units(connection, sa.select(assignments.c.unit), round, [row.unit for row in rows])
    }
    count = connection.execute(sa.select(rounds.c.num_units).where(rounds.c.id == round)).scalar_one()
    changed, new = [], []
    for row in rows:
        values = {
            "context": json.dumps(row.context),
            "action": json.dumps(row.action),
            "state": row.state,
            "rejected": json.dumps(list(row.rejected)),
            "chance": None if row.chance is None else json.dumps(row.chance),
        }
        if row.unit in known:
            changed.append({"b_round": round, "b_unit": row.unit, **values})
        else:
            new.append({"round": round, "unit": row.unit, "position": count + len(new), **values})
    if new:
        connection.execute(sa.insert(assignments), new)
    if changed:
        table = assignments
        here = (table.c.round == sa.bindparam("b_round")) & (table.c.unit == sa.bindparam("b_unit"))
        names = ("context", "action", "state", "rejected", "chance")
        connection.execute(sa.update(table).where(here).values({n: sa.bindparam(n) for n in names}), changed)
    _count(connection, round, len(new), 0)


def _count(connection: Connection, round: int, units: int, back: int) -> None:
    columns = rounds.c
    values = {
        "revision": columns.revision + 1,
        "num_units": columns.num_units + units,
        "num_outcomes": columns.num_outcomes + back,
    }
    connection.execute(sa.update(rounds).where(columns.id == round).values(values))


def _of_units(
    connection: Connection, query: sa.Select[Any], round: int | None, units: Sequence[str]
) -> Iterator[sa.Row[Any]]:
    """The rows of a query on assignments that are of these units, and of one round where it is given."""
    if round is not None:
        query = query.where(assignments.c.round == round)
    for start in range(0, len(units), CHUNK):
        yield from connection.execute(query.where(assignments.c.unit.in_(units[start : start + CHUNK])))


def read_assignments(connection: Connection, round: int) -> list[Assignment]:
    """In the order of the user's table."""
    return [planned.row for planned in read_planned(connection, in_round(round))]


def read_planned(connection: Connection, *conditions: sa.ColumnElement[bool]) -> Iterator[Planned]:
    """The units of rounds with the outcomes that count, round by round in the order of the user's tables."""
    query = _PLANNED.where(*conditions).order_by(assignments.c.round, assignments.c.position)
    return map(_planned, connection.execute(query.execution_options(yield_per=CHUNK)))


def read_units(connection: Connection, units: Sequence[str], round: int | None = None) -> Iterator[Planned]:
    """The same of these units alone, in no order."""
    return map(_planned, _of_units(connection, _PLANNED, round, units))


_PLANNED = sa.select(
    *(column for column in assignments.c if column.name != "position"),
    outcomes.c.id.label("told"), outcomes.c.value, outcomes.c.action.label("given"),
).select_from(assignments.outerjoin(outcomes, outcomes.c.id == assignments.c.outcome))  # fmt: skip


def _planned(row: sa.Row[Any]) -> Planned:
    where = f"unit {row.unit!r} of round {row.round}"
    context, rejected = _json(row.context, where, dict), _json(row.rejected, where, list)
    chance = None if row.chance is None else _json(row.chance, where, dict)
    assigned = Assignment(row.unit, context, _json(row.action, where, str, dict), row.state, tuple(rejected), chance)
    if row.outcome is None:
        return Planned(row.round, assigned, None)
    if row.told is None or not isinstance(row.value, float) or not math.isfinite(row.value):
        raise StorageError(f"The outcome of {where} cannot be read. {DAMAGED}")
    return Planned(row.round, assigned, Outcome(row.round, row.unit, row.value, _json(row.given, where, str, dict)))


def read_outcomes(connection: Connection, *, history: bool = False) -> list[Outcome]:
    """The outcomes that count; with `history` all that was ever told, withdrawals too, in the order it came."""
    query = sa.select(outcomes).order_by(outcomes.c.id)
    if not history:
        query = query.join(assignments, outcomes.c.id == assignments.c.outcome)
    return [
        Outcome(r.round, r.unit, r.value, _json(r.action, f"unit {r.unit!r} of round {r.round}", str, dict))
        for r in connection.execute(query)
    ]


def outcomes_by_action(connection: Connection) -> dict[Any, tuple[int, float, float]]:
    """Of each option: how many outcomes count, their mean and their deviation. With numbers to choose there is nothing to count."""
    value = outcomes.c.value
    columns = sa.func.count(value), sa.func.avg(value), sa.func.avg(value * value)
    query = sa.select(outcomes.c.action, *columns).join(assignments, outcomes.c.id == assignments.c.outcome)
    moments: dict[Any, tuple[int, float, float]] = {}
    for action, number, mean, square in connection.execute(query.group_by(outcomes.c.action)):
        name = _json(action, "an outcome", str, dict)
        if isinstance(name, str):
            moments[name] = number, mean, math.sqrt(max(square - mean**2, 0.0))
    return moments


def known_units(connection: Connection, units: Sequence[str] | None) -> set[str]:
    """Which of these units any round has; all there are where none are given."""
    query = sa.select(assignments.c.unit)
    if units is None:
        return set(connection.execute(query.distinct()).scalars())
    return {row.unit for row in _of_units(connection, query, None, units)}


def outcomes_mark(connection: Connection) -> tuple[int, int]:
    """Changes with every outcome, correction and withdrawal."""
    last = connection.execute(sa.select(sa.func.max(outcomes.c.id))).scalar()
    return last or 0, connection.execute(sa.select(sa.func.count(uploads.c.withdrawn))).scalar_one()


def write_upload(connection: Connection, hash: str, name: str, round: int | None = None, kind: str = "outcomes") -> int:
    """The number of a new upload."""
    values = {"hash": hash, "kind": kind, "name": name, "created": now(), "round": round}
    return connection.execute(sa.insert(uploads).values(values)).inserted_primary_key[0]  # pyright: ignore[reportOptionalSubscript]


def rounds_of_hash(connection: Connection, hash: str) -> set[int] | None:
    """The rounds that a table with this hash was taken for before; None where it is new, or was withdrawn."""
    same = (uploads.c.hash == hash) & uploads.c.withdrawn.is_(None) & (uploads.c.kind == "outcomes")
    same_table = connection.execute(sa.select(uploads.c.id, uploads.c.round).where(same)).all()
    if not same_table:
        return None
    touched = sa.select(outcomes.c.round).where(outcomes.c.upload.in_([row.id for row in same_table])).distinct()
    given = {row.round for row in same_table if row.round is not None}
    return given | {row.round for row in connection.execute(touched)}


def write_outcomes(connection: Connection, rows: Sequence[Outcome], upload: int) -> None:
    """Add what an upload says; from now on it counts."""
    created = now()
    values = [{**row._asdict(), "action": json.dumps(row.action), "upload": upload, "created": created} for row in rows]
    if values:
        connection.execute(sa.insert(outcomes), values)
        _refresh(connection, upload)


def withdraw_upload(connection: Connection, upload: int) -> tuple[int, int, int]:
    """Leave out all that an upload said; what counted before it counts again.

    Of how many units: without an outcome now, with an earlier one, unchanged because they were told anew since.
    """
    counting = sa.select(assignments.c.round, assignments.c.unit, assignments.c.outcome).where(_touched(upload))
    before = {row[:2]: row[2] for row in connection.execute(counting)}
    connection.execute(sa.update(uploads).where(uploads.c.id == upload).values(withdrawn=now()))
    _refresh(connection, upload)
    changed = [row[2] for row in connection.execute(counting) if row[2] != before[row[0], row[1]]]
    gone = changed.count(None)
    return gone, len(changed) - gone, len(before) - len(changed)


def _touched(upload: int) -> sa.ColumnElement[bool]:
    """The assignments that an upload spoke of."""
    return sa.tuple_(assignments.c.round, assignments.c.unit).in_(
        sa.select(outcomes.c.round, outcomes.c.unit).where(outcomes.c.upload == upload)
    )


def _refresh(connection: Connection, upload: int) -> None:
    """Find anew what counts for the units that an upload spoke of, and count the outcomes of their rounds."""
    touched = _touched(upload)
    counting = sa.select(assignments.c.round, sa.func.count(assignments.c.outcome)).where(touched)
    counting = counting.group_by(assignments.c.round)
    before = {row[0]: row[1] for row in connection.execute(counting)}
    last = (
        sa.select(sa.case((outcomes.c.value.is_not(None), outcomes.c.id)))
        .join(uploads, uploads.c.id == outcomes.c.upload)
        .where(outcomes.c.round == assignments.c.round, outcomes.c.unit == assignments.c.unit)
        .where(uploads.c.withdrawn.is_(None))
        .order_by(outcomes.c.id.desc())
        .limit(1)
        .correlate(assignments)
        .scalar_subquery()
    )
    connection.execute(sa.update(assignments).where(touched).values(outcome=last))
    for round, back in connection.execute(counting).all():
        _count(connection, round, 0, back - before[round])


def read_uploads(connection: Connection) -> list[dict[str, Any]]:
    """All uploads and withdrawals, each with the number of rows it changed."""
    counts = sa.select(outcomes.c.upload, sa.func.count().label("rows")).group_by(outcomes.c.upload).subquery()
    query = sa.select(uploads, sa.func.coalesce(counts.c.rows, 0).label("rows"))
    query = query.outerjoin(counts, counts.c.upload == uploads.c.id).order_by(uploads.c.id)
    return [dict(row._mapping) for row in connection.execute(query)]


def write_policy(connection: Connection, created: str, name: str, summary: dict[str, Any]) -> None:
    """Keep what was deployed; a second attempt at the same changes nothing."""
    values = {"created": created, "name": name, "summary": json.dumps(summary)}
    same = sa.and_(*(policies.c[key] == value for key, value in values.items()))
    if connection.execute(sa.select(policies.c.id).where(same)).first() is None:
        connection.execute(sa.insert(policies), values)


def read_policies(connection: Connection) -> list[dict[str, Any]]:
    rows = connection.execute(sa.select(policies).order_by(policies.c.id))
    return [{"created": r.created, "name": r.name, **_json(r.summary, f"policy {r.id}", dict)} for r in rows]


def count_policies(connection: Connection) -> int:
    return connection.execute(sa.select(sa.func.count()).select_from(policies)).scalar_one()


def now(timespec: str = "seconds") -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec=timespec)


def _json(text: Any, where: str, *kinds: type) -> Any:
    """A cell of JSON of one of these kinds."""
    with contextlib.suppress(ValueError, TypeError, RecursionError):
        if isinstance(value := json.loads(text), kinds):
            return value
    raise StorageError(f"What is stored of {where} cannot be read. {DAMAGED}")
