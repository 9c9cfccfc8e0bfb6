"""Files written whole or not at all, and outputs that take nobody's work away."""

import os
import resource
import signal
import stat
import subprocess
import sys
import threading

import pytest

from cobed.errors import StorageError
from cobed.storage import WRITTEN, check_output, store_files, write_output, write_whole


def put(path, text):
    return write_output(path, lambda file: file.write(text.encode()))


@pytest.fixture(params=["without a name", "with a name"])
def temporary(request, monkeypatch):
    """Both kinds of temporary files: not every file system has the first."""
    if request.param == "with a name":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    return request.param


def test_an_output_is_replaced_only_where_cobed_wrote_what_is_there(tmp_path, temporary):
    path = tmp_path / "deep" / "out.csv"
    put(path, "first")
    put(path, "second")
    assert path.read_text() == "second"
    path.write_text("second, filled in")
    for ask in (check_output, lambda path: put(path, "third")):
        with pytest.raises(StorageError, match=r"out\.csv was changed since cobed wrote it; .*--out.* move the file"):
            ask(path)
    assert path.read_text() == "second, filled in"
    put(path, "second, filled in")  # the same content takes nothing away
    put(path, "third")
    assert sorted(os.listdir(path.parent)) == [WRITTEN, "out.csv"]


def test_a_file_of_somebody_else_is_never_replaced(tmp_path):
    path = tmp_path / "notes.csv"
    path.write_text("mine")
    with pytest.raises(StorageError, match="exists already, and it is not known that cobed wrote it"):
        put(path, "new")
    assert path.read_text() == "mine"
    assert os.listdir(tmp_path) == ["notes.csv"]


def test_own_state_is_simply_replaced(tmp_path, temporary):
    path = tmp_path / "checkpoint.npz"
    path.write_text("anything")
    write_whole(path, lambda file: file.write(b"new"))
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["checkpoint.npz"]


def test_outputs_refuse_the_inputs_by_every_spelling(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    put("units.csv", "cobed's own")
    os.symlink("units.csv", "link.csv")
    os.link("units.csv", "hard.csv")
    os.makedirs("folder")
    for name in (
        "units.csv",
        "./units.csv",
        str(tmp_path / "units.csv"),
        "folder/../units.csv",
        "link.csv",
        "hard.csv",
    ):
        with pytest.raises(StorageError, match="is the table of units and is not written over"):
            check_output(name, {"the table of units": tmp_path / "units.csv"})
    check_output("other.csv", {"the table of units": tmp_path / "units.csv"})
    for location in ("campaign.db", f"sqlite:///{tmp_path}/campaign.db", "sqlite:///campaign.db"):
        for end in ("", "-wal", "-shm", "-journal"):
            with pytest.raises(StorageError, match="the store"):
                check_output(f"campaign.db{end}", store_files(location))
    assert store_files("postgresql://host/database") == {}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (".", "is a directory"),
        ("file/out.csv", "is a file, not a folder"),
        ("dangling", "is a link to .* which does not exist"),
        ("pipe", "is not an ordinary file"),
        ("a\x00b", "NUL character"),
        ("x" * 300, "cannot be written: File name too long"),
    ],
)
def test_what_cannot_be_an_output_is_told_before_the_work(tmp_path, monkeypatch, name, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    os.symlink("nowhere", "dangling")
    os.mkfifo("pipe")
    before = sorted(os.listdir())
    for ask in (check_output, lambda path: put(path, "new")):
        with pytest.raises(StorageError, match=message):
            ask(name)
    assert sorted(os.listdir()) == before


def test_a_link_is_followed_to_the_file_it_names_under_the_same_rule(tmp_path):
    real = put(tmp_path / "real.csv", "old")
    link = tmp_path / "link.csv"
    link.symlink_to(real)
    put(link, "new")
    assert (link.is_symlink(), real.read_text()) == (True, "new")
    real.write_text("edited")
    with pytest.raises(StorageError, match="was changed since"):
        put(link, "newer")


def test_a_new_file_has_the_usual_rights_and_a_replaced_one_keeps_its_own(tmp_path, temporary):
    before = os.umask(0o027)
    try:
        path = put(tmp_path / "out.csv", "a")
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o600)
        put(path, "b")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    finally:
        os.umask(before)


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path, temporary):
    path = put(tmp_path / "out.csv", "old")

    def fail(file):
        file.write(b"half")
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        write_output(path, fail)
    assert path.read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == [WRITTEN, "out.csv"]


PROGRAM = """
import os, resource, signal, sys
from pathlib import Path
from cobed.storage import write_output
if sys.argv[2] == "with a name":
    del os.O_TMPFILE
"""


def run(program, *arguments, **options):
    return subprocess.run([sys.executable, "-c", PROGRAM + program, *map(str, arguments)], text=True, **options)


def test_a_full_disk_is_a_sentence_and_the_old_file_stays(tmp_path, temporary):
    path = put(tmp_path / "out.csv", "old")
    program = """
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    write_output(sys.argv[1], lambda file: file.write(b"x" * 1_000_000))
except Exception as error:
    print(type(error).__name__, error)
"""
    said = run(program, path, temporary, capture_output=True).stdout
    assert "StorageError" in said, said
    assert "cannot be written: File too large. Free some space" in said
    assert path.read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == [WRITTEN, "out.csv"]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 10_000


@pytest.mark.parametrize("moment", ["write", "link", "replace"])
def test_a_process_killed_at_any_moment_leaves_the_old_file_or_the_new_one(tmp_path, temporary, moment):
    path = put(tmp_path / "out.csv", "old")
    program = """
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[3] != "write":
    setattr(os, sys.argv[3], die)
write_output(sys.argv[1], lambda file: (file.write(b"new"), sys.argv[3] == "write" and die()))
"""
    done = run(program, path, temporary, moment)
    if (moment, temporary) == ("link", "with a name"):
        assert path.read_text() == "new"  # no link is made where the file has a name
        return
    assert done.returncode == -signal.SIGKILL
    assert path.read_text() == "old"
    put(path, "newer")  # sweeps what was left
    assert path.read_text() == "newer"
    assert sorted(os.listdir(tmp_path)) == [WRITTEN, "out.csv"]


def test_the_temporary_file_of_a_living_process_is_not_swept(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    path = tmp_path / "out.csv"

    def meanwhile(file):
        file.write(b"outer")
        put(path, "inner")

    write_output(path, meanwhile)
    assert path.read_text() == "outer"


def test_two_writers_of_one_output_never_block_each_other(tmp_path):
    path = tmp_path / "out.csv"
    errors = []

    def work(number):
        try:
            for step in range(20):
                put(path, f"{number} {step}" * 1_000)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert sorted(os.listdir(tmp_path)) == [WRITTEN, "out.csv"]


def test_a_cut_line_in_the_record_does_not_hide_the_next_one(tmp_path):
    path = put(tmp_path / "out.csv", "a")
    with open(tmp_path / WRITTEN, "ab") as record:
        record.write(b"abc  out")
    put(path, "b")
    put(path, "c")
    assert path.read_text() == "c"
