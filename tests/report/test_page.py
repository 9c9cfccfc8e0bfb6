"""Pages and calibration figures."""

import numpy as np
import pandas as pd
import pytest

from cobed.inference.calibration import Calibration, calibrate
from cobed.inference.conjugate import Conjugate
from cobed.report.calibration import posterior_check_figure, rank_figure
from cobed.report.page import Page


def test_text_and_cells_are_escaped_and_figures_need_no_network(tmp_path):
    page = Page("A & B")
    page.text("x < y")
    page.table(pd.DataFrame({"name": ["<b>bold</b>"], "value": [1.5]}))
    written = page.write(tmp_path / "deep" / "page.html").read_text()
    assert "<title>A &amp; B</title>" in written
    assert "x &lt; y" in written
    assert '<meta name="viewport" content="width=device-width' in written  # a telephone shows it in its own width
    assert "<b>bold</b>" not in written
    assert not list(tmp_path.rglob("*.partial"))


@pytest.mark.slow
def test_calibration_figures_show_every_number_of_psi_and_every_world(linear_problem):
    actions = np.eye(2)[[0, 1, 1]]
    calibration = calibrate(linear_problem, actions, Conjugate(), num_worlds=200, seed=0)
    ranks = rank_figure(calibration)
    assert [bar.y.sum() for bar in ranks.data] == [200, 200]
    check = posterior_check_figure(calibration)
    assert len(next(trace for trace in check.data if trace.name == "a world").x) == 200


def test_the_posterior_check_shows_overconfidence():
    """Errors of size 1 under claimed deviations of .1: the dashed root mean square lies far above the dotted line."""
    rng = np.random.default_rng(0)
    overconfident = Calibration(
        ranks=np.zeros((300, 1), int), num_draws=99, p_values=np.zeros(1), errors=rng.normal(size=(300, 1)),
        deviations=np.full((300, 1), 0.1),
    )  # fmt: skip
    traces = {trace.name: trace for trace in posterior_check_figure(overconfident).data}
    assert np.all(traces["root mean square"].y > 5 * traces["expected"].y)
