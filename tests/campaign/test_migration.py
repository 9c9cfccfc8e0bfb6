"""Stores of version 0.1.0, as it wrote them, open in this version."""

import contextlib
import hashlib
import json
import sqlite3

import pandas as pd
import psycopg
import pytest
import sqlalchemy as sa

from cobed.campaign import records, schema
from cobed.campaign.campaign import Campaign
from cobed.campaign.marks import round_marks
from cobed.campaign.records import Outcome
from cobed.campaign.spec import parse_spec
from cobed.campaign.store import Store
from cobed.campaign.tables import read_table
from cobed.errors import StorageError

SPEC = """name = "spring"
[units]
id = "customer"
[context]
new = "binary"
[action]
column = "offer"
options = ["none", "5%"]
[outcome]
column = "visit"
likelihood = "bernoulli"
"""
TABLES = """
CREATE TABLE meta ("key" TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY ("key"));
CREATE TABLE policies (
    id {serial} NOT NULL, created TEXT NOT NULL, name TEXT NOT NULL, summary TEXT NOT NULL, PRIMARY KEY (id));
CREATE TABLE rounds (
    id INTEGER NOT NULL, created TEXT NOT NULL, units_hash TEXT NOT NULL, seed INTEGER NOT NULL, version INTEGER NOT NULL,
    summary TEXT NOT NULL, PRIMARY KEY (id));
CREATE TABLE uploads (
    id {serial} NOT NULL, hash TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, created TEXT NOT NULL,
    PRIMARY KEY (id), UNIQUE (hash, kind));
CREATE TABLE assignments (
    round INTEGER NOT NULL, unit TEXT NOT NULL, position INTEGER NOT NULL, context TEXT NOT NULL, action TEXT NOT NULL,
    state TEXT NOT NULL, rejected TEXT NOT NULL, PRIMARY KEY (round, unit), FOREIGN KEY(round) REFERENCES rounds (id));
CREATE TABLE outcomes (
    id {serial} NOT NULL, round INTEGER NOT NULL, unit TEXT NOT NULL, value {float} NOT NULL, action TEXT NOT NULL,
    upload INTEGER NOT NULL, created TEXT NOT NULL, PRIMARY KEY (id),
    FOREIGN KEY(round, unit) REFERENCES assignments (round, unit), FOREIGN KEY(upload) REFERENCES uploads (id));
"""
ROWS = [
    ("meta", [("schema", "1"), ("cobed", "0.1.0"), ("spec", SPEC), ("encoding", '{"scales": {}, "levels": {}}')]),
    ("rounds", [(0, "t0", "", 0, 1, '{"method": "history"}'), (1, "t1", "h", 1001, 2, '{"stale": true}')]),
    ("uploads (hash, kind, name, created)", [
        ("aa", "outcomes", "history.csv", "t0"), ("bb", "outcomes of round 1", "first.csv", "t1"),
        ("cc", "outcomes", "corrected.csv", "t2"),
    ]),
    ("assignments", [
        (0, "h1", 0, '{"new": 1.0}', '"none"', "unplanned", "[]"),
        (1, "a", 0, '{"new": 0.0}', '"5%"', "planned", "[]"),
        (1, "b", 1, '{"new": 1.0}', '"none"', "pinned", '["5%"]'),
    ]),
    ("outcomes (round, unit, value, action, upload, created)", [
        (0, "h1", 1.0, '"none"', 1, "t0"), (1, "a", 0.0, '"5%"', 2, "t1"), (1, "a", 1.0, '"none"', 3, "t2"),
    ]),
    ("policies (created, name, summary)", [("t3", "region.csv", '{"rows": 2}')]),
]  # fmt: skip


# The spec as that version put it into the mark of a round.
STATED = (
    '{"name":"spring","seed":0,"units":{"id":"customer"},"context":{"new":{"type":"binary","levels":null}},'
    '"action":{"column":"offer","options":["none","5%"],"numbers":null},"outcome":{"column":"visit","likelihood":"bernoulli",'
    '"typical":null,"spread":null},"model":{"family":"linear","program":null,"kernel":"matern","lengths":{},"deviation":null,'
    '"fit":false},"prior":{"baseline":null,"context":null,"action":null,"interaction":null},"design":{"budget":"quick",'
    '"about":"max-values","max_targets":100},"constraints":{"at_least":{},"at_most":{},"cost":{},"max_cost":null,"forbid":[]}}'
)


def write_version_1(url):
    """The database as 0.1.0 left it, without the help of this version."""
    server = url.startswith("postgresql")
    connection = psycopg.connect(url) if server else sqlite3.connect(url.removeprefix("sqlite:///"))
    if not server:
        connection.execute("PRAGMA journal_mode = WAL")
    kinds = {"serial": "SERIAL" if server else "INTEGER", "float": "FLOAT(53)" if server else "FLOAT"}
    for statement in TABLES.format(**kinds).split(";")[:-1]:
        connection.execute(statement)
    for table, rows in ROWS:
        for row in rows:
            marks = ", ".join(["%s" if server else "?"] * len(row))
            connection.execute(f"INSERT INTO {table} VALUES ({marks})", row)
    connection.commit()
    connection.close()


def test_a_store_of_version_0_1_0_opens_with_all_that_was_in_it(store_url):
    write_version_1(store_url)
    campaign = Campaign.open(store_url)
    status = campaign.status()
    assert status.rounds[["round", "units", "outcomes", "waiting"]].values.tolist() == [[0, 1, 1, 0], [1, 2, 1, 1]]
    assert (status.num_outcomes, status.num_waiting, status.num_policies) == (2, 1, 1)
    table = campaign.export().set_index("customer")
    assert table["offer"].to_dict() == {"h1": "none", "a": "none", "b": "none"}
    assert table["visit"].dropna().to_dict() == {"h1": 1.0, "a": 1.0}
    assert campaign.rounds()[1].summary == {"stale": True}
    assert campaign.uploads()[["name", "round", "rows"]].values.tolist() == [
        ["history.csv", None, 1], ["first.csv", 1, 1], ["corrected.csv", None, 1],
    ]  # fmt: skip
    with campaign.store.reading() as connection:
        assert [row.value for row in records.read_outcomes(connection, history=True)] == [1.0, 0.0, 1.0]
        assert records.read_assignments(connection, 1)[1].rejected == ("5%",)
    campaign.close()


def test_a_migrated_store_takes_outcomes_and_withdrawals(store_url, tmp_path):
    write_version_1(store_url)
    campaign = Campaign.open(store_url)
    (tmp_path / "late.csv").write_text("customer,visit\na,1\nb,0\n")
    receipt = campaign.add_outcomes(tmp_path / "late.csv")
    assert (receipt.added, receipt.unchanged) == (1, 1)
    assert campaign.uploads()["upload"].tolist() == [1, 2, 3, 4]
    assert campaign.withdraw(upload=3).restored == 1
    assert campaign.withdraw(["b"]).withdrawn == 1
    assert campaign.export().set_index("customer")["visit"].dropna().to_dict() == {"h1": 1.0, "a": 0.0}
    campaign.close()


def test_a_migrated_store_has_the_tables_of_a_new_one(store_url):
    def shape(engine):
        inspector = sa.inspect(engine)
        return {
            name: (
                sorted((c["name"], str(c["type"]), c["nullable"]) for c in inspector.get_columns(name)),
                sorted((i["name"], tuple(i["column_names"]), bool(i["unique"])) for i in inspector.get_indexes(name)),
                sorted(tuple(key["constrained_columns"]) for key in inspector.get_foreign_keys(name)),
                inspector.get_pk_constraint(name)["constrained_columns"],
                inspector.get_unique_constraints(name),
            )
            for name in sorted(inspector.get_table_names())
        }

    write_version_1(store_url)
    store = Store.open(store_url)
    found = shape(store.engine)
    with store.transaction() as connection:
        schema.metadata.drop_all(connection)
        schema.metadata.create_all(connection)
    assert found == shape(store.engine)
    store.close()


def test_a_store_of_schema_2_opens_and_none_of_its_actions_counts_as_drawn(store_url):
    campaign = Campaign.create(parse_spec(SPEC), store_url)
    campaign.add_outcomes(pd.DataFrame({"customer": ["h1"], "new": [1], "offer": ["none"], "visit": [1]}))
    with campaign.store.transaction() as connection:
        connection.execute(sa.text("ALTER TABLE assignments DROP COLUMN chance"))
        records.write_meta(connection, "schema", "2")
    campaign.close()
    campaign = Campaign.open(store_url)
    table = campaign.export()
    assert table["visit"].tolist() == [1.0]
    assert table["propensity"].isna().all()
    campaign.close()


def test_a_migration_that_fails_leaves_the_store_as_it_was(store_url, monkeypatch):
    write_version_1(store_url)

    def fail(connection):
        schema._to_2(connection)
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", {**schema.MIGRATIONS, 1: fail})
        with pytest.raises(RuntimeError):
            Store.open(store_url)
        patch.setattr(schema, "MIGRATIONS", {})
        with pytest.raises(StorageError, match="schema 1, which this version of cobed can no longer read"):
            Store.open(store_url)
    store = Store.open(store_url)
    with store.reading() as connection:
        assert records.read_meta(connection)["schema"] == "3"
        assert Outcome(1, "a", 1.0, "none") in records.read_outcomes(connection)
        assert json.loads(records.read_meta(connection)["encoding"]) == {"scales": {}, "levels": {}}
    store.close()


def test_an_open_round_of_version_0_1_0_is_known_again_and_not_designed_anew(tmp_path):
    """Also as the version after it wrote the mark, and whatever fields later versions add with a default."""
    units = pd.DataFrame({"customer": ["a", "b"], "new": [0, 1]})
    table = read_table(units, "units")
    for number, stated in enumerate([STATED, STATED.replace('"customer"}', '"customer","exact_ids":false}')]):
        location = tmp_path / f"{number}.db"
        write_version_1(f"sqlite:///{location}")
        mark = hashlib.sha256(f"{table.hash}{table.hash}{stated}".encode()).hexdigest()
        with contextlib.closing(sqlite3.connect(location)) as connection, connection:
            connection.execute("DELETE FROM outcomes WHERE round = 1")
            connection.execute("UPDATE rounds SET units_hash = ?, summary = '{}' WHERE id = 1", (mark,))
        campaign = Campaign.open(location)
        assert campaign.recommend(units)["offer"].tolist() == ["5%", "none"]
        assert campaign.rounds()[-1].version == 2
        campaign.close()


def test_the_mark_of_a_round_depends_on_all_that_the_spec_says_and_on_no_default():
    spec = parse_spec(SPEC)
    marks = round_marks(spec, "tables")
    assert marks[1:] == [
        hashlib.sha256(f"tables{text}".encode()).hexdigest()
        for text in (STATED, STATED.replace('"customer"}', '"customer","exact_ids":false}'))
    ]
    said = SPEC + '[design]\nbudget = "quick"\n'
    assert round_marks(parse_spec(said), "tables") == marks
    for changed in (SPEC.replace("spring", "autumn"), SPEC + "[prior]\naction = 0.00001\n", SPEC.replace("5%", "6%")):
        assert not {*round_marks(parse_spec(changed), "tables")} & {*marks}
    # What 0.1.0 did not know is none of its marks.
    exact = parse_spec(SPEC.replace('id = "customer"', 'id = "customer"\nexact_ids = true'))
    assert len(round_marks(exact, "tables")) == 2


def test_a_campaign_of_a_spec_made_in_python_opens_again(tmp_path):
    """Also where it was stored with all its defaults, as 0.1.0 did."""
    for number, text in enumerate([parse_spec(SPEC).stated(), parse_spec(SPEC).model_dump_json(), STATED]):
        # The default of 0.1.0 stays what such a campaign says.
        spec = parse_spec(SPEC + ('[model]\nfamily = "linear"\n' if text == STATED else ""))
        made = Campaign.create(spec, tmp_path / f"{number}.db")
        with made.store.transaction() as connection:
            records.write_meta(connection, "spec", text)
        made.close()
        opened = Campaign.open(tmp_path / f"{number}.db")
        assert opened.spec == spec
        opened.close()
