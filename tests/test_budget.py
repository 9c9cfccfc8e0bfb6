"""Budgets: wrong ones are refused in words, and before any work."""

import pytest

import cobed
from cobed.budget import BUDGETS, Cost, check_memory, estimate_cost, find_budget
from cobed.errors import BudgetError


def test_an_unknown_budget_is_answered_with_the_known_ones():
    with pytest.raises(BudgetError, match=r"Unknown budget 'fast'\. Allowed: 'smoke', 'quick', 'paper'"):
        find_budget("fast")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_steps": 0}, "num_steps must be a whole number of at least 1, got 0"),
        ({"batch_size": 1}, "batch_size must be a whole number of at least 2, got 1"),
        ({"batch_size": 0.5}, "batch_size must be a whole number"),
        ({"num_starts": 0}, "num_starts must be a whole number of at least 1"),
        ({"settle_steps": -1}, "settle_steps must be a whole number of at least 0"),
        ({"warm_steps": 0.5}, "warm_steps must be a whole number of at least 0"),
        ({"pool_size": 10}, "pool_size .* must hold at least one batch"),
        ({"optimiser": "sgd"}, "must be 'muon' or 'adam'"),
        ({"schedule": "none"}, "'cosine' or 'exponential'"),
        ({"critic_rate": 0.0}, "must be positive"),
        ({"design_delay": 1.0}, "from 0 to below 1"),
        ({"num_samples": 1_000}, "at least 2 of the 1024 experiments"),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(changes, message):
    with pytest.raises(BudgetError, match=message):
        cobed.Budget(**changes)


def test_a_batch_larger_than_memory_is_refused_before_any_work(discrete_problem):
    huge = cobed.Budget(settle_batch_size=2_000_000, pool_size=2_000_000)
    with pytest.raises(BudgetError, match=r"GiB of memory and .* are free.*lower batch_size"):
        cobed.design(discrete_problem, seed=0, budget=huge, objective="infonce")


def test_a_modest_budget_fits():
    check_memory(Cost(1.0, 2**20))


@pytest.mark.parametrize("name", BUDGETS)
def test_every_named_budget_has_a_cost(discrete_problem, name):
    cost = estimate_cost(discrete_problem, BUDGETS[name], cobed.Separable())
    assert cost.seconds > 0
    assert "GiB of memory" in str(cost)


def test_more_steps_cost_more(discrete_problem):
    few, many = (estimate_cost(discrete_problem, cobed.Budget(num_steps=n), cobed.Joint()) for n in (1_000, 1_000_000))
    assert many.seconds > 10 * few.seconds


def test_discrete_actions_get_several_starts_and_samples(discrete_problem):
    resolved = cobed.Budget().resolved(discrete_problem)
    assert (resolved.num_starts, resolved.num_samples, resolved.design_delay) == (8, 4, 0.2)
