"""One page about a campaign, for everybody: what was tried on whom, what was learned, what to deploy where, how sure."""

from collections import Counter
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pandas as pd
import plotly.graph_objects as go

from cobed.campaign.campaign import Campaign
from cobed.campaign.database import DAMAGED
from cobed.campaign.engine import POLICY_DRAWS, candidate_actions
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.summary import export_names
from cobed.data import Data
from cobed.decide import mean_rewards
from cobed.errors import StorageError
from cobed.models.base import AbstractModel
from cobed.models.glm import LinearFeatures
from cobed.report.figures import COLOURS
from cobed.report.page import Page
from cobed.types import Params

TAILS = [0.05, 0.5, 0.95]
# Rows whose contexts stand for all in averages over units.
MAX_ROWS = 1_000


def write_report(campaign: Campaign, path: str | Path) -> Path:
    """Write the page; it opens without a network."""
    spec, status = campaign.spec, campaign.status()
    page = Page(spec.name)
    table = campaign.export()
    data = campaign.data()
    page.text(
        f"{len(table)} unit(s) in {len(status.rounds)} round(s); {status.num_outcomes} outcome(s) of "
        f"{spec.outcome.column!r} have come back, {status.num_waiting} are awaited."
    )
    warnings = _warnings(campaign, table)
    known = None if data is None else campaign.posterior()
    if known is not None:
        warnings += known[1].warnings
    page.heading("Warnings" if warnings else "Nothing to warn of")
    for warning in dict.fromkeys(warnings):
        page.text(warning)
    page.heading("What was tried on whom")
    if len(table):
        page.table(status.rounds)
        page.figure(tried_figure(spec, table))
    else:
        page.text("No unit has been assigned yet.")
    page.heading("Outcomes so far")
    if data is None or known is None:
        page.text("No outcome has come back yet.")
        return page.write(path)
    page.table(outcomes_by_action(spec, table))
    page.text(
        "Plain averages of what came back; units were not assigned at random, so compare with what follows.", note=True
    )
    page.heading("What was learned")
    model, posterior = known
    draws = posterior.equal_draws(POLICY_DRAWS, jr.key(spec.seed))
    page.figure(effects_figure(spec, model, draws, data))
    page.text(f"Posterior by {posterior.method}: {posterior.reason}", note=True)
    coefficients = coefficient_table(campaign, model, draws)
    if coefficients is not None:
        page.text(f"The coefficients, on the scale of the linear predictor ({spec.outcome.law.predictor_words}):")
        page.table(coefficients)
    try:
        _add_policy(page, spec, campaign.policies())
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(
            f"The stored summary of the last policy cannot be read ({error!r}). {DAMAGED} Or deploy again, which stores a new one."
        ) from error
    return page.write(path)


def tried_figure(spec: CampaignSpec, table: pd.DataFrame) -> go.Figure:
    """How many units of each round got each action."""
    figure = go.Figure()
    if spec.action.options is not None:
        counts = Counter(zip(table[export_names(spec)["round"]], table[spec.action.column], strict=True))
        for place, number in enumerate(sorted({int(number) for number, _ in counts})):
            name = "history" if number == 0 else f"round {number}"
            heights = [counts[number, option] for option in spec.action.options]
            figure.add_bar(x=list(spec.action.options), y=heights, name=name, marker_color=COLOURS[place % 8])
        figure.update_layout(barmode="group", yaxis_title="units", xaxis_type="category")
    else:
        numeric = [name for name, column in spec.context.items() if column.is_number]
        for place, column in enumerate(spec.action.columns):
            horizontal = table[numeric[0]] if numeric else table.index
            figure.add_scatter(
                x=horizontal, y=table[column], mode="markers", name=column, marker_color=COLOURS[place % 8]
            )
        figure.update_layout(xaxis_title=numeric[0] if numeric else "unit", yaxis_title="action")
    return figure.update_layout(template="plotly_white", height=380)


def outcomes_by_action(spec: CampaignSpec, table: pd.DataFrame) -> pd.DataFrame:
    """Average outcome, its standard error and the number of units, by option; of numbers, by thirds of the first one."""
    column = spec.action.columns[0]
    back = table[table[spec.outcome.column].notna()]
    values, groups = np.asarray(back[spec.outcome.column], float), np.asarray(back[column])
    names = list(spec.action.options or ())
    if spec.action.options is None:
        places = np.digitize(groups.astype(float), bounds := np.quantile(groups.astype(float), [1 / 3, 2 / 3]))
        names = [f"below {bounds[0]:.4g}", f"{bounds[0]:.4g} to {bounds[1]:.4g}", f"above {bounds[1]:.4g}"]
        groups = np.array(names, dtype=object)[places]
    rows = []
    for name in names:
        own = values[groups == name]
        average, error = (
            f"{own.mean():.4g}" if own.size else "",
            f"{_standard_error(own):.2g}" if own.size > 1 else "",
        )
        rows.append(
            {column: name, "units": own.size, f"average {spec.outcome.column}": average, "standard error": error}
        )
    return pd.DataFrame(rows)


def _standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(values.size))


def effects_figure(spec: CampaignSpec, model: AbstractModel, draws: Params, data: Data) -> go.Figure:
    """The expected outcome of each action for the average unit of the experiment, with its 90% interval."""
    rows = np.linspace(0, data.num_rows - 1, min(MAX_ROWS, data.num_rows)).round().astype(int)
    candidates = candidate_actions(model.action_space)
    if spec.action.options is None:
        # Along each number by itself would hide their products; the first one, with the others in the middle, is shown.
        middle = (candidates.min(axis=0) + candidates.max(axis=0)) / 2
        line = np.linspace(candidates[:, 0].min(), candidates[:, 0].max(), 25)
        candidates = np.tile(middle, (25, 1)).astype(np.float32)
        candidates[:, 0] = line
    blocks = [
        np.asarray(mean_rewards(model, draws, data.contexts[part], jnp.asarray(candidates))).sum(axis=0)
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
        figure.update_yaxes(type="category", autorange="reversed").update_xaxes(title=f"expected {spec.outcome.column}")
    else:
        x = candidates[:, 0]
        band = np.concatenate([low, high[::-1]])
        figure.add_scatter(
            x=np.concatenate([x, x[::-1]]), y=band, fill="toself", line_width=0, name="90% interval", hoverinfo="skip"
        )
        figure.add_scatter(x=x, y=middle_value, mode="lines", name="expected", line_color=COLOURS[0])
        figure.update_xaxes(title=spec.action.columns[0]).update_yaxes(title=f"expected {spec.outcome.column}")
    return figure.update_layout(
        title="Expected outcome for the average unit of the experiment, with 90% intervals",
        template="plotly_white",
        height=380,
    )


def coefficient_table(campaign: Campaign, model: AbstractModel, draws: Params) -> pd.DataFrame | None:
    """Each coefficient of a linear model with its 90% interval, the surest first; None for other models."""
    features = getattr(model, "features", None)
    encoding = campaign.encoding()
    if not isinstance(features, LinearFeatures) or encoding is None:
        return None
    action = campaign.spec.action
    actions = [f"{action.column}={option}" for option in action.options or ()] or action.columns
    values = np.asarray(draws)
    low, middle, high = np.quantile(values, TAILS, axis=0)
    table = pd.DataFrame(
        {
            "coefficient": features.names(encoding.names(campaign.spec), actions),
            "middle": [f"{value:.3g}" for value in middle],
            "low": [f"{value:.3g}" for value in low],
            "high": [f"{value:.3g}" for value in high],
            "P(above 0)": [f"{value:.0%}" for value in (values > 0).mean(axis=0)],
        }
    )
    return table.iloc[np.argsort(-np.abs((values > 0).mean(axis=0) - 0.5), kind="stable")].head(30)


def _add_policy(page: Page, spec: CampaignSpec, policies: list[dict[str, Any]]) -> None:
    page.heading("What to deploy where")
    if not policies:
        page.text("Nothing has been deployed yet: `cobed deploy TARGETS.csv`, then write this report again.")
        return
    last = policies[-1]
    page.text(f"For the {last['rows']:,} units of {last['name']}, chosen on {last['created'][:10]}:")
    kinds = {
        "value": "the policy",
        "over_single": f"gain over {last['single']!r} for all",
        "over_random": "gain over random",
    }
    page.table(
        pd.DataFrame(
            {
                f"{spec.outcome.column} a unit": list(kinds.values()),
                "expected": [f"{last[kind]['mean']:.4g}" for kind in kinds],
                "90% interval": [f"{last[kind]['low']:.4g} to {last[kind]['high']:.4g}" for kind in kinds],
            }
        )
    )
    page.text(f"The chosen action is the best one with probability {last['p_best']:.0%}, averaged over units.")
    share = (lambda value: f"{value:.0%}") if spec.action.options is not None else "{:.4g}".format
    page.table(
        pd.DataFrame(
            [
                {"column": row["column"], "units with": row["group"], "number": row["units"]}
                | {name: share(value) for name, value in row["shares"].items()}
                for row in last["where"]
            ]
        )
    )


def _warnings(campaign: Campaign, table: pd.DataFrame) -> list[str]:
    found = [warning for r in campaign.rounds() for warning in r.summary.get("warnings", [])]
    as_planned = export_names(campaign.spec)["as_planned"]
    others = sum(not planned for planned in table[as_planned]) if len(table) else 0
    if others:
        found.append(f"{others} unit(s) got another action than planned. The posterior uses what they got.")
    return found
