"""`check_model` lets good models pass and tells the author of a bad one what is wrong."""

import re
from collections.abc import Callable
from typing import ClassVar

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


def chance(params, action):
    return jax.nn.sigmoid(params[1] + params[2] * action[0])


def hurdle(key, params, context, action):
    amount = jnp.exp(params[0] * action[0] + 0.5 * jr.normal(key))
    return jnp.where(jr.uniform(jr.fold_in(key, 1)) < chance(params, action), 0.0, amount)


def one_of_two(key, params, context, action):
    """A mixture whose component is drawn by chance."""
    own = jnp.where(jr.uniform(jr.fold_in(key, 1)) < chance(params, action), params[0] * action[0], 2.0)
    return own + 0.3 * jr.normal(key)


def straight_through(slope):
    def simulate(key, params, context, action):
        claimed = slope * chance(params, action)
        return (
            jr.bernoulli(key, chance(params, action)) + claimed - jax.lax.stop_gradient(claimed) + 0.01 * jr.normal(key)
        )

    return simulate


def stopped(key, params, context, action):
    return params[0] * jax.lax.stop_gradient(action[0]) + 0.1 * action[0] + 0.3 * jr.normal(key)


def stopped_scale(key, params, context, action):
    return params[0] * action[0] + jnp.exp(jax.lax.stop_gradient(params[1] * action[0])) * jr.normal(key)


def steps(key, params, context, action):
    return params[0] * jnp.floor(4 * action[0]) + params[1] * action[0] + 0.1 * jr.normal(key)


def zero_inflated_offers(key, params, context, action):
    zero = jr.uniform(jr.fold_in(key, 1)) < jax.nn.sigmoid(params @ action)
    return jnp.where(zero, 0.0, action[0] + jnp.exp(0.5 * jr.normal(key)))


@pytest.mark.parametrize(
    ("actions", "simulate"),
    [
        (UNIT, hurdle),
        (OFFERS, zero_inflated_offers),
        (UNIT, straight_through(3.0)),
        (UNIT, stopped_scale),
        *(pytest.param(UNIT, simulate, marks=pytest.mark.slow) for simulate in (one_of_two, stopped, steps)),
        # Right for the mean, and wrong for everything else that is asked of an outcome.
        pytest.param(UNIT, straight_through(1.0), marks=pytest.mark.slow),
    ],
)
def test_a_gradient_that_is_not_that_of_the_distribution_is_found(actions, simulate):
    gap = check_model(simulator(actions=actions, simulate=simulate), CONTEXTS)
    assert "not that of their distribution" in (gap or "none was found")


class Hurdle(dist.Distribution):
    """As a user writes it, with a density: nothing says that its draws are not reparametrised."""

    support = dist.constraints.nonnegative
    arg_constraints: ClassVar = {"chance": dist.constraints.unit_interval, "location": dist.constraints.real}
    reparametrized_params: ClassVar = ["chance", "location"]

    def __init__(self, chance, location):
        self.chance, self.location = chance, location
        super().__init__(batch_shape=jnp.shape(location))

    def sample(self, key, sample_shape=()):
        first, second = jr.split(key)
        amount = jnp.exp(self.location + 0.5 * jr.normal(first, self.shape(sample_shape)))
        return jnp.where(jr.uniform(second, amount.shape) < self.chance, 0.0, amount)

    def log_prob(self, value):
        inside = jnp.log(jnp.where(value > 0, value, 1.0))
        amount = dist.Normal(self.location, 0.5).log_prob(inside) - inside
        return jnp.where(value > 0, jnp.log1p(-self.chance) + amount, jnp.log(self.chance))

    @property
    def mean(self):
        return (1 - self.chance) * jnp.exp(self.location + 0.125)


def test_a_hurdle_of_a_users_own_distribution_is_found():
    def program(contexts, actions):
        worth = numpyro.sample("worth", dist.Normal(jnp.zeros(3), 0.5))
        numpyro.sample("y", Hurdle(jax.nn.sigmoid(actions @ jnp.array([1.0, 0.0, -1.0])), actions @ worth))

    gap = check_model(from_numpyro(program, OFFERS), CONTEXTS)
    assert "not that of their distribution" in (gap or "none was found")


def linear_noise(noise):
    return lambda key, params, context, action: linear_reward(params, context, action) + noise(key, params, action)


RIGHT = {
    "student": linear_noise(lambda key, params, action: jr.t(key, 2.0)),
    "relu": lambda key, p, c, a: jax.nn.relu(linear_reward(p, c, a) + jr.normal(key)),
    "gamma": lambda key, p, c, a: jr.gamma(key, jnp.exp(linear_reward(p, c, a))),
    "small slope": lambda key, p, c, a: 0.01 * linear_reward(p, c, a) + 10 * jr.normal(key),
    "large mean": lambda key, p, c, a: 1e4 + linear_reward(p, c, a) + jr.normal(key),
    "cauchy": linear_noise(lambda key, params, action: jr.cauchy(key)),
    "lognormal": lambda key, p, c, a: jnp.exp(linear_reward(p, c, a) + jr.normal(key)),
    "noise that grows": linear_noise(lambda key, params, action: jnp.exp(params[2] * action[0]) * jr.normal(key)),
    "clipped": lambda key, p, c, a: jnp.clip(linear_reward(p, c, a) + jr.normal(key), -0.5, 0.5),
    "steep": lambda key, p, c, a: jax.nn.sigmoid(30 * (linear_reward(p, c, a) + 0.3 * jr.normal(key))),
    "waves": lambda key, p, c, a: jnp.sin(30 * p[0] * a[0]) + 0.1 * jr.normal(key),
    "relaxed": lambda key, p, c, a: jax.nn.sigmoid((linear_reward(p, c, a) + jr.logistic(key)) / 0.3),
    "beta": lambda key, p, c, a: jr.beta(key, jnp.exp(p[0] * a[0]), jnp.exp(p[1])),
    "without noise": lambda key, p, c, a: jnp.exp(linear_reward(p, c, a)),
    "mixture of shifts": linear_noise(lambda key, params, action: jnp.where(jr.uniform(key) < 0.3, 3.0, 0.0)),
}
FAST = ("student", "relu", "small slope")


@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name in FAST else pytest.mark.slow) for name in RIGHT])
def test_a_right_gradient_raises_no_alarm(name):
    """False alarm below 1 in 50,000 for each."""
    assert check_model(simulator(simulate=RIGHT[name]), CONTEXTS) is None


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
            "actions of a model must be a space such as",
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


def indexed_offer_times_size(params, context, action):
    return params[jnp.argmax(action[:2])] * action[2]


def ignores_size(params, context, action):
    return action[:2] @ params[:2]


@pytest.mark.parametrize(
    ("actions", "simulate", "message"),
    [
        (OFFERS, noisy(indexed), "gradient in the action is zero.*sum over the weights.*not with argmax"),
        (UNIT, noisy(lambda p, c, a: p[0] * jnp.round(4 * a[0])), "zero.*without rounding, comparing or stop_gradient"),
        (
            OFFERS,
            lambda k, p, c, a: jr.bernoulli(k, a[0] / 2),
            "whole numbers, and no gradient passes through a binary",
        ),
        (UNIT, lambda k, p, c, a: jr.poisson(k, a[0]), "whole numbers, and no gradient passes through"),
        (Product([Discrete(2), UNIT]), noisy(indexed_offer_times_size), "gradient in part 1 of the action is zero"),
        (
            OFFERS,
            lambda k, p, c, a: jax.lax.while_loop(lambda y: y < 0, lambda y: y + 1.0, p @ a + 0.1 * jr.normal(k)),
            "JAX cannot differentiate them in the action .ValueError: Reverse-mode",
        ),
    ],
)
def test_a_model_without_a_gradient_is_accepted_and_the_reason_told(actions, simulate, message):
    model = simulator(actions=actions, simulate=simulate, mean_reward=lambda p, c, a: p[0] * a[0] + p[1] * a[-1])
    assert re.search(message, check_model(model, CONTEXTS) or "none was found")


@pytest.mark.parametrize(
    ("actions", "reward", "message"),
    [
        (UNIT, lambda p, c, a: p[0], "does not change with the action"),
        (Product([Discrete(2), UNIT]), ignores_size, "does not change with part 2 of the action.*leave it out"),
        (
            UNIT,
            lambda p, c, a: jnp.where(a[0] > 0.5, jnp.sqrt(a[0] - 0.5), 0.0),
            r"gradient of the outcome in the action is not finite: \d+ of \d+ values.*jnp.where",
        ),
        (OFFERS, lambda p, c, a: p[0] * jnp.sqrt(a[0]), "gradient of the outcome in the action is not finite"),
    ],
)
def test_an_action_without_effect_or_with_an_infinite_one_is_refused(actions, reward, message):
    with pytest.raises(ModelError, match=message):
        check_model(simulator(actions=actions, simulate=noisy(reward), mean_reward=reward), CONTEXTS)


@pytest.mark.parametrize("outcome", [dist.Poisson, dist.Bernoulli])
def test_numpyro_program_with_counts_is_accepted(outcome):
    def program(contexts, actions):
        slope = numpyro.sample("slope", dist.Uniform(0, 1))
        numpyro.sample("y", outcome(slope * actions[:, 0]))

    assert "whole numbers" in (check_model(from_numpyro(program, actions=UNIT), CONTEXTS) or "")


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
