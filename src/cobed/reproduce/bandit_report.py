"""The report of the linear bandit: rewards against the number of units, paired differences, which actions are played."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from cobed.models.bandit import PAPER_DECOYS
from cobed.report.figures import COLOURS
from cobed.report.page import Page
from cobed.reproduce.figures import lines_figure
from cobed.reproduce.study import Folder, Record
from cobed.reproduce.summary import Summary, by_method, over_seeds

CHOICES = (
    "What the paper leaves open, and what was chosen. Noise: standard deviation .1, and 1 to see how much it matters. "
    "Features: drawn anew for every seed, because the rewards depend on them more than on anything else (a mean over 20 "
    "draws has a standard error of .04); methods are compared on the same draws. Actions 6 and 7: one standard normal "
    "feature each, in the last entry, in every context. Features the paper draws with variance 1e-9 are zero. psi_20: "
    "standard deviation .1.",
    "S-P: regularisation 1, step 1, 1,000 offline contexts drawn from the experimental ones, the reference matrix replaced "
    "when the determinant has doubled, one random moment of the planner a unit.",
    "Rewards are exact: an integral over a line instead of drawn worlds. Optimum: one unit at a time is moved to another "
    "action while the exact reward grows, from four starts. SL: all rewards known. CO-BED chose its "
    "objective by itself: the value of the experiment, known exactly here. CO-BED (infonce) climbs the paper's bound.",
)
ABOUT_DECOYS = (
    "The paper says that CO-BED never plays actions 6 and 7, since psi_20 is close to zero. With a standard deviation of .1 "
    "it is not close enough: once actions 1 to 3 have been seen in a context, a further unit tells little by repeating "
    "them, and knowing psi_20 pays wherever the other three turn out negative. The two rows of the optimum show what this "
    "is worth."
)


def rewards(records: Sequence[Record]) -> dict[int, float]:
    """The exact reward by feature draw."""
    return {record.seed: record.worlds["exact"]["reward"].item() for record in records}


def mean_reward(records: Sequence[Record]) -> Summary:
    return _mean(list(rewards(records).values()))


def paired(records: Sequence[Record], others: Sequence[Record]) -> Summary:
    """The reward of one method minus that of another, on the feature draws both have."""
    own, other = rewards(records), rewards(others)
    return _mean([own[seed] - other[seed] for seed in own if seed in other])


def _mean(values: Sequence[float]) -> Summary:
    return over_seeds(values, [np.nan] * len(values))


def decoy_share(records: Sequence[Record]) -> float:
    """The share of units that play actions 6 or 7."""
    places = np.array(PAPER_DECOYS) - 1
    return float(np.mean([record.actions[:, places].sum() / len(record.actions) for record in records]))


def reward_table(records: Sequence[Record], noise: float) -> pd.DataFrame:
    """One row a method, one column a number of units."""
    groups = by_method(records, noise=noise)
    rows = []
    for method, own in groups.items():
        row = {"Method": method}
        for size in sizes(records, noise):
            chosen = [record for record in own if record.setting.get("D", size) == size]
            row[f"D={size}"] = str(mean_reward(chosen)) if chosen else ""
        rows.append(row)
    return pd.DataFrame(rows)


def comparison_table(records: Sequence[Record], noise: float) -> pd.DataFrame:
    """By number of units: CO-BED beside the optimum and S-P on the same feature draws."""
    best = by_method(records, noise=noise)["SL"]
    rows = []
    for size in sizes(records, noise):
        groups = by_method(records, noise=noise, D=size)
        ours, optimum, planner = groups["CO-BED"], groups["Optimum"], groups["S-P"]
        row = {
            "D": str(size),
            "CO-BED / optimum": f"{mean_reward(ours).mean / mean_reward(optimum).mean:.3f}",
            "CO-BED - S-P": str(paired(ours, planner)),
            "CO-BED - SL": str(paired(ours, best)),
        }
        for name in ("Norm", "Const", "Random"):
            row[f"S-P - {name}"] = str(paired(planner, groups[name]))
        row["Optimum - optimum without 6, 7"] = str(paired(optimum, groups["Optimum without 6, 7"]))
        for name in ("CO-BED", "Optimum", "S-P"):
            row[f"6 and 7, {name}"] = f"{decoy_share(groups[name]):.0%}"
        rows.append(row)
    return pd.DataFrame(rows)


def sizes(records: Sequence[Record], noise: float) -> list[int]:
    return sorted({r.setting["D"] for r in records if "D" in r.setting and r.setting["noise"] == noise})


def reward_figure(records: Sequence[Record], noise: float) -> go.Figure:
    series: dict[str, list[tuple[float, Summary]]] = {}
    for size in sizes(records, noise):
        for method, own in by_method(records, noise=noise, D=size).items():
            series.setdefault(method, []).append((size, mean_reward(own)))
    figure = lines_figure(series, f"Average deployed reward, noise {noise:g}", "D, number of units", "reward")
    best = mean_reward(by_method(records, noise=noise)["SL"]).mean
    return figure.add_hline(y=best, line={"color": "black", "width": 1}, annotation_text="SL")


def information_figure(records: Sequence[Record]) -> go.Figure:
    measured = [record for record in records if not np.isnan(record.cmv_eig)]
    series: dict[str, list[tuple[float, Summary]]] = {}
    for size in sorted({record.setting["D"] for record in measured}):
        for method, own in by_method(measured, D=size).items():
            summary = over_seeds([r.cmv_eig for r in own], [r.cmv_eig_se for r in own])
            series.setdefault(method, []).append((size, summary))
    return lines_figure(series, "Information about the best rewards", "D, number of units", "CMV-EIG, nats")


def actions_figure(groups: Mapping[str, Sequence[Record]], title: str) -> go.Figure:
    """The share of units that play each action, over all feature draws."""
    figure = go.Figure()
    for i, (method, records) in enumerate(groups.items()):
        shares = np.concatenate([record.actions for record in records]).mean(axis=0)
        names = [str(1 + action) for action in range(len(shares))]
        figure.add_bar(x=names, y=shares, name=method, marker_color=COLOURS[i % len(COLOURS)])
    return figure.update_layout(
        title=title, xaxis_title="action", yaxis_title="share of units", template="plotly_white"
    )


def write(folder: Folder, records: Sequence[Record], infonce_seeds: int) -> Path:
    page = Page("CO-BED, the linear bandit")
    noises = sorted({record.setting["noise"] for record in records})
    num_draws = len({record.seed for record in records})
    page.text(
        f"Budget {folder.budget}, {num_draws} draw(s) of the features. Ten actions, three contexts: which action to try on D "
        "units, to decide in each context? ± is one standard error over the draws of the features."
    )
    for text in CHOICES:
        page.text(text)
    for noise in noises:
        page.heading(f"Average deployed reward, noise {noise:g}")
        page.figure(reward_figure(records, noise))
        page.table(reward_table(records, noise))
        page.heading(f"On the same feature draws, noise {noise:g}")
        page.table(comparison_table(records, noise))
        page.text(
            ABOUT_DECOYS if noise == noises[0] else "With more noise psi_20 is hard to learn, and repeating pays."
        )
    designed = by_method(records).get("CO-BED (infonce)", [])
    page.text(
        f"CO-BED (infonce) is designed at D = {', '.join(map(str, sizes(designed, noises[0])))} on the first {infonce_seeds} "
        "draw(s) of the features: its means are not over the same draws as the others'.",
        note=True,
    )
    page.heading("Information")
    page.figure(information_figure(records))
    seeds = len({record.seed for record in records if not np.isnan(record.cmv_eig)})
    page.text(
        f"A lower bound by a critic trained for each finished design, on {seeds} draw(s) of the features.", note=True
    )
    page.heading("Which actions are played")
    for size in [size for size in sizes(records, noises[0]) if size in (10, 30)]:
        groups = by_method(records, noise=noises[0], D=size)
        shown = {method: own for method, own in groups.items() if method != "Const"}
        page.figure(actions_figure(shown, f"D = {size}, noise {noises[0]:g}"))
    return page.write(folder.path / "report.html")
