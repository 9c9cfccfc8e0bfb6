"""The causal graph: its study from end to end."""

import json

import jax.random as jr
import numpy as np
import pytest

from cobed.designers.baselines import RandomCorners
from cobed.reproduce import causal, reproduce
from cobed.reproduce.protocol import Keys


def test_contexts_are_the_same_for_every_number_of_activities():
    assert np.array_equal(causal.make_problem(5, 20).contexts, causal.make_problem(10, 20).contexts)


@pytest.mark.slow
def test_designs_are_scored_under_both_inferences():
    problem = causal.make_problem(2, 30)
    actions = RandomCorners(0.5)(problem, seed=0).actions
    scores = causal.both_scores(Keys(jr.key(0), jr.key(1)), problem, actions, causal.EFFORTS["smoke"])
    assert {protocol: len(metrics["regret"]) for protocol, metrics in scores.items()} == {"paper": 20, "exact": 4}
    assert all({"regret", "mse_m", "mse_a"} == set(metrics) for metrics in scores.values())


@pytest.mark.slow
def test_the_graph_is_shown_beside_what_was_learned_of_it():
    problem = causal.make_problem(2, 60)
    figure = causal.graph_figure(problem, RandomCorners(0.5)(problem, seed=0).actions)
    truth, mean, lasso = (np.asarray(trace.z) for trace in figure.data)
    assert truth.shape == mean.shape == lasso.shape == (8, 2)
    # 16 effects from 60 outcomes with noise .25: both estimates are near.
    assert np.abs(mean - truth).mean() < 0.1
    assert np.abs(lasso - truth).mean() < 0.2


@pytest.mark.slow
def test_the_study_runs_from_end_to_end(tmp_path):
    report = reproduce("causal", tmp_path, budget="smoke")
    rows = json.loads((tmp_path / "results.json").read_text())["rows"]
    methods = {
        "Random_.5",
        "Random_.667",
        "Random_.75",
        "Random_.833",
        "UCB_1",
        "Thompson",
        "CO-BED",
        "CO-BED (infonce)",
    }
    assert {(row["method"], row["protocol"]) for row in rows} == {(m, p) for m in methods for p in ("paper", "exact")}
    assert all(row["regret"] >= 0 and row["cmv_eig"] is not None for row in rows)
    assert "What the posterior gains" in report.read_text()
