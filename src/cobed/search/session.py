"""One call of `design`, whatever the search: the clock, the progress, the checkpoint, the interruption."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cobed.allowed import Feasible
from cobed.budget import Budget
from cobed.objectives import AbstractObjective
from cobed.progress import Clock, Progress, Reporter
from cobed.search.ascent import Checkpoint, ChunkReport, Stage
from cobed.types import Array, Float, Key


class Found(NamedTuple):
    """A design (D, A), and the objective on the way to it."""

    actions: np.ndarray
    history: np.ndarray


class Session:
    """What the stages of one design share. `prefix` begins what they are called in the progress."""

    def __init__(self, reporter: Reporter | None = None, checkpoint: Checkpoint | None = None):
        self.checkpoint, self.prefix = checkpoint, ""
        self.interrupted, self.stop_reason = False, ""
        self._reporter, self._clock = reporter, Clock(1.0)
        self._unit, self._offset = "nats", 0.0

    def anew(self, prefix: str) -> "Session":
        """The same from the beginning; its checkpoints have names of their own."""
        return Session(self._reporter, None if self.checkpoint is None else self.checkpoint.within(prefix))

    def follow(self, objective: AbstractObjective) -> None:
        """From now on `report` tells values of this objective."""
        self._unit, self._offset = objective.unit, objective.offset[0]

    def expect(self, work: float) -> None:
        """So much work is ahead, in the units that `report` counts."""
        self._clock = Clock(work)

    def expect_more(self, work: float) -> None:
        """So much more work than was expected."""
        self._clock.add(work)

    def interrupt(self, reason: str) -> None:
        self.interrupted, self.stop_reason = True, reason

    def report(self, words: str, num_steps: int, weight: float = 1.0) -> ChunkReport:
        """A listener for a stage of `num_steps` steps, each worth `weight` of work."""
        done, words = 0, self.prefix + words

        def on_chunk(step: int, value: float, seconds: float, compiling: bool) -> None:
            nonlocal done
            left = self._clock.advance((step - done) * weight, seconds, compiling=compiling)
            done = step
            if self._reporter is not None:
                self._reporter(Progress(words, step, num_steps, value + self._offset, left, self._unit))

        return on_chunk

    def stage(self, name: str, words: str, num_steps: int, weight: float = 1.0) -> Stage:
        """An ascent of `num_steps`, called `name` in the checkpoint and `words` in the progress."""
        return Stage(name, self.report(words, num_steps, weight), self.checkpoint)


# A way to climb: from every one of the designs (S, D, A), among allowed ones, to where it goes no further.
Way = Callable[
    [Session, Key[Array, ""], AbstractObjective, Float[Array, "S D A"], Feasible, Budget],
    list[Found],
]
