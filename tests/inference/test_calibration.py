"""Ranks are uniform for right posteriors and not for wrong ones."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from cobed.errors import ProblemError
from cobed.inference import NUTS, Conjugate, Importance, TemperedSMC
from cobed.inference.base import Draws
from cobed.inference.calibration import calibrate
from cobed.models import ContinuousExample, LinearGaussian, continuous
from cobed.problem import Problem
from cobed.spaces import Discrete

ROWS = np.eye(2)[[0, 1, 1]]


@pytest.fixture(scope="module")
def linear():
    model = LinearGaussian(lambda c, a: a, np.zeros(2), np.array([1.0, 2.25]), Discrete(2), 1, 0.5)
    return Problem(model, np.zeros(3), np.zeros(1))


@pytest.fixture(scope="module")
def exact(linear):
    return calibrate(linear, ROWS, Conjugate(1000), 400, seed=0)


def test_exact_draws_are_calibrated_on_a_conjugate_model(exact):
    assert exact.p_value > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("sampler", [Importance(2000), TemperedSMC(256, num_moves=4)])
def test_every_sampler_is_calibrated_on_a_conjugate_model(linear, sampler):
    assert calibrate(linear, ROWS, sampler, 400, seed=0).p_value > 0.01


@pytest.mark.slow
def test_smc_is_calibrated_on_the_continuous_example():
    problem = Problem(ContinuousExample(), continuous.contexts(10), continuous.targets(3))
    actions = 0.5 * jr.normal(jr.key(3), (10, 1))
    assert calibrate(problem, actions, TemperedSMC(512), 200, seed=0).p_value > 0.01


@pytest.mark.slow
def test_every_sampler_is_calibrated_on_the_continuous_example():
    """Chi-square at 1% with Bonferroni over psi: false alarm 1 in 100 a sampler. Few units, so that prior draws suffice."""
    problem = Problem(ContinuousExample(), continuous.contexts(5), continuous.targets(3))
    actions = np.array([[-2.0], [-0.5], [0.3], [0.8], [-1.0]])
    for sampler in (Importance(20_000), TemperedSMC(512)):
        assert calibrate(problem, actions, sampler, 1_000, seed=0).p_value > 0.01
    assert calibrate(problem, actions, NUTS(500, 500, 4), 200, seed=0).p_value > 0.01


@pytest.mark.slow
def test_nuts_is_calibrated_on_a_conjugate_model(linear):
    assert calibrate(linear, ROWS, NUTS(250, 250, 4), 100, seed=0).p_value > 0.01


def test_errors_are_as_large_as_the_posterior_says(exact):
    """(psi - mean) / sd is standard normal: its variance over 800 values is 1 +- 0.05."""
    assert np.var(exact.errors / exact.deviations) == pytest.approx(1.0, abs=0.2)


class TooSure(Conjugate):
    def draw(self, key, model, data):
        draws = super().draw(key, model, data)
        mean = jnp.mean(draws.params, axis=0)
        return Draws(mean + 0.5 * (draws.params - mean), draws.log_weights, draws.diagnostics)


def test_a_posterior_that_is_too_sure_is_found_out(linear):
    assert isinstance(TooSure(1000), eqx.Module)
    assert calibrate(linear, ROWS, TooSure(1000), 400, seed=0).p_value < 1e-4


def test_ranks_must_fill_the_bins(linear):
    with pytest.raises(ProblemError, match="must fill num_bins = 20 bins evenly"):
        calibrate(linear, ROWS, Conjugate(), num_draws=50, seed=0)
