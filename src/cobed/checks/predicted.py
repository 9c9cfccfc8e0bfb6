"""Posterior predictive check of means: observed against predicted outcomes, by action, tenth of the prediction and context group.

Each group has an interval that 90% of the outcomes drawn anew by the model have their mean in. Groups share rows, so how many miss
by chance, and how far, is found from the same draws: each is put in the place of what was observed. The check looks at the number
of groups that miss and the farthest of them, each at half the level. Since the model has learned from the same outcomes, it alarms
less often than the level where it is right.
"""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import pandas as pd

from cobed.checks.base import AbstractCheck
from cobed.checks.evidence import Column, Evidence
from cobed.checks.predictions import Predictions
from cobed.checks.words import amount, chance

# A right model is told to be looked at less often than this.
LEVEL = 0.01
# Groups of fewer rows say nothing; tenths need so many rows each.
FEW, NUM_TENTHS = 5, 10
TAILS = (0.05, 0.95)


class Predicted(AbstractCheck):
    """Means of groups against what the model predicts of them."""

    name: ClassVar[str] = "predicted outcomes"
    asks: ClassVar[str] = "Are the averages of groups of units what the model predicts?"

    def __call__(self, evidence):
        predictions = evidence.predictions
        if predictions is None:
            return self.says("open", "No outcome has come back yet.", "Tell what came back: `cobed observe`.")
        groups = groups_of(evidence, predictions)
        if not groups:
            return self.says(
                "open",
                f"{len(predictions.outcomes)} outcome(s) are too few to form groups of {FEW}.",
                "More outcomes tell it.",
            )
        means = compare_means(predictions, np.stack([group.rows for group in groups]))
        table = pd.DataFrame(
            {
                "by": [group.by for group in groups],
                "group": [group.name for group in groups],
                "units": [int(group.rows.sum()) for group in groups],
                f"observed {evidence.outcome}": [amount(value) for value in means.observed],
                "predicted": [amount(value) for value in means.predicted],
                "90% interval": [
                    f"{amount(low)} to {amount(high)}" for low, high in zip(means.low, means.high, strict=True)
                ],
                "outside": ["yes" if miss else "" for miss in means.misses],
            }
        )
        number, of = int(means.misses.sum()), f"{len(groups)} groups (by action, tenth of the prediction and context)"
        if means.p >= LEVEL:
            return self.says(
                "fine",
                f"The average {evidence.outcome} of {number} of {of} lies outside the 90% interval of the prediction: no more "
                "than chance gives.",
                "Nothing.",
                table,
            )
        worst = int(np.argmax(np.abs(means.deviations)))
        where = f"{groups[worst].by} {groups[worst].name}".strip()
        return self.says(
            "look",
            f"The average {evidence.outcome} of {number} of {of} lies outside the 90% interval of the prediction, more or "
            f"further than chance gives ({chance(means.p)}; told below {LEVEL:.0%}). The farthest: {where}, "
            f"{amount(means.observed[worst])} observed and {amount(means.predicted[worst])} predicted.",
            'The model misses something about these groups. If the spec has [prior] or family = "linear", leave them out, so that '
            "curves are learned; check the cells of the column; or split it into groups yourself.",
            table,
        )


class Group(NamedTuple):
    """Some of the rows, (n,)."""

    by: str
    name: str
    rows: np.ndarray


def groups_of(evidence: Evidence, predictions: Predictions) -> list[Group]:
    """All groups of enough rows among those that came back."""
    num_rows = len(predictions.outcomes)
    groups = [
        Group("action", name, mask)
        for name, mask in evidence.actions.groups(np.asarray(predictions.data.actions)).items()
    ]
    places = np.argsort(np.argsort(predictions.expected.mean(axis=0), kind="stable"), kind="stable")
    num_parts = min(NUM_TENTHS, num_rows // FEW)
    if num_parts > 1:
        parts = places * num_parts // num_rows
        groups += [Group("prediction", f"{part + 1} of {num_parts}", parts == part) for part in range(num_parts)]
    columns: Sequence[Column] = [column.part(predictions.rows) for column in evidence.units.columns]
    groups += [Group(c.name, name, c.groups == name) for c in columns for name in c.group_names]
    return [group for group in groups if group.rows.sum() >= FEW]


class Means(NamedTuple):
    """Of G groups, (G,): means observed and predicted, the interval, which miss it, and how far in deviations; `p` is how often
    chance alone gives as much."""

    observed: np.ndarray
    predicted: np.ndarray
    low: np.ndarray
    high: np.ndarray
    misses: np.ndarray
    deviations: np.ndarray
    p: float


def compare_means(predictions: Predictions, members: np.ndarray) -> Means:
    """Groups of rows (G, n) against their means among outcomes drawn anew."""
    shares = (members / members.sum(axis=1, keepdims=True)).T
    observed, drawn = predictions.outcomes @ shares, predictions.replicated @ shares
    low, high = np.quantile(drawn, TAILS, axis=0)
    middle, spread = drawn.mean(axis=0), np.maximum(drawn.std(axis=0), 1e-9 * (1 + np.abs(drawn).max(axis=0)))
    slack = 1e-6 * (np.abs(high) + np.abs(low))  # outcomes are single precision
    everything = np.concatenate([observed[None], drawn])
    misses = (everything < low - slack) | (everything > high + slack)
    deviations = (everything - middle) / spread
    sizes = misses.sum(axis=1), np.abs(deviations).max(axis=1)
    # Two questions, each at half the level.
    p = min(1.0, 2 * min(float(np.mean(size >= size[0])) for size in sizes))
    return Means(observed, predictions.expected.mean(axis=0) @ shares, low, high, misses[0], deviations[0], p)
