"""The paper's figures, from the records of a study."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from cobed.inference.base import AbstractSampler
from cobed.inference.calibration import calibrate
from cobed.problem import Problem
from cobed.report.calibration import posterior_check_figure, rank_figure
from cobed.report.figures import COLOURS
from cobed.report.page import Page
from cobed.reproduce.experiment import Groups
from cobed.reproduce.study import Record
from cobed.reproduce.summary import by_method, summarise, values_of


def designs_figure(groups: Groups, problem: Problem) -> go.Figure:
    """The action of every unit against its context, one panel per method (its first seed); targets are dotted lines."""
    methods = list(groups)
    columns = min(4, len(methods))
    figure = make_subplots(
        rows=-(-len(methods) // columns), cols=columns, subplot_titles=methods, shared_xaxes=True, shared_yaxes=True
    )
    contexts, targets = np.asarray(problem.contexts)[:, 0], np.unique(np.asarray(problem.targets)[:, 0])
    space = problem.model.action_space
    for i, method in enumerate(methods):
        panel: dict[str, Any] = {"row": i // columns + 1, "col": i % columns + 1}
        actions = groups[method][0].actions
        labels = [space.label(action) for action in actions] if not space.continuous else actions[:, 0]
        colours = [COLOURS[int(np.argmax(action))] for action in actions] if not space.continuous else COLOURS[0]
        figure.add_scatter(
            x=contexts, y=labels, mode="markers", marker={"color": colours, "size": 8}, showlegend=False, **panel
        )
        if not space.continuous:
            names = [space.label(row) for row in space.enumerate_discrete()]
            figure.update_yaxes(type="category", categoryorder="array", categoryarray=names[::-1], **panel)
        for target in targets if len(targets) <= 12 else []:
            figure.add_vline(x=float(target), line={"dash": "dot", "width": 1, "color": "lightgrey"}, **panel)
    return figure.update_layout(
        title="Designs: the action tried in each context",
        template="plotly_white",
        height=260 * -(-len(methods) // columns) + 120,
    )


def metric_figure(
    records: Sequence[Record], symbol: str, metric: str, protocol: str = "exact", **titles: Any
) -> go.Figure:
    """The metric against a symbol, one line per method with error bars of one standard error. CO-BED's is thick. `titles` are
    those of the figure and of its axes: `title`, `xaxis_title`, `yaxis_title`."""
    figure = go.Figure()
    for i, (method, of_method) in enumerate(by_method(records).items()):
        summaries = [
            (v, summarise(by_method(of_method, **{symbol: v})[method], metric, protocol))
            for v in values_of(of_method, symbol)
        ]
        points = [(value, summary) for value, summary in summaries if summary is not None]
        if not points:
            continue
        figure.add_scatter(
            x=[value for value, _ in points], y=[summary.mean for _, summary in points],
            error_y={"type": "data", "array": [np.nan_to_num(summary.standard_error) for _, summary in points]},
            mode="lines+markers", name=method,
            line={
                "color": COLOURS[i % len(COLOURS)], "width": 4 if method == "CO-BED" else 1.5,
                "dash": "solid" if i < len(COLOURS) else "dot",
            },
        )  # fmt: skip
    return figure.update_layout(template="plotly_white", **titles)


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


def add_calibration(
    page: Page, problem: Problem, actions: np.ndarray, sampler: AbstractSampler, num_worlds: int
) -> None:
    """Whether the posterior after the design is right."""
    page.heading("Is the posterior right?")
    calibration = calibrate(problem, actions, sampler, num_worlds=num_worlds, seed=0)
    page.figure(rank_figure(calibration))
    page.figure(posterior_check_figure(calibration))
