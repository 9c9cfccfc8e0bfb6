"""A simulator as a model: the estimated mean reward, and its error."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from cobed.errors import ModelError
from cobed.models import AbstractLikelihoodModel, AbstractModel, from_simulator
from cobed.models.contract import check_model
from cobed.spaces import Box, Discrete

NOISE = 0.4
CONTEXT, ACTION = jnp.array([1.5]), jnp.array([0.3])
PARAMS = jnp.array([0.7, -0.2])


def sample_prior(key):
    return jr.normal(key, (2,))


def exact_mean(params, context, action):
    return params[0] * jnp.sin(context[0] * action[0]) + params[1] * action[0] ** 2


def simulate(key, params, context, action):
    return exact_mean(params, context, action) + NOISE * jr.normal(key)


def simulator(**options):
    return from_simulator(sample_prior, simulate, Box(-1, 1), 1, **options)


def test_simulator_keeps_the_contract_and_has_no_likelihood():
    model = simulator()
    check_model(model, jnp.linspace(-1, 1, 5)[:, None])
    assert isinstance(model, AbstractModel)
    assert not isinstance(model, AbstractLikelihoodModel)


def test_prior_and_outcome_are_the_users_functions():
    model, key = simulator(), jr.key(1)
    np.testing.assert_array_equal(model.sample_prior(key), sample_prior(key))
    np.testing.assert_array_equal(
        model.sample_outcome(key, PARAMS, CONTEXT, ACTION), simulate(key, PARAMS, CONTEXT, ACTION)
    )


def test_given_mean_reward_is_used_as_it_is():
    model = simulator(mean_reward=exact_mean)
    assert float(model.mean_reward(PARAMS, CONTEXT, ACTION)) == float(exact_mean(PARAMS, CONTEXT, ACTION))
    assert float(model.mean_reward_error(PARAMS, CONTEXT, ACTION)) == 0.0


def test_estimated_mean_is_within_its_error_of_the_exact_mean():
    model = simulator(num_mean_draws=1024, seed=2)
    gap = model.mean_reward(PARAMS, CONTEXT, ACTION) - exact_mean(PARAMS, CONTEXT, ACTION)
    # 4 standard errors: false alarm below 1 in 15,000.
    assert abs(float(gap)) < 4 * NOISE / 1024**0.5


def test_error_of_the_mean_is_sd_over_root_n():
    error = float(simulator(num_mean_draws=4096, seed=3).mean_reward_error(PARAMS, CONTEXT, ACTION))
    # The sample deviation of N normals is off by 1 / sqrt(2 N) of itself; 4 of those, false alarm below 1 in 15,000.
    assert error == pytest.approx(NOISE / 4096**0.5, rel=4 / 8192**0.5)


def test_common_random_numbers_leave_differences_between_actions_exact():
    """With noise added to the outcome the error is the same for all actions, so the best action is the right one."""
    model = simulator(num_mean_draws=8)
    actions = jnp.linspace(-1, 1, 21)[:, None]
    estimated = jax.vmap(lambda a: model.mean_reward(PARAMS, CONTEXT, a))(actions)
    exact = jax.vmap(lambda a: exact_mean(PARAMS, CONTEXT, a))(actions)
    np.testing.assert_allclose(estimated - estimated[0], exact - exact[0], atol=1e-6)
    assert abs(float((estimated - exact)[0])) > 1e-3


def test_estimated_mean_is_differentiable_in_the_action():
    estimated = jax.grad(simulator().mean_reward, argnums=2)(PARAMS, CONTEXT, ACTION)
    exact = jax.grad(exact_mean, argnums=2)(PARAMS, CONTEXT, ACTION)
    np.testing.assert_allclose(estimated, exact, rtol=1e-5)


def test_seed_decides_the_estimated_mean():
    first, again, other = (float(simulator(seed=s).mean_reward(PARAMS, CONTEXT, ACTION)) for s in (4, 4, 5))
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sample_prior": 3}, "sample_prior must be a function, got int"),
        ({"simulate": None}, "simulate must be a function, got NoneType"),
        ({"mean_reward": 1.0}, "mean_reward must be a function or None, got float"),
        ({"actions": ["a", "b"]}, "actions of a model must be a space such as"),
        ({"context_dim": 0}, "context_dim must be the number of context columns.*got 0"),
        ({"context_dim": None}, "context_dim must be the number of context columns.*got None"),
        ({"num_mean_draws": 1}, "num_mean_draws must be at least 2.*got 1"),
    ],
)
def test_bad_arguments_are_refused_in_words(change, message):
    arguments = {"sample_prior": sample_prior, "simulate": simulate, "actions": Discrete(2), "context_dim": 1}
    with pytest.raises(ModelError, match=message):
        from_simulator(**(arguments | change))
