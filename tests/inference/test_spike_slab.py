"""Gibbs sampling of sparse psi against all patterns of zeros enumerated, and by calibration."""

import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.special import log_ndtr, ndtri
from scipy.stats import kstest, qmc, truncnorm

from cobed.data import Data
from cobed.errors import ModelError, ProblemError
from cobed.inference import SpikeAndSlab, choose_sampler, infer
from cobed.inference.calibration import calibrate
from cobed.inference.spike_slab import above_zero, agreement, normal_below
from cobed.models import CausalGraph, DiscreteExample, causal, discrete
from cobed.problem import Problem

INCLUSION = 0.4


def by_enumeration(model: CausalGraph, data: Data) -> tuple[np.ndarray, np.ndarray]:
    """P(w_k > 0 | y) and E[w_k | y], pattern by pattern; the half-normal slabs of each by 2^14 Sobol points."""
    slopes = np.asarray(data.contexts[:, :, None] * data.actions[:, None, :], float).reshape(data.num_rows, -1)
    residual = np.asarray(data.outcomes, float) + np.asarray(data.actions, float).sum(1)
    size = slopes.shape[1]
    weights, means = [], []
    patterns = list(itertools.product((False, True), repeat=size))
    for pattern in patterns:
        chosen = slopes[:, pattern]
        num = chosen.shape[1]
        points = qmc.Sobol(max(num, 1), seed=0).random_base2(14)[:, :num]
        slabs = ndtri(0.5 + 0.5 * points)
        log_likelihood = -0.5 * ((residual - slabs @ chosen.T) ** 2).sum(1) / model.noise_std**2
        likelihood = np.exp(log_likelihood + 40)
        prior = INCLUSION**num * (1 - INCLUSION) ** (size - num)
        weights.append(prior * likelihood.mean())
        mean = np.zeros(size)
        mean[list(pattern)] = likelihood @ slabs / likelihood.sum()
        means.append(mean)
    posterior = np.array(weights) / np.sum(weights)
    return posterior @ np.array(patterns), posterior @ np.array(means)


def small_data(alike: bool = False) -> tuple[CausalGraph, Data]:
    """Four entries of psi, six rows; `alike`: both activities always together, so that the rows cannot tell them apart."""
    model = CausalGraph(2, num_causes=2, inclusion=INCLUSION, noise_std=0.5)
    contexts = np.array([[1, 0], [0, 1], [1, 1], [1, 0], [0, 1], [1, 1]], float)
    actions = np.array([[1, 0], [1, 1], [0, 1], [1, 1], [0, 1], [1, 0]], float)
    if alike:
        actions = np.ones_like(actions)
    # w = (0.6, 0; 0.3, 0) with errors of about the noise.
    noise = np.array([0.3, -0.2, 0.4, -0.5, 0.1, 0.2])
    means = np.einsum("dc,ca,da->d", contexts, [[0.6, 0.0], [0.3, 0.0]], actions) - actions.sum(1)
    return model, Data(contexts, actions, means + noise)


@pytest.mark.parametrize("alike", [False, True])
def test_moments_are_those_of_all_patterns(alike):
    """16,000 draws in 16 chains; were only every tenth independent, frequencies and means (deviations of at most 0.5) would
    have standard errors below .0125. Draws are compared at 4 of those, false alarm below 1 in 1,000 for all 16."""
    model, data = small_data(alike)
    inclusion, mean = by_enumeration(model, data)
    sampler = SpikeAndSlab(16_000, num_chains=16)
    summary = sampler.summary(jr.key(0), model, data)
    np.testing.assert_allclose(summary.inclusion, inclusion, atol=0.02)
    np.testing.assert_allclose(summary.mean, mean, atol=0.02)
    posterior = sampler.posterior(jr.key(1), model, data)
    flat = np.asarray(posterior.params).reshape(-1, 4)
    np.testing.assert_allclose((flat > 0).mean(0), inclusion, atol=0.06)
    np.testing.assert_allclose(flat.mean(0), mean, atol=0.05)
    assert posterior.warnings == ()


@pytest.mark.parametrize("t", [-30.0, -12.0, -7.9, -2.0, 0.0, 6.0])
def test_draws_above_zero_have_the_truncated_normal_law(t):
    """Kolmogorov-Smirnov at 1 in 1,000 for each of six; scipy's law is in double precision."""
    uniforms = jr.uniform(jr.key(0), (2000,), minval=1e-7)
    draws = np.asarray(above_zero(uniforms, jnp.float32(t), normal_below(jnp.float32(t))[0]), float)
    assert (draws > 0).all()
    assert kstest(draws, truncnorm(-t, np.inf, loc=t).cdf).pvalue > 1e-3


def test_the_log_of_the_mills_ratio_is_right_near_and_far():
    t = np.array([-100.0, -20.0, -8.1, -7.9, -3.0, 0.0, 4.0, 30.0])
    found = jax.vmap(normal_below)(jnp.asarray(t, jnp.float32))[1]
    np.testing.assert_allclose(found, log_ndtr(t) + t**2 / 2, rtol=1e-4, atol=2e-4)


@pytest.mark.slow
def test_ranks_are_uniform_over_worlds():
    """Chi-square at 1% with Bonferroni over psi: false alarm 1 in 100. Zeros among zeros are ranked by chance."""
    model = CausalGraph(2, num_causes=2, inclusion=0.5, noise_std=0.5)
    problem = Problem(model, causal.contexts(jr.key(0), 12, 2), causal.targets(2))
    actions = np.asarray(jr.bernoulli(jr.key(1), 0.5, (12, 2)), np.float32)
    sampler = SpikeAndSlab(400, num_chains=4, num_burn=25)
    assert calibrate(problem, actions, sampler, 400, seed=2).p_value > 0.01


@pytest.mark.slow
def test_a_wrong_prior_is_found_by_calibration():
    """The sampler believes in edges three times as often as there are."""

    class Believer(CausalGraph):
        def sparse_prior(self):
            inclusion, scale = super().sparse_prior()
            return 3 * inclusion, scale

    model = Believer(2, num_causes=2, inclusion=0.3, noise_std=0.5)
    problem = Problem(model, causal.contexts(jr.key(0), 12, 2), causal.targets(2))
    actions = np.asarray(jr.bernoulli(jr.key(1), 0.5, (12, 2)), np.float32)
    sampler = SpikeAndSlab(400, num_chains=4, num_burn=25)
    assert calibrate(problem, actions, sampler, 400, seed=2).p_value < 1e-3


def test_chains_that_disagree_are_reported():
    """Four chains stuck at 0, 1, 2, 3: R-hat is far above 1, and the draws are worth the four chains."""
    stuck = jnp.arange(4.0)[:, None, None] + 1e-3 * jr.normal(jr.key(0), (4, 50, 1))
    found = {name: float(value) for name, value in agreement(stuck).items()}
    assert found["r_hat"] > 10
    assert found["ess"] == pytest.approx(4, rel=0.01)
    assert "do not agree" in SpikeAndSlab(200, num_chains=4).judge(found)[0]


def test_it_is_chosen_for_sparse_models_and_refused_for_others():
    model, data = small_data()
    assert infer(model, data, seed=0).method == "spike_slab"
    assert isinstance(choose_sampler(model, data, 100), SpikeAndSlab)
    dense = Data(discrete.contexts(), np.eye(4)[np.zeros(10, int)], np.zeros(10))
    with pytest.raises(ModelError, match="zero or half-normal"):
        SpikeAndSlab().posterior(jr.key(0), DiscreteExample(), dense)


def test_settings_that_make_no_sense_are_refused():
    for settings in ((100, 1), (101, 4), (3, 4)):
        with pytest.raises(ProblemError, match="num_draws a multiple"):
            SpikeAndSlab(*settings)
