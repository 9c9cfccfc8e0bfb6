"""Weights of prior draws: right where they suffice, and honest where they do not."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.stats import genpareto

from cobed.data import Data
from cobed.errors import ModelError, ProblemError
from cobed.inference.base import effective_size, systematic
from cobed.inference.conjugate import posterior_moments
from cobed.inference.importance import Importance, generalised_pareto_shape, pareto_k
from cobed.models import DiscreteExample, LinearGaussian, discrete, from_simulator
from cobed.models.base import AbstractGaussianModel
from cobed.spaces import Box, Discrete


def two_coefficients(noise=1.0) -> LinearGaussian:
    return LinearGaussian(lambda context, action: action, np.zeros(2), np.array([1.0, 2.25]), Discrete(2), 1, noise)


TWO_ROWS = Data([0.0, 0.0], np.eye(2), [0.5, -1.0])


@pytest.mark.parametrize("shape", [-0.3, 0.1, 0.5, 0.9, 1.5])
def test_the_shape_of_a_generalised_pareto_sample_is_found(shape):
    """5,000 draws: the standard error is about (1 + k) / sqrt(n) = 0.035 at k = 1.5; four of them, and the small pull to 1/2."""
    sample = np.sort(genpareto.rvs(shape, scale=2.0, size=5_000, random_state=1)).astype(np.float32)
    found = float(generalised_pareto_shape(jnp.asarray(sample)))
    assert abs(found - shape) < 4 * (1 + max(shape, 0)) / 5_000**0.5 + 0.01


def test_the_shape_of_weights_with_a_pareto_tail_is_found():
    """w = u^-k has exactly the tail of shape k; 300 tail weights give a standard error of about 0.1."""
    uniform = np.random.default_rng(0).uniform(size=10_000)
    for k in (0.3, 0.7, 1.2):
        assert abs(float(pareto_k(jnp.asarray(-k * np.log(uniform)))) - k) < 0.4


@pytest.mark.parametrize("log_weights", [np.r_[0.0, np.full(999, -1e4)], np.r_[0.0, np.full(999, -np.inf)]])
def test_one_weight_that_takes_all_has_an_infinite_shape(log_weights):
    assert float(pareto_k(jnp.asarray(log_weights))) == np.inf
    assert float(effective_size(jnp.asarray(log_weights))) == pytest.approx(1.0)


def test_equal_weights_have_no_tail():
    assert float(pareto_k(jnp.zeros(1000))) < 0
    assert float(effective_size(jnp.zeros(1000))) == pytest.approx(1000)


def test_weighted_moments_are_the_exact_ones():
    """Effective size above 5,000: standard error below sd / 70, and 0.06 is four of them."""
    posterior = Importance().posterior(jr.key(0), two_coefficients(), TWO_ROWS)
    mean, cov = posterior_moments(two_coefficients(), TWO_ROWS)
    weights, draws = np.asarray(posterior.weights), np.asarray(posterior.params)
    assert posterior.warnings == ()
    assert posterior.ess > 5_000
    np.testing.assert_allclose(weights @ draws, mean, atol=0.06)
    np.testing.assert_allclose(weights @ (draws - mean) ** 2, np.diagonal(cov), rtol=0.1)


def test_the_evidence_is_that_of_the_normal_law():
    posterior = Importance().posterior(jr.key(0), two_coefficients(), TWO_ROWS)
    exact = sum(-0.5 * y**2 / v - 0.5 * np.log(2 * np.pi * v) for y, v in [(0.5, 2.0), (-1.0, 3.25)])
    assert posterior.diagnostics["log_evidence"] == pytest.approx(exact, abs=0.05)


def test_collapsed_weights_are_reported():
    model = DiscreteExample()
    contexts, actions = jnp.asarray(discrete.contexts()), jnp.eye(4)[np.arange(10) % 2]
    outcomes = model.sample_outcomes(jr.key(1), model.sample_prior(jr.key(2)), contexts, actions)
    posterior = Importance(2_000).posterior(jr.key(0), model, Data(contexts, actions, outcomes))
    assert posterior.ess < 20
    assert "carry weight" in posterior.warnings[0]
    assert "Pareto shape" in posterior.warnings[1]


class Positive(AbstractGaussianModel):
    """Outcomes are never negative."""

    action_space: Box = Box(0, 1)
    context_dim: int = 1
    noise_std: float = 1.0

    def sample_prior(self, key):
        return jr.normal(key, (1,))

    def mean_reward(self, params, context, action):
        return jnp.exp(params[0]) * action[0]

    def log_likelihood(self, params, context, action, outcome):
        return jnp.where(outcome < 0, -jnp.inf, -outcome)


def test_an_impossible_outcome_is_an_error_that_names_the_row():
    with pytest.raises(ProblemError, match=r"Row 1, outcome -2, is possible under 0 of them.*drop it"):
        Importance(200).posterior(jr.key(0), Positive(), Data([0.0, 0.0], [0.5, 0.5], [1.0, -2.0]))


def test_a_simulator_has_no_likelihood_to_weigh_by():
    model = from_simulator(
        lambda key: jr.normal(key), lambda key, psi, c, a: psi * a[0] + jr.normal(key), Box(0, 1), context_dim=1
    )
    with pytest.raises(ModelError, match="has no likelihood"):
        Importance().posterior(jr.key(0), model, Data([0.0], [0.5], [1.0]))


def test_systematic_resampling_keeps_whole_counts():
    counts = np.bincount(systematic(jr.key(0), jnp.log(jnp.array([0.5, 0.25, 0.25, 0.0])), 400), minlength=4)
    np.testing.assert_allclose(counts, [200, 100, 100, 0], atol=1)


def test_weights_are_computed_for_many_worlds_at_once():
    many = jax.jit(
        jax.vmap(lambda y: Importance(500).draw(jr.key(0), two_coefficients(), TWO_ROWS.with_outcomes(y)).diagnostics)
    )
    found = many(jnp.array([[0.0, 0.0], [30.0, 0.0]]))
    assert found["ess"].shape == (2,)
    assert found["ess"][0] > 100 > 10 > found["ess"][1]
