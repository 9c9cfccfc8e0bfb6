"""A generalised linear model near a belief: first order in psi, the moments of the belief, the noise of its outcomes."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from cobed.models.gaussian import find_belief
from cobed.models.glm import GeneralisedLinear, LinearFeatures, linear_gaussian
from cobed.models.linearised import Linearised
from cobed.spaces import Discrete

FEATURES = LinearFeatures(Discrete(["a", "b", "c"]), 2)
SIZE = FEATURES.by_kind(0, 0, 0, 0).size


@pytest.mark.parametrize("likelihood", ["bernoulli", "poisson"])
def test_rewards_agree_to_first_order_and_moments_are_those_of_the_draws(likelihood):
    model = GeneralisedLinear(FEATURES, FEATURES.by_kind(-1, 0, 0, 0), np.full(SIZE, 0.3), likelihood)
    draws = jax.vmap(model.sample_prior)(jr.split(jr.key(0), 500))
    contexts = jr.normal(jr.key(1), (20, 2))
    linear = Linearised(model, draws, contexts)
    mean, cov = linear.prior_moments()
    np.testing.assert_allclose(mean, draws.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(cov, np.cov(np.asarray(draws), rowvar=False), atol=1e-5)
    step, action = 1e-2 * jr.normal(jr.key(2), (SIZE,)), jnp.eye(3)[1]
    exact, approximate = (m.mean_reward(mean + step, contexts[0], action) for m in (model, linear))
    assert abs(float(exact - approximate)) < 1e-3
    assert float(linear.mean_reward(mean, contexts[0], action)) == float(model.mean_reward(mean, contexts[0], action))
    # Near exp(-1): the variance of a count is its mean, that of a 0/1 the mean by its complement.
    assert 0.3 < linear.noise_std < 0.8


@pytest.mark.parametrize("scale", [1e-3, 1.0])
def test_the_covariance_of_the_posterior_mean_needs_no_matrix_of_all_units(scale):
    model = linear_gaussian(FEATURES, np.zeros(SIZE), np.full(SIZE, scale), 1.0)
    contexts, actions = jr.normal(jr.key(0), (40, 2)), jnp.eye(3)[jnp.arange(40) % 3]
    belief = find_belief(jr.key(1), model, contexts)
    gains, moves = belief.gains(contexts, actions), belief.moves(contexts, actions)
    np.testing.assert_allclose(moves.T @ moves, gains.T @ gains, rtol=1e-4, atol=1e-5 * scale**2)
