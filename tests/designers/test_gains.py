"""Designs from the information matrix: the value against other ways to it, the search against all designs, rules obeyed."""

import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import cobed
from cobed.campaign.constraints import RoundRule, repair_options
from cobed.campaign.spec import parse_spec
from cobed.designers.gains import climb
from cobed.models.gaussian import find_update
from cobed.models.glm import GeneralisedLinear, LinearFeatures, linear_gaussian
from cobed.objectives import ExperimentValue, FixedDesign, Predictor, PredictorValue, Trainable, choose_objective
from cobed.policies import Temperature

NAMES = ["a", "b", "c"]
FEATURES = LinearFeatures(cobed.Discrete(NAMES), 2)
DEVIATIONS = FEATURES.by_kind(1.0, 0.5, 0.5, 0.5)
# The first option is well known.
DEVIATIONS[3], DEVIATIONS[6:8] = 0.05, 0.05
SPEC = """name = "spring"
[units]
id = "customer"
[context]
age = "numeric"
[action]
options = ["a", "b", "c"]
[outcome]
column = "y"
likelihood = "bernoulli"
[constraints]
"""


def make_problem(model, num_units):
    rng = np.random.default_rng(0)
    return cobed.Problem(model, rng.normal(size=(num_units, 2)), rng.normal(size=(20, 2)))


def binary(num_units=6):
    model = GeneralisedLinear(FEATURES, FEATURES.by_kind(-1.0, 0, 0, 0), DEVIATIONS, "bernoulli")
    return make_problem(model, num_units)


def value_of(problem):
    predictor = Predictor.of(jr.key(0), problem.model)
    assert predictor is not None
    return PredictorValue.build(jr.key(0), problem.model, problem.contexts, problem.targets, predictor, Temperature())


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
    shares = jnp.asarray(designs(6, 1)[0]) * 0.8 + 0.1
    _, gains = value.gains(shares)
    step = 1e-2 * jax.nn.one_hot(2, 6)[:, None] * jnp.array([1.0, 0.0, 0.0])
    slope = (value.of_shares(shares + step) - value.of_shares(shares - step)) / 2e-2
    assert float(gains[2, 0]) == pytest.approx(float(slope), rel=0.05)


def test_the_search_finds_nearly_the_best_of_all_designs():
    problem = binary()
    value = value_of(problem)
    every = np.eye(3, dtype=np.float32)[np.array(list(itertools.product(range(3), repeat=6)))]
    values = np.asarray(jax.lax.map(value.of_shares, jnp.asarray(every)))
    result = cobed.design(problem, seed=0)
    assert result.score is not None
    assert result.settings["objective"] == "value"
    assert "information matrix" in result.reason
    # Above 99% of what the best of the 729 has beyond their median.
    assert result.score.value >= np.median(values) + 0.99 * (values.max() - np.median(values))
    assert result.score.value == pytest.approx(float(value.of_shares(jnp.asarray(result.actions))), rel=1e-4)


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
    "at_most = { b = 5 }",
    "at_least = { a = 12 }\nat_most = { c = 6 }",
    "cost = { b = 2.0, c = 3.0 }\nmax_cost = 40.0",
]


@pytest.mark.parametrize("text", RULES)
@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_design_under_a_rule_satisfies_it_and_is_worth_at_least_the_repaired_one(text, seed):
    problem, spec = binary(30), parse_spec(SPEC + text)
    value = value_of(problem)
    forbidden = np.random.default_rng(seed).random((30, 3)) < 0.1
    forbidden[forbidden.all(axis=1)] = False
    rule = RoundRule(spec, forbidden, np.full(30, -1), np.ones(30, bool))
    assert rule.binds
    start = designs(30, 1, seed)[0]
    free = np.asarray(climb(value, start).design)
    units = [str(i) for i in range(30)]
    repaired = repair_options(spec, free.argmax(1), np.zeros((30, 3)), forbidden, np.full(30, -1), units)
    repaired = np.eye(3, dtype=np.float32)[repaired]
    found = climb(value, free, rule)
    chosen = np.asarray(found.design).argmax(axis=1)
    counts = dict(zip(NAMES, np.bincount(chosen, minlength=3), strict=True))
    rules = spec.constraints
    assert not forbidden[np.arange(30), chosen].any()
    assert all(counts[name] >= least for name, least in rules.at_least.items())
    assert all(counts[name] <= most for name, most in rules.at_most.items())
    if rules.max_cost is not None:
        assert sum(rules.cost.get(name, 0.0) * count for name, count in counts.items()) <= rules.max_cost + 1e-6
    assert float(found.value) >= float(value.of_shares(jnp.asarray(repaired))) - 1e-6


def test_units_that_are_done_count_and_are_not_searched():
    spec = parse_spec(SPEC + "at_most = { b = 2 }")
    pinned, free = np.array([1, -1, -1, 0]), np.array([False, True, True, True])
    rule = RoundRule(spec, np.zeros((4, 3), bool), pinned, free)
    gains = np.array([[0, 9.0, 0], [0, 8.0, 0], [0, 7.0, 5.0]])
    # One b is done, so one is left: the unit that gains most by it; the pinned one keeps its own.
    assert rule(gains).tolist() == [1, 0, 0] or rule(gains).tolist() == [1, 2, 0]
    assert rule(gains, np.array([2, 2, 0]), 1).tolist() == [1, 2, 0]
