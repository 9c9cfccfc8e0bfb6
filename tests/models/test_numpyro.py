"""A NumPyro program as a model, against the same model written by hand, and the programs that cannot be one."""

import subprocess
import sys
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.infer.util import log_density

from cobed.errors import ModelError
from cobed.models import AbstractLikelihoodModel, LinearGaussian, from_numpyro
from cobed.models.contract import check_model
from cobed.spaces import Box, Discrete

OFFERS = Discrete(["none", "5%", "10%"])
NUM_UNITS = 6
CONTEXTS = jr.normal(jr.key(1), (NUM_UNITS, 2))
# Between the offers, where gradients are taken.
ACTIONS = jax.nn.softmax(jr.normal(jr.key(2), (NUM_UNITS, 3)))


def revenue(contexts, actions):
    """The example of the documentation."""
    lift = numpyro.sample("lift", dist.Normal(0, 1).expand([3, contexts.shape[1]]).to_event(2))
    mean = numpyro.deterministic("reward", jnp.sum(actions @ lift * contexts, -1))
    numpyro.sample("y", dist.Normal(mean, 0.5).to_event(1))


def slope_times_action(contexts, actions):
    return numpyro.sample("slope", dist.Normal(0, 1)) * actions[:, 0] + contexts[:, 0]


@pytest.fixture
def model():
    return from_numpyro(revenue, actions=OFFERS, context_dim=2)


@pytest.fixture
def by_hand():
    """psi = lift, row by row; phi(c, a) = a (x) c."""
    return LinearGaussian(
        lambda context, action: jnp.outer(action, context).ravel(), np.zeros(6), np.ones(6), OFFERS, 2, 0.5
    )


def one_dimensional(program, **options):
    return from_numpyro(program, actions=Box(0, 1), context_dim=1, **options)


def over_units(method):
    """The method of one unit in one world, compiled for many units."""
    return jax.jit(lambda params, *units: jax.vmap(lambda *unit: method(params, *unit))(*units))


def test_documented_program_is_the_linear_model_written_by_hand(model, by_hand):
    params = model.sample_prior(jr.key(3))
    assert {name: value.shape for name, value in params.items()} == {"lift": (3, 2)}
    flat, outcomes = params["lift"].ravel(), jr.normal(jr.key(4), (NUM_UNITS,))
    ours, theirs = (params, CONTEXTS, ACTIONS), (flat, CONTEXTS, ACTIONS)
    rewards = over_units(model.mean_reward)(*ours), over_units(by_hand.mean_reward)(*theirs)
    np.testing.assert_allclose(*rewards, atol=1e-5)
    densities = over_units(model.log_likelihood)(*ours, outcomes), over_units(by_hand.log_likelihood)(*theirs, outcomes)
    np.testing.assert_allclose(*densities, atol=1e-5)


def test_outcomes_have_the_gradient_of_the_linear_model(model, by_hand):
    params = model.sample_prior(jr.key(3))

    def slopes(which, psi):
        return jax.jit(jax.grad(lambda a: which.sample_outcomes(jr.key(5), psi, CONTEXTS, a).sum()))(ACTIONS)

    np.testing.assert_allclose(slopes(model, params), slopes(by_hand, params["lift"].ravel()), atol=1e-5)


def test_outcomes_scatter_around_the_mean_reward_with_the_noise_of_the_program(model):
    params = model.sample_prior(jr.key(3))
    sample = jax.jit(jax.vmap(lambda k: model.sample_outcomes(k, params, CONTEXTS, ACTIONS)))
    draws, means = sample(jr.split(jr.key(6), 2000)), over_units(model.mean_reward)(params, CONTEXTS, ACTIONS)
    # 5 standard errors at six units: false alarm below 1 in 100,000.
    assert (np.abs(draws.mean(0) - means) < 5 * 0.5 / 2000**0.5).all()
    assert (np.abs(draws.std(0) - 0.5) < 5 * 0.5 / 4000**0.5).all()


def test_prior_draws_follow_the_program(model):
    draws = jax.jit(jax.vmap(model.sample_prior))(jr.split(jr.key(7), 4000))["lift"]
    assert draws.shape == (4000, 3, 2)
    # Six means and six variances at 5 standard errors: false alarm below 1 in 50,000.
    assert (np.abs(draws.mean(0)) < 5 / 4000**0.5).all()
    assert (np.abs(draws.var(0) - 1) < 5 * (2 / 4000) ** 0.5).all()


def test_model_compiles_batches_and_keeps_the_contract(model):
    assert isinstance(model, AbstractLikelihoodModel)
    check_model(model, CONTEXTS)
    worlds = jax.jit(jax.vmap(model.sample_prior))(jr.split(jr.key(8), 4))
    outcomes = eqx.filter_jit(lambda m, w: jax.vmap(lambda p: m.sample_outcomes(jr.key(9), p, CONTEXTS, ACTIONS))(w))
    assert outcomes(model, worlds).shape == (4, NUM_UNITS)


def test_number_of_context_columns_may_be_left_to_the_problem():
    open_model = from_numpyro(revenue, actions=OFFERS)
    assert open_model.context_dim is None
    check_model(open_model, CONTEXTS)
    bound = open_model.for_contexts(2)
    assert bound.context_dim == 2
    assert bound.sample_prior(jr.key(3))["lift"].shape == (3, 2)
    assert bound.for_contexts(2) is bound
    with pytest.raises(ModelError, match=r"does not know the number of context columns yet.*context_dim="):
        open_model.sample_prior(jr.key(3))


@pytest.mark.parametrize("kind", ["event", "plate", "batch", "optional outcome"])
def test_outcome_may_be_an_event_a_plate_or_a_batch(kind):
    def program(contexts, actions, y=None):
        noise = dist.Normal(slope_times_action(contexts, actions), 0.3)
        if kind == "plate":
            with numpyro.plate("units", contexts.shape[0]):
                numpyro.sample("y", noise)
        else:
            numpyro.sample("y", noise.to_event(1) if kind == "event" else noise, obs=y)

    model = one_dimensional(program)
    params, context, action = {"slope": jnp.asarray(2.0)}, jnp.array([1.0]), jnp.array([0.5])
    assert float(model.mean_reward(params, context, action)) == pytest.approx(2.0)
    density = model.log_likelihood(params, context, action, jnp.asarray(2.3))
    assert float(density) == pytest.approx(-0.5 - np.log(0.3 * np.sqrt(2 * np.pi)), abs=1e-5)
    assert model.sample_outcomes(jr.key(1), params, jnp.ones((4, 1)), jnp.ones((4, 1))).shape == (4,)


def test_latents_in_a_plate_of_fixed_size_are_params():
    def program(contexts, actions):
        spread = numpyro.sample("spread", dist.HalfNormal(1.0))
        with numpyro.plate("segments", 3):
            base = numpyro.sample("base", dist.Normal(0, spread))
        slope = numpyro.sample("slope", dist.Normal(0, 1), sample_shape=(3,))
        mean = jax.nn.one_hot(contexts[:, 0].astype(int), 3) @ base + actions @ slope
        numpyro.sample("y", dist.Normal(mean, 0.1))

    model = from_numpyro(program, actions=OFFERS, context_dim=1)
    check_model(model, jnp.arange(3.0)[:, None])
    shapes = {name: value.shape for name, value in model.sample_prior(jr.key(1)).items()}
    assert shapes == {"spread": (), "base": (3,), "slope": (3,)}


def test_without_a_reward_site_the_mean_of_the_outcome_is_the_reward():
    def program(contexts, actions):
        numpyro.sample("y", dist.LogNormal(slope_times_action(contexts, actions), 0.5))

    reward = one_dimensional(program).mean_reward({"slope": jnp.asarray(1.0)}, jnp.zeros(1), jnp.array([0.4]))
    assert float(reward) == pytest.approx(np.exp(0.4 + 0.125), rel=1e-5)


def test_sites_may_have_other_names():
    def program(contexts, actions):
        profit = numpyro.deterministic("profit", slope_times_action(contexts, actions))
        numpyro.sample("sales", dist.Normal(profit + 1, 0.5))

    model = one_dimensional(program, reward="profit", outcome="sales")
    params = {"slope": jnp.asarray(1.0)}
    assert float(model.mean_reward(params, jnp.zeros(1), jnp.array([0.4]))) == pytest.approx(0.4)
    check_model(model, jnp.zeros((2, 1)))


def test_conditioned_program_has_the_density_of_prior_and_likelihood(model):
    params, outcomes = model.sample_prior(jr.key(3)), jr.normal(jr.key(4), (NUM_UNITS,))
    joint, sites = log_density(model.conditioned(CONTEXTS, ACTIONS, outcomes), (), {}, params)
    likelihood = over_units(model.log_likelihood)(params, CONTEXTS, ACTIONS, outcomes)
    prior = dist.Normal(0, 1).log_prob(params["lift"])
    np.testing.assert_allclose(joint, prior.sum() + likelihood.sum(), rtol=1e-5)
    assert sites["y"]["is_observed"]


def test_draws_of_a_sampler_with_deterministic_sites_among_them_are_params_too(model):
    """MCMC.get_samples() holds `reward` at the experiment's units; elsewhere it is computed anew."""
    params = model.sample_prior(jr.key(3))
    reported = params | {"reward": jnp.full(NUM_UNITS, 99.0)}
    context, action = CONTEXTS[0], ACTIONS[0]
    np.testing.assert_array_equal(
        model.mean_reward(reported, context, action), model.mean_reward(params, context, action)
    )


def test_draw_through_a_mixture_has_no_gradient_rather_than_a_wrong_one():
    """y is 0 or 1 with chances set by the action: the gradient of a draw misses the change of the chances."""

    def program(contexts, actions):
        slope = numpyro.sample("slope", dist.Normal(1, 0.1))
        chance = jnp.clip(jnp.stack([actions[:, 0], 1 - actions[:, 0]], -1), 0.01, 0.99)
        parts = dist.Normal(jnp.stack([slope * actions[:, 0], jnp.zeros_like(actions[:, 0])], -1), 0.1)
        numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(chance), parts))

    model = one_dimensional(program)
    params = {"slope": jnp.asarray(1.0)}
    slope = jax.grad(lambda a: model.sample_outcome(jr.key(1), params, jnp.zeros(1), a))(jnp.array([0.5]))
    assert float(slope[0]) == 0.0
    assert "gradient in the action is zero, though they change" in (check_model(model, jnp.zeros((2, 1))) or "")


def test_importing_the_models_does_not_import_numpyro():
    command = "import sys, cobed.models; sys.exit('numpyro' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", command], check=False).returncode == 0


@dataclass
class Unhashable:
    """Data classes compare by value, so they have no hash."""

    def __call__(self, contexts, actions):
        return revenue(contexts, actions)


def no_outcome(contexts, actions):
    numpyro.deterministic("reward", slope_times_action(contexts, actions))


def deterministic_outcome(contexts, actions):
    numpyro.deterministic("y", slope_times_action(contexts, actions))


def outcome_in_columns(contexts, actions):
    numpyro.sample("y", dist.Normal(slope_times_action(contexts, actions)[:, None], 1.0))


def one_outcome_for_all(contexts, actions):
    numpyro.sample("y", dist.Normal(slope_times_action(contexts, actions).sum(), 1.0))


def correlated_outcomes(contexts, actions):
    mean = slope_times_action(contexts, actions)
    numpyro.sample("y", dist.MultivariateNormal(mean, jnp.eye(contexts.shape[0])))


def observed_outcome(contexts, actions):
    numpyro.sample("y", dist.Normal(slope_times_action(contexts, actions), 1.0), obs=contexts[:, 0])


def old_data_inside(contexts, actions):
    mean = slope_times_action(contexts, actions)
    numpyro.sample("pilot", dist.Normal(0, 1), obs=jnp.asarray(0.3))
    numpyro.sample("y", dist.Normal(mean, 1.0))


def factor_inside(contexts, actions):
    mean = slope_times_action(contexts, actions)
    numpyro.factor("push", mean.sum())
    numpyro.sample("y", dist.Normal(mean, 1.0))


def scaled_outcome(contexts, actions):
    mean = slope_times_action(contexts, actions)
    with handlers.scale(scale=2.0):
        numpyro.sample("y", dist.Normal(mean, 1.0))


def effect_of_each_unit(contexts, actions):
    with numpyro.plate("units", contexts.shape[0]):
        effect = numpyro.sample("effect", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(effect + actions[:, 0], 1.0))


def scalar_reward(contexts, actions):
    mean = slope_times_action(contexts, actions)
    numpyro.deterministic("reward", mean.mean())
    numpyro.sample("y", dist.Normal(mean, 1.0))


def random_reward(contexts, actions):
    reward = numpyro.sample("reward", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(reward + actions[:, 0], 1.0))


def no_mean(contexts, actions):
    transform = dist.transforms.ExpTransform()
    numpyro.sample(
        "y", dist.TransformedDistribution(dist.Normal(slope_times_action(contexts, actions), 1.0), transform)
    )


def wrong_shapes(contexts, actions):
    numpyro.sample("y", dist.Normal(contexts @ jnp.ones(7), 1.0))


def branch_on_values(contexts, actions):
    scale = 1.0 if contexts.mean() > 0 else 2.0
    numpyro.sample("y", dist.Normal(slope_times_action(contexts, actions), scale))


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (no_outcome, r"no sample site 'y' for the outcome; its sample sites are \['slope'\].*outcome="),
        (deterministic_outcome, "no sample site 'y' for the outcome"),
        (outcome_in_columns, r"'y' has shape \(1, 1\) for 1 unit\(s\); \(1,\) is expected"),
        (one_outcome_for_all, r"'y' has shape \(\) for 1 unit\(s\); \(1,\) is expected"),
        (correlated_outcomes, "share one MultivariateNormal.*independent between units given psi"),
        (observed_outcome, r"observes its outcome 'y' itself.*y=None"),
        (old_data_inside, r"observes or weighs the sites \['pilot'\], which draws from the prior would ignore"),
        (factor_inside, r"observes or weighs the sites \['push'\]"),
        (scaled_outcome, "subsampled or scaled"),
        (effect_of_each_unit, r"'effect' has shape \(1,\) for some units and \(2,\) for others.*plate of fixed size"),
        (scalar_reward, r"'reward' has shape \(\) for 1 unit\(s\); \(1,\) is expected"),
        (random_reward, "no deterministic site 'reward' for the mean reward; it has none"),
        (no_mean, "TransformedDistribution, has no mean in closed form.*numpyro.deterministic"),
        (wrong_shapes, r"fails on contexts \(n, 1\) and actions \(n, 1\)"),
        (branch_on_values, "compiled by JAX"),
        (lambda contexts: None, r"called as program\(contexts, actions\)"),
    ],
)
def test_program_that_cannot_be_a_model_is_refused_in_words(program, message):
    with pytest.raises(ModelError, match=message):
        one_dimensional(program)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"program": 3}, "function program.contexts, actions., got int"),
        ({"program": Unhashable()}, "Unhashable that cannot be hashed.*Wrap it in a function"),
        ({"actions": ["none", "5%"]}, "actions of a model must be a space such as"),
        ({"context_dim": 0}, "context_dim must be the number of context columns, at least 1, or None; got 0"),
        ({"context_dim": 1.5}, "got 1.5"),
        ({"reward": "profit"}, r"no deterministic site 'profit' for the mean reward; it has \['reward'\]"),
        ({"outcome": "sales"}, "no sample site 'sales' for the outcome"),
    ],
)
def test_bad_arguments_are_refused_in_words(change, message):
    with pytest.raises(ModelError, match=message):
        from_numpyro(**({"program": revenue, "actions": OFFERS, "context_dim": 2} | change))


def test_original_failure_of_a_program_is_the_cause():
    with pytest.raises(ModelError) as raised:
        one_dimensional(wrong_shapes)
    assert isinstance(raised.value.__cause__, TypeError)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"slope": jnp.zeros(())}, r"no value for the latent site 'lift'; it has \['slope'\]"),
        ({"lift": jnp.zeros((3, 5))}, r"'lift' has shape \(3, 5\) for some units and \(3, 2\) for others"),
    ],
)
def test_params_of_another_model_are_refused(model, params, message):
    with pytest.raises(ModelError, match=message):
        model.mean_reward(params, CONTEXTS[0], ACTIONS[0])


def test_prior_that_looks_at_the_contexts_or_actions_is_refused():
    def program(contexts, actions):
        slope = numpyro.sample("slope", dist.Normal(contexts.mean(), 1.0))
        numpyro.sample("y", dist.Normal(slope * actions[:, 0], 1.0))

    with pytest.raises(ModelError, match="latent site 'slope' depends on the contexts or the actions"):
        check_model(one_dimensional(program), jnp.arange(4.0)[:, None])


def scaled(contexts, actions):
    spread = numpyro.sample("spread", dist.HalfNormal(2.0))
    slopes = numpyro.sample("slopes", dist.Normal(1.0, 3.0).expand([2]))
    numpyro.sample("y", dist.Normal(slopes[0] * actions[:, 0] + slopes[1], spread).to_event(1))


def test_the_log_prior_is_that_of_the_sites():
    model = one_dimensional(scaled)
    params = {"spread": jnp.asarray(0.7), "slopes": jnp.asarray([0.2, -1.0])}
    # log N(.7; 0, 2) + log 2 + log N(.2; 1, 3) + log N(-1; 1, 3)
    expected = (
        -0.5 * (0.35**2 + (0.8 / 3) ** 2 + (2 / 3) ** 2) - 1.5 * np.log(2 * np.pi) - np.log(2 * 3 * 3) + np.log(2)
    )
    assert float(model.log_prior(params)) == pytest.approx(expected, rel=1e-5)


def test_the_log_prior_is_minus_infinity_outside_the_support():
    params = {"spread": jnp.asarray(-0.1), "slopes": jnp.zeros(2)}
    assert float(jax.jit(one_dimensional(scaled).log_prior)(params)) == -np.inf
    assert one_dimensional(scaled).bound_sites() == []
