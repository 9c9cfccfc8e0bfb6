"""Compiled programs kept between processes: taken again, never half written, bounded, and switched off when asked."""

import os
import subprocess
import sys

import pytest

from cobed import kept_programs

PROGRAM = """
import os, signal, sys
from cobed.kept_programs import keep_programs
folder = keep_programs()
import jax, jax.numpy as jnp
hits = []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event) if event.endswith("cache_hits") else None)
print(float(jax.jit(lambda x: jnp.sum(jnp.sin(x) ** 2 + jnp.cos(x) ** 2))(jnp.arange(8.0))), len(hits), folder)
if len(sys.argv) > 1:
    os.kill(os.getpid(), signal.SIGKILL)
"""


def run(setting, *arguments):
    """What the program computed, how many compiled programs it took from the folder, and that of the process."""
    given = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_COMPILATION", "JAX_PERS"))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        capture_output=True, text=True, timeout=120, env={**given, kept_programs.SETTING: str(setting)},
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    if not done.stdout:
        return None
    value, hits, folder = done.stdout.split(maxsplit=2)
    return float(value), int(hits), folder.strip()


def entries(folder):
    return sorted(folder.glob("*/*-cache"))


def test_a_second_process_takes_what_the_first_compiled_and_leaves_no_folder_of_its_own(tmp_path):
    value, hits, _ = run(tmp_path)
    assert (value, hits) == (8.0, 0)
    first = entries(tmp_path)
    assert first
    value, hits, _ = run(tmp_path)
    assert value == 8.0
    assert hits == len(first)
    assert entries(tmp_path) == first
    assert not list(tmp_path.glob(f"*/{kept_programs.OWN}*"))


def test_a_killed_process_adds_nothing_and_its_folder_is_removed_in_time(tmp_path):
    run(tmp_path, "killed")
    (left,) = tmp_path.glob(f"*/{kept_programs.OWN}*")
    assert not entries(tmp_path)
    kept_programs._sweep(left.parent)
    assert left.exists()
    os.utime(left, (0, 0))
    kept_programs._sweep(left.parent)
    assert not left.exists()


def test_a_damaged_entry_is_compiled_anew_and_not_believed(tmp_path):
    run(tmp_path)
    for entry in entries(tmp_path):
        entry.write_bytes(entry.read_bytes()[:40])
    value, hits, _ = run(tmp_path)
    assert (value, hits) == (8.0, 0)


def test_the_least_recently_used_go_where_there_are_too_many(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_programs, "MAX_BYTES", 25)
    own = tmp_path / "process-x"
    own.mkdir()
    for number in range(4):
        entry = (own if number == 3 else tmp_path) / f"{number}-cache"
        entry.write_bytes(b"0123456789")
        os.utime(entry, (1_000 + number, 1_000 + number))
    os.utime(tmp_path / "0-cache", (5_000, 1_000))  # read lately
    kept_programs._add(own, tmp_path)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["0-cache", "3-cache"]


@pytest.mark.parametrize("setting", ["off", "/proc/nobody/can/write/here"])
def test_it_can_be_switched_off_and_does_without_a_folder(setting):
    assert run(setting) == (8.0, 0, "None")


def test_a_folder_that_others_can_write_to_is_not_used(tmp_path):
    folder = tmp_path / kept_programs._machine()
    folder.mkdir()
    folder.chmod(0o777)
    assert run(tmp_path) == (8.0, 0, "None")
