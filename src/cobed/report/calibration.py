"""Is the posterior right? Figures of simulation-based calibration, for `cobed.inference.calibration.calibrate`."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots
from scipy.stats import binom

from cobed.inference.calibration import Calibration
from cobed.report.figures import COLOURS


def rank_figure(calibration: Calibration, names: Sequence[str] | None = None, num_bins: int = 20) -> go.Figure:
    """Histograms of the ranks, one a number of psi. Right posteriors give flat ones: 99% of bars end within the band."""
    num_worlds, num_params = calibration.ranks.shape
    names = names or [f"psi {i}" for i in range(num_params)]
    titles = [f"{name} (p = {p:.2g})" for name, p in zip(names, calibration.p_values, strict=True)]
    columns = min(num_params, 4)
    figure = make_subplots(rows=-(-num_params // columns), cols=columns, subplot_titles=titles)
    low, high = binom.ppf([0.005, 0.995], num_worlds, 1 / num_bins)
    for i, ranks in enumerate(calibration.ranks.T):
        row, column = i // columns + 1, i % columns + 1
        counts = np.bincount(ranks * num_bins // (calibration.num_draws + 1), minlength=num_bins)
        figure.add_bar(x=np.arange(num_bins), y=counts, marker_color=COLOURS[0], showlegend=False, row=row, col=column)
        figure.add_hrect(y0=low, y1=high, fillcolor="grey", opacity=0.25, line_width=0, row=row, col=column)  # pyright: ignore[reportArgumentType]
    return figure.update_layout(
        title=f"Ranks of the truth among posterior draws, {num_worlds} worlds", template="plotly_white", bargap=0.05
    )


def posterior_check_figure(calibration: Calibration, window: int = 200) -> go.Figure:
    """Error of the posterior mean against posterior standard deviation, both as lengths over psi, a point a world.

    The line is the rolling mean of the error, the band two rolling standard deviations: the paper's check. A right
    posterior has the root mean square error of any group of worlds equal to their deviation (dotted).
    """
    deviations = np.sqrt((calibration.deviations**2).sum(axis=1))
    errors = np.sqrt((calibration.errors**2).sum(axis=1))
    order = np.argsort(deviations)
    deviations, errors = deviations[order], errors[order]
    window = max(2, min(window, len(errors) // 5))
    middle = _rolling(deviations, window)
    mean, square = _rolling(errors, window), _rolling(errors**2, window)
    spread = 2 * np.sqrt(np.maximum(square - mean**2, 0))
    figure = go.Figure()
    figure.add_scatter(
        x=np.concatenate([middle, middle[::-1]]), y=np.concatenate([mean + spread, (mean - spread)[::-1]]),
        fill="toself", fillcolor="rgba(128,128,128,.25)", line_width=0, name="± 2 standard deviations", hoverinfo="skip",
    )  # fmt: skip
    figure.add_scatter(
        x=deviations, y=errors, mode="markers", name="a world",
        marker={"size": 4, "color": COLOURS[4], "opacity": 0.6},
    )  # fmt: skip
    figure.add_scatter(x=middle, y=mean, mode="lines", name=f"mean of {window} worlds", line_color=COLOURS[5])
    figure.add_scatter(
        x=middle, y=np.sqrt(square), mode="lines", name="root mean square", line={"color": COLOURS[7], "dash": "dash"}
    )
    figure.add_scatter(x=middle, y=middle, mode="lines", name="expected", line={"color": "grey", "dash": "dot"})
    return figure.update_layout(
        title="Posterior check: error of the posterior mean against posterior standard deviation",
        xaxis_title="posterior standard deviation of psi",
        yaxis_title="distance of posterior mean from the truth",
        template="plotly_white",
    )


def _rolling(values: np.ndarray, window: int) -> np.ndarray:
    return np.convolve(values, np.ones(window) / window, mode="valid")
