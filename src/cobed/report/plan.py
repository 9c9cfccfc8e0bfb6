"""The page of a plan: expected regret against the number of units, designed and with actions at random."""

from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from cobed.campaign.records import now
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.verdict import Plan, Rounds, Size, amount
from cobed.campaign.words import day, unit_words
from cobed.report.figures import COLOURS
from cobed.report.page import Kind, Page

VERDICTS = {
    "design": "Designing pays",
    "random is enough": "Random assignment is enough",
    "stop": "No experiment of these sizes pays",
}
KINDS: dict[str, Kind] = {"design": "fine", "random is enough": "fine", "stop": "stop"}


def write_plan(spec: CampaignSpec, plan: Plan, path: str | Path) -> Path:
    """Write the page; it opens without a network."""
    verdict = plan.verdict
    page = Page(f"{spec.name}: how many {unit_words(spec)}?", f"Plan of {day(now())}")
    page.heading(VERDICTS[verdict.kind])
    page.verdict(KINDS[verdict.kind])
    page.lead(verdict.sentences[0])
    for sentence in verdict.sentences[1:]:
        page.text(sentence)
    page.heading("What the numbers mean")
    page.text(
        f"Regret is what a unit of the targets loses, in {spec.reward_words!r}, because the policy after the experiment is "
        f"not the best one; here its average over {plan.num_worlds:,} simulated worlds, drawn from what is known now, with "
        f"standard errors. Without any experiment it would be {amount(plan.now)}, with actions at random {amount(plan.at_random)}."
    )
    page.heading("By the number of units")
    page.figure(plan_figure(plan))
    page.table(plan_table(plan))
    page.items(plan.sentences())
    if plan.warnings:
        page.heading("Warnings")
        page.verdict("look", "Read these before you act.")
        page.items(plan.warnings)
    page.heading("How it was computed")
    page.text(
        "All experiments have the same units, worlds and noise, so that their differences are less noisy than they are. Several "
        "rounds are tried in a part of the worlds. All satisfy the constraints of the spec, in every round. The worlds are as the "
        "model and its priors say: where these are wrong, so is the plan.",
        note=True,
    )
    return page.write(path)


def plan_table(plan: Plan) -> pd.DataFrame:
    """One row a size."""
    needs = [plan.random_needs(size) for size in plan.sizes]
    beyond = f"more than {plan.sizes[-1].units:,}"
    table = pd.DataFrame(
        {
            "units": [f"{size.units:,}" for size in plan.sizes],
            "regret, CO-BED": [amount(size.designed) for size in plan.sizes],
            "regret, random": [amount(size.random) for size in plan.sizes],
            "difference": [amount(size.difference) for size in plan.sizes],
            "random needs": [beyond if np.isinf(number) else f"{number:,.0f}" for number in needs],
        }
    )
    for number in _numbers_of_rounds(plan):
        against = {size.units: rounds.difference for size, rounds in _in_rounds(plan, number)}
        cells = [amount(against[size.units]) if size.units in against else "" for size in plan.sizes]
        table[f"{number} rounds - one"] = cells
    return table


def _numbers_of_rounds(plan: Plan) -> list[int]:
    return sorted({rounds.number for size in plan.sizes for rounds in size.rounds})


def _in_rounds(plan: Plan, number: int) -> list[tuple[Size, Rounds]]:
    """The sizes that were tried in so many rounds."""
    return [(size, rounds) for size in plan.sizes for rounds in size.rounds if rounds.number == number]


def plan_figure(plan: Plan) -> go.Figure:
    """Regret against units, with two standard errors to each side; dashed, what no experiment leaves."""
    figure = go.Figure()
    units = [size.units for size in plan.sizes]
    curves = {
        "CO-BED": [(size.units, *size.designed) for size in plan.sizes],
        "random assignment": [(size.units, *size.random) for size in plan.sizes],
    }
    for number in _numbers_of_rounds(plan):
        # The error is that of the difference to one round, in the same worlds.
        curves[f"CO-BED, {number} rounds"] = [
            (size.units, size.designed[0] + rounds.difference[0], rounds.difference[1])
            for size, rounds in _in_rounds(plan, number)
        ]
    for place, (name, points) in enumerate(curves.items()):
        x, y, errors = zip(*points, strict=True)
        figure.add_scatter(
            x=x, y=y, name=name, mode="lines+markers", line_color=COLOURS[place % len(COLOURS)],
            error_y={"type": "data", "array": [2 * error for error in errors]},
        )  # fmt: skip
    figure.add_hline(y=plan.now[0], line_dash="dash", annotation_text="without an experiment")
    figure.update_xaxes(title="units in the experiment", type="log", tickvals=units, ticktext=[f"{n:,}" for n in units])
    figure.update_yaxes(title="expected regret per unit", rangemode="tozero")
    return figure.update_layout(title="Expected regret by the number of units, with two standard errors to each side")
