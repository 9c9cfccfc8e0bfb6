"""Baselines of the linear bandit."""

import jax.random as jr
import numpy as np
import pytest

import cobed
from cobed.designers.linear_bandit import Const, LargestNorm, SamplerPlanner
from cobed.errors import ProblemError
from cobed.models import LinearBandit, bandit

# One context, three actions along three axes, of lengths 3, 2 and 1; a fourth that has no features.
LENGTHS = np.concatenate([np.diag([3.0, 2.0, 1.0]), np.zeros((1, 3))])[None]


@pytest.fixture(scope="module")
def axes_problem() -> cobed.Problem:
    return cobed.Problem(LinearBandit(LENGTHS), np.ones((60, 1)), [[1.0]])


def test_names_are_the_papers():
    assert [designer.name for designer in (SamplerPlanner(), Const(), LargestNorm())] == ["S-P", "Const", "Norm"]


def test_sampler_planner_covers_all_directions_and_nothing_else(axes_problem):
    """Once the metric follows Sigma, the three axes take turns: an axis left out by 60 units has probability below 1e-6."""
    labels = SamplerPlanner()(axes_problem, seed=0).labels
    assert set(labels) == {"1", "2", "3"}
    # Sigma grows alike along all axes once it is large, so short features are played more often than long ones.
    assert labels.count("3") > labels.count("1")


def test_the_metric_waits_until_the_determinant_has_doubled(axes_problem):
    """With one offline context the metric is the identity: the planner is the largest norm."""
    planned = SamplerPlanner(num_offline=1)(axes_problem, seed=0).labels
    assert planned == LargestNorm()(axes_problem, seed=0).labels == ["1"] * 60


def test_largest_norm_and_const_are_what_they_say():
    problem = cobed.Problem(bandit.paper_bandit(jr.key(4)), bandit.contexts(jr.key(5), 12), bandit.targets())
    norms = np.linalg.norm(np.asarray(problem.model.table), axis=2)
    numbers = np.asarray(problem.contexts)[:, 0].astype(int) - 1
    assert LargestNorm()(problem, seed=0).labels == [str(1 + a) for a in norms.argmax(1)[numbers]]
    assert Const()(problem, seed=0).labels == ["1"] * 12


def test_a_seed_decides_the_design(axes_problem):
    first, again, other = (SamplerPlanner()(axes_problem, seed=seed).actions for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_models_without_features_and_continuous_actions_are_refused(discrete_problem):
    for designer in (SamplerPlanner(), LargestNorm()):
        with pytest.raises(ProblemError, match="linear in known features, and DiscreteExample"):
            designer(discrete_problem, seed=0)
    line = cobed.models.LinearGaussian(lambda c, a: a, np.zeros(1), np.ones(1), cobed.Box(0, 1), 1, 0.1)
    with pytest.raises(ProblemError, match="needs discrete actions"):
        Const()(cobed.Problem(line, [[0.0]], [[0.0]]), seed=0)
    with pytest.raises(ProblemError, match="positive regularisation"):
        SamplerPlanner(regularisation=0.0)
