"""Play a design in a world and keep what came back. Only this and the metrics may see a world."""

from typing import Any

from cobed.data import Data
from cobed.keys import Seed, as_key, key_came_first
from cobed.problem import Problem
from cobed.types import Params


@key_came_first
def run_experiment(problem: Problem, world: Params, design: Any, *, seed: Seed) -> Data:
    """The outcomes of a design, a `DesignResult` or actions (D, A), on the contexts of `problem`, where psi is `world`.

    The noise depends on the seed alone: two designs played with one seed meet the same luck.
    """
    actions = problem.check_actions(design)
    return Data(problem.contexts, actions, problem.sample_outcomes(as_key(seed), world, actions))
