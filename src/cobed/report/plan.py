"""The page of a plan: expected regret against the number of units, designed and with actions at random."""

from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from cobed.campaign.plan import Plan
from cobed.campaign.spec import CampaignSpec
from cobed.report.figures import COLOURS
from cobed.report.page import Page


def write_plan(spec: CampaignSpec, plan: Plan, path: str | Path) -> Path:
    """Write the page; it opens without a network."""
    page = Page(f"{spec.name}: how many units?")
    page.text(
        f"Regret is what a unit of the targets loses, in {spec.reward_words!r}, because the policy after the experiment is "
        f"not the best one; here its average over {plan.num_worlds:,} simulated worlds, drawn from what is known now, with "
        f"standard errors. Without any experiment it would be {_number(plan.now)}."
    )
    page.figure(plan_figure(plan))
    page.table(plan_table(plan))
    for sentence in plan.sentences():
        page.text(sentence)
    for warning in plan.warnings:
        page.text(f"Warning: {warning}")
    page.text(
        "Both kinds of experiments have the same units, worlds and noise, so that their difference is less noisy than either. "
        "Both satisfy the constraints of the spec. The worlds are as the model and its priors say: where these are wrong, so is "
        "the plan.",
        note=True,
    )
    return page.write(path)


def plan_table(plan: Plan) -> pd.DataFrame:
    """One row a size."""
    needs = [plan.random_needs(size) for size in plan.sizes]
    beyond = f"more than {plan.sizes[-1].units:,}"
    return pd.DataFrame(
        {
            "units": [f"{size.units:,}" for size in plan.sizes],
            "regret, CO-BED": [_number(size.designed) for size in plan.sizes],
            "regret, random": [_number(size.random) for size in plan.sizes],
            "difference": [_number(size.difference) for size in plan.sizes],
            "random needs": [beyond if np.isinf(number) else f"{number:,.0f}" for number in needs],
        }
    )


def plan_figure(plan: Plan) -> go.Figure:
    """Regret against units, with two standard errors to each side; dashed, what no experiment leaves."""
    figure = go.Figure()
    units = [size.units for size in plan.sizes]
    for place, (name, kind) in enumerate({"CO-BED": "designed", "random assignment": "random"}.items()):
        pairs = [getattr(size, kind) for size in plan.sizes]
        figure.add_scatter(
            x=units, y=[pair[0] for pair in pairs], name=name, mode="lines+markers", line_color=COLOURS[place],
            error_y={"type": "data", "array": [2 * pair[1] for pair in pairs]},
        )  # fmt: skip
    figure.add_hline(y=plan.now[0], line_dash="dash", annotation_text="without an experiment")
    figure.update_xaxes(title="units in the experiment", type="log", tickvals=units, ticktext=[f"{n:,}" for n in units])
    figure.update_yaxes(title="expected regret per unit", rangemode="tozero")
    return figure.update_layout(template="plotly_white", height=420)


def _number(pair: tuple[float, float]) -> str:
    return f"{pair[0]:.3g} ± {pair[1]:.1g}"
