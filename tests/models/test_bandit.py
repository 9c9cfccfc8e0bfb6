"""The linear bandit: its table, the paper's features, and the textbook posterior."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from cobed.data import Data
from cobed.errors import ModelError
from cobed.inference.conjugate import posterior_moments
from cobed.models import LinearBandit, bandit
from cobed.problem import Problem
from cobed.reproduce import bandit as study
from cobed.spaces import Discrete


def small(**settings) -> LinearBandit:
    """Two contexts, three actions, features of length 4."""
    return LinearBandit(np.random.default_rng(0).normal(size=(2, 3, 4)), **settings)


def test_the_reward_is_the_feature_of_the_table_times_psi():
    model = small()
    psi = model.sample_prior(jr.key(0))
    for context in (1, 2):
        for action in range(3):
            reward = model.mean_reward(psi, jnp.array([float(context)]), jnp.eye(3)[action])
            np.testing.assert_allclose(reward, model.table[context - 1, action] @ psi, rtol=1e-6)


def test_the_reward_is_linear_between_the_actions():
    model, weights, context = small(), jnp.array([0.2, 0.3, 0.5]), jnp.array([2.0])
    psi = model.sample_prior(jr.key(1))
    corners = jax.vmap(lambda a: model.mean_reward(psi, context, a))(jnp.eye(3))
    np.testing.assert_allclose(model.mean_reward(psi, context, weights), weights @ corners, rtol=1e-5)


@pytest.mark.parametrize("prior_cov", [np.array([0.5, 1.0, 2.0, 0.1]), np.eye(4) + 0.3])
def test_the_posterior_is_the_textbook_one(prior_cov):
    """(S^-1 + Phi^T Phi / s^2)^-1 and its product with S^-1 mu + Phi^T y / s^2."""
    mean = np.array([1.0, 0.0, -1.0, 0.5])
    model = small(prior_mean=mean, prior_cov=prior_cov, noise_std=0.3)
    contexts, chosen = np.array([1, 1, 2, 2, 1]), np.array([0, 2, 1, 1, 2])
    data = Data(contexts, np.eye(3)[chosen], [0.3, -1.0, 2.0, 1.5, 0.0])
    phi = np.asarray(model.table, float)[contexts - 1, chosen]
    cov = np.diag(prior_cov) if prior_cov.ndim == 1 else prior_cov
    expected_cov = np.linalg.inv(np.linalg.inv(cov) + phi.T @ phi / 0.09)
    expected = expected_cov @ (np.linalg.inv(cov) @ mean + phi.T @ np.asarray(data.outcomes, float) / 0.09)
    found, found_cov = posterior_moments(model, data)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    np.testing.assert_allclose(found_cov, expected_cov, atol=1e-5)


def test_the_papers_features_are_where_the_paper_says():
    features = np.asarray(bandit.paper_features(jr.key(0)))
    assert features.shape == (3, 10, 20)
    expected = {(0, 0): 0, (0, 1): 1, (0, 2): 2, (1, 0): 3, (1, 1): 0, (1, 2): 4, (2, 0): 5, (2, 1): 6, (2, 2): 0}
    expected |= {(context, action): 19 for context in range(3) for action in (5, 6)}
    places = np.argwhere(features)
    assert {(c, a): p for c, a, p in places} == expected
    assert len(places) == len(expected)
    np.testing.assert_allclose(bandit.PAPER_STD, [1.0] * 19 + [0.1])


def test_the_papers_contexts_are_the_three():
    contexts = bandit.contexts(jr.key(0), 300)
    # 300 draws of probability 1/3: 5 standard errors, false alarm below 1 in 500,000.
    assert (np.abs(np.bincount(contexts[:, 0].astype(int), minlength=4)[1:] - 100) < 41).all()
    np.testing.assert_array_equal(bandit.targets()[:, 0], [1, 2, 3])


def test_the_papers_problem_depends_on_its_key():
    first, other = (study.make_problem(jr.key(seed), 5) for seed in (0, 1))
    assert not np.array_equal(first.model.table, other.model.table)
    assert (first.num_contexts, first.num_targets, first.action_dim) == (5, 3, 10)


def test_a_context_that_is_not_in_the_table_is_refused():
    with pytest.raises(ModelError, match="not finite"):
        Problem(small(), [[0.0], [1.5], [3.0]], [[1.0]])


@pytest.mark.parametrize(
    ("table", "settings", "message"),
    [
        (np.zeros((2, 3)), {}, r"shape \(2, 3\).*\(contexts, actions, P\)"),
        (np.full((1, 1, 1), np.nan), {}, "not finite"),
        (np.zeros((2, 3, 4)), {"actions": Discrete(["a", "b"])}, "3 actions"),
        (np.zeros((2, 3, 4)), {"prior_mean": np.zeros(3)}, r"need \(4,\)"),
        (np.zeros((2, 3, 4)), {"prior_cov": np.ones(3)}, r"needs \(4, 4\)"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused(table, settings, message):
    with pytest.raises(ModelError, match=message):
        LinearBandit(table, **settings)
