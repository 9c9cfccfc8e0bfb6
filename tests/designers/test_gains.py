"""Designs from the information matrix: the value against other ways to it, the search against all designs, rules obeyed."""

import functools
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import cobed
from cobed.allowed import Allowed, Feasible
from cobed.models.gaussian import find_update
from cobed.models.glm import GeneralisedLinear, LinearFeatures, linear_gaussian
from cobed.objectives import ExperimentValue, FixedDesign, Predictor, PredictorValue, Trainable, choose_objective
from cobed.policies import Temperature
from cobed.search.together import climb

NAMES = ["a", "b", "c"]
FEATURES = LinearFeatures(cobed.Discrete(NAMES), 2)
DEVIATIONS = FEATURES.by_kind(1.0, 0.5, 0.5, 0.5)
# The first option is well known.
DEVIATIONS[3], DEVIATIONS[6:8] = 0.05, 0.05


def make_problem(model, num_units):
    rng = np.random.default_rng(0)
    return cobed.Problem(model, rng.normal(size=(num_units, 2)), rng.normal(size=(20, 2)))


@functools.cache
def binary(num_units=6):
    model = GeneralisedLinear(FEATURES, FEATURES.by_kind(-1.0, 0, 0, 0), DEVIATIONS, "bernoulli")
    return make_problem(model, num_units)


def value_of(problem):
    predictor = Predictor.of(jr.key(0), problem.model)
    assert predictor is not None
    return PredictorValue.build(jr.key(0), problem.model, problem.contexts, problem.places, predictor, Temperature())


def designs(num_units, num, seed=1):
    return np.eye(3, dtype=np.float32)[np.random.default_rng(seed).integers(0, 3, (num, num_units))]


@pytest.mark.slow
def test_for_normal_outcomes_it_is_the_exact_value():
    """The same number by a matrix of the coefficients and by one of the units; 256 and 1,024 points differ by about 1%."""
    problem = make_problem(linear_gaussian(FEATURES, np.zeros(12), DEVIATIONS, 0.5), 12)
    exact = ExperimentValue.build(
        problem, find_update(jr.key(0), problem.model, problem.contexts), Temperature()
    )  # fmt: skip
    for actions in jnp.asarray(designs(12, 3)):
        other = exact(Trainable(FixedDesign(actions), None), jr.key(0), jnp.ones(()))
        assert float(value_of(problem).of_shares(actions)) == pytest.approx(float(other), rel=0.02)


def test_gains_are_slopes_of_the_value():
    value = value_of(binary())
    shares = designs(6, 1)[0] * 0.8 + 0.1
    _, gains = eqx.filter_jit(value.gains)(shares)
    step = np.zeros_like(shares)
    step[2, 0] = 1e-2
    higher, lower = jax.lax.map(value.of_shares, np.stack([shares + step, shares - step]))
    assert float(gains[2, 0]) == pytest.approx(float(higher - lower) / 2e-2, rel=0.05)


def test_the_search_finds_nearly_the_best_of_all_designs():
    problem = binary()
    value = value_of(problem)
    every = np.eye(3, dtype=np.float32)[np.array(list(itertools.product(range(3), repeat=6)))]
    result = cobed.design(problem, seed=0)
    *values, chosen = np.asarray(jax.lax.map(value.of_shares, np.append(every, result.actions[None], axis=0)))
    assert result.score is not None
    assert result.settings["objective"] == "value"
    assert "information matrix" in result.reason
    # Above 99% of what the best of the 729 has beyond their median.
    assert result.score.value >= np.median(values) + 0.99 * (max(values) - np.median(values))
    assert result.score.value == pytest.approx(float(chosen), rel=1e-4)


@pytest.mark.slow
def test_known_options_are_not_tried():
    result = cobed.design(binary(40), seed=0)
    assert result.actions.sum(axis=0)[0] < 5


@pytest.mark.slow
@pytest.mark.parametrize("outcome", ["bernoulli", "poisson"])
def test_numbers_are_designed_by_the_same_value(outcome):
    features = LinearFeatures(cobed.Box(0.0, 1.0), 1)
    size = features.by_kind(0, 0, 0, 0).size
    model = GeneralisedLinear(features, np.zeros(size), np.full(size, 0.5), outcome)
    problem = cobed.Problem(model, np.linspace(-1, 1, 8), np.linspace(-1, 1, 5))
    result = cobed.design(problem, seed=0, budget="smoke")
    assert result.score is not None
    assert result.score.unit == "reward"
    fixed = choose_objective(jr.key(0), problem, cobed.Budget().resolved(problem), "value").objective
    middle = fixed(Trainable(FixedDesign(jnp.full((8, 1), 0.5)), None), jr.key(0), jnp.ones(()))
    # All at one number says little about the slope.
    assert result.score.value > float(middle)


RULES = [
    (cobed.rules.AtMost({"b": 5}),),
    (cobed.rules.AtLeast({"a": 12}), cobed.rules.AtMost({"c": 6})),
    (cobed.rules.MaxCost(40.0),),
]
COSTS = np.array([0.0, 2.0, 3.0])


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_design_under_rules_satisfies_them_and_is_worth_at_least_the_nearest_to_a_free_one(rules, seed):
    problem = binary(30)
    value, space = value_of(problem), problem.model.action_space
    mask = np.random.default_rng(seed).random((30, 3)) >= 0.1
    mask[~mask.any(axis=1)] = True
    feasible = Feasible.build(space, 30, Allowed(units=mask, rules=rules, costs=COSTS))
    free = np.asarray(climb(value, designs(30, 1, seed)[0], Feasible.build(space, 30, Allowed())).design)
    found = climb(value, free, feasible)
    chosen = np.asarray(found.design).argmax(axis=1)
    counts = np.bincount(chosen, minlength=3)
    assert mask[np.arange(30), chosen].all()
    totals = np.einsum("lda,da->l", feasible.weights, found.design)
    assert ((totals <= feasible.most + 1e-6) & (totals >= feasible.least - 1e-6)).all()
    assert {0: counts[1] <= 5, 1: counts[0] >= 12 and counts[2] <= 6, 2: counts @ COSTS <= 40}[RULES.index(rules)]
    assert float(found.value) >= float(value.of_shares(jnp.asarray(feasible.nearest(free)))) - 1e-6


def test_without_limits_a_search_stays_within_what_each_unit_may_get():
    problem = binary(20)
    mask = np.random.default_rng(0).random((20, 3)) >= 0.4
    mask[~mask.any(axis=1)] = True
    feasible = Feasible.build(problem.model.action_space, 20, Allowed(units=mask))
    found = climb(value_of(problem), designs(20, 1)[0], feasible)
    assert mask[np.arange(20), np.asarray(found.design).argmax(axis=1)].all()
    # No single allowed change that its gain promises is left.
    gains = np.where(mask, np.asarray(found.gains), -np.inf)
    assert float(found.value) >= float(value_of(problem).of_shares(jnp.asarray(feasible.nearest(designs(20, 1)[0]))))
    assert np.isfinite(gains.max(axis=1)).all()
