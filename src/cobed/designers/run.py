"""What the parts of one call of `design` share: the problem, the budget, the keys and the session."""

import time
from typing import Any, NamedTuple

import jax.random as jr

from cobed.budget import Budget
from cobed.designers.result import StartRecord
from cobed.information import Estimate
from cobed.objectives import About, AbstractObjective, Choice, choose_objective
from cobed.problem import Problem
from cobed.search import Found, Session, Way
from cobed.types import Array, Float, Key


class Finish(NamedTuple):
    """Where the search ended: the start that was kept, what it scored on draws that did not choose it, all the starts."""

    best: StartRecord
    score: Estimate
    starts: list[StartRecord]
    warnings: list[str]


class Run:
    """One problem, one budget, one key; how long it took so far."""

    def __init__(self, problem: Problem, budget: Budget, key: Key[Array, ""], session: Session):
        self.problem, self.budget, self.session = problem, budget, session
        self._key = key
        self.setup_key, self.start_key, self.evaluation_key = jr.split(key, 3)
        self.seconds_design = self.seconds_evaluation = 0.0

    def anew(self, prefix: str) -> "Run":
        """The same from the beginning, for another objective; the seconds go on."""
        run = Run(self.problem, self.budget, self._key, self.session.anew(prefix))
        run.seconds_design, run.seconds_evaluation = self.seconds_design, self.seconds_evaluation
        return run

    def choose(self, objective: str | AbstractObjective, about: About, network: Any) -> Choice:
        started = time.perf_counter()
        choice = choose_objective(self.setup_key, self.problem, self.budget, objective, about, network)
        self.session.follow(choice.objective)
        self.seconds_design += time.perf_counter() - started
        return choice

    def climb(
        self, way: Way, key: Key[Array, ""], objective: AbstractObjective, designs: Float[Array, "S D A"]
    ) -> list[Found]:
        """Among what the problem allows, within the budget."""
        return way(self.session, key, objective, designs, self.problem.feasible, self.budget)
