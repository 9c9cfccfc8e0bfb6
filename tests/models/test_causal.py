"""The causal graph against its formulas written out, and against all corners of a small cube."""

import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from cobed.decide import Chooser
from cobed.errors import ModelError
from cobed.models import CausalGraph, causal
from cobed.optimum import ClosedForm, LinearProgram
from cobed.reproduce import causal as study


def test_the_reward_is_revenue_minus_cost():
    model = CausalGraph(num_actions=2, num_causes=3)
    w = jnp.array([[1.0, 0.0], [0.5, 2.0], [0.0, 4.0]])
    reward = model.mean_reward(w, jnp.array([1.0, 1.0, 0.0]), jnp.array([0.5, 0.25]))
    # (1 + 0.5) 0.5 + 2 * 0.25 - 0.75
    assert float(reward) == pytest.approx(0.5)


def test_the_best_action_is_the_best_corner():
    model, corners = CausalGraph(5), jnp.asarray(list(itertools.product((0.0, 1.0), repeat=5)))
    contexts = jnp.asarray(causal.targets()[::17])

    def gap(key, context):
        w = model.sample_prior(key)
        rewards = jax.vmap(lambda a: model.mean_reward(w, context, a))(corners)
        return model.mean_reward(w, context, model.best_action(w, context)) - jnp.max(rewards)

    gaps = jax.vmap(jax.vmap(gap, (None, 0)), (0, None))(jr.split(jr.key(0), 50), contexts)
    np.testing.assert_allclose(gaps, 0.0, atol=1e-5)


def test_max_values_are_the_sum_of_what_each_activity_earns_beyond_its_cost():
    problem = study.make_problem(4)
    w = problem.sample_world(jr.key(3))
    expected = np.maximum(np.asarray(problem.targets) @ np.asarray(w) - 1, 0).sum(1)
    np.testing.assert_allclose(problem.best(w)[0], expected, atol=1e-5)


def test_the_prior_has_the_papers_edges_and_strengths():
    draws = np.asarray(jax.vmap(CausalGraph(20).sample_prior)(jr.split(jr.key(1), 200))).ravel()
    # 32,000 entries: 5 standard errors each, false alarm below 1 in 500,000.
    assert abs((draws > 0).mean() - 3 / 16) < 5 * (3 / 16 * 13 / 16 / 32_000) ** 0.5
    assert abs(draws[draws > 0].mean() - (2 / np.pi) ** 0.5) < 5 * 0.603 / 6_000**0.5
    assert draws.min() == 0


def test_contexts_are_binary_and_targets_are_all_but_zero():
    assert set(np.unique(causal.contexts(jr.key(0)))) == {0.0, 1.0}
    targets = causal.targets()
    assert targets.shape == (255, 8)
    assert len(np.unique(targets, axis=0)) == 255
    assert targets.sum(1).min() == 1


def test_twenty_dimensions_are_never_searched_by_a_grid():
    problem = study.make_problem(20)
    assert isinstance(problem.optimum, ClosedForm)
    assert isinstance(Chooser(problem.model, problem.targets, 64).optimum, LinearProgram)
    assert (problem.num_contexts, problem.num_targets) == (200, 255)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_actions": 0}, "at least one action"),
        ({"num_actions": 2, "inclusion": 1.0}, "strictly between 0 and 1"),
        ({"num_actions": 2, "num_causes": 1}, "1.5 / num_causes"),
        ({"num_actions": 2, "noise_std": 0.0}, "must be positive"),
    ],
)
def test_an_impossible_graph_is_refused(settings, message):
    with pytest.raises(ModelError, match=message):
        CausalGraph(**settings)
