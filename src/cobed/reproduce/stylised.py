"""The paper's first figure as a computation: what tells about psi need not tell about the best reward."""

import itertools

import jax.numpy as jnp
import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from cobed.models.linear import LinearGaussian, linear_information
from cobed.report.figures import COLOURS
from cobed.spaces import Discrete

ACTIONS = ("A", "B")
CONTEXTS = np.array([[-2.0], [-1.0], [0.0]], np.float32)
TARGET = np.array([[2.0]], np.float32)
# Each reward is a line through its values at contexts -2 and 2. A is the better one where we experiment and the less
# certain one there, and known to be poor where we deploy: B is the best at the target but once in 10,000 worlds.
PRIOR_MEAN = np.array([4.0, -2.0, 1.0, 2.0])
PRIOR_STD = np.array([2.0, 0.3, 0.6, 1.0])


def _features(context, action):
    ends = jnp.stack([(2 - context[0]) / 4, (2 + context[0]) / 4])
    return jnp.outer(action, ends).ravel()


def make_model() -> LinearGaussian:
    return LinearGaussian(_features, PRIOR_MEAN, PRIOR_STD**2, Discrete(list(ACTIONS)), 1, noise_std=0.5)


def informations() -> dict[str, tuple[float, float]]:
    """For each of the eight designs: I(psi; y) and I(m*; y), in nats.

    m* is the reward of B at the target in all but 1 of 10,000 worlds, so the second is that of one Gaussian number.
    """
    model = make_model()
    rows = np.eye(2, dtype=np.float32)
    best = np.asarray(model.design_matrix(jnp.asarray(TARGET), jnp.asarray(rows[1:])))
    by_design = {}
    for design in itertools.product(range(2), repeat=len(CONTEXTS)):
        actions = rows[list(design)]
        name = "".join(ACTIONS[i] for i in design)
        by_design[name] = (
            linear_information(model, CONTEXTS, actions),
            linear_information(model, CONTEXTS, actions, quantity=best),
        )
    return by_design


def stylised_figure() -> go.Figure:
    """Prior rewards of both actions over the contexts, and both informations of all eight designs."""
    figure = make_subplots(
        rows=1, cols=2, column_widths=[0.5, 0.5], subplot_titles=("Prior rewards", "What each design tells")
    )
    grid = np.linspace(-2.5, 2.5, 51)
    ends = np.stack([(2 - grid) / 4, (2 + grid) / 4])
    for i, name in enumerate(ACTIONS):
        mean = PRIOR_MEAN[2 * i : 2 * i + 2] @ ends
        std = np.sqrt(PRIOR_STD[2 * i : 2 * i + 2] ** 2 @ ends**2)
        for width in (2, 1):
            figure.add_scatter(
                x=np.concatenate([grid, grid[::-1]]), y=np.concatenate([mean + width * std, (mean - width * std)[::-1]]),
                fill="toself", line_width=0, fillcolor=COLOURS[i], opacity=0.25, showlegend=False, hoverinfo="skip",
                row=1, col=1,
            )  # fmt: skip
        figure.add_scatter(x=grid, y=mean, mode="lines", line_color=COLOURS[i], name=f"action {name}", row=1, col=1)
    for context in CONTEXTS[:, 0]:
        figure.add_vline(x=float(context), line={"dash": "dot", "color": COLOURS[5]}, row=1, col=1)  # pyright: ignore[reportArgumentType]
    figure.add_vline(x=float(TARGET[0, 0]), line={"dash": "dash", "color": "grey"}, row=1, col=1)  # pyright: ignore[reportArgumentType]
    by_design = informations()
    for i, (name, values) in enumerate(
        zip(("about psi", "about m*"), zip(*by_design.values(), strict=True), strict=True)
    ):
        figure.add_bar(x=list(by_design), y=values, name=name, marker_color=COLOURS[2 + i], row=1, col=2)
    figure.update_xaxes(title="context (dotted: experiments; dashed: target)", row=1, col=1)
    figure.update_yaxes(title="reward", row=1, col=1).update_yaxes(title="nats", row=1, col=2)
    figure.update_xaxes(title="actions of the three units", row=1, col=2)
    return figure.update_layout(template="plotly_white", height=420)
