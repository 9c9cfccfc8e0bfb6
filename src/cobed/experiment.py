"""Play a design in a world and keep what came back. Only this and the metrics may see a world."""

from typing import Any

from cobed.data import Data
from cobed.problem import Problem
from cobed.types import Array, Key, Params


def run_experiment(key: Key[Array, ""], problem: Problem, world: Params, actions: Any) -> Data:
    """The outcomes of the design `actions` (D, A) on the contexts of `problem`, where psi is `world`.

    The noise depends on the key alone: two designs played with one key meet the same luck.
    """
    checked = problem.check_actions(actions)
    return Data(problem.contexts, checked, problem.sample_outcomes(key, world, checked))
