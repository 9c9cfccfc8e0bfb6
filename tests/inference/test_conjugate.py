"""The exact posterior against the normal equations, and its two precisions against each other."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from cobed.data import Data
from cobed.errors import ModelError, ProblemError
from cobed.inference.conjugate import Conjugate, design_update, exact_update, posterior_moments
from cobed.models import ContinuousExample, DiscreteExample, LinearGaussian
from cobed.models.discrete import PRIOR_MEAN, PRIOR_STD, contexts
from cobed.spaces import Discrete


def alternating(outcomes=None) -> Data:
    """Actions 1, 2, 1, 2, ... of the discrete example, in a world drawn from the prior."""
    model, actions = DiscreteExample(), jnp.eye(4)[np.arange(10) % 2]
    if outcomes is None:
        outcomes = model.sample_outcomes(jr.key(8), model.sample_prior(jr.key(9)), jnp.asarray(contexts()), actions)
    return Data(contexts(), actions, outcomes)


def by_normal_equations(data: Data) -> tuple[np.ndarray, np.ndarray]:
    """(P^-1 + Phi^T Phi / s^2)^-1, written out for the discrete example in double precision."""
    c, a = np.asarray(data.contexts, float)[:, 0], np.asarray(data.actions, float)
    ends = np.stack([(3 - c) / 6, (3 + c) / 6], axis=1)
    phi = (a[:, :, None] * ends[:, None, :]).reshape(len(c), 8)
    prior = np.diag(1 / PRIOR_STD.ravel().astype(float) ** 2)
    cov = np.linalg.inv(prior + phi.T @ phi / 0.1**2)
    y = np.asarray(data.outcomes, float) - 9 + c**2
    return cov @ (prior @ PRIOR_MEAN.ravel() + phi.T @ y / 0.1**2), cov


def test_moments_are_those_of_the_normal_equations():
    mean, cov = posterior_moments(DiscreteExample(), alternating())
    expected_mean, expected_cov = by_normal_equations(alternating())
    np.testing.assert_allclose(mean, expected_mean, atol=1e-4)
    np.testing.assert_allclose(cov, expected_cov, atol=1e-5)


@pytest.mark.parametrize("noise", [1e-3, 0.1, 10.0])
def test_single_precision_agrees_with_double(noise):
    """Within a hundredth of the smallest posterior standard deviation, up to s = 3000."""
    model, data = DiscreteExample(noise), alternating()
    exact, quick = exact_update(model, data), jax.jit(design_update)(model, data)
    deviations = np.sqrt(np.diagonal(exact.factor @ exact.factor.T))
    residuals = noise * np.random.default_rng(0).normal(size=10) + np.asarray(data.outcomes) - exact.expected
    gap = np.abs(np.asarray(quick.gain) @ residuals - exact.gain @ residuals)
    assert (gap < 0.01 * deviations + 1e-5).all()
    np.testing.assert_allclose(
        np.sqrt(np.diagonal(quick.factor @ quick.factor.T)), deviations, rtol=1e-2 if noise > 1e-2 else 0.1
    )


def test_draws_have_the_exact_moments():
    """Mirrored draws: the mean is exact; a variance is off by sqrt(2 / 10,000) = 1.4%, and 6% is more than 4 times that."""
    model, data = DiscreteExample(), alternating()
    posterior = Conjugate(20_000).posterior(jr.key(0), model, data)
    mean, cov = posterior_moments(model, data)
    flat = np.asarray(posterior.params, float).reshape(-1, 8)
    np.testing.assert_allclose(flat.mean(0), mean, atol=1e-4)
    np.testing.assert_allclose(np.diagonal(np.cov(flat.T)), np.diagonal(cov), rtol=0.06)
    assert posterior.ess == 20_000
    assert posterior.warnings == ()


def test_one_call_serves_many_worlds():
    model, sampler = DiscreteExample(), Conjugate(64)
    outcomes = jr.normal(jr.key(1), (5, 10)) + 9
    data = alternating()
    many = jax.jit(jax.vmap(lambda key, y: sampler.draw(key, model, data.with_outcomes(y))))
    means = np.asarray(many(jr.split(jr.key(2), 5), outcomes).params).mean(1).reshape(5, 8)
    each = np.stack([posterior_moments(model, data.with_outcomes(y))[0] for y in outcomes])
    np.testing.assert_allclose(means, each, atol=2e-3)


def test_correlated_and_singular_priors_are_exact():
    """psi_2 = psi_1 exactly, so one row about psi_1 tells both: mean 1/2, variance 1/2."""
    model = LinearGaussian(lambda c, a: a, np.zeros(2), np.ones((2, 2)), Discrete(2), 1, 1.0)
    mean, cov = posterior_moments(model, Data([[0.0]], [[1, 0]], [1.0]))
    np.testing.assert_allclose(mean, [0.5, 0.5], atol=1e-6)
    np.testing.assert_allclose(cov, np.full((2, 2), 0.5), atol=1e-6)


def test_data_the_prior_did_not_expect_are_reported():
    posterior = Conjugate().posterior(jr.key(0), DiscreteExample(), alternating(np.full(10, 1e5)))
    assert posterior.diagnostics["prior_predictive_p"] < 1e-6
    assert "check the outcomes" in posterior.warnings[0]


def test_a_model_without_an_exact_posterior_is_refused():
    data = Data([[0.0]], [[0.5]], [1.0])
    with pytest.raises(ModelError, match="not Gaussian in psi"):
        Conjugate().posterior(jr.key(0), ContinuousExample(), data)


class Curved(LinearGaussian):
    def mean_reward(self, params, context, action):
        return jnp.exp(params[0])


def test_a_reward_curved_in_psi_is_refused():
    model = Curved(lambda c, a: a, np.zeros(2), np.ones(2), Discrete(2), 1, 1.0)
    with pytest.raises(ModelError, match="not affine in psi"):
        Conjugate().posterior(jr.key(0), model, Data([[0.0]], [[1, 0]], [1.0]))


def test_an_odd_number_of_draws_is_refused():
    with pytest.raises(ProblemError, match="must be even"):
        Conjugate(7)
