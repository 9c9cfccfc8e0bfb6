"""Tempered SMC against the conjugate posterior, against many weighted draws, and at its limits."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from cobed.data import Data
from cobed.errors import ModelError, ProblemError
from cobed.inference.conjugate import posterior_moments
from cobed.inference.importance import Importance
from cobed.inference.smc import TemperedSMC
from cobed.models import ContinuousExample, DiscreteExample, LinearGaussian, continuous, discrete
from cobed.models.base import AbstractGaussianModel
from cobed.spaces import Box, Discrete


def experiment(model, contexts, actions, seed=0) -> Data:
    contexts, actions = jnp.asarray(contexts), jnp.asarray(actions)
    world_key, noise_key = jr.split(jr.key(seed))
    return Data(contexts, actions, model.sample_outcomes(noise_key, model.sample_prior(world_key), contexts, actions))


def test_moments_on_the_discrete_example_are_the_conjugate_ones():
    """2048 draws: a mean is off by sd / 45 and a deviation by 1.6% if they were independent; 0.15 and 10% allow for ancestry."""
    model = DiscreteExample()
    data = experiment(model, discrete.contexts(), np.eye(4)[np.arange(10) % 2])
    posterior = TemperedSMC().posterior(jr.key(1), model, data)
    mean, cov = posterior_moments(model, data)
    flat, deviations = np.asarray(posterior.params).reshape(-1, 8), np.sqrt(np.diagonal(cov))
    assert posterior.warnings == ()
    assert np.abs((flat.mean(0) - mean) / deviations).max() < 0.15
    np.testing.assert_allclose(flat.std(0), deviations, rtol=0.1)
    np.testing.assert_allclose(np.corrcoef(flat.T), cov / np.outer(deviations, deviations), atol=0.12)


def test_the_evidence_is_that_of_the_normal_law():
    """Outcomes N(0, 2) and N(0, 3.25) before the experiment."""
    model = LinearGaussian(lambda c, a: a, np.zeros(2), np.array([1.0, 2.25]), Discrete(2), 1, 1.0)
    posterior = TemperedSMC().posterior(jr.key(0), model, Data([0.0, 0.0], np.eye(2), [0.5, -1.0]))
    exact = sum(-0.5 * y**2 / v - 0.5 * np.log(2 * np.pi * v) for y, v in [(0.5, 2.0), (-1.0, 3.25)])
    assert posterior.diagnostics["log_evidence"] == pytest.approx(exact, abs=0.1)


@pytest.mark.slow
def test_moments_on_the_continuous_example_are_those_of_many_weighted_draws():
    """Five rows leave a wide posterior between walls: 200,000 prior draws have an effective size in the thousands."""
    model = ContinuousExample()
    data = experiment(model, continuous.contexts(5), 0.5 * jr.normal(jr.key(5), (5, 1)), seed=3)
    reference = Importance(200_000).posterior(jr.key(0), model, data)
    assert reference.ess > 2_000
    weights, draws = np.asarray(reference.weights, float), np.asarray(reference.params, float)
    mean = weights @ draws
    deviations = np.sqrt(weights @ (draws - mean) ** 2)
    found = np.asarray(TemperedSMC(4096).posterior(jr.key(1), model, data).params)
    assert ((found >= 0.1) & (found <= 1.1)).all()
    assert np.abs((found.mean(0) - mean) / deviations).max() < 0.15
    np.testing.assert_allclose(found.std(0), deviations, rtol=0.1)


def test_it_gets_there_where_prior_draws_do_not():
    """40 rows: a few dozen of 20,000 prior draws matter; SMC finds the world within its own uncertainty."""
    model = ContinuousExample()
    data = experiment(model, continuous.contexts(40), 0.5 * jr.normal(jr.key(5), (40, 1)), seed=4)
    truth = np.asarray(model.sample_prior(jr.split(jr.key(4))[0]))
    posterior = TemperedSMC(1024).posterior(jr.key(1), model, data)
    assert Importance(20_000).posterior(jr.key(1), model, data).ess < 400
    assert posterior.warnings == ()
    draws = np.asarray(posterior.params)
    assert (np.abs(draws.mean(0) - truth) < 4.5 * draws.std(0)).all()


def test_one_call_serves_many_worlds():
    model, sampler = ContinuousExample(), TemperedSMC(128)
    data = experiment(model, continuous.contexts(10), np.zeros((10, 1)))
    outcomes = jnp.stack([data.outcomes, data.outcomes + 0.1])
    many = jax.jit(jax.vmap(lambda y: sampler.draw(jr.key(0), model, data.with_outcomes(y))))(outcomes)
    assert many.params.shape == (2, 128, 4)
    np.testing.assert_array_equal(many.diagnostics["temperature"], 1.0)


def test_stopping_short_of_the_posterior_is_reported():
    model = ContinuousExample()
    data = experiment(model, continuous.contexts(40), np.zeros((40, 1)))
    posterior = TemperedSMC(128, max_temperatures=2).posterior(jr.key(0), model, data)
    assert "reached temperature" in posterior.warnings[0]


class Unlikely(AbstractGaussianModel):
    """Only psi above a threshold can explain a positive outcome."""

    threshold: jax.Array
    action_space: Box = Box(0, 1)
    context_dim: int = 1
    noise_std: float = 1.0

    def sample_prior(self, key):
        return jr.normal(key, ())

    def log_prior(self, params):
        return -0.5 * params**2

    def mean_reward(self, params, context, action):
        return params * action[0]

    def log_likelihood(self, params, context, action, outcome):
        return jnp.where(params > self.threshold, 0.0, -jnp.inf)


def test_draws_of_likelihood_zero_are_left_behind():
    """The posterior is the normal law above 1: mean 1.525; standard error sd / sqrt(2048) = 0.01."""
    posterior = TemperedSMC().posterior(jr.key(0), Unlikely(jnp.asarray(1.0)), Data([0.0], [0.5], [1.0]))
    assert np.asarray(posterior.params).min() > 1
    assert np.asarray(posterior.params).mean() == pytest.approx(1.525, abs=0.08)


def test_an_impossible_outcome_is_an_error_that_names_the_row():
    with pytest.raises(ProblemError, match="Row 0, outcome 1, is possible under 0 of them"):
        TemperedSMC().posterior(jr.key(0), Unlikely(jnp.asarray(50.0)), Data([0.0], [0.5], [1.0]))


def test_a_model_without_a_prior_density_is_refused():
    class NoDensity(AbstractGaussianModel):
        action_space: Box = Box(0, 1)
        context_dim: int = 1
        noise_std: float = 1.0

        def sample_prior(self, key):
            return jr.normal(key, ())

        def mean_reward(self, params, context, action):
            return params * action[0]

    with pytest.raises(ModelError, match="has no log_prior"):
        TemperedSMC().posterior(jr.key(0), NoDensity(), Data([0.0], [0.5], [1.0]))


@pytest.mark.parametrize("settings", [{"num_draws": 4}, {"num_moves": 1}, {"max_temperatures": 0}, {"ess_share": 1.0}])
def test_settings_that_cannot_work_are_refused(settings):
    with pytest.raises(ProblemError, match="Tempered SMC needs"):
        TemperedSMC(**settings)
