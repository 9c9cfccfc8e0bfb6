"""The posterior of a Gaussian process against conditioning it directly, in both precisions."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import cobed
from cobed.data import Data
from cobed.errors import ModelError, ProblemError
from cobed.inference import GaussianProcessPosterior, choose_sampler, infer
from cobed.inference.base import compiled_draw
from cobed.models import RBF, DiscreteExample, GaussianProcess
from cobed.optimum import Grid

LINE = cobed.Box(-1.0, 1.0)
POINTS = np.stack(np.meshgrid(np.linspace(-1, 1, 3), np.linspace(-1, 1, 3)), -1).reshape(-1, 2)


def process(noise: float = 0.2, num_features: int = 512) -> GaussianProcess:
    rng = np.random.default_rng(0)
    known = Data(rng.uniform(-1, 1, (6, 1)), rng.uniform(-1, 1, (6, 1)), rng.normal(size=6))
    return GaussianProcess(RBF(0.6), LINE, 1, noise, mean=0.3, num_features=num_features).condition(known)


def experiment(num_rows: int = 5) -> Data:
    rng = np.random.default_rng(1)
    return Data(rng.uniform(-1, 1, (num_rows, 1)), rng.uniform(-1, 1, (num_rows, 1)), 0.5 + rng.normal(size=num_rows))


@eqx.filter_jit
def all_rewards(model, params):
    """Every draw at the 9 points, (N, 9)."""
    at = jnp.asarray(POINTS, jnp.float32)
    return jax.vmap(lambda psi: jax.vmap(lambda x: model.mean_reward(psi, x[:1], x[1:]))(at))(params)


def rewards(model, params) -> np.ndarray:
    return np.asarray(all_rewards(model, params), np.float64)


def moments(model: GaussianProcess) -> tuple[np.ndarray, np.ndarray]:
    at = jnp.asarray(POINTS, jnp.float32)
    mean, cov = model.moments(at[:, :1], at[:, 1:])
    return np.asarray(mean, np.float64), np.asarray(cov, np.float64)


@pytest.mark.parametrize("how", ["posterior", "draw"])
def test_draws_have_the_moments_of_the_conditioned_process(how):
    """4,000 mirrored draws: means exact, covariances within 5 standard errors (false alarm below 1 in 20,000 for 45 of
    them) and what 512 waves leave open (0.03 of the variance)."""
    model, data, sampler = process(), experiment(), GaussianProcessPosterior(4_000)
    draws = sampler.posterior if how == "posterior" else functools.partial(compiled_draw, sampler)
    found = rewards(model, draws(jr.key(0), model, data).params)
    mean, cov = moments(model.condition(data))
    np.testing.assert_allclose(found.mean(0), mean, atol=1e-5)
    errors = np.sqrt((np.outer(np.diagonal(cov), np.diagonal(cov)) + cov**2) / 2_000)
    assert (np.abs(np.cov(found.T) - cov) < 5 * errors + 0.03).all()


@pytest.mark.parametrize("noise", [1e-2, 0.2, 3.0])
def test_single_precision_agrees_with_double(noise):
    model, data, sampler = process(noise), experiment(), GaussianProcessPosterior(2)
    quick = rewards(model, compiled_draw(sampler, jr.key(0), model, data).params).mean(0)
    exact = rewards(model, sampler.posterior(jr.key(0), model, data).params).mean(0)
    np.testing.assert_allclose(quick, exact, atol=2e-3 if noise < 0.1 else 2e-5)


def test_one_call_serves_many_worlds_with_one_factorisation():
    model, data, sampler = process(), experiment(), GaussianProcessPosterior(8)
    outcomes = jr.normal(jr.key(1), (4, 5))

    def draw(key, y):
        return sampler.draw(key, model, data.with_outcomes(y)).params

    keys = jr.split(jr.key(2), 4)
    text = str(jax.make_jaxpr(jax.vmap(draw))(keys, outcomes))
    assert "f32[5,5] = cholesky" in text
    many = jax.jit(jax.vmap(draw))(keys, outcomes)
    found = jax.vmap(lambda draws: all_rewards(model, draws).mean(0))(many)
    each = np.stack([moments(model.condition(data.with_outcomes(y)))[0] for y in outcomes])
    np.testing.assert_allclose(found, each, atol=2e-5)


def test_infer_takes_it_and_says_why():
    model, data = process(), experiment()
    posterior = infer(model, data, seed=0)
    assert posterior.method == "gaussian process"
    assert "closed form" in posterior.reason
    assert posterior.warnings == ()
    assert posterior.ess == posterior.num_draws
    assert isinstance(choose_sampler(model, data, 7), GaussianProcessPosterior)
    assert choose_sampler(model, data, 7).num_draws == 8


@pytest.mark.slow
def test_decisions_maximise_the_posterior_mean():
    model, data = process(num_features=64), experiment()
    posterior = infer(model, data, method=GaussianProcessPosterior(64), seed=0)
    problem = cobed.Problem(model, data.contexts, [[0.0], [0.5]], optimum=Grid(41, 0))
    policy = cobed.deploy(posterior, problem)
    grid = jnp.linspace(-1, 1, 41)[:, None]
    for row, target in enumerate(problem.targets):
        mean, _ = model.condition(data).moments(jnp.broadcast_to(target, (41, 1)), grid)
        assert policy.expected[row] == pytest.approx(float(mean.max()), abs=1e-4)
        assert policy.actions[row, 0] == pytest.approx(float(grid[np.argmax(mean), 0]), abs=1e-6)


ODD = {
    "repeated points": Data([[0.0]] * 4, [[0.2]] * 4, [0.9, 1.1, 1.0, 1.0]),
    "one row": Data([[0.0]], [[0.2]], [1.0]),
    "equal outcomes": Data(np.linspace(-1, 1, 8)[:, None], np.linspace(1, -1, 8)[:, None], np.ones(8)),
}


@pytest.mark.parametrize("data", ODD.values(), ids=ODD)
@pytest.mark.parametrize("noise", [1e-6, pytest.param(0.2, marks=pytest.mark.slow)])
def test_odd_experiments_have_posteriors_and_decisions(data, noise):
    """With and without noise to speak of. At repeated points the mean of their outcomes, about 1, is believed."""
    model = GaussianProcess(RBF(0.6), LINE, 1, noise, num_features=32)
    problem = cobed.Problem(model, data.contexts, [[0.0], [0.5]], optimum=Grid(11, 0))
    posterior = infer(model, data, method=GaussianProcessPosterior(16), seed=0)
    policy = cobed.deploy(posterior, problem)
    assert np.isfinite(policy.expected).all()
    assert (np.abs(policy.actions) <= 1).all()
    seen = posterior.mean_rewards(model, data.contexts[:1], data.actions[:1])
    assert float(seen.mean()) == pytest.approx(1.0, abs=0.1)


def test_data_the_process_did_not_expect_are_reported():
    data = experiment()
    posterior = GaussianProcessPosterior(2).posterior(jr.key(0), process(), data.with_outcomes(data.outcomes + 100))
    assert posterior.diagnostics["prior_predictive_p"] < 1e-6
    assert "check the outcomes" in posterior.warnings[0]


def test_other_models_and_odd_numbers_are_refused():
    with pytest.raises(ModelError, match=r"is not a cobed\.models\.GaussianProcess"):
        GaussianProcessPosterior().posterior(jr.key(0), DiscreteExample(), Data([[0.0]], [[1, 0, 0, 0]], [1.0]))
    with pytest.raises(ProblemError, match="must be even"):
        GaussianProcessPosterior(7)
