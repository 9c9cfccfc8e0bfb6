"""How far the work has come, for a terminal, for a log, and in words."""

import io
import sys

import pytest

from cobed.progress import Clock, ConsoleReporter, Progress, format_seconds


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.4, "0 s"),
        (12, "12 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (200, "3 min 20 s"),
        (3_599.6, "1 h 00 min"),
        (7_500, "2 h 05 min"),
        (100_000, "27 h 46 min"),
    ],
)
def test_seconds_are_told_in_the_two_units_that_matter(seconds, words):
    assert format_seconds(seconds) == words


def test_a_clock_extrapolates_the_pace_of_the_work_done():
    clock = Clock(total_work=100)
    assert clock.advance(10, 2, compiling=False) == pytest.approx(90 * 0.2)
    assert clock.advance(40, 4, compiling=False) == pytest.approx(50 * 0.1)


def test_a_clock_leaves_compiling_out_of_the_pace_as_soon_as_it_can():
    clock = Clock(total_work=100)
    # Nothing else to go by yet.
    assert clock.advance(10, 30, compiling=True) == pytest.approx(90 * 3)
    assert clock.advance(10, 1, compiling=False) == pytest.approx(80 * 0.1)
    # A later stage compiles again: the pace stays, the work is counted.
    assert clock.advance(10, 30, compiling=True) == pytest.approx(70 * 0.1)


def test_a_clock_never_promises_negative_time():
    clock = Clock(total_work=10)
    assert clock.advance(15, 1, compiling=False) == 0


@pytest.fixture
def now(monkeypatch):
    """A clock set by the test."""
    time = [1_000.0]
    monkeypatch.setattr("cobed.progress.time.monotonic", lambda: time[0])
    return time


def at(step, num_steps=2_000):
    return Progress("design", step, num_steps, 1.23456, 65.0)


def test_a_log_gets_plain_lines_seconds_apart_and_always_the_last(capsys, now):
    report = ConsoleReporter(seconds_between_lines=5.0)
    for step, time in ((50, 1_000.0), (100, 1_004.0), (150, 1_006.0), (2_000, 1_006.1)):
        now[0] = time
        report(at(step))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        f"design: step {step} of 2,000, 1.235 nats, 1 min 05 s left" for step in ("50", "150", "2,000")
    ]
    assert "\r" not in captured.err
    assert "\x1b" not in captured.err


def test_a_terminal_gets_one_line_rewritten_and_ended_once(monkeypatch, now):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    report = ConsoleReporter()
    for step, time in ((50, 1_000.0), (100, 1_000.05), (150, 1_000.2), (2_000, 1_000.25)):
        now[0] = time
        report(at(step))
    pieces = terminal.getvalue().split("\r\x1b[K")
    assert [piece.split(" of ")[0] for piece in pieces] == [
        "",
        "design: step 50",
        "design: step 150",
        "design: step 2,000",
    ]
    assert terminal.getvalue().count("\n") == 1
    assert terminal.getvalue().endswith("left\n")
