"""Averages over a Gaussian predictor against quadrature, and beliefs found behind data and decided actions."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import cobed
from cobed.beliefs import Draws
from cobed.models.glm import GeneralisedLinear, LinearFeatures, linear_gaussian
from cobed.objectives import Predictor
from cobed.outcomes import law_named

FEATURES = LinearFeatures(cobed.Discrete(["none", "mail"]), 2)
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def belief(outcome):
    return Predictor(jnp.zeros(2), jnp.eye(2), jnp.asarray(0.5), law_named(outcome))


def average(function, mean, std):
    return float(WEIGHTS @ np.asarray(function(mean + std * NODES)))


@pytest.mark.parametrize(("mean", "std"), [(0.0, 0.5), (-1.0, 1.0), (1.5, 0.3)])
def test_expected_outcomes_are_near_the_true_averages(mean, std):
    """The normal curve in the place of the logistic one is off by at most .02."""
    expected = belief("bernoulli").expected(jnp.asarray(mean), jnp.asarray(std**2))
    assert float(expected) == pytest.approx(average(jax.nn.sigmoid, mean, std), abs=0.02)
    expected = belief("poisson").expected(jnp.asarray(mean), jnp.asarray(std**2))
    assert float(expected) == pytest.approx(average(jnp.exp, mean, std), rel=1e-4)
    information = belief("bernoulli").information(jnp.asarray(mean), jnp.asarray(std**2))
    assert float(information) == pytest.approx(
        average(lambda x: jax.nn.sigmoid(x) * jax.nn.sigmoid(-x), mean, std), rel=0.1
    )


@pytest.mark.parametrize("outcome", ["normal", "bernoulli", "poisson"])
def test_learning_changes_no_expected_outcome_on_average(outcome):
    """E over what the mean will be of E[y | data] is E[y]: else experiments would seem to pay where they teach nothing."""
    before, after, mean = 0.9, 0.4, -0.7
    later = average(
        lambda m: belief(outcome).expected(jnp.asarray(m), jnp.asarray(after)), mean, np.sqrt(before - after)
    )
    assert later == pytest.approx(float(belief(outcome).expected(jnp.asarray(mean), jnp.asarray(before))), rel=1e-4)


def test_the_belief_is_found_behind_data():
    model = GeneralisedLinear(FEATURES, np.zeros(9), np.full(9, 0.5), "bernoulli")
    draws = 1 + 2 * jr.normal(jr.key(0), (4000, 9))
    known = model.given(Draws(draws))
    found = Predictor.of(jr.key(1), known)
    assert found is not None
    assert found.law.name == "bernoulli"
    np.testing.assert_allclose(found.mean, np.asarray(draws).mean(axis=0), atol=1e-4)
    np.testing.assert_allclose(found.root @ found.root.T, np.cov(draws, rowvar=False), atol=1e-3)
    context, mail = jnp.array([0.1, 0.2]), jnp.array([0.0, 1.0])
    form = known.linear_form()
    assert form is not None
    np.testing.assert_array_equal(form.features(context, mail), FEATURES(context, mail))
    own = Predictor.of(jr.key(0), model)
    assert own is not None
    np.testing.assert_allclose(own.root @ own.root.T, 0.25 * np.eye(9), atol=1e-6)


def test_only_linear_predictors_have_one():
    assert Predictor.of(jr.key(0), linear_gaussian(FEATURES, np.zeros(9), np.ones(9), 1.0)) is not None
    assert Predictor.of(jr.key(0), cobed.models.ContinuousExample()) is None
