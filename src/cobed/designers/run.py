"""One call of `design`: the clock, the progress, the interruptions, whatever the objective."""

import time
from typing import Any, NamedTuple

import jax.random as jr

from cobed.ascent import Checkpoint, ChunkReport
from cobed.budget import Budget
from cobed.designers.result import StartRecord
from cobed.information import Estimate
from cobed.objectives import About, AbstractObjective, Choice, choose_objective
from cobed.problem import Problem
from cobed.progress import Clock, Progress, Reporter
from cobed.types import Array, Key


class Finish(NamedTuple):
    """Where the search ended: the start that was kept, what it scored on draws that did not choose it, all the starts."""

    best: StartRecord
    score: Estimate
    starts: list[StartRecord]
    warnings: list[str]


class Run:
    """What the stages of one design share."""

    def __init__(
        self,
        problem: Problem,
        budget: Budget,
        key: Key[Array, ""],
        reporter: Reporter | None,
        checkpoint: Checkpoint | None,
    ):
        self.problem, self.budget, self.checkpoint = problem, budget, checkpoint
        self._key = key
        self.setup_key, self.start_key, self.evaluation_key = jr.split(key, 3)
        self.seconds_design = self.seconds_evaluation = 0.0
        self.interrupted = False
        self.stop_reason = ""
        self.unit = "nats"
        self._reporter = reporter
        self._offset = 0.0
        self._clock = Clock(1.0)

    def anew(self, prefix: str) -> "Run":
        """The same from the beginning, for another objective. Its checkpoints have names of their own; the clock goes on."""
        kept = None if self.checkpoint is None else self.checkpoint.within(prefix)
        run = Run(self.problem, self.budget, self._key, self._reporter, kept)
        run.seconds_design, run.seconds_evaluation = self.seconds_design, self.seconds_evaluation
        return run

    def choose(self, objective: str | AbstractObjective, about: About, network: Any) -> Choice:
        started = time.perf_counter()
        choice = choose_objective(self.setup_key, self.problem, self.budget, objective, about, network)
        self.follow(choice.objective)
        self.seconds_design += time.perf_counter() - started
        return choice

    def follow(self, objective: AbstractObjective) -> None:
        """From now on `report` tells values of this objective."""
        self.unit, self._offset = objective.unit, objective.offset[0]

    def expect(self, work: float) -> None:
        """So much work is ahead, in the units that `report` counts."""
        self._clock = Clock(work)

    def expect_more(self, work: float) -> None:
        """So much more work than was expected."""
        self._clock.add(work)

    def interrupt(self, reason: str) -> None:
        self.interrupted, self.stop_reason = True, reason

    def report(self, stage: str, num_steps: int, weight: float = 1.0) -> ChunkReport:
        """A listener for a stage of `num_steps` steps, each worth `weight` of work."""
        done = 0

        def on_chunk(step: int, value: float, seconds: float, compiling: bool) -> None:
            nonlocal done
            left = self._clock.advance((step - done) * weight, seconds, compiling=compiling)
            done = step
            if self._reporter is not None:
                self._reporter(Progress(stage, step, num_steps, value + self._offset, left, self.unit))

        return on_chunk
