"""The batched Lasso against scikit-learn's, and the choice of its penalty."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from sklearn import linear_model

import cobed
from cobed.data import Data
from cobed.errors import ModelError, ProblemError
from cobed.models import CausalGraph, ContinuousExample, causal
from cobed.reproduce.lasso import Lasso, cross_validate, lasso


def sparse_worlds(num_worlds: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping covariates (60, 24), the last all zero, and outcomes (W, 60) of a few coefficients of both signs."""
    rng = np.random.default_rng(0)
    slopes = rng.integers(0, 2, (60, 4, 1)) * rng.uniform(size=(60, 1, 6))
    slopes = slopes.reshape(60, 24).astype(float)
    slopes[:, -1] = 0
    worlds = rng.normal(size=(num_worlds, 24)) * (rng.uniform(size=(num_worlds, 24)) < 0.3)
    return slopes, worlds @ slopes.T + 0.25 * rng.normal(size=(num_worlds, 60))


def by_sklearn(slopes, outcomes, penalty) -> np.ndarray:
    model = linear_model.Lasso(penalty, fit_intercept=False, tol=1e-14, max_iter=1_000_000)
    return np.stack([model.fit(slopes, y).coef_ for y in outcomes])


@pytest.mark.parametrize("penalty", [0.001, 0.01, 0.1, 10.0])
def test_double_precision_agrees_with_scikit_learn(penalty):
    slopes, outcomes = sparse_worlds()
    with jax.enable_x64(True):
        gram, moments = jnp.asarray(slopes.T @ slopes / 60), jnp.asarray(outcomes @ slopes / 60)
        found, change = lasso(gram, moments, penalty, tolerance=1e-9, max_iterations=20_000)
        found, change = np.asarray(found), np.asarray(change)
    np.testing.assert_allclose(found, by_sklearn(slopes, outcomes, penalty), atol=1e-6)
    assert change.max() <= 1e-9


def test_single_precision_is_close_and_zeros_are_exact():
    slopes, outcomes = sparse_worlds()
    gram, moments = jnp.asarray(slopes.T @ slopes / 60), jnp.asarray(outcomes @ slopes / 60)
    found = np.asarray(lasso(gram, moments, 0.01)[0])
    expected = by_sklearn(slopes, outcomes, 0.01)
    np.testing.assert_allclose(found, expected, atol=2e-4)
    assert (found[np.abs(expected) < 1e-12] == 0).mean() > 0.95


def test_all_worlds_at_once_are_each_by_itself():
    slopes, outcomes = sparse_worlds()
    gram, moments = jnp.asarray(slopes.T @ slopes / 60), jnp.asarray(outcomes @ slopes / 60)
    together, _ = lasso(gram, moments, 0.01)
    each, _ = jax.vmap(lambda q: lasso(gram, q, 0.01))(moments)
    np.testing.assert_allclose(together, each, atol=1e-4)


@pytest.fixture(scope="module")
def graph_problem() -> cobed.Problem:
    return cobed.Problem(CausalGraph(4), causal.contexts(jr.key(0), 60), causal.targets()[::16])


def test_the_estimate_deploys_as_if_it_were_psi(graph_problem):
    """The cost of the actions is known: what is fitted is y + s, as in the paper."""
    actions = np.asarray(jr.bernoulli(jr.key(1), 0.5, (60, 4)), np.float32)
    world = graph_problem.sample_world(jr.key(2))
    outcomes = np.asarray(graph_problem.sample_outcomes(jr.key(3), world, jnp.asarray(actions)))
    data = Data(graph_problem.contexts, actions, outcomes)
    posterior = Lasso(0.01).posterior(jr.key(4), graph_problem.model, data)
    slopes = np.asarray(data.contexts)[:, :, None] * actions[:, None, :]
    expected = by_sklearn(slopes.reshape(60, -1).astype(float), [outcomes + actions.sum(1)], 0.01)
    np.testing.assert_allclose(np.asarray(posterior.params).reshape(1, -1), expected, atol=2e-3)
    assert posterior.num_draws == 1
    assert posterior.warnings == ()


@pytest.mark.slow
def test_the_chosen_penalty_does_better_than_far_ones(graph_problem):
    actions = np.asarray(jr.bernoulli(jr.key(1), 0.5, (60, 4)), np.float32)
    chosen = cross_validate(jr.key(5), graph_problem, actions, num_worlds=16, num_penalties=12)
    assert 0.001 < chosen.penalty < 0.1
    regrets = [
        cobed.evaluate(graph_problem, actions, 100, sampler=sampler, seed=6).regret for sampler in (chosen, Lasso(0.3))
    ]
    assert cobed.paired_difference(regrets[1], regrets[0]).mean > 0


def test_what_does_not_fit_is_refused(graph_problem):
    with pytest.raises(ProblemError, match="must be positive"):
        Lasso(0.0)
    with pytest.raises(ProblemError, match="num_folds must be from 2 to the 60"):
        cross_validate(jr.key(0), graph_problem, np.zeros((60, 4)), num_folds=61)
    with pytest.raises(ModelError, match="not affine in psi"):
        Lasso(0.1).posterior(jr.key(0), ContinuousExample(), Data([[0.0]], [[0.5]], [1.0]))
    warning = Lasso(0.1, max_iterations=7).judge({"change": 0.5})
    assert "after 7 iterations" in warning[0]
