"""For those who want to look behind: how the posterior was computed, the coefficients, and how rounds were designed."""

from typing import ClassVar

import numpy as np
import pandas as pd

from cobed.campaign.campaign import Campaign
from cobed.campaign.words import number
from cobed.models.base import AbstractModel
from cobed.models.effects import EffectFeatures
from cobed.models.glm import LinearFeatures
from cobed.report.cards.base import Card, Facts, needs_outcomes
from cobed.report.cards.learned import TAILS
from cobed.types import Params

MAX_COEFFICIENTS = 30


class Technical(Card):
    """Samplers, families and their shares, coefficients."""

    name: ClassVar[str] = "technical"
    appendix: ClassVar[bool] = True

    def heading(self, facts):
        return "How it was computed"

    def awaited(self, facts):
        return needs_outcomes(facts)

    def add(self, page, facts):
        model, posterior = facts.known
        page.text(f"Posterior by {posterior.method}: {posterior.reason}")
        page.items([_round_words(facts, number) for number in range(len(facts.campaign.rounds()))])
        coefficients = coefficient_table(facts.campaign, model, facts.draws)
        if coefficients is not None:
            scale = facts.spec.outcome.law.predictor_words
            page.table(
                coefficients, f"The coefficients, on the scale of the linear predictor ({scale}), the surest first"
            )


def _round_words(facts: Facts, place: int) -> str:
    stored = facts.campaign.rounds()[place]
    if stored.id == 0:
        return "History: told, not designed."
    summary = stored.summary
    value, error, unit = summary.get("score") or (0.0, 0.0, "")
    # Information is told with its meaning, in nats: natural units of it.
    kind = (
        "nats of information (a lower bound)" if unit == "nats" else "units of the reward per target, of expected gain"
    )
    worth = f" Worth {number(value)}{f' ± {number(error)}' if error else ''} {kind}." if value else ""
    return f"Round {stored.id}, by {summary.get('method', 'an unknown designer')}: {summary.get('reason', '')}{worth}"


def coefficient_table(campaign: Campaign, model: AbstractModel, draws: Params) -> pd.DataFrame | None:
    """Each coefficient of a linear model with its 90% interval, the surest first; None for other models."""
    form = model.linear_form()
    features = None if form is None else form.features
    encoding = campaign.encoding()
    if not isinstance(features, LinearFeatures | EffectFeatures) or encoding is None:
        return None
    action = campaign.spec.action
    actions = [f"{action.column}={option}" for option in action.options or ()] or action.columns
    names = np.array(features.names(encoding.names(campaign.spec), actions))
    # Single numbers of a curve mean nothing to people.
    values, names = np.asarray(draws)[:, names != ""], names[names != ""]
    low, middle, high = np.quantile(values, TAILS, axis=0)
    table = pd.DataFrame(
        {
            "coefficient": names,
            "middle": [f"{value:.3g}" for value in middle],
            "low": [f"{value:.3g}" for value in low],
            "high": [f"{value:.3g}" for value in high],
            "above 0": [f"{value:.0%}" for value in (values > 0).mean(axis=0)],
        }
    )
    surest = np.argsort(-np.abs((values > 0).mean(axis=0) - 0.5), kind="stable")
    return table.iloc[surest].head(MAX_COEFFICIENTS)
