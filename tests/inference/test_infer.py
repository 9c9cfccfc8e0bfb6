"""Which method `infer` picks, what it says about it, and what it says about doubtful data."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from cobed.data import Data
from cobed.errors import ModelError, ProblemError
from cobed.inference import Conjugate, Importance, Posterior, TemperedSMC, choose_sampler, infer
from cobed.models import ContinuousExample, DiscreteExample, continuous, discrete, from_numpyro, from_simulator
from cobed.spaces import Box


def experiment(model, contexts, actions, seed=0) -> Data:
    contexts, actions = jnp.asarray(contexts), jnp.asarray(actions)
    world = model.sample_prior(jr.key(seed))
    return Data(contexts, actions, model.sample_outcomes(jr.key(seed + 1), world, contexts, actions))


def slope(contexts, actions):
    psi = numpyro.sample("psi", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(psi * actions[:, 0], 0.01).to_event(1))


def wide(contexts, actions):
    psi = numpyro.sample("psi", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(psi * actions[:, 0], 1.0).to_event(1))


def test_the_exact_posterior_is_taken_where_there_is_one():
    data = experiment(DiscreteExample(), discrete.contexts(), np.eye(4)[np.arange(10) % 2])
    posterior = infer(DiscreteExample(), data, seed=0)
    assert posterior.method == "conjugate"
    assert "closed form" in posterior.reason
    assert posterior.warnings == ()


def test_prior_draws_are_taken_where_they_suffice():
    data = experiment(ContinuousExample(), continuous.contexts(2), np.zeros((2, 1)))
    posterior = infer(ContinuousExample(), data, seed=0)
    assert posterior.method == "importance"
    assert "conjugate does not apply" in posterior.reason


def test_it_goes_on_to_smc_where_prior_draws_collapse():
    data = experiment(ContinuousExample(), continuous.contexts(40), 0.5 * jr.normal(jr.key(5), (40, 1)))
    posterior = infer(ContinuousExample(), data, seed=0)
    assert posterior.method == "smc"
    assert "importance was not good enough: Only" in posterior.reason
    assert posterior.warnings == ()


def shares(contexts, actions):
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(3)))
    numpyro.sample("y", dist.Normal(weights[0] * actions[:, 0], 0.001).to_event(1))


@pytest.mark.slow
def test_a_program_goes_on_to_smc_where_prior_draws_collapse():
    model = from_numpyro(slope, Box(0, 1))
    posterior = infer(model, Data(np.zeros(20), np.ones(20), np.full(20, 3.3) + 0.01 * np.arange(20)), seed=0)
    assert posterior.method == "smc"
    # y_i ~ N(psi, .01^2), psi ~ N(0, 1): the mean of 20 outcomes, and .01 / sqrt(20).
    draws = np.asarray(posterior.params["psi"])
    assert draws.mean() == pytest.approx(3.395, abs=5e-4)
    assert draws.std() == pytest.approx(0.01 / 20**0.5, rel=0.15)


@pytest.mark.slow
def test_a_program_with_a_simplex_goes_on_to_nuts():
    model = from_numpyro(shares, Box(0, 1))
    posterior = infer(model, Data(np.zeros(4), np.ones(4), np.full(4, 0.4)), seed=0)
    assert posterior.method == "nuts"
    assert "smc does not apply: the sites ['weights'] obey an equation" in posterior.reason


def test_a_program_learns_the_number_of_context_columns_from_the_data():
    posterior = infer(from_numpyro(wide, Box(0, 1)), Data(np.zeros((2, 3)), [0.5, 1.0], [0.1, 0.2]), seed=0)
    assert posterior.method == "importance"


@pytest.mark.parametrize("method", ["smc", TemperedSMC(256)])
def test_a_method_can_be_asked_for(method):
    # As many rows as above, where `infer` took the first of them itself: compiled once.
    data = experiment(ContinuousExample(), continuous.contexts(40), np.zeros((40, 1)))
    posterior = infer(ContinuousExample(), data, method, seed=0)
    assert (posterior.method, posterior.reason) == ("smc", "smc was asked for.")


def test_an_unknown_method_is_refused():
    data = experiment(ContinuousExample(), continuous.contexts(3), np.zeros((3, 1)))
    with pytest.raises(ProblemError, match=r"There is no sampler 'mcmc'. Allowed: conjugate, gaussian process"):
        infer(ContinuousExample(), data, "mcmc", seed=0)  # pyright: ignore[reportArgumentType]


def test_a_simulator_is_told_what_is_missing():
    model = from_simulator(
        lambda key: jr.normal(key), lambda key, psi, c, a: psi * a[0] + jr.normal(key), Box(0, 1), context_dim=1
    )
    with pytest.raises(ModelError, match=r"No inference fits this model.*has no likelihood"):
        infer(model, Data([0.0], [0.5], [1.0]), seed=0)


def test_an_outcome_no_world_explains_is_reported():
    """One row of 40 is off by 5, fifty times the noise."""
    data = experiment(ContinuousExample(), continuous.contexts(40), np.zeros((40, 1)))
    posterior = infer(ContinuousExample(), data.with_outcomes(data.outcomes.at[7].add(5.0)), seed=0)
    assert any("Row 7" in warning and "standard deviations" in warning for warning in posterior.warnings)


def test_equal_outcomes_are_reported():
    data = Data(continuous.contexts(4), np.zeros((4, 1)), np.full(4, 0.3))
    posterior = infer(ContinuousExample(), data, "smc", seed=0)
    assert any("All 4 outcomes are equal (0.3)" in warning for warning in posterior.warnings)


def test_the_sampler_for_many_worlds_is_exact_then_smc_then_weights():
    data = Data(discrete.contexts(), np.eye(4)[np.zeros(10, int)], np.zeros(10))
    assert isinstance(choose_sampler(DiscreteExample(), data, 100), Conjugate)
    data = Data([0.0], [0.5], [0.0])
    assert isinstance(choose_sampler(ContinuousExample(), data), TemperedSMC)
    assert isinstance(choose_sampler(from_numpyro(wide, Box(0, 1), context_dim=1), data), TemperedSMC)
    assert isinstance(choose_sampler(from_numpyro(shares, Box(0, 1), context_dim=1), data), Importance)


def test_a_posterior_without_weight_cannot_be_built():
    with pytest.raises(ProblemError, match="No draw of this posterior has a positive"):
        Posterior(jnp.zeros((3, 2)), jnp.full(3, -jnp.inf), "by hand")
    with pytest.raises(ProblemError, match="one weight a draw"):
        Posterior(jnp.zeros((3, 2)), jnp.zeros(4), "by hand")


def test_resampled_draws_follow_the_weights():
    posterior = Posterior(jnp.array([1.0, 2.0, 3.0]), jnp.log(jnp.array([0.0, 0.25, 0.75])), "by hand")
    again = posterior.resample(jr.key(0), 4000)
    assert np.mean(np.asarray(again.params) == 3.0) == pytest.approx(0.75, abs=0.03)
    assert not (np.asarray(again.params) == 1.0).any()
    assert posterior.ess == pytest.approx(1.6)
