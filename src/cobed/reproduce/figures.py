"""The paper's figures, from the records of a study."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from cobed.problem import Problem
from cobed.report.figures import COLOURS
from cobed.reproduce.study import Record
from cobed.reproduce.summary import Summary


def designs_figure(groups: Mapping[str, Sequence[Record]], problem: Problem) -> go.Figure:
    """The action of every unit against its context, one panel a method (its first seed); targets are dotted lines."""
    methods = list(groups)
    columns = min(4, len(methods))
    figure = make_subplots(
        rows=-(-len(methods) // columns), cols=columns, subplot_titles=methods, shared_xaxes=True, shared_yaxes=True
    )
    contexts, targets = np.asarray(problem.contexts)[:, 0], np.unique(np.asarray(problem.targets)[:, 0])
    space = problem.model.action_space
    for i, method in enumerate(methods):
        place: dict[str, Any] = {"row": i // columns + 1, "col": i % columns + 1}
        actions = groups[method][0].actions
        labels = [space.label(action) for action in actions] if not space.continuous else actions[:, 0]
        colours = [COLOURS[int(np.argmax(action))] for action in actions] if not space.continuous else COLOURS[0]
        figure.add_scatter(
            x=contexts, y=labels, mode="markers", marker={"color": colours, "size": 8}, showlegend=False, **place
        )
        if not space.continuous:
            names = [space.label(row) for row in space.enumerate_discrete()]
            figure.update_yaxes(type="category", categoryorder="array", categoryarray=names[::-1], **place)
        for target in targets if len(targets) <= 12 else []:
            figure.add_vline(x=float(target), line={"dash": "dot", "width": 1, "color": "lightgrey"}, **place)
    return figure.update_layout(
        title="Designs: the action tried in each context",
        template="plotly_white",
        height=260 * -(-len(methods) // columns) + 120,
    )


def lines_figure(
    series: Mapping[str, Sequence[tuple[float, Summary]]], title: str, x_title: str, y_title: str
) -> go.Figure:
    """A line a method through its means, with error bars of one standard error. CO-BED's is thick."""
    figure = go.Figure()
    for i, (method, points) in enumerate(series.items()):
        figure.add_scatter(
            x=[x for x, _ in points], y=[summary.mean for _, summary in points],
            error_y={"type": "data", "array": [np.nan_to_num(summary.standard_error) for _, summary in points]},
            mode="lines+markers", name=method,
            line={
                "color": COLOURS[i % len(COLOURS)], "width": 4 if method == "CO-BED" else 1.5,
                "dash": "solid" if i < len(COLOURS) else "dot",
            },
        )  # fmt: skip
    return figure.update_layout(title=title, xaxis_title=x_title, yaxis_title=y_title, template="plotly_white")


def curves_figure(records: Mapping[str, Record], window: int = 25) -> go.Figure:
    """The bound on training batches against steps, as a moving average."""
    figure = go.Figure()
    for i, (name, record) in enumerate(records.items()):
        if len(record.history) < window:
            continue
        smooth = np.convolve(record.history, np.ones(window) / window, mode="valid")
        figure.add_scatter(
            x=np.arange(len(smooth)) + window, y=smooth, mode="lines", name=name, line_color=COLOURS[i % len(COLOURS)]
        )
    return figure.update_layout(
        title=f"Training: moving average of {window} steps",
        xaxis_title="step",
        yaxis_title="bound on a training batch, nats",
        template="plotly_white",
    )
