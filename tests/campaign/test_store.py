"""The database of a campaign, on SQLite and on a PostgreSQL server of the tests' own."""

import os
import signal
import subprocess
import sys

import pytest

from cobed.campaign import records
from cobed.campaign.records import Assignment, Outcome, Round
from cobed.campaign.store import Store
from cobed.errors import StorageError

VALUES = {"spec": "text", "spec_hash": "abc"}


def first_round(number=1):
    return Round(number, records.now(), "hash", 0, 1, {"method": "CO-BED"})


def fill(opened):
    rows = [Assignment("b", {"age": 1.5}, "mail"), Assignment("a", {"age": 2.0}, "none", "pinned", ("mail",))]
    with opened.transaction() as connection:
        records.write_round(connection, first_round(), rows)
        upload = records.write_upload(connection, "h1", "results.csv")
        records.write_outcomes(connection, [Outcome(1, "b", 0.5, "mail")], upload)
    return rows


def test_what_was_written_is_read_by_the_next_process(store_url):
    created = Store.create(store_url, VALUES)
    rows = fill(created)
    created.close()
    opened = Store.open(store_url)
    with opened.transaction() as connection:
        assert records.read_meta(connection)["spec"] == "text"
        assert records.read_assignments(connection, 1) == rows
        assert records.read_outcomes(connection) == [Outcome(1, "b", 0.5, "mail")]
        assert records.read_rounds(connection)[0].summary == {"method": "CO-BED"}
        assert (records.read_rounds(connection)[0].num_units, records.read_rounds(connection)[0].num_outcomes) == (2, 1)
    opened.close()


def test_a_change_is_whole_or_not_at_all(store_url):
    opened = Store.create(store_url, VALUES)
    fill(opened)

    def fail_halfway():
        with opened.transaction() as connection:
            records.write_round(connection, first_round(2), [Assignment("c", {}, "mail")])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    with opened.transaction() as connection:
        assert [r.id for r in records.read_rounds(connection)] == [1]
    opened.close()


def test_a_corrected_outcome_counts_and_the_old_one_is_kept(store_url):
    opened = Store.create(store_url, VALUES)
    fill(opened)
    with opened.transaction() as connection:
        upload = records.write_upload(connection, "h2", "corrected.csv")
        records.write_outcomes(connection, [Outcome(1, "b", 0.7, "none")], upload)
        assert records.read_outcomes(connection) == [Outcome(1, "b", 0.7, "none")]
        assert [row.value for row in records.read_outcomes(connection, history=True)] == [0.5, 0.7]
        assert [row["name"] for row in records.read_uploads(connection)] == ["results.csv", "corrected.csv"]
    opened.close()


def test_an_assignment_is_changed_in_its_place(store_url):
    opened = Store.create(store_url, VALUES)
    fill(opened)
    with opened.transaction() as connection:
        records.write_assignments(connection, 1, [Assignment("b", {"age": 3.0}, "none", "planned", ("mail",))])
        first, _ = records.read_assignments(connection, 1)
    assert first == Assignment("b", {"age": 3.0}, "none", "planned", ("mail",))
    opened.close()


def test_an_outcome_of_nobody_is_refused(store_url):
    opened = Store.create(store_url, VALUES)

    def write():
        with opened.transaction() as connection:
            upload = records.write_upload(connection, "h", "x")
            records.write_outcomes(connection, [Outcome(1, "nobody", 1.0, "mail")], upload)

    with pytest.raises(StorageError, match="the database says"):
        write()
    opened.close()


def test_a_second_campaign_in_one_database_is_refused(store_url):
    Store.create(store_url, VALUES).close()
    with pytest.raises(StorageError, match="holds a campaign already"):
        Store.create(store_url, VALUES)


def test_a_newer_schema_is_told_with_the_version_that_wrote_it(store_url):
    opened = Store.create(store_url, VALUES)
    with opened.transaction() as connection:
        records.write_meta(connection, "schema", "99")
    opened.close()
    with pytest.raises(StorageError, match=r"schema 99, last written by cobed 0\.1\.0; this version reads up to 3"):
        Store.open(store_url)


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("nowhere.db", "nowhere.db does not exist"),
        ("mysql://host/name", "'mysql' databases are not supported. Allowed: sqlite, postgresql"),
        ("://", "is not a database. Allowed: a file name"),
        ("sqlite://", "a campaign needs a file"),
    ],
)
def test_a_wrong_place_is_told(location, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorageError, match=message):
        Store.open(location)


def test_a_file_that_is_no_database_is_told(tmp_path):
    path = tmp_path / "campaign.db"
    path.write_text("name = 'spring'" * 100)
    with pytest.raises(StorageError, match="file is not a database"):
        Store.open(path)


WRITER = """
import sys
from cobed.campaign import records
from cobed.campaign.store import Store
opened = Store.open(sys.argv[1])
number = 2
while True:
    rows = [records.Assignment(f"u{i}", {}, "mail") for i in range(200)]
    with opened.transaction() as connection:
        records.write_round(connection, records.Round(number, records.now(), "h", 0, 1, {}), rows)
    print(number, flush=True)
    number += 1
"""


def test_a_killed_writer_loses_nothing_that_was_acknowledged(store_url):
    created = Store.create(store_url, VALUES)
    fill(created)
    created.close()
    process = subprocess.Popen([sys.executable, "-c", WRITER, store_url], stdout=subprocess.PIPE, text=True)
    acknowledged = [int(process.stdout.readline()) for _ in range(5)][-1]
    os.kill(process.pid, signal.SIGKILL)
    rest = process.stdout.read().split()
    process.wait()
    acknowledged = int(rest[-1]) if rest else acknowledged
    opened = Store.open(store_url)
    with opened.transaction() as connection:
        numbers = [r.id for r in records.read_rounds(connection)]
        assert numbers[:acknowledged] == list(range(1, acknowledged + 1))
        for number in numbers[1:]:
            assert len(records.read_assignments(connection, number)) == 200
    opened.close()
