"""The report of the causal graph: regret against the number of activities under both inferences, and a graph as learned."""

from collections.abc import Sequence
from pathlib import Path

import jax
import jax.random as jr
import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from cobed.data import Data
from cobed.experiment import run_experiment
from cobed.inference.lasso import cross_validate
from cobed.inference.spike_slab import SpikeAndSlab
from cobed.problem import Problem
from cobed.report.page import Page
from cobed.reproduce.figures import lines_figure
from cobed.reproduce.study import Folder, Record
from cobed.reproduce.summary import TITLES, Summary, by_method, comparison_table, difference, summarise

PROTOCOLS = {"paper": "the Lasso", "exact": "the spike-and-slab posterior"}
REFERENCE = "Random_.5"

CHOICES = (
    "Two protocols. `paper`: w is estimated by the Lasso on y + s with the covariates c_i a_j, without intercept; its "
    "penalty is chosen by 5-fold cross-validation once for each method, seed and l. `exact`: the posterior of w under the "
    "prior itself, zero or half-normal, by Gibbs sampling; the Lasso knows neither the sign of the effects nor how many "
    "there are.",
    "Random_.5 is not in the paper, and is the strongest of its random baselines. UCB bounds every entry of w by its prior "
    "mean plus one standard deviation, so that each unit gets all activities or none: two and more active areas get all. "
    "Two standard deviations give the same design.",
    "CO-BED chose its objective by itself: the value of the experiment from the moments of w, as if w were Gaussian. CO-BED "
    "(infonce) climbs the paper's bound, which is near its ceiling, log batch, from the start.",
)


def metric_figure(records: Sequence[Record], metric: str, protocol: str) -> go.Figure:
    """The metric against l, one line a method."""
    series: dict[str, list[tuple[float, Summary]]] = {}
    for size in sizes(records):
        for method, own in by_method(records, l=size).items():
            summary = summarise(own, metric, protocol)
            if summary is not None:
                series.setdefault(method, []).append((size, summary))
    title = TITLES[metric] if metric == "cmv_eig" else f"{TITLES[metric]}, by {PROTOCOLS[protocol]}"
    return lines_figure(series, title, "l, number of activities", TITLES[metric])


def ratio_table(records: Sequence[Record], protocol: str) -> pd.DataFrame:
    """By l: CO-BED's regret beside that of Random_.5, and how far every baseline is above it on the same worlds."""
    rows = []
    for size in sizes(records):
        groups = by_method(records, l=size)
        ours = groups["CO-BED"]
        own, other = (summarise(group, "regret", protocol) for group in (ours, groups[REFERENCE]))
        if own is None or other is None:
            continue
        row = {"l": str(size), "CO-BED": str(own), f"CO-BED / {REFERENCE}": f"{own.mean / other.mean:.3f}"}
        for method, group in groups.items():
            if method != "CO-BED":
                row[f"{method} - CO-BED"] = str(difference(group, ours, "regret", protocol))
        row["Seconds of the design"] = f"{np.mean([record.seconds_design for record in ours]):.0f}"
        rows.append(row)
    return pd.DataFrame(rows)


def gain_table(records: Sequence[Record]) -> pd.DataFrame:
    """What the posterior gains over the Lasso: the regret of each method under both, by l."""
    rows = []
    for size in sizes(records):
        for method, group in by_method(records, l=size).items():
            lasso, posterior = (summarise(group, "regret", protocol) for protocol in PROTOCOLS)
            if lasso is not None and posterior is not None:
                ratio = f"{posterior.mean / lasso.mean:.2f}" if lasso.mean > 0 else ""
                row = {"l": str(size), "Method": method, "Lasso": str(lasso), "Posterior": str(posterior)}
                rows.append(row | {"Posterior / Lasso": ratio})
    return pd.DataFrame(rows)


def graph_figure(problem: Problem, actions: np.ndarray, seed: int = 0) -> go.Figure:
    """w of one world, its posterior mean and its Lasso estimate, after the experiment `actions`, on one scale."""
    world_key, noise_key, posterior_key, penalty_key = jr.split(jr.key(seed), 4)
    world = problem.sample_world(world_key)
    data: Data = run_experiment(problem, world, actions, seed=noise_key)
    posterior = SpikeAndSlab(512).posterior(posterior_key, problem.model, data)
    lasso = cross_validate(penalty_key, problem, actions).posterior(posterior_key, problem.model, data)
    mean = jax.tree.map(lambda draws: draws.mean(axis=0), posterior.params)
    panels = {"True w": world, "Posterior mean": mean, "Lasso": lasso.params[0]}
    figure = make_subplots(rows=len(panels), cols=1, subplot_titles=list(panels), shared_xaxes=True)
    for row, values in enumerate(panels.values(), start=1):
        values = np.asarray(values, np.float64)
        places = [[1 + i for i in range(length)] for length in values.shape]
        figure.add_heatmap(z=values, y=places[0], x=places[1], coloraxis="coloraxis", row=row, col=1)
    top = float(np.max(np.asarray(world)))
    return figure.update_layout(
        title="A causal graph and what was learned of it",
        coloraxis={"colorscale": "RdBu", "cmid": 0.0, "cmin": -top, "cmax": top},
        xaxis3_title="activity", yaxis2_title="business area", template="plotly_white", height=760,
    )  # fmt: skip


def sizes(records: Sequence[Record]) -> list[int]:
    return sorted({record.setting["l"] for record in records})


def write(folder: Folder, records: Sequence[Record], problem: Problem, size: int) -> Path:
    page = Page("CO-BED, the unknown causal graph")
    num_seeds = len({record.seed for record in records})
    page.text(
        f"Budget {folder.budget}, {num_seeds} seed(s). How much of each of l activities to give each of "
        f"{problem.num_contexts} units, to learn which activity raises the revenue of which business area? Deployment in "
        "all 255 contexts."
    )
    for text in CHOICES:
        page.text(text)
    for protocol, name in PROTOCOLS.items():
        page.heading(f"Protocol {protocol}: {name}")
        page.figure(metric_figure(records, "regret", protocol))
        page.table(ratio_table(records, protocol))
        for metric in ("mse_a", "mse_m"):
            page.figure(metric_figure(records, metric, protocol))
        for number in sizes(records):
            page.heading(f"l = {number}, protocol {protocol}")
            page.table(comparison_table(by_method(records, l=number), protocol))
    page.heading("What the posterior gains")
    page.table(gain_table(records))
    page.heading("Information")
    page.figure(metric_figure(records, "cmv_eig", "exact"))
    page.text(
        "A lower bound, at most the logarithm of the batch, which most designs are near: it does not rank them. ± is one standard "
        "error: over seeds where there are at least 3, else over worlds; differences are on the same worlds.",
        note=True,
    )
    page.heading(f"One world with l = {size}, after CO-BED's experiment")
    page.figure(graph_figure(problem, by_method(records, l=size)["CO-BED"][0].actions))
    return page.write(folder.path / "report.html")
