"""Outcomes through which no gradient passes: NumPyro programs with binary outcomes and counts, hurdles, other simulators."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import cobed

CONTEXTS, TARGETS = np.linspace(-1, 1, 6)[:, None], np.array([[-0.5], [0.5]])
OFFERS = cobed.Discrete(["known", "new"])
TINY = cobed.Budget(
    optimiser="adam", num_steps=40, warm_steps=0, batch_size=64, num_starts=1, settle_steps=10, settle_batch_size=64,
    num_evaluation_batches=2,
)  # fmt: skip


def offers(law, allowed=None):
    """The effect of one offer is known, that of the other is not."""

    def program(contexts, actions):
        effect = numpyro.sample("effect", dist.Normal(jnp.zeros(2), jnp.array([0.01, 1.0])))
        numpyro.sample("y", law(actions @ effect))

    return cobed.Problem(cobed.models.from_numpyro(program, OFFERS), CONTEXTS, TARGETS, allowed=allowed)


def dose(law, allowed=None):
    """A dose of zero tells nothing."""

    def program(contexts, actions):
        slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
        numpyro.sample("y", law(slope * actions[:, 0]))

    return cobed.Problem(cobed.models.from_numpyro(program, cobed.Box(-1.0, 1.0)), CONTEXTS, TARGETS, allowed=allowed)


def bernoulli(eta):
    return dist.Bernoulli(logits=eta)


def poisson(eta):
    return dist.Poisson(jnp.exp(eta))


@pytest.fixture(scope="module")
def offers_problem():
    return offers(bernoulli)


@pytest.fixture(scope="module")
def dose_problem():
    return dose(bernoulli)


def test_named_actions_of_a_binary_program_go_where_something_is_to_be_learned(offers_problem):
    result = cobed.design(offers_problem, seed=0, budget=TINY)
    assert result.labels == ["new"] * 6
    assert "no gradient passes through a binary outcome or a count. So the units exchanged actions" in result.reason
    assert result.score.unit == "reward"
    assert result.score.value > 4 * result.score.standard_error


def test_rules_and_fixed_units_are_obeyed():
    fixed = np.full((6, 2), np.nan)
    fixed[0] = [1, 0]
    allowed = cobed.Allowed(rules=[cobed.rules.AtMost({"new": 2})], fixed=fixed)
    result = cobed.design(offers(bernoulli, allowed), seed=0, budget=TINY)
    assert result.labels.count("new") == 2
    assert result.labels[0] == "known"


@pytest.mark.slow
def test_numbers_of_a_binary_program_go_to_the_ends(dose_problem):
    result = cobed.design(dose_problem, seed=0, budget=TINY)
    assert (np.abs(result.actions) > 0.9).all()


@pytest.mark.slow
def test_numbers_obey_a_limit_of_costs_and_fixed_units():
    fixed = np.full((6, 1), np.nan)
    fixed[2] = 0.25
    allowed = cobed.Allowed(rules=[cobed.rules.MaxCost(0.0)], costs=[1.0], fixed=fixed)
    actions = cobed.design(dose(bernoulli, allowed), seed=0, budget=TINY).actions
    assert actions.sum() <= 1e-4
    assert actions[2] == 0.25
    assert (np.abs(actions) > 0.5).any()


@pytest.mark.slow
@pytest.mark.parametrize("make", [offers, dose])
@pytest.mark.parametrize("law", [bernoulli, poisson])
def test_the_whole_way_from_design_to_evaluation(make, law):
    problem = make(law)
    result = cobed.design(problem, seed=0, budget=TINY)
    data = cobed.run_experiment(problem, problem.sample_world(jr.key(0)), result, seed=1)
    posterior = cobed.infer(problem.model, data, seed=2)
    assert len(cobed.deploy(posterior, problem).labels) == 2
    assert np.isfinite(cobed.evaluate(problem, result, 4, seed=3).regret.mean)


@pytest.mark.slow
@pytest.mark.parametrize(("objective", "about"), [("infonce", "parameters"), ("barber-agakov", "max-values")])
def test_another_objective_measures_the_design_that_moments_found(offers_problem, objective, about):
    result = cobed.design(offers_problem, seed=0, budget=TINY, objective=objective, about=about)
    assert result.labels == ["new"] * 6
    assert result.score.unit == "nats"


@pytest.mark.slow
def test_a_simulator_that_jax_cannot_differentiate_is_designed():
    def simulate(key, psi, context, action):
        return jax.lax.while_loop(lambda y: y < -1, lambda y: y + 1.0, psi @ action + jr.normal(key))

    model = cobed.models.from_simulator(
        lambda key: jnp.array([0.01, 1.0]) * jr.normal(key, (2,)),
        simulate,
        OFFERS,
        1,
        mean_reward=lambda p, c, a: p @ a,
    )
    result = cobed.design(cobed.Problem(model, CONTEXTS, TARGETS), seed=0, budget=TINY)
    assert result.labels == ["new"] * 6
    assert "JAX cannot differentiate" in result.reason


@pytest.mark.slow
def test_auto_leaves_a_bound_below_zero_for_the_objective_its_warning_names(tmp_path):
    """The best reward is near -3 or near 3, and outcomes tell nearly nothing: no Gaussian density comes near its entropy."""

    def sample_prior(key):
        side, own = jr.split(key)
        return 3 * jr.rademacher(side, (), float) + 0.1 * jr.normal(own)

    def mean_reward(psi, context, action):
        return psi - (action[0] - 0.5) ** 2

    model = cobed.models.from_simulator(
        sample_prior,
        lambda key, psi, c, a: mean_reward(psi, c, a) + 100 * jr.normal(key),
        cobed.Box(0.0, 1.0),
        1,
        mean_reward=mean_reward,
    )
    problem = cobed.Problem(model, np.ones((2, 1)), np.ones((1, 1)))
    first = cobed.design(problem, seed=0, budget=TINY, checkpoint=tmp_path)
    assert first.settings["objective"] == "infonce"
    assert "below zero" in first.reason
    assert first.reason.endswith("So 'infonce', which needs no density, took its place.")
    assert not any("too far from Gaussian" in warning for warning in first.warnings)
    # Both objectives have checkpoints of their own: a second call finds all of them.
    again = cobed.design(problem, seed=0, budget=TINY, checkpoint=tmp_path)
    assert again.score == first.score
