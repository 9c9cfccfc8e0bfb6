"""Figures of designs, as self-contained HTML: they open without a network."""

from pathlib import Path

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from cobed.designers.result import DesignResult
from cobed.problem import Problem
from cobed.storage import write_whole

# Colour-blind safe (Okabe and Ito).
COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000"]


def design_figure(result: DesignResult, problem: Problem) -> go.Figure:
    """The chosen action of every unit against its context, beside the training curve of every start.

    The first context column is the horizontal axis; the target contexts are dashed lines where there are at most 50.
    """
    figure = make_subplots(
        rows=1,
        cols=2,
        column_widths=[0.6, 0.4],
        subplot_titles=("Which action is tried on whom", "How the design was found"),
    )
    horizontal = result.contexts[:, 0]
    if isinstance(result.labels[0], str):
        names = list(dict.fromkeys(getattr(problem.model.action_space, "names", result.labels)))
        for i, name in enumerate(names):
            chosen = np.array([label == name for label in result.labels])
            points = horizontal[chosen] if chosen.any() else [None]
            figure.add_scatter(
                x=points, y=[name] * len(points), mode="markers", name=f"action {name}",
                marker={"size": 12, "color": COLOURS[i % len(COLOURS)]}, row=1, col=1,
            )  # fmt: skip
        figure.update_yaxes(type="category", categoryorder="array", categoryarray=names[::-1], row=1, col=1)
    else:
        for i in problem.model.action_space.continuous:
            figure.add_scatter(
                x=horizontal, y=result.actions[:, i], mode="markers", name=f"action entry {i}",
                marker={"size": 10, "color": COLOURS[i % len(COLOURS)]}, row=1, col=1,
            )  # fmt: skip
    targets = np.unique(np.asarray(problem.targets)[:, 0])
    for target in targets if len(targets) <= 50 else []:
        figure.add_vline(x=float(target), line={"dash": "dot", "width": 1, "color": "lightgrey"}, row=1, col=1)  # pyright: ignore[reportArgumentType]
    for i, start in enumerate(result.starts):
        window = max(1, len(start.history) // 50)
        smooth = np.convolve(start.history, np.ones(window) / window, mode="valid")
        kept = np.array_equal(start.actions, result.actions)
        figure.add_scatter(
            x=np.arange(len(smooth)) + window, y=smooth, mode="lines", name=f"start {i + 1}{' (kept)' if kept else ''}",
            line={"width": 3 if kept else 1, "color": COLOURS[-1] if kept else "grey"}, row=1, col=2,
        )  # fmt: skip
    figure.update_xaxes(title="context (dotted: targets)", row=1, col=1).update_yaxes(title="action", row=1, col=1)
    figure.update_xaxes(title="step", row=1, col=2).update_yaxes(title="bound on a training batch, nats", row=1, col=2)
    told = f", at least {result.information} about the best rewards" if result.information else ""
    return figure.update_layout(
        title=f"{result.method}: {len(result.labels)} experiments{told}", template="plotly_white", height=480
    )


def write_html(figure: go.Figure, path: str | Path) -> Path:
    """Write the figure with its own copy of plotly.js, whole or not at all."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda file: file.write(figure.to_html(include_plotlyjs=True).encode()))
    return path
