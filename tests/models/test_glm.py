"""Generalised linear models against values worked out by hand, and models after data."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.stats import norm, poisson

import cobed
from cobed.errors import ModelError
from cobed.models.glm import GeneralisedLinear, LinearFeatures, linear_gaussian

OFFERS = LinearFeatures(cobed.Discrete(["none", "mail"]), 2)
# baseline; two contexts; two offers; offer by context
PSI = jnp.array([0.5, 1.0, -1.0, 0.0, 2.0, 0.0, 0.0, 3.0, 4.0])
CONTEXT, MAIL = jnp.array([0.1, 0.2]), jnp.array([0.0, 1.0])
# 0.5 + (0.1 - 0.2) + 2 + (0.3 + 0.8)
ETA = 3.5


def model(likelihood, features=OFFERS, std=0.5):
    size = features.by_kind(0, 0, 0, 0).size
    return GeneralisedLinear(features, np.zeros(size), np.full(size, std), likelihood)


def test_the_mean_reward_is_the_inverse_link_of_the_predictor():
    assert model("bernoulli").mean_reward(PSI, CONTEXT, MAIL) == pytest.approx(1 / (1 + np.exp(-ETA)), rel=1e-5)
    assert model("poisson").mean_reward(PSI, CONTEXT, MAIL) == pytest.approx(np.exp(ETA), rel=1e-5)
    normal = linear_gaussian(OFFERS, np.zeros(9), np.ones(9), 1.0)
    assert normal.mean_reward(PSI, CONTEXT, MAIL) == pytest.approx(ETA, rel=1e-5)


def test_numbers_are_scaled_to_one_and_have_squares_and_products():
    features = LinearFeatures(cobed.Box([0.0, 10.0], [4.0, 20.0]), 1)
    # 3 of [0, 4] is 0.5, 10 of [10, 20] is -1.
    found = features(jnp.array([2.0]), jnp.array([3.0, 10.0]))
    np.testing.assert_allclose(found, [1, 2, 0.5, -1, 0.25, -0.5, 1, 1, -2], atol=1e-6)
    assert features.names(["age"], ["price", "size"]) == [
        "baseline", "age", "price", "size", "price squared", "price by size", "size squared", "price by age", "size by age",
    ]  # fmt: skip
    np.testing.assert_allclose(features.by_kind(1, 2, 3, 4), [1, 2, 3, 3, 3, 3, 3, 4, 4])


@pytest.mark.parametrize(
    ("likelihood", "outcome", "expected"),
    [
        ("bernoulli", 1.0, -np.log1p(np.exp(-ETA))),
        ("bernoulli", 0.0, -np.log1p(np.exp(ETA))),
        ("poisson", 30.0, poisson.logpmf(30, np.exp(ETA))),
    ],
)
def test_the_likelihood_is_that_of_the_outcome(likelihood, outcome, expected):
    found = model(likelihood).log_likelihood(PSI, CONTEXT, MAIL, jnp.asarray(outcome))
    assert found == pytest.approx(expected, rel=1e-4)


def test_the_prior_density_is_that_of_independent_normals():
    expected = norm.logpdf(np.asarray(PSI), 0, 0.5).sum()
    assert model("bernoulli").log_prior(PSI) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("likelihood", "psi"), [("bernoulli", PSI - 3.0), ("poisson", PSI / 3)])
def test_outcomes_are_exact_draws(likelihood, psi):
    glm = model(likelihood)
    draws = jax.vmap(lambda key: glm.sample_outcome(key, psi, CONTEXT, MAIL))(jr.split(jr.key(0), 4000))
    assert (draws == jnp.round(draws)).all()
    mean, variance = glm.mean_reward(psi, CONTEXT, MAIL), glm.outcome_variance(psi, CONTEXT, MAIL)
    # 4 standard errors: false alarm below 1 in 15,000.
    assert abs(draws.mean() - mean) < 4 * jnp.sqrt(variance / 4000)
    assert draws.var() == pytest.approx(float(variance), rel=0.2)


def test_normal_outcomes_have_the_exact_posterior():
    normal = linear_gaussian(OFFERS, np.zeros(9), np.full(9, 0.5), 1.0)
    data = cobed.Data(np.ones((3, 2)), np.eye(2)[[0, 1, 1]], [0.1, 0.5, 0.7])
    assert cobed.infer(normal, data, seed=0).method == "conjugate"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((OFFERS, np.zeros(9), np.ones(9), "cauchy"), "no outcome law 'cauchy'. Allowed: normal"),
        ((OFFERS, np.zeros(8), np.ones(9), "poisson"), "9 coefficients; the prior has means .8,."),
        ((OFFERS, np.zeros(9), np.zeros(9), "poisson"), "standard deviations positive"),
    ],
)
def test_wrong_arguments_are_told(arguments, message):
    with pytest.raises(ModelError, match=message):
        GeneralisedLinear(*arguments)


def test_unbounded_numbers_are_refused():
    with pytest.raises(ModelError, match="bounded numbers"):
        LinearFeatures(cobed.Box.real(), 1)
