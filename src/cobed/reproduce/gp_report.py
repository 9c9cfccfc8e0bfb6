"""The report of the Gaussian process example: the paper's figures, paired comparisons, and the designs as maps."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from cobed.data import Data
from cobed.report.figures import COLOURS
from cobed.report.page import Page
from cobed.reproduce.figures import curves_figure
from cobed.reproduce.study import Folder, Record
from cobed.reproduce.summary import Summary, by_method, difference, summarise

OURS = ("CO-BED", "CO-BED (infonce)")
PENALISED = ("UCB+LP", "LEVI+LP")
AXES = {"regret": "regret at the targets", "cmv_eig": "CMV-EIG, nats"}
COLUMNS = 4

CHOICES = (
    "The paper leaves open, and this study chooses: (1) The design knows the first n of the 100 observations, and the decisions "
    "after the experiment are made from these n and the 49 outcomes. The worlds are drawn from the process given all 100, as in "
    "the paper, so that for n < 100 the design's prior is not the law of the worlds: an experiment that is best under the prior "
    "need not have the lowest regret. (2) Local penalties multiply a score by 1 - k0(x, x') for every point chosen before, k0 a "
    "squared exponential of length 1/3 over context and action jointly; units choose in the order of the grid; UCB+LP has alpha = "
    "2 and a softplus to be positive. (3) UCB and LEVI are computed from the exact moments; equal scores are decided by "
    "chance, as at n = 0, where UCB is a random design. (4) ITL, which is not in the paper, greedily adds information about the "
    "rewards of all actions (64 a target) at the targets. (5) Actions are bounded by tanh. Starts of CO-BED are uniform or from "
    "Thompson sampling. (6) The observations are drawn once, for all seeds; they have no noise, and the process takes them to "
    "have noise of 0.1. (7) Functions are sums of 1,024 random waves corrected at the observations, m* is sought on 128 actions."
)


class Rival(NamedTuple):
    """The method of the lowest mean regret among some, and by how much it is above CO-BED's, world by world."""

    method: str
    regret: Summary
    excess: Summary

    @property
    def errors(self) -> float:
        """The excess in standard errors."""
        return self.excess.mean / self.excess.standard_error if self.excess.standard_error else float("inf")

    def __str__(self) -> str:
        return f"{self.method} {self.regret}, above by {self.excess} ({self.errors:+.1f} s.e.)"


def best_of(groups: Mapping[str, Sequence[Record]], methods: Sequence[str]) -> Rival | None:
    """Of those methods that are there; None where there is none, or no CO-BED to compare with."""
    found = []
    for method in methods:
        records = groups.get(method, [])
        regret = summarise(records, "regret") if records else None
        excess = difference(records, groups.get("CO-BED", []), "regret", "exact")
        if regret is not None and excess is not None:
            found.append(Rival(method, regret, excess))
    return min(found, key=lambda rival: rival.excess.mean) if found else None


def settings_of(records: Sequence[Record]) -> dict[str, list[int]]:
    """The data sets in the records, each with its n from small to large."""
    found: dict[str, set[int]] = {}
    for record in records:
        found.setdefault(record.setting["data"], set()).add(record.setting["n"])
    return {kind: sorted(sizes) for kind, sizes in found.items()}


def baselines_of(groups: Mapping[str, Sequence[Record]]) -> list[str]:
    return [method for method in groups if method not in OURS]


def against_figure(records: Sequence[Record], kind: str) -> go.Figure:
    """Regret and information against the number of observations, one line a method, with one standard error."""
    figure = make_subplots(rows=1, cols=2, subplot_titles=("Regret (lower is better)", "CMV-EIG (higher is better)"))
    groups = by_method(records, data=kind)
    order = [*baselines_of(groups), *(method for method in OURS if method in groups)]
    for i, method in enumerate(order):
        sizes = settings_of(groups[method])[kind]
        style = {"color": COLOURS[i % len(COLOURS)], "width": 4 if method == "CO-BED" else 1.5,
                 "dash": "solid" if method in OURS else "dash" if method in PENALISED else "dot"}  # fmt: skip
        for column, metric in enumerate(AXES, start=1):
            found = [summarise(by_method(groups[method], n=n)[method], metric) for n in sizes]
            points = [(n, summary) for n, summary in zip(sizes, found, strict=True) if summary is not None]
            figure.add_scatter(
                x=[n for n, _ in points], y=[summary.mean for _, summary in points],
                error_y={"type": "data", "array": [summary.standard_error for _, summary in points]},
                mode="lines+markers", name=method, legendgroup=method, showlegend=column == 1, line=style,
                row=1, col=column,
            )  # fmt: skip
    for column, title in enumerate(AXES.values(), start=1):
        figure.update_xaxes(title="observations the design knows", row=1, col=column)
        figure.update_yaxes(title=title, row=1, col=column)
    return figure.update_layout(title=f"{kind.capitalize()} observations", template="plotly_white", height=560)


def metric_table(records: Sequence[Record], kind: str, metric: str) -> pd.DataFrame:
    """One row a method, one column an n."""
    groups = by_method(records, data=kind)
    rows = []
    for method, found in groups.items():
        row = {"Method": method}
        for n in settings_of(records)[kind]:
            group = by_method(found, n=n).get(method)
            row[f"n = {n}"] = str(summarise(group, metric) or "") if group else ""
        rows.append(row)
    return pd.DataFrame(rows)


def difference_table(records: Sequence[Record], kind: str) -> pd.DataFrame:
    """One row an n: the best of the penalised baselines, of all baselines, and InfoNCE, beside CO-BED on the same worlds."""
    rows = []
    for n in settings_of(records)[kind]:
        groups = by_method(records, data=kind, n=n)
        rivals = {
            "Best with penalties": best_of(groups, PENALISED),
            "Best baseline": best_of(groups, baselines_of(groups)),
            "InfoNCE": best_of(groups, OURS[1:]),
        }
        row = {"n": str(n), "CO-BED": str(summarise(groups.get("CO-BED", []), "regret") or "")}
        for title, rival in rivals.items():
            if rival is not None:
                row |= {title: f"{rival.method} {rival.regret}", f"{title}: above CO-BED by": str(rival.excess)}
                row[f"{title}: in standard errors"] = f"{rival.errors:+.1f}"
        rows.append(row)
    return pd.DataFrame(rows)


def verdicts(records: Sequence[Record]) -> list[str]:
    """The tables as text, then what the study is to show, sentence by sentence, with what it does show."""
    lines = []
    for kind in settings_of(records):
        for metric, title in AXES.items():
            lines += [f"{kind} observations: {title}", metric_table(records, kind, metric).to_string(index=False), ""]
    for kind, sizes in settings_of(records).items():
        for n in sizes:
            groups = by_method(records, data=kind, n=n)
            best, penalised = best_of(groups, baselines_of(groups)), best_of(groups, PENALISED)
            infonce = best_of(groups, OURS[1:])
            if best is None or penalised is None:
                continue
            lines.append(f"{kind}, n = {n}: CO-BED {summarise(groups['CO-BED'], 'regret')}; best baseline {best}")
            lines.append(f"  best with penalties: {penalised}")
            lines += [f"  {infonce}"] if infonce is not None else []
            if kind == "confounded" and n >= 25:
                lines.append(f"  CO-BED has the lowest regret: {_word(best.excess.mean > 0)}")
            if kind == "confounded" and n == 100:
                lines.append(f"  by more than 2 s.e. below the best with penalties: {_word(penalised.errors > 2)}")
            if kind == "random":
                lines.append(f"  CO-BED is not worse than the best by more than 1 s.e.: {_word(best.errors >= -1)}")
    return lines


def _word(true: bool) -> str:
    return "yes" if true else "NO"


def maps_figure(groups: Mapping[str, Sequence[Record]], observed: Data | None = None) -> go.Figure:
    """The action of each of the 7 x 7 contexts as a colour, one map a method (its first seed), after what was observed."""
    methods = list(groups)
    first = ["Observed"] if observed is not None else []
    num_rows = -(-len(first + methods) // COLUMNS)
    figure = make_subplots(
        rows=num_rows, cols=COLUMNS, subplot_titles=[*first, *methods], vertical_spacing=0.25 / num_rows
    )
    if observed is not None:
        contexts, actions = np.asarray(observed.contexts), np.asarray(observed.actions)[:, 0]
        marker = {"color": actions, "coloraxis": "coloraxis", "size": 6}
        figure.add_scatter(
            x=contexts[:, 0], y=contexts[:, 1], mode="markers", marker=marker, showlegend=False, row=1, col=1
        )
    for i, method in enumerate(methods, start=len(first)):
        actions = groups[method][0].actions[:, 0]
        line = np.linspace(-1, 1, round(len(actions) ** 0.5))
        # Contexts run through the second column first; a map has the first column on its horizontal axis.
        values = actions.reshape(len(line), len(line)).T
        place = {"row": i // COLUMNS + 1, "col": i % COLUMNS + 1}
        figure.add_heatmap(x=line, y=line, z=values, coloraxis="coloraxis", **place)
    return figure.update_layout(
        title="Designs: the action tried in each context (horizontal c1, vertical c2)",
        coloraxis={"colorscale": "RdBu", "cmin": -1, "cmax": 1, "colorbar": {"title": "action"}},
        template="plotly_white",
        height=260 * num_rows + 120,
    )


def make_page(folder: Folder, records: list[Record], observed: Mapping[str, Data]) -> Page:
    page = Page("CO-BED, the Gaussian process example")
    num_worlds = {score.num_worlds for r in records if (score := r.score("exact", "regret")) is not None}
    page.text(
        f"Budget {folder.budget}, {len({record.seed for record in records})} seed(s), {max(num_worlds, default=0):,} worlds "
        "a design. 49 units on a 7 x 7 grid of contexts, one action in [-1, 1] each, decisions at 16 other contexts. Before the "
        "experiment there are n observations: confounded, where whoever acted went by the first context column, or random."
    )
    ours = [record for record in records if record.method == "CO-BED"]
    if ours:
        page.text(f"CO-BED chose its objective by itself. {ours[0].reason} CO-BED (infonce) climbs the paper's bound.")
    for kind, sizes in settings_of(records).items():
        page.heading(f"{kind.capitalize()} observations")
        page.figure(against_figure(records, kind))
        for metric, title in AXES.items():
            page.text(title.capitalize())
            page.table(metric_table(records, kind, metric))
        page.text("Regret above that of CO-BED, in the same worlds with the same noise")
        page.table(difference_table(records, kind))
        page.figure(maps_figure(by_method(records, data=kind, n=max(sizes)), observed.get(kind)))
    page.text(
        "± is one standard error: over seeds where there are at least 3, else over worlds; differences are taken world by world. "
        "CMV-EIG is a lower bound by InfoNCE, with a critic trained for each finished design on draws that all methods share; "
        "its prior is the design's, given n observations, and not the law of the worlds.",
        note=True,
    )
    page.heading("What was chosen where the paper is silent")
    page.text(CHOICES)
    page.heading("Training")
    trained = [record for record in records if record.method == OURS[1] and record.seed == 0]
    page.figure(curves_figure({f"{r.setting['data']}, n = {r.setting['n']}": r for r in trained}))
    climbed = {f"{r.setting['data']}, n = {r.setting['n']}": r for r in ours if r.seed == 0}
    page.figure(
        curves_figure(climbed).update_layout(
            title="CO-BED", yaxis_title="value of the experiment, the start that was kept"
        )
    )
    return page
