"""NUTS against the conjugate posterior, for programs and for potentials."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.stats import truncnorm

from cobed.data import Data
from cobed.errors import ModelError
from cobed.inference.conjugate import posterior_moments
from cobed.inference.nuts import NUTS, chain_diagnostics
from cobed.models import ContinuousExample, LinearGaussian, continuous, from_numpyro
from cobed.models.base import AbstractGaussianModel
from cobed.spaces import Box, Discrete

OFFERS = Discrete(["none", "some"])
DATA = Data([[1.0], [2.0], [0.5]], [[1, 0], [0, 1], [0, 1]], [0.7, -0.4, 0.2])
BY_HAND = LinearGaussian(lambda c, a: a * c[0], np.zeros(2), np.ones(2), OFFERS, 1, 0.5)


def program(contexts, actions):
    lift = numpyro.sample("lift", dist.Normal(0, 1).expand([2]).to_event(1))
    mean = numpyro.deterministic("reward", actions @ lift * contexts[:, 0])
    numpyro.sample("y", dist.Normal(mean, 0.5).to_event(1))


def assert_conjugate(draws, ess):
    """Means within five standard errors, deviations within 15%."""
    mean, cov = posterior_moments(BY_HAND, DATA)
    deviations = np.sqrt(np.diagonal(cov))
    assert (np.abs(draws.mean(0) - mean) < 5 * deviations / ess**0.5).all()
    np.testing.assert_allclose(draws.std(0), deviations, rtol=0.15)


def test_a_program_gives_the_conjugate_posterior():
    model = from_numpyro(program, OFFERS, context_dim=1)
    posterior = NUTS(500, 300).posterior(jr.key(0), model, DATA)
    assert set(posterior.params) == {"lift"}
    assert posterior.num_draws == 2000
    assert posterior.warnings == ()
    assert posterior.diagnostics["r_hat"] < 1.01
    assert_conjugate(np.asarray(posterior.params["lift"]), posterior.ess)
    # The draws are params of the model itself.
    assert posterior.mean_rewards(model, DATA.contexts, DATA.actions).shape == (2000, 3)


def test_a_prior_density_gives_the_conjugate_posterior():
    posterior = NUTS(500, 300).posterior(jr.key(0), BY_HAND, DATA)
    assert posterior.warnings == ()
    assert_conjugate(np.asarray(posterior.params), posterior.ess)


class Bounded(AbstractGaussianModel):
    """psi uniform between 0 and 1, y = psi + noise."""

    action_space: Box = Box(0, 1)
    context_dim: int = 1
    noise_std: float = 0.3

    def sample_prior(self, key):
        return jr.uniform(key, ())

    def log_prior(self, params):
        return jnp.where((params >= 0) & (params <= 1), 0.0, -jnp.inf)

    def prior_bounds(self):
        return jnp.zeros(()), jnp.ones(())

    def mean_reward(self, params, context, action):
        return params


def test_psi_pressed_against_its_bound_has_the_truncated_normal_law():
    """One outcome of 1.1: Normal(1.1, 0.3) between 0 and 1."""
    posterior = NUTS(1000, 500).posterior(jr.key(0), Bounded(), Data([0.0], [0.5], [1.1]))
    exact = truncnorm(-1.1 / 0.3, -0.1 / 0.3, loc=1.1, scale=0.3)
    draws = np.asarray(posterior.params)
    assert ((draws > 0) & (draws < 1)).all()
    assert posterior.warnings == ()
    assert abs(draws.mean() - exact.mean()) < 5 * exact.std() / posterior.ess**0.5
    assert draws.std() == pytest.approx(exact.std(), rel=0.15)


@pytest.mark.slow
def test_chains_lost_in_several_modes_are_reported():
    """Little noise and ten rows: narrow modes between which no trajectory passes."""
    model = ContinuousExample()
    contexts, actions = jnp.asarray(continuous.contexts(10)), 0.3 * jr.normal(jr.key(5), (10, 1))
    outcomes = model.sample_outcomes(jr.key(6), model.sample_prior(jr.key(7)), contexts, actions)
    posterior = NUTS(300, 300).posterior(jr.key(0), model, Data(contexts, actions, outcomes))
    assert posterior.warnings[0].startswith("The chains disagree")


def test_chains_that_disagree_or_stand_still_are_reported():
    apart = jr.normal(jr.key(0), (4, 100, 1)) + jnp.arange(4.0)[:, None, None]
    assert NUTS().judge({**chain_diagnostics(apart), "divergences": 0.0})[0].startswith("The chains disagree")
    still = {**chain_diagnostics(jnp.ones((4, 100, 1))), "divergences": 0.0}
    assert NUTS().judge(still)
    assert "diverged" in NUTS().judge({"r_hat": 1.0, "ess": 1e4, "divergences": 400.0})[0]


def test_discrete_latents_are_refused():
    def switch(contexts, actions):
        on = numpyro.sample("on", dist.Bernoulli(0.5))
        numpyro.sample("y", dist.Normal(on * actions[:, 0], 1.0).to_event(1))

    model = from_numpyro(switch, Box(0, 1), context_dim=1)
    with pytest.raises(ModelError, match=r"'on'.* is int32, and NUTS follows gradients"):
        NUTS().posterior(jr.key(0), model, Data([0.0], [0.5], [1.0]))
