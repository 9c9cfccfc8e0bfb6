"""Who may see and change a store: no password in a message, no foreign file touched, damage told, reading without writing."""

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
import time

import psycopg
import pytest
import sqlalchemy as sa

from cobed.campaign import database
from cobed.campaign.campaign import Campaign
from cobed.campaign.store import Store, holds_campaign
from cobed.errors import StorageError

SPEC = """name = "spring"
[units]
id = "customer"
[context]
recency = "numeric"
[action]
column = "offer"
options = ["none", "5%"]
[outcome]
column = "amount"
likelihood = "normal"
typical = 50
spread = 10
"""
HISTORY = "customer,recency,offer,amount\na,1,none,40\nb,2,5%,50\nc,3,none,45\nd,4,5%,61\n"
SECRET = "s3cret"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "campaign.toml").write_text(SPEC)
    (tmp_path / "history.csv").write_text(HISTORY)
    (tmp_path / "targets.csv").write_text("customer,recency\nx,1\ny,4\n")
    return tmp_path


@pytest.fixture
def run(folder, run_command):
    """A command, in this process: its exit code, and all it said."""

    def command(*arguments):
        ended = run_command(*arguments, cwd=folder)
        return ended.returncode, ended.stdout + ended.stderr

    return command


URL = f"postgresql://me:{SECRET}@host/db"
COMMANDS = [
    ["status"], ["observe", "history.csv"], ["design", "targets.csv"], ["deploy", "targets.csv"], ["report"], ["export"],
    ["withdraw", "a"], ["plan", "targets.csv"], ["status", "--uploads"],
]  # fmt: skip


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{SECRET}@localhost:1/db", f"postgresql://me:{SECRET}@localhost:port/db",
        f"postgresql://me:{SECRET}@localhost:99999/db", f"postgresql://localhost:1/db?user=me&password={SECRET}",
        f"postgresql://me:{SECRET}@localhost:1/db?wrong=option", f"postgresql://me:x@{SECRET}@localhost:1/db",
        f"mysql://me:{SECRET}@host/db", f"postgresql+asyncpg://me:{SECRET}@host/db", f"://me:{SECRET}@host",
    ],
)  # fmt: skip
def test_no_command_prints_a_password(run, url):
    for command in COMMANDS:
        code, said = run(*command, "--store", url)
        assert code == 1
        assert SECRET not in said
        assert "Traceback" not in said
    with pytest.raises(StorageError) as told:
        Campaign.open(url)
    assert SECRET not in repr(told.value)


@pytest.mark.parametrize(
    "command",
    [
        ["init", URL],
        [URL],
        ["status", URL],
        ["demo", "--seed", URL],
        ["--store", URL],
        ["plan", "targets.csv", "--size", URL],
    ],
)
def test_no_command_line_that_cannot_be_understood_prints_a_password(run, command):
    """Nor one that is understood in another way: a URL in the place of a file."""
    code, said = run(*command)
    assert code == (0 if command[0] == "init" else 2)
    assert said
    assert SECRET not in said


def test_no_password_is_in_the_repr_of_a_store(postgres_url):
    for number, url in enumerate(
        (postgres_url.replace("cobed@", f"cobed:{SECRET}@"), f"{postgres_url}&password={SECRET}")
    ):
        store = Store.open(url) if number else Store.create(url, {"spec": SPEC})
        assert SECRET not in f"{store.location!r} {store.label} {store.engine!r}"
        store.close()


@pytest.mark.parametrize("place", ["", "  ", ".", "no/such/folder.db", "/dev/null", "sqlite://", "nul\0.db"])
def test_a_place_that_cannot_be_is_told(run, place):
    for command in COMMANDS[:2]:
        code, said = run(*command, "--store", place)
        assert code == 1
        assert said.startswith("cobed: ")


def test_a_new_store_is_its_owners_alone_and_an_open_one_is_told(run, folder):
    os.umask(0o022)
    assert run("observe", "history.csv")[0] == 0
    path = folder / "campaign.db"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    campaign = Campaign.open(path)
    with campaign.store.reading():
        for beside in folder.glob("campaign.db-*"):
            assert stat.S_IMODE(beside.stat().st_mode) == 0o600
    campaign.close()
    assert "chmod" not in run("status")[1]
    path.chmod(0o644)
    assert "Other users of this machine can read campaign.db. To keep it to yourself: chmod 600" in run("status")[1]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_a_foreign_database_is_not_changed_by_looking_at_it(run, folder, mode):
    path = folder / "foreign.db"
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA journal_mode = {mode}")
    connection.execute("CREATE TABLE songs (id INTEGER)")
    connection.commit()
    connection.close()
    before, names = path.read_bytes(), sorted(os.listdir(folder))
    for command in COMMANDS:
        if command[0] == "plan":
            continue
        code, said = run(*command, "--store", "foreign.db")
        assert code == 1
        assert "Traceback" not in said
    assert "is a database of another program (songs)" in run("observe", "history.csv", "--store", "foreign.db")[1]
    assert path.read_bytes() == before
    assert [name for name in sorted(os.listdir(folder)) if name.startswith("foreign")] == [
        name for name in names if name.startswith("foreign")
    ]


def test_an_empty_file_is_not_changed_by_looking_at_it_and_can_become_a_store(run, folder):
    (folder / "new.db").touch()
    assert "There is no campaign in new.db yet" in run("status", "--store", "new.db")[1]
    assert (folder / "new.db").read_bytes() == b""
    assert run("observe", "history.csv", "--store", "new.db")[0] == 0


KILLED = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN IMMEDIATE")
for number in range(200):
    connection.execute(f"CREATE TABLE t{number} (x TEXT)")
os._exit(9)
"""


def test_processes_that_begin_a_campaign_at_once_wait_for_each_other(folder):
    """Each observes its own history as soon as all are there; SQLite lets one at a time write."""
    names = [f"history-{i}.csv" for i in range(3)]
    for i, name in enumerate(names):
        (folder / name).write_text(HISTORY.splitlines()[0] + f"\nunit{i},1,none,40\n")
    code = (
        "import pathlib, sys, time; from cobed import cli; from cobed.campaign import campaign\n"
        "pathlib.Path(sys.argv[2] + '.ready').touch()\n"
        "while not pathlib.Path('go').exists(): time.sleep(0.001)\n"
        "cli.main()"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code, "observe", name], stderr=subprocess.PIPE, text=True)
        for name in names
    ]
    while not all(
        (folder / f"{name}.ready").exists() or process.poll() for name, process in zip(names, running, strict=True)
    ):
        time.sleep(0.01)
    (folder / "go").touch()
    said = [process.communicate(timeout=120)[1] for process in running]
    assert [process.returncode for process in running] == [0] * 3, said
    campaign = Campaign.open(folder / "campaign.db")
    assert sorted(campaign.export()["customer"]) == [f"unit{i}" for i in range(3)]
    campaign.close()


def test_a_creation_that_was_killed_halfway_can_be_done_again(run, folder):
    """The file has pages already, and the journal beside it takes them back."""
    subprocess.run([sys.executable, "-c", KILLED, "campaign.db"], check=False)
    assert (folder / "campaign.db").stat().st_size > 0
    assert (folder / "campaign.db-journal").exists()
    assert not holds_campaign("campaign.db")
    assert run("observe", "history.csv")[0] == 0
    assert run("status")[0] == 0


# Damage.


def damaged(folder, name, *statements):
    """A store with outcomes, then changed by another program."""
    if not (folder / "whole.db").exists():
        campaign = Campaign.create("campaign.toml", "whole.db")
        campaign.add_outcomes("history.csv")
        campaign.close()
    shutil.copy(folder / "whole.db", folder / name)
    connection = sqlite3.connect(folder / name, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


DAMAGE = [
    "DROP TABLE uploads", "DROP TABLE meta", "ALTER TABLE rounds DROP COLUMN summary", "ALTER TABLE meta DROP COLUMN value",
    "DELETE FROM meta WHERE key = 'schema'", "UPDATE meta SET value = 'x' WHERE key = 'schema'",
    "UPDATE meta SET value = '9' WHERE key = 'schema'", "DELETE FROM meta WHERE key = 'spec'",
    "UPDATE meta SET value = '{\"name\": 3' WHERE key = 'spec'", "UPDATE meta SET value = 'name = ' WHERE key = 'spec'",
    "UPDATE meta SET value = '[]' WHERE key = 'encoding'", "UPDATE meta SET value = '{' WHERE key = 'encoding'",
    "UPDATE meta SET value = '{\"scales\": {}, \"levels\": {}}' WHERE key = 'encoding'",
    "UPDATE rounds SET summary = 'x'", "UPDATE rounds SET summary = '[]'", "UPDATE rounds SET num_units = 'many'",
    "UPDATE assignments SET context = '{'", "UPDATE assignments SET context = '{}'", "UPDATE assignments SET context = '[1]'",
    "UPDATE assignments SET context = '{\"recency\": \"x\"}'", "UPDATE assignments SET action = '\"other\"'",
    "UPDATE assignments SET action = 'null'", "UPDATE assignments SET rejected = '3'", "UPDATE outcomes SET action = '7'",
    "UPDATE outcomes SET action = '\"other\"'", "UPDATE outcomes SET value = 'abc'", "UPDATE outcomes SET value = 9e999",
    "DELETE FROM outcomes", "DELETE FROM assignments", "DELETE FROM rounds", "DELETE FROM uploads",
    "UPDATE assignments SET outcome = 999",
]  # fmt: skip


def test_damaged_stores_are_told_and_never_a_traceback(folder, run):
    told = 0
    for number, statement in enumerate(DAMAGE):
        damaged(folder, f"{number}.db", "PRAGMA foreign_keys = OFF", statement)
        for command in (
            ["status", "--uploads"],
            ["export", "--out", "new.csv"],
            ["observe", "history.csv"],
            ["withdraw", "a"],
        ):
            (folder / "new.csv").unlink(missing_ok=True)
            code, _ = run(*command, "--store", f"{number}.db")
            told += code
        # What the engine would see.
        try:
            campaign = Campaign.open(f"{number}.db")
            campaign.data()
        except StorageError:
            told += 1
    assert told > 2 * len(DAMAGE)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_truncated_store_is_told(folder, run, share):
    damaged(folder, "campaign.db")
    content = (folder / "campaign.db").read_bytes()
    (folder / "campaign.db").write_bytes(content[: int(share * len(content))])
    code, said = run("export")
    assert code == 1
    assert "Restore it from a copy" in said


# Reading.


def test_reading_waits_for_no_writer(run, store_url, folder):
    campaign = Campaign.create("campaign.toml", store_url)
    campaign.add_outcomes("history.csv")
    held, done = threading.Event(), threading.Event()

    def hold():
        with campaign.store.transaction() as connection:
            connection.execute(sa.text("UPDATE rounds SET seed = 7"))
            held.set()
            done.wait(60)

    writer = threading.Thread(target=hold)
    writer.start()
    held.wait(60)
    try:
        # A changed spec is taken without being stored.
        (folder / "campaign.toml").write_text(SPEC.replace("spring", "summer"))
        for command in ("status", "export"):
            code, said = run(command, "--store", store_url)
            assert code == 0, said
        reader = Campaign.open(store_url, "campaign.toml", reading=True)
        assert len(reader.rounds()) == 1
        assert reader.data().num_rows == 4
        reader.close()
    finally:
        done.set()
        writer.join()
    campaign.close()


@pytest.fixture
def read_only(folder, monkeypatch):
    """A store on a disk that cannot be written. Root may write anywhere, so the right is taken away as the system tells it."""
    campaign = Campaign.create("campaign.toml")
    campaign.add_outcomes("history.csv")
    campaign.close()  # With a connection open, when its log is written into the file is for the garbage collector to say.
    real = os.access
    closed = {folder / "campaign.db", folder}
    monkeypatch.setattr(
        os, "access", lambda path, mode: real(path, mode) and not (mode & os.W_OK and folder.joinpath(path) in closed)
    )
    return folder / "campaign.db"


def test_a_store_on_a_read_only_disk_can_be_read_and_deployed_from(read_only, run, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    before, names = read_only.read_bytes(), sorted(os.listdir(read_only.parent))
    assert run("status")[0] == 0
    assert run("export", "--out", str(out / "all.csv"))[0] == 0
    code, said = run("deploy", "targets.csv", "--out", str(out / "policy.csv"))
    assert code == 0, said
    assert "campaign.db can be read but not written: this deployment is not recorded" in said
    for command in (
        ["observe", "history.csv"],
        ["withdraw", "a"],
        ["design", "targets.csv", "--out", str(out / "a.csv")],
    ):
        code, said = run(*command)
        assert code == 1
        assert "can be read but not written" in said
    assert (read_only.read_bytes(), sorted(os.listdir(read_only.parent))) == (before, names)


def test_an_old_store_on_a_read_only_disk_is_told(read_only, run):
    with sqlite3.connect(read_only) as connection:
        connection.execute("UPDATE meta SET value = '1' WHERE key = 'schema'")
    code, said = run("status")
    assert code == 1
    assert "older version of cobed and must be brought to this one, but it cannot be written" in said


def test_a_user_of_a_server_who_may_only_read_can_read(postgres_url, folder):
    Campaign.create("campaign.toml", postgres_url).add_outcomes("history.csv")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS reader")
        connection.execute("CREATE ROLE reader LOGIN")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    (folder / "campaign.toml").write_text(SPEC.replace("spring", "summer"))
    campaign = Campaign.open(postgres_url.replace("cobed@", "reader@"), "campaign.toml")
    assert campaign.status().num_outcomes == 4
    assert campaign.store.reading_only
    with pytest.raises(StorageError, match="can be read but not written"):
        campaign.add_outcomes("history.csv")
    campaign.close()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP OWNED BY reader")
        connection.execute("DROP ROLE reader")


# Columns with cobed's own names.


def test_columns_called_like_cobeds_own_are_kept_in_an_export(tmp_path):
    text = SPEC.replace('recency = "numeric"', 'state = "numeric"').replace('"offer"', '"as_planned"')
    (tmp_path / "campaign.toml").write_text(text.replace('"amount"', '"round"'))
    (tmp_path / "history.csv").write_text("customer,state,as_planned,round\na,1,none,40\nb,2,5%,50\n")
    campaign = Campaign.create(tmp_path / "campaign.toml")
    campaign.add_outcomes(tmp_path / "history.csv")
    table = campaign.export()
    assert table.columns.tolist() == [
        "cobed_round", "customer", "state", "as_planned", "cobed_state", "cobed_as_planned", "propensity", "round",
    ]  # fmt: skip
    assert table.drop(columns="propensity").iloc[0].tolist() == [0, "a", 1.0, "none", "unplanned", True, 40.0]
    campaign.close()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://me:pw@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:p@w/d@host:5432/db", "postgresql://me:***@host:5432/db"),
        ("postgresql://host/db?user=me&PASSWORD=pw&x=1", "postgresql://host/db?user=me&PASSWORD=***&x=1"),
        ("postgresql://host/db?sslpassword=pw", "postgresql://host/db?sslpassword=***"),
        ("postgresql://me@host:5432/db", "postgresql://me@host:5432/db"),
        ("campaign.db", "campaign.db"),
        ("Wrote postgresql:/me:pw@host/db.", "Wrote postgresql:/me:***@host/db."),
    ],
)
def test_a_location_is_printed_without_its_password(text, shown):
    assert database.printable(text) == shown
