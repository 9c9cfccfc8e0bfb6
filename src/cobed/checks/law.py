"""Posterior predictive check of the law: zeros, spread and the largest outcome, against outcomes drawn anew by the model."""

from typing import ClassVar

import numpy as np
import pandas as pd

from cobed.checks.base import AbstractCheck
from cobed.checks.words import amount, chance, percent
from cobed.outcomes import laws

# A right model is told to be looked at less often than this.
LEVEL = 0.01
# Of fewer outcomes nothing can be told.
FEW = 10
# Shares of zeros that differ by less do not matter: amounts may be rounded.
LEAST = 0.02
TAILS = (0.05, 0.95)


class Law(AbstractCheck):
    """Whether outcomes scatter as the likelihood of the spec says."""

    name: ClassVar[str] = "law of outcomes"
    asks: ClassVar[str] = "Do outcomes scatter as the likelihood of the spec says?"

    def __call__(self, evidence):
        predictions = evidence.predictions
        if predictions is None or len(predictions.outcomes) < FEW:
            number = 0 if predictions is None else len(predictions.outcomes)
            return self.says(
                "open",
                f"{number} outcome(s) have come back; {FEW} are needed to see their law.",
                "More outcomes tell it.",
            )
        middle = predictions.expected.mean(axis=0)
        outcomes, drawn = predictions.outcomes, predictions.replicated
        # Around each draw's own prediction: around the average, outcomes that were learned from would scatter less than new ones.
        spread = [np.sqrt(np.mean((part - predictions.expected) ** 2, axis=1)) for part in (outcomes, drawn)]
        facts = {
            "share of zeros": np.stack([np.full(len(drawn), np.mean(outcomes == 0)), np.mean(drawn == 0, axis=1)]),
            "spread around the prediction": np.stack(spread),
            "largest": np.stack([np.full(len(drawn), outcomes.max()), drawn.max(axis=1)]),
        }
        told = {"share of zeros": percent}
        table = pd.DataFrame(
            {
                "of all outcomes": name,
                "observed": told.get(name, amount)(values[0].mean()),
                "predicted": told.get(name, amount)(np.median(values[1])),
                "90% interval": " to ".join(map(told.get(name, amount), np.quantile(values[1], TAILS))),
            }
            for name, values in facts.items()
        )
        chances = {name: _two_sided(values) for name, values in facts.items()}
        zeros = facts["share of zeros"]
        if abs(zeros[0, 0] - np.median(zeros[1])) < LEAST:
            chances["share of zeros"] = 1.0
        # Of those that are equally rare, the farthest.
        worst = min(chances, key=lambda name: (chances[name], -_deviations(facts[name])))
        p = min(1.0, len(facts) * chances[worst])
        misfit = evidence.law.misfit(predictions.outcomes, middle)
        if p >= LEVEL and misfit is None:
            return self.says(
                "fine",
                f"Zeros, spread and the largest {evidence.outcome} are what the {evidence.law.name} law predicts.",
                "Nothing.",
                table,
            )
        row = table.iloc[list(facts).index(worst)]
        seen = (
            f"The {worst} is {row['observed']} and {row['predicted']} under the {evidence.law.name} law (90% interval "
            f"{row['90% interval']}): chance gives as much {chance(p)} (told below {LEVEL:.0%})."
        )
        return self.says(
            "look", seen if p < LEVEL else misfit or "", _advice(evidence.law.name, predictions.outcomes, misfit), table
        )


def _two_sided(values: np.ndarray) -> float:
    """How often outcomes drawn anew (second row, by draw) are as far out as those seen (first row), on their side, twice."""
    # One more, so that a thousand draws never say never.
    shares = [(1 + np.sum(side)) / (1 + values.shape[1]) for side in (values[1] >= values[0], values[1] <= values[0])]
    return min(1.0, 2 * float(min(shares)))


def _deviations(values: np.ndarray) -> float:
    """How far what was seen is from what was drawn anew."""
    return float(abs(values[0].mean() - values[1].mean()) / max(values[1].std(), 1e-12))


def _advice(name: str, outcomes: np.ndarray, misfit: str | None) -> str:
    suited = next((law.name for law in laws() if law.suits(outcomes) and not law.refuses(outcomes).any()), name)
    if misfit is not None:
        return misfit
    if suited != name:
        return (
            f'`cobed init` would propose likelihood = "{suited}" for such outcomes. Intervals may be wrong until then.'
        )
    return "Intervals of single outcomes may be too narrow or too wide. Look at the largest outcomes for errors of the table."
