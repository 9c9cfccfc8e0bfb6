"""The two examples of the paper and the linear model, against their closed forms."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from cobed.errors import ModelError
from cobed.models import ContinuousExample, DiscreteExample, LinearGaussian
from cobed.models import continuous as continuous_module
from cobed.models import discrete as discrete_module
from cobed.models.linear import linear_information
from cobed.spaces import Box, Discrete

COST = 0.1


def two_coefficients() -> LinearGaussian:
    """y = psi_k + noise for action k: standard deviations 1 and 1.5, noise 1."""
    return LinearGaussian(lambda context, action: action, np.zeros(2), np.array([1.0, 2.25]), Discrete(2), 1, 1.0)


def one_hot(*names: int) -> np.ndarray:
    return np.eye(2, dtype=np.float32)[list(names)]


@pytest.mark.parametrize("action", range(4))
def test_discrete_reward_at_the_ends_is_psi(action):
    """9 - c^2 is zero at c = -3 and c = 3, where the line through psi_k1 and psi_k2 is pinned."""
    model = DiscreteExample()
    params, one = model.sample_prior(jr.key(3)), jnp.eye(4)[action]
    np.testing.assert_allclose(model.mean_reward(params, jnp.array([-3.0]), one), params[action, 0], rtol=1e-6)
    np.testing.assert_allclose(model.mean_reward(params, jnp.array([3.0]), one), params[action, 1], rtol=1e-6)


@pytest.mark.parametrize("c", [-3.0, -1.7, 0.0, 0.4, 2.5])
def test_discrete_reward_is_the_parabola_plus_the_line(c):
    params = jnp.array([[1.0, 2.0], [3.0, -4.0], [0.5, 0.0], [-2.0, 6.0]])
    rewards = jax.vmap(lambda a: DiscreteExample().mean_reward(params, jnp.array([c]), a))(jnp.eye(4))
    expected = 9 - c**2 + np.asarray(params)[:, 0] * (3 - c) / 6 + np.asarray(params)[:, 1] * (3 + c) / 6
    np.testing.assert_allclose(rewards, expected, rtol=1e-5)


def test_discrete_reward_is_linear_between_the_actions():
    model, context, weights = DiscreteExample(), jnp.array([0.7]), jnp.array([0.1, 0.2, 0.3, 0.4])
    params = model.sample_prior(jr.key(4))
    corners = jax.vmap(lambda a: model.mean_reward(params, context, a))(jnp.eye(4))
    np.testing.assert_allclose(model.mean_reward(params, context, weights), weights @ corners, rtol=1e-5)


def test_discrete_prior_has_the_printed_means_and_variances():
    draws = np.asarray(jax.vmap(DiscreteExample().sample_prior)(jr.split(jr.key(5), 4000)))
    std = np.sqrt([[9, 9], [2.25, 2.25], [1.21, 1.21], [1.21, 1.21]])
    mean = np.array([[5, 15], [5, 15], [-2, -1], [-7, 3]])
    # Eight means and eight standard deviations at 5 standard errors: false alarm below 1 in 50,000.
    assert (np.abs(draws.mean(0) - mean) < 5 * std / 4000**0.5).all()
    assert (np.abs(draws.std(0) - std) < 5 * std / 8000**0.5).all()


@pytest.mark.parametrize("variant", ["released", "printed"])
def test_continuous_best_action_beats_a_fine_grid(variant):
    model = ContinuousExample(variant)
    grid = jnp.linspace(-12, 20, 8001)[:, None]

    def gap(params, context):
        best = model.mean_reward(params, context, model.best_action(params, context))
        return best - jnp.max(jax.vmap(lambda a: model.mean_reward(params, context, a))(grid))

    worlds = jax.jit(jax.vmap(model.sample_prior))(jr.split(jr.key(6), 20))
    contexts = jnp.asarray(continuous_module.contexts(8))
    gaps = jax.jit(jax.vmap(jax.vmap(gap, in_axes=(None, 0)), in_axes=(0, None)))(worlds, contexts)
    assert float(gaps.min()) >= -1e-6


@pytest.mark.parametrize(("variant", "sign", "power"), [("released", -1, 2), ("printed", 1, 1)])
def test_continuous_max_value_has_its_closed_form(variant, sign, power):
    """m* = exp(-l g^2 / (1 + l h)) with l = 0.1."""
    model = ContinuousExample(variant)
    for i, c in enumerate([-3.5, -1.0, 0.0, 0.8, 3.0]):
        params = np.asarray(model.sample_prior(jr.key(10 + i)), dtype=np.float64)
        centre, width = params[0] + params[1] * c + sign * params[2] * c**2, params[3] ** power
        context = jnp.array([c])
        best = model.mean_reward(jnp.asarray(params), context, model.best_action(jnp.asarray(params), context))
        # Relative: exp amplifies the rounding of its argument, which reaches 12.
        np.testing.assert_allclose(best, np.exp(-COST * centre**2 / (1 + COST * width)), rtol=2e-4)


def test_continuous_variants_differ_and_an_unknown_one_is_refused():
    params, context = jnp.array([0.5, 0.5, 0.5, 0.5]), jnp.array([1.0])
    released, printed = (ContinuousExample(v).best_action(params, context)[0] for v in ("released", "printed"))
    np.testing.assert_allclose([released, printed], [0.5 / 1.025, 1.5 / 1.05], rtol=1e-6)
    with pytest.raises(ModelError, match="Allowed: 'released', 'printed'"):
        ContinuousExample("corrected")  # pyright: ignore[reportArgumentType]


def test_example_contexts_are_those_of_the_paper():
    np.testing.assert_allclose(discrete_module.contexts()[[0, -1], 0], [-3, -1])
    np.testing.assert_allclose(continuous_module.contexts()[[0, -1], 0], [-3.5, 3.5])
    midpoints = continuous_module.targets(40)
    assert midpoints.shape == (39, 1)
    np.testing.assert_allclose(midpoints[0, 0], -3.5 + 3.5 / 39, rtol=1e-5)


def test_linear_information_of_independent_coefficients():
    """I = 1/2 log det(I + Phi S Phi^T) = 1/2 (log(1 + 1) + log(1 + 2 * 2.25)) = 1/2 log 11."""
    information = linear_information(two_coefficients(), np.zeros((3, 1)), one_hot(0, 1, 1))
    assert information == pytest.approx(0.5 * np.log(11), abs=1e-6)
    assert information == pytest.approx(1.198948, abs=1e-6)


def test_linear_information_does_not_depend_on_the_order_of_rows():
    model = two_coefficients()
    orders = [(0, 1, 1), (1, 0, 1), (1, 1, 0)]
    values = [linear_information(model, np.zeros((3, 1)), one_hot(*order)) for order in orders]
    np.testing.assert_allclose(values, values[0], atol=1e-10)


def test_linear_information_never_falls_when_rows_are_added():
    def features(context, action):
        return jnp.concatenate([action, context[0] * action])

    model = LinearGaussian(features, np.zeros(6), np.linspace(0.1, 3, 6), Box.real(3), 1, 0.7)
    contexts, actions = np.asarray(jr.normal(jr.key(7), (12, 1))), np.asarray(jr.normal(jr.key(8), (12, 3)))
    values = [linear_information(model, contexts[:n], actions[:n]) for n in (1, 2, 5, 12)]
    assert np.diff(values).min() > -1e-10


def test_linear_information_about_one_coefficient_is_its_own_share():
    model, contexts, actions = two_coefficients(), np.zeros((3, 1)), one_hot(0, 1, 1)
    first, second = (linear_information(model, contexts, actions, np.eye(2)[[i]]) for i in (0, 1))
    assert first == pytest.approx(0.5 * np.log(2), abs=1e-6)
    assert second == pytest.approx(0.5 * np.log(5.5), abs=1e-6)


@pytest.mark.parametrize(
    ("mean", "cov", "noise", "message"),
    [
        (np.zeros(2), np.ones(3), 1.0, r"shape \(3, 3\).*needs \(2, 2\)"),
        (np.zeros(2), np.array([[1.0, 2.0], [2.0, 1.0]]), 1.0, "positive semi-definite"),
        (np.zeros(2), np.array([[1.0, 0.5], [0.0, 1.0]]), 1.0, "symmetric"),
        (np.zeros(2), np.ones(2), 0.0, "noise_std must be positive"),
    ],
)
def test_linear_model_refuses_an_impossible_prior_or_noise(mean, cov, noise, message):
    with pytest.raises(ModelError, match=message):
        LinearGaussian(lambda context, action: action, mean, cov, Discrete(2), 1, noise)


def test_gaussian_likelihood_is_the_normal_density():
    model = two_coefficients()
    value = model.log_likelihood(jnp.array([0.3, -1.0]), jnp.zeros(1), jnp.array([1.0, 0.0]), jnp.asarray(1.1))
    assert float(value) == pytest.approx(-0.5 * 0.8**2 - 0.5 * np.log(2 * np.pi), abs=1e-6)
