"""Where a campaign lives: one SQLite file, or a PostgreSQL database. Every change is one transaction."""

import contextlib
import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import ArgumentError, DatabaseError

from cobed import __version__
from cobed.campaign import schema
from cobed.campaign.schema import assignments, meta, outcomes, policies, rounds, uploads
from cobed.errors import StorageError

BUSY_SECONDS = 60


class Assignment(NamedTuple):
    """What one unit of a round is to get."""

    unit: str
    context: dict[str, Any]
    action: Any
    state: str = "planned"
    rejected: tuple[Any, ...] = ()


class Round(NamedTuple):
    """One round as stored."""

    id: int
    created: str
    units_hash: str
    seed: int
    version: int
    summary: dict[str, Any]


class Outcome(NamedTuple):
    """What came back of one unit of a round."""

    round: int
    unit: str
    value: float
    action: Any


class Store:
    """A campaign's database. `Store.create` makes one, `Store.open` opens one; both take a path or a SQLAlchemy URL."""

    def __init__(self, engine: Engine, label: str):
        self.engine, self.label = engine, label

    @classmethod
    def create(cls, location: str | Path, values: Mapping[str, str]) -> "Store":
        """A new database holding `values` in its meta table. `StorageError` where there is a campaign already."""
        store = cls(*_engine(location))
        with store._told(), store.engine.begin() as connection:
            if sa.inspect(connection).has_table("meta"):
                raise StorageError(f"{store.label} holds a campaign already. Open it, or give another --store.")
            schema.metadata.create_all(connection)
            rows = {"schema": str(schema.SCHEMA), "cobed": __version__, **values}
            connection.execute(sa.insert(meta), [{"key": key, "value": value} for key, value in rows.items()])
        return store

    @classmethod
    def open(cls, location: str | Path) -> "Store":
        """An existing database, brought to this version's schema."""
        if not exists(location):
            raise StorageError(f"{location} does not exist. `cobed design` or Campaign.create starts a campaign.")
        store = cls(*_engine(location))
        with store._told(), store.engine.connect() as connection:
            if not sa.inspect(connection).has_table("meta"):
                raise StorageError(f"{store.label} is a database without a campaign in it.")
        with store.transaction() as connection:
            _migrate(connection, store.label)
        return store

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Connection]:
        """All or nothing. Writers take turns: on PostgreSQL by a lock on one row, on SQLite by BEGIN IMMEDIATE."""
        with self._told(), self.engine.begin() as connection:
            if connection.dialect.name != "sqlite":
                connection.execute(sa.select(meta).where(meta.c.key == "schema").with_for_update())
            yield connection

    def close(self) -> None:
        self.engine.dispose()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except DatabaseError as error:
            raise StorageError(f"{self.label}: the database says: {str(error.orig).strip()}") from error


# Each of these runs inside a transaction of the caller.


def read_meta(connection: Connection) -> dict[str, str]:
    return {row.key: row.value for row in connection.execute(sa.select(meta))}


def write_meta(connection: Connection, key: str, value: str) -> None:
    connection.execute(sa.delete(meta).where(meta.c.key == key))
    connection.execute(sa.insert(meta), {"key": key, "value": value})


def read_rounds(connection: Connection) -> list[Round]:
    found = connection.execute(sa.select(rounds).order_by(rounds.c.id))
    return [Round(r.id, r.created, r.units_hash, r.seed, r.version, json.loads(r.summary)) for r in found]


def write_round(connection: Connection, round: Round, rows: Sequence[Assignment]) -> None:
    """A round with its assignments, new or in the place of what was there; units with outcomes keep their rows."""
    values = {**round._asdict(), "summary": json.dumps(round.summary)}
    known = connection.execute(sa.select(rounds.c.id).where(rounds.c.id == round.id)).first()
    if known is None:
        connection.execute(sa.insert(rounds), values)
    else:
        connection.execute(sa.update(rounds).where(rounds.c.id == round.id), values)
    write_assignments(connection, round.id, rows)


def write_assignments(connection: Connection, round: int, rows: Sequence[Assignment]) -> None:
    """Add assignments to a round, or change those of units it has already."""
    found = connection.execute(
        sa.select(assignments.c.unit, assignments.c.position).where(assignments.c.round == round)
    )
    places = {row.unit: row.position for row in found}
    changed, new = [], []
    for row in rows:
        values = {
            "context": json.dumps(row.context),
            "action": json.dumps(row.action),
            "state": row.state,
            "rejected": json.dumps(list(row.rejected)),
        }
        if row.unit in places:
            changed.append({"b_round": round, "b_unit": row.unit, **values})
        else:
            new.append({"round": round, "unit": row.unit, "position": len(places) + len(new), **values})
    if new:
        connection.execute(sa.insert(assignments), new)
    if changed:
        table = assignments
        here = (table.c.round == sa.bindparam("b_round")) & (table.c.unit == sa.bindparam("b_unit"))
        names = ("context", "action", "state", "rejected")
        connection.execute(sa.update(table).where(here).values({n: sa.bindparam(n) for n in names}), changed)


def read_assignments(connection: Connection, round: int) -> list[Assignment]:
    """In the order of the user's table."""
    query = sa.select(assignments).where(assignments.c.round == round).order_by(assignments.c.position)
    return [
        Assignment(r.unit, json.loads(r.context), json.loads(r.action), r.state, tuple(json.loads(r.rejected)))
        for r in connection.execute(query)
    ]


def latest_rounds(connection: Connection) -> dict[str, int]:
    """For each unit the last round it is in."""
    query = sa.select(assignments.c.unit, sa.func.max(assignments.c.round).label("round")).group_by(assignments.c.unit)
    return {row.unit: row.round for row in connection.execute(query)}


def read_outcomes(connection: Connection, *, history: bool = False) -> list[Outcome]:
    """The outcome that counts of each unit and round; with `history` also those that were corrected since, in order."""
    query = sa.select(outcomes).order_by(outcomes.c.id)
    rows = [Outcome(r.round, r.unit, r.value, json.loads(r.action)) for r in connection.execute(query)]
    return rows if history else list({(row.round, row.unit): row for row in rows}.values())


def write_upload(connection: Connection, hash: str, kind: str, name: str) -> int | None:
    """The number of a new upload; None where the same was read for the same before."""
    same = (uploads.c.hash == hash) & (uploads.c.kind == kind)
    if connection.execute(sa.select(uploads.c.id).where(same)).first() is not None:
        return None
    values = {"hash": hash, "kind": kind, "name": name, "created": now()}
    return connection.execute(sa.insert(uploads).values(values)).inserted_primary_key[0]  # pyright: ignore[reportOptionalSubscript]


def write_outcomes(connection: Connection, rows: Sequence[Outcome], upload: int) -> None:
    values = [{**row._asdict(), "action": json.dumps(row.action), "upload": upload, "created": now()} for row in rows]
    if values:
        connection.execute(sa.insert(outcomes), values)


def read_uploads(connection: Connection) -> list[dict[str, Any]]:
    return [dict(row._mapping) for row in connection.execute(sa.select(uploads).order_by(uploads.c.id))]


def write_policy(connection: Connection, name: str, summary: dict[str, Any]) -> None:
    connection.execute(sa.insert(policies), {"created": now(), "name": name, "summary": json.dumps(summary)})


def read_policies(connection: Connection) -> list[dict[str, Any]]:
    found = connection.execute(sa.select(policies).order_by(policies.c.id))
    return [{"created": r.created, "name": r.name, **json.loads(r.summary)} for r in found]


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def exists(location: str | Path) -> bool:
    """Whether there is something to open: a file, or a server's database, which is asked when it is opened."""
    text = str(location)
    if "://" not in text:
        return Path(text).exists()
    url = _url(text)
    return url.get_backend_name() != "sqlite" or (url.database is not None and Path(url.database).exists())


def holds_campaign(location: str | Path) -> bool:
    """Whether a campaign was started there."""
    if not exists(location):
        return False
    engine, label = _engine(location)
    store = Store(engine, label)
    try:
        with store._told(), engine.connect() as connection:
            return sa.inspect(connection).has_table("meta")
    finally:
        store.close()


def _migrate(connection: Connection, label: str) -> None:
    values = read_meta(connection)
    version = int(values["schema"])
    if version > schema.SCHEMA:
        raise StorageError(
            f"{label} has schema {version}, last written by cobed {values['cobed']}; this version reads up to "
            f"{schema.SCHEMA}. Upgrade cobed."
        )
    while version < schema.SCHEMA:
        if version not in schema.MIGRATIONS:
            raise StorageError(f"{label} has schema {version}, which this version of cobed can no longer read.")
        schema.MIGRATIONS[version](connection)
        version += 1
        write_meta(connection, "schema", str(version))
        write_meta(connection, "cobed", __version__)


def _url(text: str) -> sa.URL:
    try:
        url = sa.make_url(text)
    except ArgumentError as error:
        raise StorageError(
            f"{text!r} is not a database. Allowed: a file name, sqlite:///FILE, or postgresql://USER@HOST/DATABASE."
        ) from error
    if url.get_backend_name() == "postgresql" and url.drivername == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise StorageError(f"{url.get_backend_name()!r} databases are not supported. Allowed: sqlite, postgresql.")
    return url


def _engine(location: str | Path) -> tuple[Engine, str]:
    text = str(location)
    url = _url(text) if "://" in text else sa.URL.create("sqlite", database=text)
    label = url.render_as_string(hide_password=True) if url.get_backend_name() != "sqlite" else str(url.database)
    if url.get_backend_name() == "sqlite" and not url.database:
        raise StorageError("A campaign needs a file: sqlite:///campaign.db, or just campaign.db.")
    try:
        engine = sa.create_engine(url)
    except ModuleNotFoundError as error:
        raise StorageError(
            f"{label} needs the package {error.name!r}: pip install 'psycopg[binary]' for PostgreSQL."
        ) from error
    if url.get_backend_name() == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine, label


def _prepare_sqlite(connection: Any, _: Any) -> None:
    # Transactions are begun by us: Python's own begin too late, at the first change.
    connection.isolation_level = None
    for pragma in (
        f"busy_timeout = {BUSY_SECONDS * 1000}",
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
    ):
        connection.execute(f"PRAGMA {pragma}")
