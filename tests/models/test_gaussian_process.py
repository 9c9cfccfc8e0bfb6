"""Draws, moments and posterior means of a Gaussian process against the textbook formulas in double precision."""

import types

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from cobed.data import Data
from cobed.errors import ModelError
from cobed.models import RBF, GaussianProcess, Matern
from cobed.models.average import AverageReward
from cobed.models.base import over_draws
from cobed.models.contract import check_model
from cobed.optimum import Grid
from cobed.pool import draw_pool
from cobed.problem import Problem
from cobed.spaces import Box, Discrete, Product

LENGTH, VARIANCE, NOISE, MEAN = 0.6, 1.7, 0.2, 0.4
LINE = Box(-1.0, 1.0)


def exact_kernel(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return VARIANCE * np.exp(-0.5 * ((x[:, None] - y[None]) ** 2).sum(-1) / LENGTH**2)


def rows(num_rows: int, seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    contexts, actions = rng.uniform(-1, 1, (num_rows, 1)), rng.uniform(-1, 1, (num_rows, 1))
    return Data(contexts, actions, np.sin(3 * contexts[:, 0]) + actions[:, 0] ** 2)


def process(num_rows: int = 6, **settings) -> GaussianProcess:
    model = GaussianProcess(RBF(LENGTH, VARIANCE), LINE, 1, NOISE, mean=MEAN, **settings)
    return model.condition(rows(num_rows)) if num_rows else model


def points_of(data: Data) -> np.ndarray:
    return np.concatenate([data.contexts, data.actions], axis=1).astype(np.float64)


def exact_moments(seen: list[Data], at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of f at the points `at`, given the rows, by the normal equations."""
    x = np.concatenate([points_of(data) for data in seen])
    y = np.concatenate([np.asarray(data.outcomes, np.float64) for data in seen])
    gain = np.linalg.solve(exact_kernel(x, x) + NOISE**2 * np.eye(len(x)), exact_kernel(x, at)).T
    return MEAN + gain @ (y - MEAN), exact_kernel(at, at) - gain @ exact_kernel(x, at)


def rewards(model: GaussianProcess, params, at: np.ndarray):
    """The function `params` at points (context, action)."""
    at = jnp.asarray(at, jnp.float32)
    return jax.vmap(lambda x: model.mean_reward(params, x[:1], x[1:]))(at)


GRID = np.stack(np.meshgrid(np.linspace(-1, 1, 3), np.linspace(-1, 1, 3)), -1).reshape(-1, 2)


@pytest.mark.parametrize("num_rows", [1, 6])
def test_moments_are_those_of_the_normal_equations(num_rows):
    mean, cov = eqx.filter_jit(process(num_rows).moments)(jnp.asarray(GRID[:, :1]), jnp.asarray(GRID[:, 1:]))
    expected_mean, expected_cov = exact_moments([rows(num_rows)], GRID)
    np.testing.assert_allclose(mean, expected_mean, atol=1e-5)
    np.testing.assert_allclose(cov, expected_cov, atol=1e-5)


@pytest.mark.parametrize("num_rows", [0, 6])
def test_draws_have_the_moments_of_the_process(num_rows):
    """8,000 draws at 9 points. Means within 5 standard errors, false alarm below 1 in 100,000; covariances within 5
    standard errors and what 1,024 waves leave open (0.03 of the variance, measured 0.01)."""
    model = process(num_rows)
    draws = jax.jit(jax.vmap(lambda key: rewards(model, model.sample_prior(key), GRID)))(jr.split(jr.key(0), 8_000))
    draws = np.asarray(draws, np.float64)
    mean, cov = (np.full(9, MEAN), exact_kernel(GRID, GRID)) if not num_rows else exact_moments([rows(6)], GRID)
    sizes = np.diagonal(cov)
    assert (np.abs(draws.mean(0) - mean) < 5 * np.sqrt(1.05 * sizes / 8_000)).all()
    errors = np.sqrt((np.outer(sizes, sizes) + cov**2) / 8_000)
    assert (np.abs(np.cov(draws.T) - cov) < 5 * errors + 0.03 * VARIANCE).all()


def test_waves_reproduce_the_kernel():
    model = process(0, num_features=4096)
    phi = jax.vmap(model.features)(jnp.asarray(GRID, jnp.float32))
    np.testing.assert_allclose(phi @ phi.T, exact_kernel(GRID, GRID), atol=0.01 * VARIANCE)


@pytest.mark.parametrize("num_rows", [0, 1, 6])
def test_posterior_mean_is_the_direct_formula(num_rows):
    """y = E[y] + L s before the experiment; the function returned is E[f | observations, y]."""
    model, design = process(num_rows), rows(5, seed=3)
    surprise = np.random.default_rng(1).normal(size=5)
    x, seen = points_of(design), [rows(num_rows)] if num_rows else []
    before, cov = exact_moments(seen, x) if seen else (np.full(5, MEAN), exact_kernel(x, x))
    outcomes = before + np.linalg.cholesky(cov + NOISE**2 * np.eye(5)) @ surprise
    expected, _ = exact_moments([*seen, Data(design.contexts, design.actions, outcomes)], GRID)
    params = eqx.filter_jit(model.posterior_mean)(design.contexts, design.actions, jnp.asarray(surprise, jnp.float32))
    np.testing.assert_allclose(rewards(model, params, GRID), expected, atol=2e-5)


def test_posterior_mean_factorises_once_for_many_surprises():
    """Under vmap over the surprises the design's matrices stay unbatched: the only factorisation is of shape (5, 5)."""
    model, design = process(), rows(5, seed=3)
    many = jax.vmap(lambda s: model.posterior_mean(design.contexts, design.actions, s).extra_coefficients)
    text = str(jax.make_jaxpr(many)(jnp.zeros((7, 5))))
    assert "f32[5,5] = cholesky" in text
    assert "f32[7,5,5]" not in text


def test_posterior_mean_is_differentiable_in_the_actions():
    """Against central differences of the double-precision formula."""
    model, design = process(), rows(5, seed=3)
    surprise = np.random.default_rng(1).normal(size=5)

    def value(actions):
        params = model.posterior_mean(design.contexts, actions, jnp.asarray(surprise, jnp.float32))
        return jnp.sum(rewards(model, params, GRID) ** 2)

    def exact(actions):
        x = np.concatenate([np.asarray(design.contexts, np.float64), actions], axis=1)
        before, cov = exact_moments([rows(6)], x)
        outcomes = before + np.linalg.cholesky(cov + NOISE**2 * np.eye(5)) @ surprise
        seen = np.concatenate([points_of(rows(6)), x])
        y = np.concatenate([np.asarray(rows(6).outcomes, np.float64), outcomes])
        weights = np.linalg.solve(exact_kernel(seen, seen) + NOISE**2 * np.eye(11), y - MEAN)
        return np.sum((MEAN + exact_kernel(GRID, seen) @ weights) ** 2)

    slopes = np.asarray(jax.jit(jax.grad(value))(design.actions))[:, 0]
    actions, step = np.asarray(design.actions, np.float64), 1e-5
    for i in range(5):
        move = step * np.eye(5)[:, i : i + 1]
        expected = (exact(actions + move) - exact(actions - move)) / (2 * step)
        assert slopes[i] == pytest.approx(expected, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("kernel", [RBF(0.5), Matern(0.5), Matern(1.5, 0.5), Matern(2.5, [0.3, 2.0], 3.0)])
def test_kernels_have_finite_gradients_where_points_meet(kernel):
    x = jnp.array([0.3, -0.2])
    slope = jax.grad(lambda y: kernel(x, y))(x)
    np.testing.assert_array_equal(slope, 0.0)
    assert kernel(x, x) == pytest.approx(float(kernel.variance))


@pytest.mark.parametrize(
    ("nu", "expected"), [(0.5, np.exp(-2)), (1.5, (1 + 2 * 3**0.5) * np.exp(-2 * 3**0.5)),
                         (2.5, (1 + 2 * 5**0.5 + 20 / 3) * np.exp(-2 * 5**0.5))],
)  # fmt: skip
def test_matern_has_its_closed_form_and_its_waves_reproduce_it(nu, expected):
    """At distance 2, with lengthscales (0.5, 2) and a point one of the first away."""
    kernel = Matern(nu, [0.5, 2.0])
    assert float(kernel(jnp.zeros(2), jnp.array([1.0, 0.0]))) == pytest.approx(expected, rel=1e-5)
    waves = kernel.frequencies(0, 4096, 2)
    assert float(jnp.mean(jnp.cos(waves @ jnp.array([1.0, 0.0])))) == pytest.approx(expected, abs=0.01)


def test_conditioning_twice_is_conditioning_once():
    first, second = rows(6), rows(4, seed=5)
    both = Data(
        *(jnp.concatenate([getattr(first, n), getattr(second, n)]) for n in ("contexts", "actions", "outcomes"))
    )
    twice, once = process(0).condition(first).condition(second), process(0).condition(both)
    np.testing.assert_allclose(twice.mean_coefficients, once.mean_coefficients, rtol=1e-5)
    np.testing.assert_allclose(twice.whitener, once.whitener, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(twice.frequencies, once.frequencies)


def test_the_best_reward_of_a_draw_is_that_of_brute_force():
    model, context = process(), jnp.array([0.3])
    params = model.sample_prior(jr.key(4))
    fine = jax.jit(jax.vmap(lambda a: model.mean_reward(params, context, a)))(jnp.linspace(-1, 1, 2001)[:, None])
    value, action = jax.jit(lambda params: Grid()(model, params, context))(params)
    assert float(value) == pytest.approx(float(fine.max()), abs=1e-4)
    assert float(model.mean_reward(params, context, action)) == pytest.approx(float(value), abs=1e-5)


@pytest.mark.parametrize("space", [Discrete(3), Product([Discrete(2), Box(0.0, 1.0)]), Box([0.0, 0.0], 1.0)])
def test_every_space_keeps_the_contract_of_a_model(space):
    model = GaussianProcess(Matern(2.5, 0.8), space, 2, 0.1, num_features=64)
    data = Data(np.zeros((2, 2)), jax.vmap(space.sample)(jr.split(jr.key(0), 2)), [0.0, 1.0])
    contexts = np.random.default_rng(0).normal(size=(8, 2))
    check_model(model.condition(data), contexts)


@pytest.mark.slow
def test_fit_finds_the_lengthscales_and_the_noise():
    """120 rows of a function that varies over 0.4 in the context and over 3 in the action."""
    truth = GaussianProcess(RBF([0.4, 3.0], 2.0), LINE, 1, 0.1, num_features=1024)
    rng = np.random.default_rng(0)
    contexts, actions = (jnp.asarray(rng.uniform(-1, 1, (120, 1)), jnp.float32) for _ in range(2))
    outcomes = truth.sample_outcomes(jr.key(1), truth.sample_prior(jr.key(2)), contexts, actions)
    start = GaussianProcess(RBF([1.0, 1.0]), LINE, 1, 0.5).condition(Data(contexts, actions, outcomes))
    fitted = start.fit(num_starts=2)
    assert np.asarray(fitted.kernel.lengthscale)[0] == pytest.approx(0.4, rel=0.3)
    assert np.asarray(fitted.kernel.lengthscale)[1] > 1.0
    assert fitted.noise_std == pytest.approx(0.1, rel=0.2)  # 120 rows: 3 standard errors, and the seed is fixed
    np.testing.assert_allclose(fitted.observation_noise, fitted.noise_std, rtol=1e-6)
    assert start.fit(noise=False, num_starts=1).noise_std == 0.5


def test_repeated_points_without_noise_are_met_halfway():
    """Two exact but different outcomes at one point: the mean between them, and finite draws."""
    known = Data([[0.0], [0.0], [0.5]], [[0.0], [0.0], [0.5]], [1.0, 2.0, 0.0])
    model = GaussianProcess(RBF(LENGTH), LINE, 1, NOISE).condition(known, 0.0)
    mean, cov = model.moments(jnp.zeros((1, 1)), jnp.zeros((1, 1)))
    assert float(mean[0]) == pytest.approx(1.5, abs=0.01)
    assert abs(float(cov[0, 0])) < 1e-3
    assert np.isfinite(model.sample_prior(jr.key(0)).coefficients).all()


def test_equal_outcomes_are_learnt_but_not_fitted_to():
    model = process(0).condition(Data(np.zeros((4, 1)), np.zeros((4, 1)), np.full(4, 2.0)))
    mean, _ = model.moments(jnp.zeros((1, 1)), jnp.zeros((1, 1)))
    assert float(mean[0]) == pytest.approx(2.0, abs=0.05)
    with pytest.raises(ModelError, match="4 equal outcomes"):
        model.fit()
    with pytest.raises(ModelError, match=r"0 observation\(s\) to learn from"):
        process(0).fit()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"noise_std": 0.0}, "noise_std must be positive, got 0.0"),
        ({"kernel": RBF([1.0, 2.0, 3.0])}, "3 lengthscales; 1 context and 1 action entries need 2"),
        ({"num_features": 7}, "num_features must be even"),
        ({"mean": np.inf}, "finite number"),
        ({"contexts": [[0.0]], "actions": [[0.0]], "outcomes": [np.nan]}, "outcomes, row 0: nan is not a finite number"),
        ({"contexts": [[0.0], [np.nan]], "actions": [[0.0]] * 2, "outcomes": [0.0] * 2}, "contexts, row 1, column 0"),
        ({"contexts": [[0.0, 1.0]], "actions": [[0.0]], "outcomes": [0.0]}, r"2 context column\(s\) and the process 1"),
        ({"contexts": [[0.0]], "actions": [[0.0, 1.0]], "outcomes": [0.0]}, r"2 action column\(s\) and the process 1"),
        ({"contexts": [[0.0]], "actions": [[0.0]], "outcomes": [0.0, 1.0]}, "1 contexts and 2 outcomes"),
        (
            {"contexts": np.zeros((5001, 1)), "actions": np.zeros((5001, 1)), "outcomes": np.zeros(5001)},
            "5,001 observations; an exact Gaussian process takes at most 5,000",
        ),
        ({"contexts": [[0.0]], "actions": [[0.0]], "outcomes": [0.0], "noise": -1.0}, "none negative"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_with_what_to_do(settings, message):
    arguments = {"kernel": RBF(LENGTH), "action_space": LINE, "context_dim": 1, "noise_std": NOISE, **settings}
    noise = arguments.pop("noise", None)
    known = types.SimpleNamespace(
        **{name: arguments.pop(name, [[0.0]]) for name in ("contexts", "actions")},
        outcomes=arguments.pop("outcomes", [0.0]),
    )
    with pytest.raises(ModelError, match=message):
        GaussianProcess(**arguments).condition(known, noise)


@pytest.mark.parametrize(("nu", "lengthscale", "variance"), [(2.0, 1.0, 1.0), (1.5, [1.0, 0.0], 1.0), (1.5, 1.0, -1.0)])
def test_bad_kernels_are_refused(nu, lengthscale, variance):
    with pytest.raises(ModelError, match=r"nu = 0.5, 1.5 or 2.5|positive number"):
        Matern(nu, lengthscale, variance)


@pytest.mark.slow
def test_five_thousand_observations_are_solved():
    rng = np.random.default_rng(0)
    contexts, actions = rng.uniform(-1, 1, (5000, 1)), rng.uniform(-1, 1, (5000, 1))
    outcomes = np.sin(3 * contexts[:, 0]) + actions[:, 0]
    model = GaussianProcess(RBF(0.3), LINE, 1, 0.1).condition(Data(contexts, actions, outcomes))
    mean, _ = model.moments(jnp.array([[0.5]]), jnp.array([[0.2]]))
    assert float(mean[0]) == pytest.approx(np.sin(1.5) + 0.2, abs=0.01)
    draw = eqx.filter_jit(model.sample_prior)(jr.key(0))
    assert float(model.mean_reward(draw, jnp.array([0.5]), jnp.array([0.2]))) == pytest.approx(float(mean[0]), abs=0.1)


def test_the_average_function_has_the_average_reward():
    """With and without the shortcut of decisions, and with the shared points passed once."""
    model, design = process(num_features=64), rows(4, seed=3)
    weights = jnp.arange(1.0, 7.0) / 21
    context, action = jnp.array([0.2]), jnp.array([-0.4])

    def reward(psi):
        return model.mean_reward(psi, context, action)

    def ways(surprises):
        draws = jax.vmap(lambda s: model.posterior_mean(design.contexts, design.actions, s))(surprises)
        average = AverageReward(model, 6).mean_reward((draws, weights), context, action)
        return jax.vmap(reward)(draws), over_draws(model, reward, draws), average

    each, shared, average = jax.jit(ways)(jr.normal(jr.key(0), (6, 4)))
    np.testing.assert_allclose(shared, each, rtol=1e-5)
    assert float(average) == pytest.approx(float(weights @ each), abs=1e-5)


def test_functions_are_kept_in_a_pool():
    """Draws of a process without observations have leaves of length zero."""
    problem = Problem(process(0, num_features=16), np.zeros((2, 1)), np.zeros((1, 1)), optimum=Grid(8, 0))
    pool = draw_pool(jr.key(0), problem, 6, chunk=4)
    assert pool.params.weights.shape == (6, 16)
    assert pool.params.extra_points.shape == (6, 0, 2)
    assert pool.max_values.shape == (6, 1)
