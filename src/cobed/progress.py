"""Telling people how far long work has come and how long it will still take."""

import math
import sys
import time
from collections.abc import Callable
from typing import NamedTuple


class Progress(NamedTuple):
    """Where a long computation stands. `value` is the running estimate of what it maximises, in `unit`."""

    stage: str
    step: int
    num_steps: int
    value: float
    seconds_left: float
    unit: str = "nats"


Reporter = Callable[[Progress], None]


def within(stage: str, seconds_left: float, progress: Reporter | None) -> Reporter | None:
    """A reporter for inner work, that speaks of the `stage` it belongs to and of the time left for the whole."""
    if progress is None:
        return None

    def report(inner: Progress) -> None:
        total = inner.seconds_left if math.isnan(seconds_left) else max(seconds_left, inner.seconds_left)
        progress(inner._replace(stage=f"{stage}, {inner.stage}", seconds_left=total))

    return report


class Clock:
    """Time left of work made of several stages, from the pace of the steps done. Steps that included compiling are left out
    of the pace as soon as there are others."""

    def __init__(self, total_work: float):
        self._work_left = total_work
        self._pace = float("nan")

    def add(self, work: float) -> None:
        """So much more than was thought."""
        self._work_left += work

    def advance(self, work: float, seconds: float, *, compiling: bool) -> float:
        """Count `work` that took `seconds`; returns the seconds left."""
        self._work_left = max(self._work_left - work, 0.0)
        if not compiling or self._pace != self._pace:
            self._pace = seconds / max(work, 1e-12)
        return self._work_left * self._pace


class ConsoleReporter:
    """One line on standard error, rewritten as the work goes on; plain lines, a few seconds apart, where that is not a terminal."""

    def __init__(self, seconds_between_lines: float = 5.0):
        self._interval = 0.1 if sys.stderr.isatty() else seconds_between_lines
        self._last = 0.0

    def __call__(self, progress: Progress) -> None:
        finished = progress.step >= progress.num_steps
        now = time.monotonic()
        if now - self._last < self._interval and not finished:
            return
        self._last = now
        line = self.line(progress)
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K" + line + ("\n" if finished else ""))
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()

    def line(self, progress: Progress) -> str:
        """What is told of it."""
        return (
            f"{progress.stage}: step {progress.step:,} of {progress.num_steps:,}, "
            f"{progress.value:.3f} {progress.unit}, {format_seconds(progress.seconds_left)} left"
        )


def format_seconds(seconds: float) -> str:
    """12 s, 3 min 20 s, 2 h 05 min."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"
