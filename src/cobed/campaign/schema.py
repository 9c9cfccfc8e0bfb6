"""The tables of a campaign's database, their version, and the way from older versions to this one."""

from collections.abc import Callable

import sqlalchemy as sa
from sqlalchemy import (
    Column,
    Connection,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
)

SCHEMA = 3

metadata = MetaData()

# schema, cobed (the version that wrote it), spec, spec_hash, encoding
meta = Table("meta", metadata, Column("key", Text, primary_key=True), Column("value", Text, nullable=False))

# Every table of outcomes that changed something, and every withdrawal.
uploads = Table(
    "uploads",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("hash", Text, nullable=False),
    Column("kind", Text, nullable=False),  # outcomes, withdrawal
    Column("name", Text, nullable=False),
    Column("created", Text, nullable=False),
    Column("round", Integer),  # the round it was given for; empty where each row found its own
    Column("withdrawn", Text),  # when all of it was withdrawn
    Index("uploads_hash", "hash"),
)

# Round 0 holds history and whatever else was not planned here.
rounds = Table(
    "rounds",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("created", Text, nullable=False),
    Column("units_hash", Text, nullable=False),
    Column("seed", Integer, nullable=False),
    Column("version", Integer, nullable=False),  # how often it was designed
    Column("summary", Text, nullable=False),  # JSON: method, reason, score, warnings
    # Counts every change of the round, its assignments or its outcomes.
    Column("revision", Integer, nullable=False, server_default="0"),
    # Kept with the rows, because to count a million of them takes longer than the rest of a command.
    Column("num_units", Integer, nullable=False, server_default="0"),
    Column("num_outcomes", Integer, nullable=False, server_default="0"),
)

assignments = Table(
    "assignments",
    metadata,
    Column("round", ForeignKey("rounds.id"), primary_key=True),
    Column("unit", Text, primary_key=True),
    Column("position", Integer, nullable=False),
    Column("context", Text, nullable=False),  # JSON: the cells of the context columns
    Column("action", Text, nullable=False),  # JSON: a name, or numbers by their names
    Column("state", Text, nullable=False),  # planned, pinned, unplanned
    Column("rejected", Text, nullable=False),  # JSON: actions the user refused for this unit
    # JSON: how the action was drawn by chance; empty where it was not, or where nobody knows.
    Column("chance", Text),
    # outcomes.id of the value that counts now; empty where none does. The two tables would refer to each other.
    Column("outcome", Integer),
    Index("assignments_unit", "unit"),
)

# One row for every value ever told, and for every withdrawal. The last one of a unit in a round counts, those of withdrawn
# uploads left out.
outcomes = Table(
    "outcomes",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("round", Integer, nullable=False),
    Column("unit", Text, nullable=False),
    Column("value", Float(53)),  # empty: the outcome was withdrawn
    Column("action", Text, nullable=False),  # JSON: what the unit really got
    Column("upload", ForeignKey("uploads.id"), nullable=False),
    Column("created", Text, nullable=False),
    ForeignKeyConstraint(["round", "unit"], ["assignments.round", "assignments.unit"]),
    Index("outcomes_unit", "round", "unit"),
    Index("outcomes_upload", "upload"),
)

policies = Table(
    "policies",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("created", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("summary", Text, nullable=False),  # JSON: how many get what, expected rewards and gains
)

# The migrations are written out: what they make must not change with the tables above.
_ROUND_OF_KIND = "CASE WHEN kind LIKE 'outcomes of round %' THEN CAST(substr(kind, 19) AS INTEGER) END"
# SQLite changes no constraint: the rows wait in plain tables while the new ones are made.
_SQLITE_TO_2 = f"""
    CREATE TABLE old_outcomes AS SELECT * FROM outcomes;
    CREATE TABLE old_uploads AS SELECT * FROM uploads;
    DROP TABLE outcomes;
    DROP TABLE uploads;
    CREATE TABLE uploads (
        id INTEGER NOT NULL PRIMARY KEY, hash TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, created TEXT NOT NULL,
        round INTEGER, withdrawn TEXT);
    CREATE TABLE outcomes (
        id INTEGER NOT NULL PRIMARY KEY, round INTEGER NOT NULL, unit TEXT NOT NULL, value FLOAT, action TEXT NOT NULL,
        upload INTEGER NOT NULL REFERENCES uploads (id), created TEXT NOT NULL,
        FOREIGN KEY (round, unit) REFERENCES assignments (round, unit));
    INSERT INTO uploads SELECT id, hash, 'outcomes', name, created, {_ROUND_OF_KIND}, NULL FROM old_uploads;
    INSERT INTO outcomes SELECT id, round, unit, value, action, upload, created FROM old_outcomes;
    DROP TABLE old_outcomes;
    DROP TABLE old_uploads"""
_POSTGRESQL_TO_2 = f"""
    ALTER TABLE uploads DROP CONSTRAINT {{unique}}, ADD COLUMN round INTEGER, ADD COLUMN withdrawn TEXT;
    UPDATE uploads SET round = {_ROUND_OF_KIND};
    UPDATE uploads SET kind = 'outcomes';
    ALTER TABLE outcomes ALTER COLUMN value DROP NOT NULL"""
_ALL_TO_2 = """
    CREATE INDEX uploads_hash ON uploads (hash);
    CREATE INDEX outcomes_unit ON outcomes (round, unit);
    CREATE INDEX outcomes_upload ON outcomes (upload);
    CREATE INDEX assignments_unit ON assignments (unit);
    ALTER TABLE rounds ADD COLUMN revision INTEGER DEFAULT 0 NOT NULL;
    ALTER TABLE rounds ADD COLUMN num_units INTEGER DEFAULT 0 NOT NULL;
    ALTER TABLE rounds ADD COLUMN num_outcomes INTEGER DEFAULT 0 NOT NULL;
    ALTER TABLE assignments ADD COLUMN outcome INTEGER;
    UPDATE assignments SET outcome =
        (SELECT max(id) FROM outcomes WHERE outcomes.round = assignments.round AND outcomes.unit = assignments.unit);
    UPDATE rounds SET
        num_units = (SELECT count(*) FROM assignments WHERE assignments.round = rounds.id),
        num_outcomes = (SELECT count(outcome) FROM assignments WHERE assignments.round = rounds.id)"""


def _to_2(connection: Connection) -> None:
    """Uploads by round, withdrawals, counts kept with the rows."""
    if connection.dialect.name == "sqlite":
        first = _SQLITE_TO_2
    else:
        unique = sa.inspect(connection).get_unique_constraints("uploads")[0]["name"]
        first = _POSTGRESQL_TO_2.format(unique=unique)
    for statement in f"{first};{_ALL_TO_2}".split(";"):
        connection.execute(sa.text(statement))


def _to_3(connection: Connection) -> None:
    """Actions that were drawn by chance, with their probabilities. What earlier versions assigned was not."""
    connection.execute(sa.text("ALTER TABLE assignments ADD COLUMN chance TEXT"))


# From the version that is the key to the next one. Each runs in the transaction that also writes the new number.
MIGRATIONS: dict[int, Callable[[Connection], None]] = {1: _to_2, 2: _to_3}
