"""Where databases are: SQLite files and PostgreSQL servers. Looking at one changes nothing, and no password is printed."""

import dataclasses
import os
import re
import sqlite3
import stat
import time
import urllib.parse
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import ArgumentError

from cobed.campaign import schema
from cobed.errors import StorageError
from cobed.storage import HIDDEN, printable

BUSY_SECONDS = 60
ALLOWED = "Allowed: a file name, sqlite:///FILE, or postgresql://USER@HOST/DATABASE."
DRIVERS = ("sqlite", "sqlite+pysqlite", "postgresql", "postgresql+psycopg")
DAMAGED = "The store is damaged, or another program has changed it. Restore it from a copy."


@dataclasses.dataclass(frozen=True, repr=False)
class Location:
    """A SQLite file, or the URL of a server's database. `label` is how messages call it."""

    url: sa.URL
    path: Path | None

    def __repr__(self) -> str:
        return f"Location({self.label!r})"

    @property
    def label(self) -> str:
        return printable(self.path or self.url.set(drivername="postgresql").render_as_string(hide_password=False))

    def scrubbed(self, text: str) -> str:
        """A text of the database's without the secrets of the URL."""
        secrets = [self.url.password, *(v for k, v in self.url.query.items() if "pass" in k)]
        for secret in (str(secret) for secret in secrets if secret):
            for form in (secret, urllib.parse.quote(secret), urllib.parse.quote_plus(secret)):
                text = text.replace(form, HIDDEN)
        return text

    def exists(self) -> bool:
        """Whether there is something to open: a file, or a server's database, which is asked when it is opened."""
        return self.path is None or self.path.exists()

    def writable(self) -> bool:
        """Whether the file may be written, and files beside it, as SQLite needs. A server is asked by its store."""
        return self.path is None or (os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK))


def locate(location: str | Path) -> Location:
    """The location a path or a URL means; `StorageError` where it means none."""
    text = str(location)
    if not text.strip() or "\0" in text:
        raise StorageError(f"A campaign needs a place to be kept, and --store is {text!r}. {ALLOWED}")
    if "://" not in text:
        return Location(sa.URL.create("sqlite"), Path(text))
    try:
        url = sa.make_url(text)
    except (ArgumentError, ValueError) as error:
        port = " The port is a number." if "invalid literal for int" in str(error) else ""
        raise StorageError(f"{printable(text)!r} is not a database.{port} {ALLOWED}") from None
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise StorageError(f"{url.get_backend_name()!r} databases are not supported. Allowed: sqlite, postgresql.")
    if url.drivername not in DRIVERS:
        raise StorageError(f"The driver {url.drivername!r} is not supported. Allowed: {', '.join(DRIVERS)}.")
    if url.get_backend_name() == "sqlite":
        if not url.database or url.database == ":memory:" or url.query:
            raise StorageError(
                f"{printable(text)!r}: a campaign needs a file, without options: sqlite:///campaign.db, or just campaign.db."
            )
        return Location(url, Path(url.database))
    if "@" in (url.host or ""):
        raise StorageError(f"{printable(text)!r}: an @ in a user's name or password is written %40 in a URL.")
    if "password" in url.query:
        # Where SQLAlchemy hides it too.
        url = url.set(password=str(url.query["password"])).difference_update_query(["password"])
    return Location(url.set(drivername="postgresql+psycopg"), None)


def make_engine(location: Location, *, reading: bool = False) -> Engine:
    """An engine that begins its transactions itself. With `reading` a file is opened so that nothing can be written."""
    if location.path is not None:
        path = location.path
        engine = sa.create_engine(
            "sqlite://", creator=lambda: _connect(path, reading=reading), poolclass=sa.pool.QueuePool
        )
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    try:
        # A connection that a restart of the server has closed is made again.
        return sa.create_engine(location.url, pool_pre_ping=True)
    except ModuleNotFoundError as error:
        raise StorageError(
            f"{location.label} needs the package {error.name!r}: pip install 'psycopg[binary]' for PostgreSQL."
        ) from error


def _begin_sqlite(connection: Connection) -> None:
    reading = connection.get_execution_options().get("reading", False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


def _connect(path: Path, *, reading: bool) -> sqlite3.Connection:
    # Transactions are begun by us: Python's own begin too late, at the first change.
    connection = sqlite3.connect(
        _uri(path, reading=reading), uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA foreign_keys = ON")
    if not reading:
        connection.execute("PRAGMA synchronous = FULL")
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            # Only once there is a campaign in the file: until then its creation is undone whole by a plain journal.
            _use_write_ahead_log(connection)
    return connection


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    # For this one lock SQLite does not wait by itself: processes that begin a campaign together meet here.
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.02)


def _uri(path: Path, *, reading: bool) -> str:
    quoted = urllib.parse.quote(os.fsencode(os.path.abspath(path)))
    if not reading:
        return f"file:{quoted}?mode=rw"
    # While anybody is connected, there is a write-ahead log. Without one, the file alone is everything, and read as
    # unchanging it needs neither locks nor files beside it.
    wal = Path(f"{path}-wal")
    return f"file:{quoted}?mode=ro" + ("" if wal.exists() and wal.stat().st_size else "&immutable=1")


def create_file(path: Path) -> None:
    """An empty file that only its owner can read and write, in whose place nothing or an empty file was."""
    if not path.parent.is_dir():
        raise StorageError(f"{path}: the folder {path.parent} does not exist. Make it, or give another --store.")
    try:
        # The files that SQLite puts beside it get the same permissions.
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        if path.stat().st_size == 0:
            path.chmod(0o600)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}. Give another --store.") from error


def readable_by_others(location: Location) -> str | None:
    """A sentence where other users of the machine can read the file."""
    if location.path is None or os.name != "posix" or not stat.S_IMODE(location.path.stat().st_mode) & 0o077:
        return None
    return f"Other users of this machine can read {location.path}. To keep it to yourself: chmod 600 {location.path}*"


def tables_in(location: Location) -> set[str]:
    """The names of the tables in a SQLite file, which is not changed by this; `StorageError` where it is no such file."""
    path = location.path
    assert path is not None
    try:
        if not path.is_file():
            raise StorageError(f"{path} is {'a folder' if path.is_dir() else 'no ordinary file'}. {ALLOWED}")
        with open(path, "rb") as file:
            head = file.read(16)
        if not head or _never_filled(path):
            return set()
        if head != b"SQLite format 3\0":
            raise StorageError(f"{path}: the file is not a database. {ALLOWED}")
        connection = sqlite3.connect(_uri(path, reading=True), uri=True, timeout=BUSY_SECONDS)
        try:
            return {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise StorageError(f"{path}: the database says: {error}. {DAMAGED}") from error
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}.") from error


def _never_filled(path: Path) -> bool:
    """Whether a process was stopped while it filled a new file: the journal beside it takes it back to no page at all."""
    journal = Path(f"{path}-journal")
    if not journal.exists():
        return False
    head = journal.read_bytes()[:20]
    return head[:8] == bytes.fromhex("d9d505f920a163d7") and head[16:20] == bytes(4)


def check_tables(tables: set[str], label: str) -> bool:
    """Whether these are the tables of a campaign; `StorageError` where only some of them are there."""
    wanted = set(schema.metadata.tables)
    if not wanted & tables:
        return False
    if missing := sorted(wanted - tables):
        raise StorageError(
            f"{label} has some tables of a campaign ({', '.join(sorted(wanted & tables))}) and lacks others "
            f"({', '.join(missing)}). {DAMAGED} If they are another program's, give another --store."
        )
    return True


def advice(said: Any) -> str:
    """What to do about an error of the database's."""
    text = str(said).lower()
    if "locked" in text:
        return "Another process is writing. Try again when it has finished."
    if "readonly" in text or "read-only" in text or "permission denied" in text:
        return "The store can be read but not written."
    if re.search(r"no such|(relation|column) .* does not exist|malformed|not a database|constraint", text):
        return DAMAGED
    return ""
