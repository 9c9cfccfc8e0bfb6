"""Leave-one-out: how well each outcome is predicted by all others, and which rows carry the policy.

The draws of the posterior are weighed as if the row had not been seen (`Predictions.left_out`). A row moves the policy's value by
the difference of its average over these weights and without them. The value here is that of the policy as it is: choices stay.
"""

from typing import ClassVar

import numpy as np
import pandas as pd
from scipy.stats import norm

from cobed.checks.base import AbstractCheck
from cobed.checks.evidence import Evidence
from cobed.checks.predictions import Predictions
from cobed.checks.words import amount, listed, percent
from cobed.decide import INTERVAL
from cobed.inference.importance import MAX_PARETO_K

# A row that moves the policy's value by more than so many deviations of what is not known of it decides much by itself.
MUCH = 1.0
# Of fewer rows each one carries much.
FEW = 10
# A share of rows that the model cannot be asked about without them.
MANY_UNSURE = 0.05
MAX_TOLD = 10
REACH = float(norm.ppf((1 + INTERVAL) / 2))


class LeftOut(AbstractCheck):
    """Predictions of unseen outcomes, and influential rows by the user's own id."""

    name: ClassVar[str] = "single rows"
    asks: ClassVar[str] = "Does the model predict outcomes it has not seen, and does any single row carry the policy?"

    def __call__(self, evidence):
        predictions = evidence.predictions
        if predictions is None or len(predictions.outcomes) < FEW:
            number = 0 if predictions is None else len(predictions.outcomes)
            return self.says("open", f"{number} outcome(s) have come back; {FEW} are needed.", "More outcomes tell it.")
        if predictions.left_out is None:
            return self.says(
                "open",
                "The model has no likelihood, so rows cannot be left out.",
                "Write it as a NumPyro program, whose likelihood is known.",
            )
        unseen = _unseen(predictions)
        values = predictions.policy_values
        moved = predictions.without_row(values)
        assert moved is not None
        moved = moved - values.mean()
        table = influence_table(evidence, predictions, unseen, moved)
        by_model, by_action = _squared_errors(evidence, predictions, unseen)
        lost = by_model - by_action
        error = lost.std(ddof=1) / np.sqrt(len(lost))
        density = log_density_unseen(predictions)
        seen = (
            f"Predicted by all others, an outcome is off by {amount(np.sqrt(by_model.mean()))} {evidence.outcome} (root of the "
            f"mean square); the plain average of its action is off by {amount(np.sqrt(by_action.mean()))}. To compare models on "
            f"the same outcomes: log predictive density {density[0]:.1f} ± {density[1]:.1f}, larger is better."
        )
        strong = np.flatnonzero(np.abs(moved) > MUCH * values.std())
        unsure = float(np.mean(~(predictions.left_out.k <= MAX_PARETO_K)))
        problems, advice = [], []
        if len(strong):
            order = strong[np.argsort(-np.abs(moved[strong]))]
            names = listed([str(name) for name in evidence.units.ids[predictions.rows[order]]])
            problems.append(
                f"{len(strong)} row(s) carry much of the policy's value: without {names}, it would be up to "
                f"{amount(np.abs(moved).max())} {evidence.reward} per unit different."
            )
            advice.append(
                "Check these rows for errors: `cobed observe` corrects them, `cobed withdraw` takes them back."
            )
        if unsure > MANY_UNSURE:
            problems.append(
                f"{percent(unsure)} of the rows are so unlike the others that the model cannot say what it would predict."
            )
            advice.append("A likelihood for outliers or for many zeros may fit better; see the law of outcomes.")
        if lost.mean() > REACH * error:
            problems.append("That is worse than the plain average by more than its error.")
            advice.append(
                "The contexts mislead more than they help: leave out columns that cannot matter, or gather more outcomes."
            )
        return self.says(
            "look" if problems else "fine", " ".join([seen, *problems]), " ".join(advice) or "Nothing.", table
        )


def _unseen(predictions: Predictions) -> np.ndarray:
    """What each row was expected to give by all others, (n,)."""
    unseen = predictions.without_row(predictions.expected)
    assert unseen is not None
    return unseen


def _squared_errors(evidence: Evidence, predictions: Predictions, unseen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each outcome less its prediction without it, and less the average of the others that got the same, (n,) each."""
    outcomes, average = predictions.outcomes, np.full(len(unseen), predictions.outcomes.mean())
    for mask in evidence.actions.groupings(np.asarray(predictions.data.actions))[0].values():
        if mask.sum() > 1:
            average[mask] = (outcomes[mask].sum() - outcomes[mask]) / (mask.sum() - 1)
    return (outcomes - unseen) ** 2, (outcomes - average) ** 2


def influence_table(
    evidence: Evidence, predictions: Predictions, unseen: np.ndarray, moved: np.ndarray
) -> pd.DataFrame:
    """The rows that move the policy's value most, by their id: what came back, what the others predict, and how much they move."""
    assert predictions.left_out is not None
    order = np.argsort(-np.abs(moved), kind="stable")[:MAX_TOLD]
    units, rows = evidence.units, predictions.rows[order]
    rounds = ["history" if number == 0 else f"round {number}" for number in units.rounds[rows]]
    return pd.DataFrame(
        {
            "unit": units.ids[rows],
            "of": rounds,
            evidence.outcome: [amount(value) for value in predictions.outcomes[order]],
            "predicted by all others": [amount(value) for value in unseen[order]],
            "moves the policy's value by": [amount(-value) for value in moved[order]],
            "Pareto k": [f"{k:.2f}" for k in predictions.left_out.k[order]],
        }
    )


def log_density_unseen(predictions: Predictions) -> tuple[float, float]:
    """The expected log predictive density of all rows, each given the others, and its standard error."""
    assert predictions.log_densities is not None
    assert predictions.left_out is not None
    logs = predictions.log_densities.astype(np.float64)
    top = logs.max(axis=0)
    each = top + np.log(np.sum(predictions.left_out.weights * np.exp(logs - top), axis=0))
    return float(each.sum()), float(each.std() * np.sqrt(len(each)))
