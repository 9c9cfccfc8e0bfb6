"""What to do in each target context, as a table: the public end of a decision."""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from cobed.allowed import Allowed
from cobed.decide.engine import decide
from cobed.errors import ProblemError
from cobed.inference.base import Posterior
from cobed.models.base import AbstractModel
from cobed.problem import Problem
from cobed.spaces import label_columns

if TYPE_CHECKING:
    import pandas as pd


@dataclasses.dataclass(frozen=True)
class Policy:
    """What to do in each target context. Arrays have one row a target.

    `low` and `high` hold the mean reward of the action with probability 90%. `p_best` is the posterior probability that
    no action has a larger mean reward; with continuous actions, that none is better by more than `tolerance`. `values` (T, J) is
    the expected reward of every named action; None where actions are numbers.
    """

    targets: np.ndarray
    actions: np.ndarray
    labels: list[Any]
    expected: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p_best: np.ndarray
    tolerance: np.ndarray
    warnings: tuple[str, ...] = ()
    values: np.ndarray | None = None

    def to_frame(self) -> "pd.DataFrame":
        """One row a target: its context columns, the action, the expected reward, its interval, and P(best)."""
        import pandas as pd

        columns: dict[str, Any] = {f"context_{i}": self.targets[:, i] for i in range(self.targets.shape[1])}
        columns |= label_columns(self.labels)
        columns |= {"expected_reward": self.expected, "low": self.low, "high": self.high, "p_best": self.p_best}
        return pd.DataFrame(columns)


def deploy(posterior: Posterior, where: Any, targets: Any = None, *, allowed: Any = None) -> Policy:
    """The action of the largest posterior expected reward at each target, and how sure we are of it.

    `where` is the targets (T, C), or a `Problem`, which has its own; a posterior that `cobed.infer` made knows its model. For
    other posteriors, and for other targets, give the problem or the model and then the targets. `allowed` (T, K) marks the named
    actions that each of these targets may get; a problem knows it of its own.
    """
    may = Allowed(targets=allowed)
    if isinstance(where, Problem):
        if targets is not None and allowed is None and where.target_mask is not None:
            raise ProblemError(
                "The problem's targets may not get every action: pass allowed (T, K) for the other targets."
            )
        may = Allowed(targets=where.target_mask) if allowed is None else may
        targets = where.targets if targets is None else targets
        optimum = where.optimum if allowed is None else None
        problem = Problem(where.model, where.contexts, targets, allowed=may, optimum=optimum)
    elif isinstance(where, AbstractModel) and targets is None:
        raise ProblemError("deploy(posterior, model) needs the targets to act in: pass targets of shape (T, C).")
    elif isinstance(where, AbstractModel):
        problem = Problem(where, targets, targets, allowed=may)
    elif posterior.model is None:
        raise ProblemError("This posterior does not know its model: deploy(posterior, model, targets).")
    else:
        problem = Problem(posterior.model, where, where, allowed=may)
    model, targets, mask = problem.model, np.asarray(problem.targets), problem.target_mask
    mask = None if mask is None else np.asarray(mask)
    found = decide(model, problem.optimum, posterior.params, targets, weights=posterior.weights, allowed=mask)
    return Policy(
        targets=targets,
        actions=found.actions,
        labels=[model.action_space.label(action) for action in found.actions],
        expected=found.expected,
        low=found.low,
        high=found.high,
        p_best=found.p_best,
        tolerance=found.tolerance,
        warnings=posterior.warnings,
        values=found.values,
    )
