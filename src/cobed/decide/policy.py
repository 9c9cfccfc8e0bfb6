"""What to do in each target context, as a table: the public end of a decision."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cobed.allocation import allocate
from cobed.allowed import Allowed, target_mask
from cobed.decide.engine import Choices, decide, judge
from cobed.errors import ModelError, ProblemError
from cobed.inference.base import Posterior
from cobed.models.base import AbstractModel
from cobed.models.contract import check_shapes
from cobed.notebook import card
from cobed.optimum import AbstractOptimum, check_optimum, choose_optimum
from cobed.problem import Problem, read_contexts
from cobed.rules import AbstractRule, Batch
from cobed.rules.base import Limit
from cobed.spaces import label_columns
from cobed.tables import read_amounts

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

    def _repr_html_(self) -> str:
        facts = {
            "targets": f"{len(self.actions):,}",
            "expected reward per target": f"{self.expected.mean():,.4g}",
            "the action is the best one with probability": f"{self.p_best.mean():.0%} on average",
        }
        return card("Policy: what to do at each target", facts, self.to_frame(), self.warnings)


# A budget is spent among so many values of the numbers of an action, where these cannot be listed.
NUM_VALUES = 101


def deploy(
    posterior: Posterior,
    where: Any,
    targets: Any = None,
    *,
    allowed: Any = None,
    rules: Sequence[AbstractRule] = (),
    costs: Any = None,
) -> Policy:
    """The action of the largest posterior expected reward at each target, and how sure we are of it.

    `where` is the targets (T, C), or a `Problem`, which has its own; a posterior that `cobed.infer` made knows its model. For
    other posteriors, and for other targets, give the problem or the model and then the targets. `allowed` (T, K) marks the named
    actions that each of these targets may get; a problem knows it of its own. `rules` are a budget over all targets, such as
    `AtMost({"mail": 100})` or `MaxCost(500.0)` with the `costs` of the actions by name: the policy has the largest total reward
    within it. They are apart from the rules of the experiment.
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
    batch = Batch(
        model.action_space.entry_names, read_amounts(costs, model.action_space.entry_names, "costs"), len(table)
    )
    limits = [limit for rule in rules for limit in rule.limits(batch)]
    if limits:
        choices = _within(limits, model, posterior, optimum, targets, mask)
    else:
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
        values=None if model.action_space.continuous else choices.values,
    )


def _within(
    limits: Sequence[Limit],
    model: AbstractModel,
    posterior: Posterior,
    optimum: AbstractOptimum,
    targets: np.ndarray,
    allowed: np.ndarray | None,
) -> Choices:
    """The choices of the largest total reward within limits over all targets."""
    candidates = optimum.candidates(model.action_space)
    if candidates is None:
        candidates = model.action_space.grid(NUM_VALUES)
    # A limit counts one-hot vectors, or the numbers themselves.
    listed = [dataclasses.replace(limit, weights=limit.weights @ candidates.T) for limit in limits]
    draws, weights = posterior.params, posterior.weights
    values = judge(model, candidates, draws, targets, weights=weights, allowed=allowed).values
    assert values is not None
    chosen = allocate(values, allowed, listed).chosen
    return judge(model, candidates, draws, targets, weights=weights, allowed=allowed, chosen=chosen)
