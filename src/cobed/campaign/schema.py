"""The tables of a campaign's database, their version, and the way from older versions to this one."""

from collections.abc import Callable

from sqlalchemy import (
    Column,
    Connection,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

SCHEMA = 1

metadata = MetaData()

# schema, cobed (the version that wrote it), spec, spec_hash, encoding
meta = Table("meta", metadata, Column("key", Text, primary_key=True), Column("value", Text, nullable=False))

uploads = Table(
    "uploads",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("hash", Text, nullable=False),
    # What it was read for: the same file may bring units and outcomes.
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("created", Text, nullable=False),
    UniqueConstraint("hash", "kind"),
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
)

# One row for every value ever told: the last one of a unit in a round counts.
outcomes = Table(
    "outcomes",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("round", Integer, nullable=False),
    Column("unit", Text, nullable=False),
    Column("value", Float(53), nullable=False),
    Column("action", Text, nullable=False),  # JSON: what the unit really got
    Column("upload", ForeignKey("uploads.id"), nullable=False),
    Column("created", Text, nullable=False),
    ForeignKeyConstraint(["round", "unit"], ["assignments.round", "assignments.unit"]),
)

policies = Table(
    "policies",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("created", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("summary", Text, nullable=False),  # JSON: how many get what, expected rewards and gains
)

# From the version that is the key to the next one. Each runs in the transaction that also writes the new number.
MIGRATIONS: dict[int, Callable[[Connection], None]] = {}
