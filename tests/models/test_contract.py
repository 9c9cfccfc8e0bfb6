"""`check_model` lets good models pass and tells the author of a bad one what is wrong."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from cobed.errors import ModelError
from cobed.models import (
    AbstractGaussianModel,
    AbstractModel,
    ContinuousExample,
    DiscreteExample,
    LinearGaussian,
    continuous,
    discrete,
    from_numpyro,
    from_simulator,
)
from cobed.models.contract import check_model
from cobed.spaces import AbstractSpace, Box, Discrete, Product

CONTEXTS = jnp.linspace(-1, 1, 5)[:, None]
OFFERS = Discrete(["none", "5%", "10%"])
UNIT = Box(0, 1)


def normal_prior(key):
    return jr.normal(key, (3,))


def linear_reward(params, context, action):
    return params[0] * action[0] + context[0] * params[1]


def noisy(reward):
    return lambda key, params, context, action: reward(params, context, action) + 0.1 * jr.normal(key)


noisy_linear = noisy(linear_reward)


def simulator(prior=normal_prior, simulate=noisy_linear, actions=UNIT, mean_reward=linear_reward):
    return from_simulator(prior, simulate, actions, 1, mean_reward=mean_reward)


class Hill(AbstractGaussianModel):
    """f = -(a - psi)^2 with psi in the unit interval; the claimed best action and likelihood can be replaced."""

    best: Callable = eqx.field(static=True, default=lambda params: params)
    density: Callable | None = eqx.field(static=True, default=None)
    action_space: AbstractSpace = UNIT
    context_dim: int = eqx.field(static=True, default=1)
    noise_std: float = eqx.field(static=True, default=0.1)

    def sample_prior(self, key):
        return jr.uniform(key, (1,))

    def mean_reward(self, params, context, action):
        return -((action[0] - params[0]) ** 2)

    def best_action(self, params, context):
        return self.best(params)

    def log_likelihood(self, params, context, action, outcome):
        standardised = (outcome - self.mean_reward(params, context, action)) / self.noise_std
        return -0.5 * standardised**2 if self.density is None else self.density(standardised)


class Batched(AbstractModel):
    """A model whose `sample_outcomes` is replaced."""

    outcomes: Callable = eqx.field(static=True)
    action_space: AbstractSpace = UNIT
    context_dim: int | None = eqx.field(static=True, default=None)

    def sample_prior(self, key):
        return normal_prior(key)

    def mean_reward(self, params, context, action):
        return linear_reward(params, context, action)

    def sample_outcome(self, key, params, context, action):
        return noisy_linear(key, params, context, action)

    def sample_outcomes(self, key, params, contexts, actions):
        return self.outcomes(actions)


def linear_gaussian():
    return LinearGaussian(lambda c, a: jnp.outer(a, c).ravel(), np.zeros(3), np.ones(3), OFFERS, 1, 0.5)


def offer_and_size():
    """A discrete offer times a size: the reward uses both parts smoothly."""
    space = Product([Discrete(["mail", "phone"]), UNIT])

    def reward(params, context, action):
        return (action[:2] @ params[:2]) * action[2]

    return simulator(simulate=noisy(reward), mean_reward=reward, actions=space)


def random_function():
    """psi is the seed of a function: here of its slope."""

    def reward(params, context, action):
        return jr.normal(params) * action[0]

    return simulator(prior=lambda key: key, simulate=noisy(reward), mean_reward=reward)


@pytest.mark.parametrize(
    ("model", "contexts"),
    [
        pytest.param(DiscreteExample(), discrete.contexts(), id="discrete example"),
        pytest.param(ContinuousExample(), continuous.contexts(), id="continuous example, released"),
        pytest.param(ContinuousExample("printed"), continuous.contexts(), id="continuous example, printed"),
        pytest.param(linear_gaussian(), CONTEXTS, id="linear"),
        pytest.param(simulator(), CONTEXTS, id="simulator"),
        pytest.param(simulator(), CONTEXTS[:1], id="one context"),
        pytest.param(random_function(), CONTEXTS, id="psi is a key"),
        pytest.param(offer_and_size(), CONTEXTS, id="product space"),
        pytest.param(Hill(), CONTEXTS, id="closed-form best action"),
        pytest.param(Batched(lambda a: a[:, 0]), jnp.ones((3, 4)), id="contexts of any length"),
    ],
)
def test_good_model_passes(model, contexts):
    assert check_model(model, contexts) is None


@pytest.mark.parametrize(
    ("model", "message"),
    [
        pytest.param(
            {"prior": normal_prior}, "The model is a dict; a cobed.models.AbstractModel is expected", id="dict"
        ),
        pytest.param(linear_reward, "is a function;.*from_numpyro.*from_simulator", id="function"),
        pytest.param(DiscreteExample, r"the class DiscreteExample itself.*DiscreteExample\(...\)", id="class"),
        pytest.param(None, "The model is a NoneType", id="None"),
        pytest.param(
            Hill(action_space=["a", "b"]),  # pyright: ignore[reportArgumentType]
            "action_space is a list; a space such as",
            id="space",
        ),
    ],
)
def test_what_is_not_a_model_is_refused(model, message):
    with pytest.raises(ModelError, match=message):
        check_model(model, CONTEXTS)


@pytest.mark.parametrize(
    ("contexts", "message"),
    [
        (jnp.ones((5, 2)), r"contexts have 2 column\(s\) and the model expects 1"),
        (jnp.ones(5), r"contexts have shape \(5,\); at least one row and one column"),
        (jnp.ones((0, 1)), r"contexts have shape \(0, 1\)"),
    ],
)
def test_contexts_that_do_not_fit_the_model_are_refused(contexts, message):
    with pytest.raises(ModelError, match=message):
        check_model(DiscreteExample(), contexts)


def failing_prior(key):
    raise RuntimeError("the file of coefficients is missing")


def frozen_prior(key):
    return jnp.asarray(np.random.default_rng(0).normal(size=3), dtype=jnp.float32)


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        (failing_prior, r"sample_prior\(key\) fails with RuntimeError: the file of coefficients is missing"),
        (lambda key: jr.normal(key, (3,)) if key > 0 else 0.0, r"sample_prior\(key\) fails with .*no `if` on values"),
        (lambda key: "high", r"sample_prior\(key\) fails with TypeError"),
        (
            lambda key: jnp.log(jr.normal(key, (3,))),
            r"sample_prior gives values that are not finite in params: \d+ of 48",
        ),
        (lambda key: jr.normal(key, (3,)).at[2].set(jnp.inf), "not finite.*16 of 48 values, the first inf"),
        (lambda key: jnp.ones(3), "the same params for 16 different keys.*nothing to learn"),
        (frozen_prior, "numbers from numpy are frozen"),
        (lambda key: jr.normal(key, (1,)).at[5].get(mode="fill"), "not finite"),
    ],
)
def test_bad_prior_is_refused(prior, message):
    reward = lambda params, context, action: params.sum() + action[0]  # noqa: E731
    with pytest.raises(ModelError, match=message):
        check_model(simulator(prior=prior, simulate=noisy(reward), mean_reward=reward), CONTEXTS)


def test_values_that_are_not_finite_are_found_by_name():
    model = simulator(
        prior=lambda key: {"base": jr.normal(key), "lift": jr.normal(key) / 0.0},
        simulate=lambda key, params, context, action: params["base"] * action[0],
        mean_reward=lambda params, context, action: params["base"] * action[0],
    )
    with pytest.raises(ModelError, match=r"not finite in \['lift'\]"):
        check_model(model, CONTEXTS)


def test_original_failure_is_the_cause():
    with pytest.raises(ModelError) as raised:
        check_model(simulator(prior=failing_prior), CONTEXTS)
    assert isinstance(raised.value.__cause__, RuntimeError)


@pytest.mark.parametrize(
    ("reward", "message"),
    [
        (lambda p, c, a: p[:1] * a, r"mean_reward\(.*\) returns shape \(1,\); a scalar, shape \(\), is expected"),
        (lambda p, c, a: p[:2, None] * a, r"returns shape \(2, 1\); a scalar"),
        (lambda p, c, a: (p[0], a[0]), "returns a tuple; an array"),
        (lambda p, c, a: None, "returns a NoneType; an array"),
        (lambda p, c, a: jnp.argmax(p), "mean_reward.* returns int32 values; floating-point numbers are expected"),
        (lambda p, c, a: p @ c @ a, "mean_reward.* fails with TypeError"),
        (lambda p, c, a: p["lift"] * a[0], "mean_reward.* fails with TypeError"),
        (
            lambda p, c, a: float(p[0]) * a[0],
            "mean_reward.* fails with ConcretizationTypeError.*no conversion to float",
        ),
        (lambda p, c, a: jnp.sqrt(p[0]) * a[0], r"mean_reward is not finite at draws of the prior.*\d+ of 256 values"),
    ],
)
def test_bad_mean_reward_is_refused(reward, message):
    with pytest.raises(ModelError, match=message):
        check_model(simulator(mean_reward=reward), CONTEXTS)


@pytest.mark.parametrize(
    ("simulate", "message"),
    [
        (lambda k, p, c, a: p[0] * a, r"sample_outcome\(.*\) returns shape \(1,\); a scalar"),
        (lambda k, p, c, a: jr.bernoulli(k, a[0]), "returns bool values.*Binary and count outcomes cannot"),
        (lambda k, p, c, a: jr.poisson(k, a[0]), "returns int32 values.*Binary and count outcomes cannot"),
        (lambda k, p, c, a: a[0] + jnp.log(jr.normal(k)), "sample_outcomes is not finite.*noise scale"),
        (lambda k, p, c: p[0], "sample_outcome.* fails with TypeError"),
    ],
)
def test_bad_outcome_is_refused(simulate, message):
    with pytest.raises(ModelError, match=message):
        check_model(simulator(simulate=simulate), CONTEXTS)


def test_batched_outcomes_of_another_shape_are_refused():
    with pytest.raises(ModelError, match=r"sample_outcomes\(.*\) returns shape \(8, 1\); shape \(8,\) is expected"):
        check_model(Batched(lambda actions: actions), CONTEXTS)


def indexed(params, context, action):
    return params[jnp.argmax(action)]


def picked(params, context, action):
    return jnp.where(action[0] == 1, params[0], params[1])


def indexed_offer_times_size(params, context, action):
    return params[jnp.argmax(action[:2])] * action[2]


def ignores_size(params, context, action):
    return action[:2] @ params[:2]


def whole_number(key, params, context, action):
    return jr.bernoulli(key, action[0]).astype(float)


@pytest.mark.parametrize(
    ("actions", "simulate", "message"),
    [
        (OFFERS, noisy(indexed), "does not change with the action.*sum over the weights.*not with argmax"),
        (OFFERS, noisy(picked), "does not change with the action.*indexing or =="),
        (UNIT, noisy(lambda p, c, a: p[0] * jnp.round(4 * a[0])), "without rounding, comparing or stop_gradient"),
        (UNIT, noisy(lambda p, c, a: p[0] * jax.lax.stop_gradient(a[0])), "gradient is zero at 16 draws"),
        (UNIT, noisy(lambda p, c, a: p[0]), "does not change with the action"),
        (UNIT, whole_number, "whole numbers: binary and count outcomes cannot.*mean over a group.*RelaxedBernoulli"),
        (OFFERS, whole_number, "whole numbers: binary and count outcomes cannot"),
        (
            Product([Discrete(2), UNIT]),
            noisy(indexed_offer_times_size),
            "does not change with part 1 of the action.*one-hot weights",
        ),
        (Product([Discrete(2), UNIT]), noisy(ignores_size), "does not change with part 2 of the action"),
        (
            UNIT,
            noisy(lambda p, c, a: jnp.where(a[0] > 0.5, jnp.sqrt(a[0] - 0.5), 0.0)),
            r"gradient of the outcome in the action is not finite: \d+ of 256 values.*jnp.where",
        ),
        (OFFERS, noisy(lambda p, c, a: p[0] * jnp.sqrt(a[0])), "gradient of the outcome in the action is not finite"),
    ],
)
def test_outcome_that_cannot_be_differentiated_in_the_action_is_refused(actions, simulate, message):
    with pytest.raises(ModelError, match=message):
        check_model(simulator(actions=actions, simulate=simulate), CONTEXTS)


@pytest.mark.parametrize("outcome", [dist.Poisson, dist.Bernoulli])
def test_numpyro_program_with_counts_is_refused(outcome):
    def program(contexts, actions):
        slope = numpyro.sample("slope", dist.Uniform(0, 1))
        numpyro.sample("y", outcome(slope * actions[:, 0]))

    with pytest.raises(ModelError, match="binary and count outcomes cannot be differentiated through"):
        check_model(from_numpyro(program, actions=UNIT), CONTEXTS)


@pytest.mark.parametrize(
    ("density", "message"),
    [
        (lambda z: jnp.stack([z, z]), r"log_likelihood\(.*\) returns shape \(2,\); a scalar"),
        (lambda z: jnp.log(jnp.abs(z) < 1), "log_likelihood at outcomes of the model itself is not finite"),
        (lambda z: z * jnp.nan, "log_likelihood at outcomes of the model itself is not finite.*the first nan"),
    ],
)
def test_bad_likelihood_is_refused(density, message):
    with pytest.raises(ModelError, match=message):
        check_model(Hill(density=density), CONTEXTS)


@pytest.mark.parametrize(
    ("best", "message"),
    [
        (lambda params: params[0], r"best_action\(.*\) returns shape \(\); shape \(1,\) is expected"),
        (lambda params: params + 0.5, r"best_action leaves the action space in \d+ of 128 cases.*project"),
        (lambda params: 1 - params, r"best_action is beaten by random actions in \d+ of 128 cases, by up to"),
        (lambda params: params * jnp.nan, "best_action"),
    ],
)
def test_bad_best_action_is_refused(best, message):
    with pytest.raises(ModelError, match=message):
        check_model(Hill(best=best), CONTEXTS)


def test_verdict_is_the_same_every_time():
    messages = []
    for _ in range(2):
        with pytest.raises(ModelError) as raised:
            check_model(Hill(best=lambda params: 1 - params), CONTEXTS)
        messages.append(str(raised.value))
    assert messages[0] == messages[1]
