"""A campaign's database: one SQLite file, or a PostgreSQL database. Every change is one transaction."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError

from cobed import __version__
from cobed.campaign import database, schema
from cobed.campaign.database import DAMAGED, Location
from cobed.campaign.records import read_meta, write_meta
from cobed.errors import StorageError

# Seconds between attempts while a server that was there before does not answer: about a minute in all.
WAITS = (0.5, 1, 2, 4, 8, 15, 30)
ATTEMPTS = 3

# Of a server: a copy that follows another, a database or a user for reading.
CANNOT_WRITE = """
    SELECT pg_is_in_recovery() OR current_setting('default_transaction_read_only') = 'on'
        OR NOT has_table_privilege('meta', 'UPDATE') OR NOT has_table_privilege('outcomes', 'INSERT')"""

T = TypeVar("T")


class Store:
    """A campaign's database. `Store.create` makes one, `Store.open` opens one; both take a path or a SQLAlchemy URL."""

    def __init__(self, location: Location, *, reading: bool = False):
        self.location, self.label, self.reading_only = location, location.label, reading
        self.engine = database.make_engine(location, reading=reading)
        self._reached = False

    @classmethod
    def create(cls, location: str | Path, values: Mapping[str, str]) -> "Store":
        """A new database holding `values` in its meta table. `StorageError` where there is a campaign already."""
        located = database.locate(location)
        if located.path is not None:
            tables = database.tables_in(located) if located.exists() else set()
            if tables and not database.check_tables(tables, located.label):
                raise StorageError(
                    f"{located.label} is a database of another program ({', '.join(sorted(tables)[:5])}). A campaign needs a "
                    "file of its own: give another --store."
                )
            database.create_file(located.path)
        store = cls(located)
        with store.transaction(locking=False) as connection:
            if database.check_tables(set(sa.inspect(connection).get_table_names()), store.label):
                raise StorageError(f"{store.label} holds a campaign already. Open it, or give another --store.")
            schema.metadata.create_all(connection)
            rows = {"schema": str(schema.SCHEMA), "cobed": __version__, **values}
            connection.execute(sa.insert(schema.meta), [{"key": key, "value": value} for key, value in rows.items()])
        # Connections made from now on find a campaign, and use a write-ahead log.
        store.close()
        return store

    @classmethod
    def open(cls, location: str | Path) -> "Store":
        """An existing database, brought to this version's schema. One that cannot be written is opened for reading."""
        located = database.locate(location)
        if not located.exists():
            raise StorageError(f"{located.label} does not exist. `cobed design` or Campaign.create starts a campaign.")
        if not holds_campaign(location):
            raise StorageError(f"{located.label} is a database without a campaign in it.")
        store = cls(located, reading=not located.writable())
        try:
            store._bring_up_to_date()
        except BaseException:
            store.close()
            raise
        return store

    def _bring_up_to_date(self) -> None:
        with self.reading() as connection:
            version = _version(connection, self.label)
            if self.location.path is None:
                self.reading_only = bool(connection.execute(sa.text(CANNOT_WRITE)).scalar())
        if version < schema.SCHEMA:
            if self.reading_only:
                raise StorageError(
                    f"{self.label} was written by an older version of cobed and must be brought to this one, but it cannot "
                    "be written. Copy it to where it can, and open the copy."
                )
            with self.transaction() as connection:
                _migrate(connection, self.label)

    def require_writing(self) -> None:
        """`StorageError` where the store can only be read: to be asked before long work."""
        if self.reading_only:
            raise StorageError(
                f"{self.label} can be read but not written. Copy it to where it can, or ask for the right to write."
            )

    @contextlib.contextmanager
    def transaction(self, *, locking: bool = True) -> Iterator[Connection]:
        """All or nothing. Writers take turns: on PostgreSQL by a lock on one row, on SQLite by BEGIN IMMEDIATE."""
        self.require_writing()
        with self._told(), self._connected() as connection, connection.begin():
            if connection.dialect.name != "sqlite" and locking:
                connection.execute(sa.select(schema.meta).where(schema.meta.c.key == "schema").with_for_update())
            yield connection

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """The database as it is at one moment. Waits for no writer, and none waits for it."""
        with self._told(), self._connected() as connection:
            if connection.dialect.name == "sqlite":
                connection.execution_options(reading=True)
            else:
                connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            with connection.begin():
                yield connection

    def read(self, query: Callable[[Connection], T]) -> T:
        """What a query, such as those of `records`, finds in the database."""
        with self.reading() as connection:
            return query(connection)

    def write(self, change: Callable[[Connection], T]) -> T:
        """A transaction at the end of long work: tried again while a server that was there before does not answer.

        Where the connection broke during the commit, nobody knows whether it was done: `change` must see whether it was.
        """
        for left in reversed(range(ATTEMPTS)):
            try:
                with self.transaction() as connection:
                    return change(connection)
            except StorageError as error:
                if left == 0 or not _lost(error.__cause__):
                    raise
        raise AssertionError

    def close(self) -> None:
        self.engine.dispose()

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Connection]:
        """A connection. A server that was there before is waited for: it may be restarting."""
        for wait in WAITS if self._reached and self.location.path is None else ():
            try:
                connection = self.engine.connect()
                break
            except OperationalError:
                if wait == WAITS[0]:
                    print(f"{self.label} does not answer; trying again for a minute.", file=sys.stderr, flush=True)
                time.sleep(wait)
        else:
            connection = self.engine.connect()
        self._reached = True
        with connection:
            yield connection

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            said = " ".join(self.location.scrubbed(str(getattr(error, "orig", None) or error)).split()).rstrip(".")
            raise StorageError(f"{self.label}: the database says: {said}. {database.advice(said)}".strip()) from error


def _lost(error: BaseException | None) -> bool:
    """Whether the server went away, rather than refused."""
    return isinstance(error, DBAPIError) and (error.connection_invalidated or isinstance(error, OperationalError))


def holds_campaign(location: str | Path) -> bool:
    """Whether a campaign was started there. What is there is not changed."""
    located = database.locate(location)
    if not located.exists():
        return False
    if located.path is not None:
        return database.check_tables(database.tables_in(located), located.label)
    store = Store(located)
    try:
        with store.reading() as connection:
            return database.check_tables(set(sa.inspect(connection).get_table_names()), located.label)
    finally:
        store.close()


def _version(connection: Connection, label: str) -> int:
    """The schema a database has; `StorageError` where this version cannot read it."""
    values = read_meta(connection)
    text = values.get("schema", "")
    if not text.isdecimal():
        raise StorageError(f"{label} does not say which version wrote it (schema is {text!r}). {DAMAGED}")
    if int(text) > schema.SCHEMA:
        raise StorageError(
            f"{label} has schema {text}, last written by cobed {values.get('cobed', '?')}; this version reads up to "
            f"{schema.SCHEMA}. Upgrade cobed."
        )
    return int(text)


def _migrate(connection: Connection, label: str) -> None:
    # Another process may have done it meanwhile.
    version = _version(connection, label)
    while version < schema.SCHEMA:
        if version not in schema.MIGRATIONS:
            raise StorageError(f"{label} has schema {version}, which this version of cobed can no longer read.")
        schema.MIGRATIONS[version](connection)
        version += 1
        write_meta(connection, "schema", str(version))
        write_meta(connection, "cobed", __version__)
