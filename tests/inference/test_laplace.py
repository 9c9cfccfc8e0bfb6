"""Draws around the mode: exact where the posterior is Gaussian, right where it nearly is, honest where it is not."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import cobed
from cobed.beliefs import Gaussian
from cobed.data import Data
from cobed.errors import ModelError, ProblemError
from cobed.inference import Laplace, TemperedSMC, choose_sampler
from cobed.inference.calibration import calibrate
from cobed.inference.conjugate import posterior_moments
from cobed.inference.mode import AnyPosterior, posterior_in_z
from cobed.models import ContinuousExample, DiscreteExample, GeneralisedLinear, LinearFeatures, LinearGaussian
from cobed.models.base import AbstractLikelihoodModel
from cobed.spaces import Discrete

FEATURES = LinearFeatures(Discrete(2), 1)
ACTIONS = np.eye(2)[np.arange(12) % 2]
CONTEXTS = np.linspace(-1, 1, 12)[:, None]


def glm(likelihood, std=1.0):
    return GeneralisedLinear(FEATURES, np.zeros(6), np.full(6, std), likelihood)


def rows(outcomes):
    return Data(CONTEXTS, ACTIONS, outcomes)


def test_a_gaussian_posterior_has_its_exact_moments():
    """8,192 draws: the standard error of a mean is sd / 80 with weights; four of them, false alarm below 1 in 5,000."""
    model = LinearGaussian(lambda c, a: a, np.zeros(2), np.array([1.0, 2.25]), Discrete(2), 1, 0.5)
    data = Data(np.zeros((2, 1)), np.eye(2), [0.5, -1.0])
    posterior = Laplace().posterior(jr.key(0), model, data)
    mean, cov = posterior_moments(model, data)
    weights, draws = np.asarray(posterior.weights), np.asarray(posterior.params)
    assert posterior.warnings == ()
    deviations = np.sqrt(np.diagonal(cov))
    np.testing.assert_array_less(np.abs(weights @ draws - mean), 4 * deviations / 80)
    np.testing.assert_allclose(weights @ (draws - mean) ** 2, deviations**2, rtol=0.1)


@pytest.mark.parametrize(
    ("likelihood", "outcomes"), [("bernoulli", np.arange(12) % 3 == 0), ("poisson", np.arange(12) % 4)]
)
def test_a_skewed_posterior_has_the_moments_that_a_slower_sampler_finds(likelihood, outcomes):
    """SMC of 4,096 draws: standard errors of about sd / 40 together; 0.12 sd is more than four of them."""
    data = rows(outcomes.astype(float))
    fast = Laplace().posterior(jr.key(0), glm(likelihood), data)
    slow = TemperedSMC(4096).posterior(jr.key(1), glm(likelihood), data)
    assert fast.warnings == ()
    means = [np.asarray(p.weights) @ np.asarray(p.params) for p in (fast, slow)]
    np.testing.assert_array_less(np.abs(means[0] - means[1]), 0.12 * np.asarray(slow.params).std(axis=0))


def test_a_number_that_is_known_exactly_costs_no_draws():
    """As the scale of a law is in designs and plans: psi has an entry of variance 0, and the draws are worth as much as without."""
    model, data = glm("bernoulli"), rows((np.arange(12) % 3 == 0).astype(float))
    std = np.ones(6, np.float32)
    std[1] = 0.0
    fixed = model.given(Gaussian(np.zeros(6, np.float32), std**2, np.diag(std)))
    posterior = Laplace().posterior(jr.key(0), fixed, data)
    assert posterior.warnings == ()
    assert posterior.ess > 0.7 * Laplace().posterior(jr.key(0), model, data).ess
    np.testing.assert_array_equal(posterior.params[:, 1], 0.0)


@pytest.mark.parametrize("num_rows", [4, 12])
def test_linear_predictors_have_the_density_and_the_curvature_that_any_posterior_has(num_rows):
    """By products of rows where these are fewer than the six numbers of psi, and by those of numbers elsewhere."""
    model = glm("bernoulli", np.linspace(0.5, 2, 6))
    data = Data(CONTEXTS[:num_rows], ACTIONS[:num_rows], np.arange(num_rows) % 3 == 0)
    quick = posterior_in_z(model, data)
    slow = AnyPosterior(model, data, jnp.zeros(6), jnp.linspace(0.5, 2, 6))
    z = jr.normal(jr.key(0), (5, 6))
    same = quick.psi(z) / jnp.linspace(0.5, 2, 6)
    apart = quick.value(z) - slow.value(same)
    np.testing.assert_allclose(apart, apart[0], atol=1e-4)
    covs = [
        np.asarray(posterior.psi(posterior.curvature(jnp.zeros(6)).solve(posterior.psi(jnp.eye(6)).T)))
        for posterior in (quick, slow)
    ]
    # The slow one adds a thousandth to the curvature, against rounding.
    np.testing.assert_allclose(*covs, rtol=0.02, atol=5e-3)
    draws, squared = quick.curvature(jnp.zeros(6)).draws(jr.key(1), 40_000)
    # 40,000 draws: an entry of the covariance is known to .02 of the largest variance by four errors; 21 entries, false alarm
    # below 1 in 700.
    np.testing.assert_allclose(np.cov(np.asarray(quick.psi(draws)).T), covs[0], atol=0.03 * covs[0].max())
    assert np.mean(squared) == pytest.approx(6, abs=4 * np.sqrt(12 / 40_000))


def test_it_is_what_generalised_linear_models_are_inferred_by():
    posterior = cobed.infer(glm("bernoulli"), rows(np.arange(12) % 2), seed=0)
    assert posterior.method == "laplace"
    assert "Gaussian" in posterior.reason
    assert isinstance(choose_sampler(glm("poisson"), rows(np.zeros(12)), 64), Laplace)


class Ring(AbstractLikelihoodModel):
    """y = |psi|^2 + noise: the posterior is a sphere, with no Gaussian near it."""

    action_space: Discrete = Discrete(2)
    context_dim: int | None = None

    def sample_prior(self, key):
        return jr.normal(key, (4,))

    def prior_moments(self):
        return jnp.zeros(4), jnp.eye(4)

    def log_prior(self, params):
        return -0.5 * jnp.sum(params**2)

    def mean_reward(self, params, context, action):
        return jnp.sum(params**2) * action[0]

    def sample_outcome(self, key, params, context, action):
        return self.mean_reward(params, context, action) + 0.05 * jr.normal(key)

    def log_likelihood(self, params, context, action, outcome):
        return -0.5 * ((outcome - self.mean_reward(params, context, action)) / 0.05) ** 2


def test_a_posterior_far_from_gaussian_is_reported():
    posterior = Laplace().posterior(jr.key(0), Ring(), Data(np.zeros((3, 1)), np.eye(2)[[0, 0, 0]], [4.0, 4.1, 3.9]))
    assert posterior.warnings
    assert "smc" in posterior.warnings[0]


def test_models_without_a_gaussian_prior_are_refused_in_words():
    with pytest.raises(ModelError, match="prior of ContinuousExample is not known to be Gaussian"):
        Laplace().posterior(jr.key(0), ContinuousExample(), Data([0.0], [0.0], [0.5]))
    with pytest.raises(ProblemError, match="at least 100 draws"):
        Laplace(10)
    assert Laplace().unfit(DiscreteExample(), Data([0.0], np.eye(4)[:1], [0.5])) is None


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["bernoulli", "poisson"])
def test_ranks_are_uniform(likelihood):
    """Chi-square at 1% with Bonferroni over psi: false alarm 1 in 100."""
    problem = cobed.Problem(glm(likelihood), CONTEXTS, CONTEXTS[:2])
    assert calibrate(problem, ACTIONS, Laplace(1024), 1_000, seed=0).p_value > 0.01
