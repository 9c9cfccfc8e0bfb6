"""Beliefs against scipy and their own draws, and models whose belief data replace."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.stats import multivariate_normal

import cobed
from cobed.beliefs import Draws, Gaussian, Sparse
from cobed.errors import ModelError
from cobed.inference import Conjugate
from cobed.inference.conjugate import posterior_moments
from cobed.models import AbstractGaussianModel, DiscreteExample, LinearGaussian, discrete
from cobed.models.base import has_best_action, has_log_prior

# Numbers of very different size, correlated.
COV = np.array([[2.0, 0.6, 3e-4], [0.6, 1.0, -2e-4], [3e-4, -2e-4, 1e-6]])
MEAN = {"a": np.float32(3.0), "b": np.array([1.0, -2.0], np.float32)}
WEIGHTS = np.linspace(-2.0, 2.0, 50)
BELIEFS = {
    "gaussian": Gaussian(MEAN, COV),
    "draws": Draws({"psi": jr.normal(jr.key(1), (50, 2))}),
    "weighted draws": Draws({"psi": jr.normal(jr.key(1), (50, 2))}, WEIGHTS),
    "sparse": Sparse(jnp.full((2, 2), 0.3), jnp.full((2, 2), 2.0)),
}
NUM = 4000


@pytest.mark.parametrize("belief", BELIEFS.values(), ids=BELIEFS)
def test_the_moments_are_those_of_the_draws(belief):
    flat = np.asarray(jax.vmap(lambda key: ravel_pytree(belief.sample(key))[0])(jr.split(jr.key(0), NUM)), np.float64)
    mean, cov = belief.moments(jr.key(2))
    std = np.sqrt(np.diag(cov))
    # Two samples of at least 4,000: 5 standard errors of their difference, false alarm below 1 in 100,000 for all entries.
    np.testing.assert_array_less(np.abs(flat.mean(axis=0) - mean) / std, 5 * np.sqrt(2 / NUM))
    np.testing.assert_allclose(np.cov(flat / std, rowvar=False), cov / np.outer(std, std), atol=0.15)


def test_the_density_of_a_gaussian_is_the_textbook_one():
    psi = {"a": jnp.asarray(2.0), "b": jnp.array([1.5, -2.001])}
    expected = multivariate_normal(np.array([3.0, 1.0, -2.0]), COV).logpdf(np.array([2.0, 1.5, -2.001]))
    assert float(BELIEFS["gaussian"].log_density(psi)) == pytest.approx(expected, rel=1e-3)
    singular = Gaussian(jnp.zeros(2), np.ones((2, 2)))
    # Within the line (1, 1): a normal number of variance 2 at the distance sqrt(2) from zero.
    assert float(singular.log_density(jnp.ones(2))) == pytest.approx(-0.5 - 0.5 * np.log(4 * np.pi), rel=1e-4)


def test_impossible_covariances_are_told():
    with pytest.raises(ModelError, match=r"shape \(2, 2\); a mean of length 3 needs \(3, 3\)"):
        Gaussian(jnp.zeros(3), np.eye(2))
    with pytest.raises(ModelError, match="symmetric and positive semi-definite"):
        Gaussian(jnp.zeros(2), np.array([[1.0, 2.0], [2.0, 1.0]]))
    with pytest.raises(ModelError, match="finite"):
        Gaussian(jnp.zeros(2), np.array([np.nan, 1.0]))


def linear() -> LinearGaussian:
    cov = np.array([[1.0, 0.3], [0.3, 0.5]])
    return LinearGaussian(lambda c, a: jnp.concatenate([c, a]), [1.0, -1.0], cov, cobed.Box(0.0, 1.0), 1, 0.5)


ROWS = cobed.Data([[0.5], [1.0], [-1.0]], [[0.2], [0.9], [0.4]], [0.1, 0.7, -1.3])


@pytest.mark.parametrize("model", [linear(), DiscreteExample()], ids=["linear", "discrete"])
def test_an_exact_posterior_replaces_the_prior_exactly(model):
    data = ROWS
    if not model.action_space.continuous:
        data = cobed.Data(discrete.contexts(3), np.eye(4)[[0, 1, 0]], [3.0, 8.0, 2.0])
    posterior = cobed.infer(model, data, Conjugate(2), seed=0)
    after = model.given(posterior)
    assert type(after) is type(model)
    mean, cov = posterior_moments(model, data)
    # From two draws a covariance could not be estimated.
    np.testing.assert_allclose(after.prior_mean, mean, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(after.prior_cov, cov, rtol=1e-4, atol=1e-6)


def test_rows_in_two_steps_teach_what_they_do_in_one():
    first, second = (
        cobed.Data(ROWS.contexts[rows], ROWS.actions[rows], ROWS.outcomes[rows]) for rows in (slice(2), slice(2, 3))
    )
    between = linear().given(cobed.infer(linear(), first, Conjugate(2), seed=0))
    for one, two in zip(posterior_moments(linear(), ROWS), posterior_moments(between, second), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)


class Bump(AbstractGaussianModel):
    """As a user wrote it for 0.1.0: a sampler of its own, and a best action."""

    action_space: cobed.Box = cobed.Box(-1.0, 1.0)
    context_dim: int | None = 1
    noise_std: float = 0.5

    def sample_prior(self, key):
        return {"centre": jr.uniform(key)}

    def mean_reward(self, params, context, action):
        return -jnp.sum((action - params["centre"] * context) ** 2)

    def best_action(self, params, context):
        return jnp.clip(params["centre"] * context, -1.0, 1.0)


def test_a_model_with_a_sampler_of_its_own_keeps_reward_law_and_best_action():
    model, draws = Bump(), {"centre": jnp.array([0.25, 0.75])}
    after = model.given(Draws(draws)).given(Draws(draws, [0.0, -jnp.inf]))
    found = jax.vmap(after.sample_prior)(jr.split(jr.key(0), 100))["centre"]
    assert (found == 0.25).all()
    psi, context, action = {"centre": 0.5}, jnp.array([0.5]), jnp.array([0.1])
    assert after.mean_reward(psi, context, action) == model.mean_reward(psi, context, action)
    assert has_best_action(after, context[None])
    assert after.gaussian_noise() == 0.5
    assert after.likelihood()(psi, context, action, 0.3) == model.log_likelihood(psi, context, action, 0.3)
    np.testing.assert_array_equal(
        after.sample_outcomes(jr.key(1), psi, context[None], action[None]),
        model.sample_outcomes(jr.key(1), psi, context[None], action[None]),
    )
    # What is known of the prior does not hold for what took its place.
    assert not has_log_prior(after)
    problem = cobed.Problem(model.given(Draws(draws)), [[0.1], [0.5]], [[0.3]])
    assert problem.best(psi)[1] == pytest.approx(0.15)
