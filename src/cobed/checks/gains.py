"""Predicted against observed gains, where chance decided who got what with known probabilities.

For each unit, the action with the largest predicted gain over that of today, both predicted by a model that was learned without the
unit and others of its part (cross-fitting); units are ranked within their part. What it gains is observed by a doubly robust
effect, whose expectation is right whatever the model says (`checks/uplift.py`).
"""

from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import chi2

from cobed.checks import uplift
from cobed.checks.balance import LEVEL as BALANCE_LEVEL
from cobed.checks.balance import pillai_test
from cobed.checks.base import AbstractCheck
from cobed.checks.evidence import Evidence, encoded
from cobed.checks.predictions import Predictions
from cobed.checks.words import amount, chance

if TYPE_CHECKING:
    import plotly.graph_objects as go

# A right model is told to be looked at less often than this.
LEVEL = 0.01
# So many groups of equal size, of so many units at least; and so many units with an action before it is compared.
NUM_GROUPS, GROUP_SIZE, FEW = 5, 8, 5


class GainsByGroup(AbstractCheck):
    """Gains by fifth of the prediction, and whether those predicted to gain most did gain most: uplift, Qini, TOC."""

    name: ClassVar[str] = "gains"
    asks: ClassVar[str] = "Did those gain most who were predicted to, and as much?"

    def __call__(self, evidence):
        predictions = evidence.predictions
        if predictions is None:
            return self.says("open", "No outcome has come back yet.", "Tell what came back: `cobed observe`.")
        problem = _unfit(evidence, predictions)
        if problem is not None:
            return self.says(
                "open",
                problem,
                "Give some units their action by chance, with known probabilities. Gains can then be observed without any model.",
            )
        gains = gains_of(evidence, predictions)
        groups = compare_gains(gains)
        toc = uplift.toc_curve(gains.ranks, gains.effects, evidence.seed)
        qini = uplift.qini_curve(gains.compared, evidence.seed)
        lift = uplift.uplift_curve(gains.compared, evidence.seed)
        table = _table(evidence.reward, groups, {"TOC": toc, "Qini": qini, "uplift": lift})
        known = (
            "" if not gains.shares_are_guessed else " Taking history as assigned at random, in the shares seen there."
        )
        order = (
            "Those predicted to gain most did gain more"
            if toc.area_low > 0
            else "Those predicted to gain most gained less"
            if toc.area_high < 0
            else "The data cannot tell whether those predicted to gain most did gain more"
        )
        seen = (
            f"{order}, among {len(gains.effects):,} units left to chance (gains over {gains.reference!r}; area under the TOC "
            f"{amount(toc.area)} {evidence.reward}, 90% interval {_ends(toc)}).{known}"
        )
        if toc.area_high < 0:
            advice = "Do not deploy a policy that differs between units: the best single action is safer, until this is understood."
            return self.says("stop", seen, advice, table, _figure(toc, evidence.reward))
        if groups.p < LEVEL:
            return self.says(
                "look",
                f"Gains by group are not those predicted: chance gives as much {chance(groups.p)} (told below {LEVEL:.0%}). {seen}",
                "Trust the observed gains of the groups more than the predicted ones, and look at the check of predicted outcomes.",
                table,
                _figure(toc, evidence.reward),
            )
        return self.says(
            "fine",
            f"Gains by group are as predicted, within chance. {seen}",
            "Nothing.",
            table,
            _figure(toc, evidence.reward),
        )


class Gains(NamedTuple):
    """Of n units: the predicted gain, its rank from 0 to 1, its draws (M, n), the effects, and the rows that got one of the two
    actions compared."""

    reference: str
    predicted: np.ndarray
    ranks: np.ndarray
    drawn: np.ndarray
    effects: np.ndarray
    compared: uplift.Rows
    shares_are_guessed: bool


class Groups(NamedTuple):
    """Words, size, predicted and observed gain and the reach of its interval, of each group; `p` is how often chance gives as
    much."""

    rows: list[tuple[str, int, float, float, float]]
    p: float


def usable_rows(evidence: Evidence, predictions: Predictions) -> np.ndarray:
    """The positions, among the rows that came back, of those that got what chance gave them."""
    units, rows = evidence.units, predictions.rows
    as_planned = np.all(units.planned[rows] == units.got[rows], axis=1)
    return np.flatnonzero(units.at_random[rows] & as_planned)


def _unfit(evidence: Evidence, predictions: Predictions) -> str | None:
    """Why gains cannot be observed, in a sentence."""
    if not evidence.actions.are_named:
        return "Gains are compared between named options; here a number is chosen."
    if predictions.learn is None:
        return "The model cannot be learned anew, so units cannot be predicted without their own outcomes."
    kept, units = usable_rows(evidence, predictions), evidence.units
    rows = predictions.rows[kept]
    if not len(rows):
        return "A design chose all actions, so that gains cannot be told from who was chosen: this needs a randomised share."
    counts = units.got[rows].sum(axis=0)
    if np.sum(counts >= FEW) < 2:
        return f"Fewer than two actions have {FEW} units whose action was left to chance and whose outcome is known."
    if units.are_guessed[rows].any():
        p = pillai_test(encoded(units.columns)[rows], units.got[rows], units.rounds[rows])
        if p < BALANCE_LEVEL:
            return "History was not assigned at random, as far as its contexts show, so gains cannot be told from who was chosen."
    return None


def gains_of(evidence: Evidence, predictions: Predictions) -> Gains:
    """Predicted and observed gains over the action of today, or over the most frequent one, of the best other action."""
    kept, units = usable_rows(evidence, predictions), evidence.units
    rows = predictions.rows[kept]
    assert units.propensities is not None
    got, propensities = units.got[rows].argmax(axis=1), units.propensities[rows]
    counts = np.bincount(got, minlength=len(evidence.actions.names))
    reference = evidence.reference
    if reference is None or counts[reference] < FEW:
        reference = int(np.argmax(counts))
    fitted = predictions.cross_fitted(np.eye(len(counts), dtype=np.float32), kept)
    expected = fitted.drawn.mean(axis=2, dtype=np.float64)
    # What chance never gives cannot be observed.
    others = np.where((counts >= FEW) & (propensities > 0), expected, -np.inf)
    others[:, reference] = -np.inf
    best, each = np.argmax(others, axis=1), np.arange(len(kept))
    reward = predictions.observed_rewards[kept]
    predicted = np.stack([expected[:, reference], expected[each, best]], axis=1)
    gain = predicted[:, 1] - predicted[:, 0]
    effects = gain.copy()
    for option, place, sign in ((best, 1, 1.0), (np.full(len(kept), reference), 0, -1.0)):
        mine = got == option
        effects[mine] += sign * (reward - predicted[:, place])[mine] / propensities[each, option][mine]
    acted = got == best
    part = acted | (got == reference)
    # Among those with one of the two actions, the probability of the other one than today's.
    chances = propensities[each, best] / (propensities[each, best] + propensities[:, reference])
    drawn = (fitted.drawn[each, best] - fitted.drawn[:, reference]).T
    # Units are ranked among those that the same model predicts.
    ranks = np.array([np.mean(gain[fitted.parts == mine] < own) for own, mine in zip(gain, fitted.parts, strict=True)])
    compared = uplift.Rows(ranks[part], reward[part], acted[part], chances[part])
    guessed = bool(units.are_guessed[rows].any())
    return Gains(evidence.actions.names[reference], gain, ranks, drawn, effects, compared, guessed)


def compare_gains(gains: Gains) -> Groups:
    """By fifth of the predicted gain. A group's observed gain less the predicted one has the error of both."""
    number = int(np.clip(len(gains.effects) // GROUP_SIZE, 1, NUM_GROUPS))
    places = np.argsort(np.argsort(-gains.ranks, kind="stable"), kind="stable") * number // len(gains.ranks)
    words = ["most", *[f"{n + 1} of {number}" for n in range(1, number - 1)], "least"] if number > 1 else ["all"]
    rows, total = [], 0.0
    for place in range(number):
        mine = places == place
        effects, predicted = gains.effects[mine], float(gains.predicted[mine].mean())
        error = effects.std(ddof=1) / np.sqrt(len(effects))
        total += (effects.mean() - predicted) ** 2 / max(error**2 + gains.drawn[:, mine].mean(axis=1).var(), 1e-30)
        rows.append((words[place], int(mine.sum()), predicted, float(effects.mean()), uplift.REACH * float(error)))
    return Groups(rows, float(chi2.sf(total, number)))


def _table(reward: str, groups: Groups, curves: dict[str, uplift.Curve]) -> pd.DataFrame:
    """A row for each group, and one for the area of each curve."""
    areas = {
        "TOC": "all: area under the TOC (0 where the order means nothing)",
        "Qini": "all: Qini, area above the line (0 where the order means nothing)",
        "uplift": "all: uplift, average over shares of the units",
    }
    rows = [
        (
            words,
            f"{size:,}",
            amount(predicted),
            amount(observed),
            f"{amount(observed - reach)} to {amount(observed + reach)}",
        )
        for words, size, predicted, observed, reach in groups.rows
    ]
    rows += [(areas[name], "", "", amount(curve.area), _ends(curve)) for name, curve in curves.items()]
    names = ["units predicted to gain", "number", f"predicted {reward}", "observed", "90% interval"]
    return pd.DataFrame(rows, columns=pd.Index(names))


def _ends(curve: uplift.Curve) -> str:
    return f"{amount(curve.area_low)} to {amount(curve.area_high)}"


def _figure(toc: uplift.Curve, reward: str) -> "go.Figure":
    """The targeting operator characteristic with its interval at each share."""
    import plotly.graph_objects as go

    figure = go.Figure()
    ends = np.concatenate([toc.shares, toc.shares[::-1]]), np.concatenate([toc.low, toc.high[::-1]])
    figure.add_scatter(x=ends[0], y=ends[1], fill="toself", line_width=0, name="90% interval", hoverinfo="skip")
    figure.add_scatter(x=toc.shares, y=toc.values, mode="lines", name="observed")
    figure.add_hline(y=0, line_dash="dot")
    figure.update_xaxes(title="share of the units, those predicted to gain most first", tickformat=".0%")
    figure.update_yaxes(title=f"gain above that of all, {reward}")
    return figure.update_layout(template="plotly_white", height=320, margin={"t": 30, "l": 0, "r": 20})
