"""What the posterior says: the expected outcome of each action, and the coefficients of a linear model."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import pandas as pd
import plotly.graph_objects as go

from cobed.campaign.campaign import Campaign
from cobed.campaign.engine import candidate_actions
from cobed.campaign.spec import CampaignSpec
from cobed.decide import mean_rewards
from cobed.models.base import AbstractModel
from cobed.models.effects import EffectFeatures
from cobed.models.glm import LinearFeatures
from cobed.report.cards.base import Card
from cobed.report.figures import COLOURS
from cobed.types import Array, Params

TAILS = [0.05, 0.5, 0.95]
# Rows whose contexts stand for all in averages over units.
MAX_ROWS = 1_000


class Learned(Card):
    """Effects of the actions, with intervals."""

    name: ClassVar[str] = "learned"

    def heading(self, facts):
        return "What was learned"

    def awaited(self, facts):
        return "Nothing yet: it is told once outcomes have come back." if facts.data is None else None

    def add(self, page, facts):
        assert facts.data is not None
        model, posterior = facts.known
        words = facts.spec.reward_words
        page.text(f"Expected {words} of each action for the average unit of the experiment, with 90% intervals:")
        page.figure(effects_figure(facts.spec, model, facts.draws, facts.data.contexts))
        page.text(f"Posterior by {posterior.method}: {posterior.reason}", note=True)
        coefficients = coefficient_table(facts.campaign, model, facts.draws)
        if coefficients is not None:
            scale = facts.spec.outcome.law.predictor_words
            page.text(f"The coefficients, on the scale of the linear predictor ({scale}):")
            page.table(coefficients)


def effects_figure(spec: CampaignSpec, model: AbstractModel, draws: Params, contexts: Array) -> go.Figure:
    """The expected outcome of each action for the average unit of the experiment, with its 90% interval."""
    rows = np.linspace(0, len(contexts) - 1, min(MAX_ROWS, len(contexts))).round().astype(int)
    candidates = candidate_actions(model.action_space)
    if spec.action.options is None:
        # Along each number by itself would hide their products; the first one, with the others in the middle, is shown.
        middle = (candidates.min(axis=0) + candidates.max(axis=0)) / 2
        line = np.linspace(candidates[:, 0].min(), candidates[:, 0].max(), 25)
        candidates = np.tile(middle, (25, 1)).astype(np.float32)
        candidates[:, 0] = line
    blocks = [
        np.asarray(mean_rewards(model, draws, contexts[part], jnp.asarray(candidates))).sum(axis=0)
        for part in np.array_split(rows, -(-len(rows) // 50))
    ]
    rewards = np.sum(blocks, axis=0) / len(rows)
    low, middle_value, high = np.quantile(rewards, TAILS, axis=1)
    figure = go.Figure()
    if spec.action.options is not None:
        figure.add_scatter(
            x=middle_value, y=list(spec.action.options), mode="markers", marker={"size": 12, "color": COLOURS[0]},
            error_x={"type": "data", "symmetric": False, "array": high - middle_value, "arrayminus": middle_value - low},
        )  # fmt: skip
        figure.update_yaxes(type="category", autorange="reversed").update_xaxes(title=f"expected {spec.reward_words}")
    else:
        x = candidates[:, 0]
        band = np.concatenate([low, high[::-1]])
        figure.add_scatter(
            x=np.concatenate([x, x[::-1]]), y=band, fill="toself", line_width=0, name="90% interval", hoverinfo="skip"
        )
        figure.add_scatter(x=x, y=middle_value, mode="lines", name="expected", line_color=COLOURS[0])
        figure.update_xaxes(title=spec.action.columns[0]).update_yaxes(title=f"expected {spec.reward_words}")
    return figure.update_layout(template="plotly_white", height=320, margin={"t": 30, "l": 0, "r": 20})


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
            "P(above 0)": [f"{value:.0%}" for value in (values > 0).mean(axis=0)],
        }
    )
    return table.iloc[np.argsort(-np.abs((values > 0).mean(axis=0) - 0.5), kind="stable")].head(30)
