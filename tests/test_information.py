"""Information estimates against closed forms."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import cobed
from cobed.errors import BudgetError, ModelError, ProblemError
from cobed.information import looseness_warning, prepare_measurement, saturation_warning
from cobed.models import RBF, GaussianProcess
from cobed.models.linear import linear_information
from cobed.optimum import Grid

FIRST, SECOND = np.eye(2, dtype=np.float32)
BEST = np.stack([FIRST, SECOND, SECOND])
EXACT = 0.5 * np.log(11)

BUDGET = cobed.Budget(
    num_steps=400, batch_size=256, settle_steps=200, settle_batch_size=1_024, num_evaluation_batches=32
)
CRITIC = cobed.Separable(hidden=(64,), embedding=16)


def exact(problem, actions):
    return linear_information(problem.model, problem.contexts, actions, np.eye(2))


def test_the_closed_form_is_half_the_log_of_eleven(linear_problem):
    assert exact(linear_problem, BEST) == pytest.approx(1.198948, abs=1e-6)


def test_the_estimate_is_below_the_exact_information_and_within_three_percent(linear_problem):
    estimate = cobed.max_value_information(linear_problem, BEST, budget=BUDGET, critic=CRITIC, seed=0)
    assert estimate.value <= EXACT + 4 * estimate.standard_error  # false alarm below 1 in 30,000
    assert estimate.value >= 0.97 * EXACT


@pytest.mark.slow
def test_the_joint_critic_reaches_the_exact_information_too(linear_problem):
    budget = BUDGET.replace(batch_size=128, settle_batch_size=512)
    estimate = cobed.max_value_information(linear_problem, BEST, budget=budget, critic=cobed.Joint(), seed=1)
    assert 0.95 * EXACT <= estimate.value <= EXACT + 4 * estimate.standard_error


def test_the_order_of_the_units_does_not_matter(linear_problem):
    assert exact(linear_problem, BEST[[1, 0, 2]]) == pytest.approx(EXACT)


def test_outcomes_that_do_not_depend_on_psi_tell_nothing():
    """Experiments on units whose reward is pure noise: information zero, and the bound says so."""

    def features(context, action):
        return jnp.where(context[0] > 0.5, jnp.ones(1), 1e-6 * action[:1])

    model = cobed.models.LinearGaussian(features, [0.0], [1.0], cobed.Discrete(2), 1, 1.0)
    problem = cobed.Problem(model, np.zeros((4, 1)), np.ones((1, 1)))
    actions = np.tile(FIRST, (4, 1))
    budget = BUDGET.replace(num_steps=50, settle_steps=50)
    estimate = cobed.max_value_information(problem, actions, budget=budget, critic=CRITIC, seed=2)
    assert abs(estimate.value) < 0.05


def test_the_likelihood_bounds_sandwich_the_exact_information(linear_problem):
    lower, upper = cobed.parameter_information(linear_problem, BEST, num_outer=4_096, num_contrasts=2_048, seed=3)
    assert lower.value <= EXACT + 4 * lower.standard_error  # false alarm below 1 in 30,000, likewise the next
    assert upper.value >= EXACT - 4 * upper.standard_error
    assert upper.value - lower.value < 0.05


@pytest.mark.slow
def test_max_values_tell_no_more_than_parameters(discrete_problem):
    actions = np.eye(4, dtype=np.float32)[[0, 1] * 5]
    budget = BUDGET.replace(num_steps=100, settle_steps=0)
    about_values = cobed.max_value_information(discrete_problem, actions, budget=budget, seed=4)
    _, about_params = cobed.parameter_information(discrete_problem, actions, num_outer=256, num_contrasts=1_024, seed=5)
    assert about_values.value <= about_params.value + 4 * about_params.standard_error


def test_a_bound_near_its_ceiling_is_reported_as_saturated():
    assert saturation_warning(cobed.Estimate(5.0, 0.1), 2_048) is None
    warning = saturation_warning(cobed.Estimate(7.5, 0.1), 2_048)
    assert warning is not None
    assert "near its ceiling log(2048) = 7.62" in warning


def test_a_bound_below_zero_is_told():
    assert looseness_warning(cobed.Estimate(-0.1, 0.1), "barber-agakov") is None
    assert looseness_warning(cobed.Estimate(-4.0, 0.1, "reward"), "value") is None
    assert "-4.00 nats, is below zero" in (looseness_warning(cobed.Estimate(-4.0, 0.1), "barber-agakov") or "")


def test_a_model_without_likelihood_has_no_parameter_information():
    model = cobed.models.from_simulator(
        lambda key: jr.normal(key),
        lambda key, psi, context, action: psi * action[0] + 0.1 * jr.normal(key),
        cobed.Box(-1.0, 1.0),
        context_dim=1,
        mean_reward=lambda psi, context, action: psi * action[0],
    )
    problem = cobed.Problem(model, np.zeros((2, 1)), np.zeros((1, 1)))
    with pytest.raises(ModelError, match="needs a model with a likelihood"):
        cobed.parameter_information(problem, np.ones((2, 1)), seed=0)


def test_a_design_of_the_wrong_shape_is_refused(linear_problem):
    with pytest.raises(ProblemError, match=r"has shape \(3, 2\)"):
        cobed.max_value_information(linear_problem, BEST[:2], seed=0)


def test_too_few_contrasts_are_refused(linear_problem):
    with pytest.raises(BudgetError, match="num_contrasts >= 1"):
        cobed.parameter_information(linear_problem, BEST, num_contrasts=0, seed=0)


def test_a_critic_is_not_evaluated_on_the_pool_it_was_trained_on():
    """Costly draws are kept in a pool; fresh ones need no second source."""
    model = GaussianProcess(RBF(0.5), cobed.Box(-1.0, 1.0), 1, 0.1, num_features=8)
    problem = cobed.Problem(model, np.zeros((2, 1)), np.linspace(-1, 1, 16)[:, None], optimum=Grid(128, 0))
    budget = cobed.Budget(batch_size=16, settle_batch_size=32, pool_size=64)
    training, evaluation = (m.simulation.source for m in prepare_measurement(jr.key(0), problem, budget))
    assert (training.size, evaluation.size) == (64, 32)
    assert not np.isin(np.asarray(evaluation.max_values), np.asarray(training.max_values)).any()


def test_fresh_draws_serve_training_and_evaluation(linear_problem):
    measurement = prepare_measurement(jr.key(0), linear_problem, BUDGET)
    assert measurement.training is measurement.evaluation
