"""What to do in each target context, as a table: the public end of a decision."""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from cobed.allowed import Allowed, target_mask
from cobed.decide.engine import decide
from cobed.errors import ModelError, ProblemError
from cobed.inference.base import Posterior
from cobed.models.base import AbstractModel
from cobed.models.contract import check_shapes
from cobed.optimum import check_optimum, choose_optimum
from cobed.problem import Problem, read_contexts
from cobed.spaces import label_columns

if TYPE_CHECKING:
    import pandas as pd


@dataclasses.dataclass(frozen=True)
class Policy:
    """What to do in each target context. Arrays have one row per target.

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
        """One row per target: its context columns, the action, the expected reward, its interval, and P(best)."""
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
    model, optimum, width = posterior.model, None, None
    if isinstance(where, Problem):
        if targets is not None and allowed is None and where.target_mask is not None:
            raise ProblemError(
                "The problem's targets may not get every action: pass allowed (T, K) for the other targets."
            )
        model, optimum, width = where.model, where.optimum if allowed is None else None, where.targets.shape[1]
        allowed = where.target_mask if allowed is None else allowed
        targets = where.targets if targets is None else targets
    elif isinstance(where, AbstractModel):
        if targets is None:
            raise ProblemError("deploy(posterior, model) needs the targets to act in: pass targets of shape (T, C).")
        model = where
    elif model is None:
        raise ProblemError("This posterior does not know its model: deploy(posterior, model, targets).")
    else:
        targets = where
    table = read_contexts(targets, "targets")
    if width not in (None, table.shape[1]):
        raise ProblemError(
            f"The targets have {table.shape[1]} column(s) and the problem {width}. Give the same columns."
        )
    # The numbers of a model are checked where a problem is built; here those of the policy are.
    model, _ = check_shapes(model, table)
    mask = target_mask(model.action_space, len(table), Allowed(targets=allowed))
    if optimum is None:
        optimum = choose_optimum(model, table, mask)
    else:
        check_optimum(optimum, model, table, mask)
    targets = np.asarray(table)
    choices = decide(model, optimum, posterior.params, targets, weights=posterior.weights, allowed=mask)
    odd = np.flatnonzero(~np.isfinite(choices.expected))
    if len(odd):
        raise ModelError(
            f"Row {odd[0]} of the targets: mean_reward is not finite there ({len(odd)} such row(s)). Look for log, sqrt or a "
            "division outside their range, or for targets that the model is not made for."
        )
    return Policy(
        targets=targets,
        actions=choices.actions,
        labels=[model.action_space.label(action) for action in choices.actions],
        expected=choices.expected,
        low=choices.low,
        high=choices.high,
        p_best=choices.p_best,
        tolerance=choices.tolerance,
        warnings=posterior.warnings,
        values=choices.values,
    )
