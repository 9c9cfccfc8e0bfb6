"""What a spec allows, against all assignments there are."""

import importlib.util
import itertools
from pathlib import Path

import numpy as np
import pytest

import cobed
from cobed.allowed import Allowed, Feasible
from cobed.campaign.constraints import limits_of, permitted
from cobed.campaign.spec import parse_spec
from cobed.errors import ProblemError, SpecError
from cobed.rules import base, kinds

BASE = """name = "spring"
[units]
id = "customer"
[context]
channel = "categorical"
new = "binary"
[action]
options = ["a", "b", "c"]
[outcome]
column = "y"
likelihood = "bernoulli"
[constraints]
"""
OPTIONS = cobed.Discrete(["a", "b", "c"])


def feasible(rules, mask=None, fixed=None):
    limits = limits_of(parse_spec(BASE + rules), 5)
    return Feasible.build(OPTIONS, 5, Allowed(units=mask, fixed=fixed, rules=limits))


def nearest(allowed, wanted, rewards=None):
    return allowed.nearest(np.eye(3)[wanted], rewards).argmax(axis=1)


def allowed_assignments(spec, forbidden):
    rules = spec.constraints
    for chosen in itertools.product(range(3), repeat=len(forbidden)):
        counts = {name: chosen.count(place) for place, name in enumerate("abc")}
        cost = sum(rules.cost.get(name, 0) * count for name, count in counts.items())
        if (
            all(counts[name] >= least for name, least in rules.at_least.items())
            and all(counts[name] <= most for name, most in rules.at_most.items())
            and (rules.max_cost is None or cost <= rules.max_cost)
            and not any(forbidden[unit, place] for unit, place in enumerate(chosen))
        ):
            yield np.array(chosen)


@pytest.mark.parametrize(
    "rules",
    [
        "at_most = { a = 1 }",
        "at_least = { c = 2, b = 1 }",
        "cost = { a = 3.0, b = 2.0, c = 0.5 }\nmax_cost = 7.0",
        "at_least = { a = 1 }\nat_most = { b = 1 }\ncost = { a = 3.0, b = 2.0, c = 1.0 }\nmax_cost = 9.0",
    ],
)
@pytest.mark.parametrize("seed", range(4))
def test_the_nearest_assignment_has_the_fewest_changes_of_all_that_are_allowed(rules, seed):
    spec = parse_spec(BASE + rules)
    rng = np.random.default_rng(seed)
    wanted, rewards = rng.integers(0, 3, 5), rng.normal(size=(5, 3))
    forbidden = rng.random((5, 3)) < 0.2
    forbidden[forbidden.all(axis=1)] = False
    possible = list(allowed_assignments(spec, forbidden))
    if not possible:
        with pytest.raises(ProblemError):
            feasible(rules, ~forbidden)
        return
    fewest = min((wanted != chosen).sum() for chosen in possible)
    best = max(rewards[np.arange(5), chosen].sum() for chosen in possible if (wanted != chosen).sum() == fewest)
    found = nearest(feasible(rules, ~forbidden), wanted, rewards)
    assert any((found == chosen).all() for chosen in possible)
    assert (wanted != found).sum() == fewest
    assert rewards[np.arange(5), found].sum() == pytest.approx(best, abs=1e-5)


def test_a_design_that_satisfies_everything_is_left_alone():
    wanted = np.array([0, 1, 2, 0, 1])
    np.testing.assert_array_equal(nearest(feasible("at_most = { a = 5 }"), wanted), wanted)


def test_fixed_units_keep_their_option_and_count():
    fixed = np.full((5, 3), np.nan)
    fixed[[0, 2]] = [1, 0, 0]
    found = nearest(feasible("at_most = { a = 2 }", fixed=fixed), np.zeros(5, int))
    assert found[[0, 2]].tolist() == [0, 0]
    assert (found == 0).sum() == 2


def test_forbidden_options_follow_the_context():
    spec = parse_spec(
        BASE
        + 'forbid = [{ action = "b", column = "new", values = ["yes"] }, '
        + '{ action = "c", column = "channel", values = ["Web", "Shop"] }]'
    )
    # Nobody in these tables is from a Shop.
    cells = {"channel": ["Web", "Phone", "Phone"], "new": [1.0, 0.0, 1.0]}
    expected = [[True, False, False], [True, True, True], [True, False, True]]
    np.testing.assert_array_equal(permitted(spec, cells), expected)
    assert permitted(parse_spec(BASE), cells) is None


@pytest.mark.parametrize(
    ("values", "expected"), [('["no"]', [1, 0]), ('["no", "0"]', [1, 0]), ('["yes", "no"]', [1, 1])]
)
def test_a_binary_column_forbids_by_either_value(values, expected):
    rule = f'forbid = [{{ action = "b", column = "new", values = {values} }}]'
    mask = permitted(parse_spec(BASE + rule), {"channel": ["Web", "Web"], "new": [0.0, 1.0]})
    assert mask is not None
    assert (~mask[:, 1]).tolist() == expected


def test_where_nothing_is_counted_each_unit_is_chosen_for_alone():
    """Against the same with a count that does not bind, for which an integer program is solved."""
    rng = np.random.default_rng(0)
    forbidden = rng.random((5, 3)) < 0.3
    forbidden[forbidden.all(axis=1)] = False
    alone, counted = (feasible(rules, ~forbidden).options for rules in ("", "at_most = { a = 5 }"))
    for _ in range(10):
        gains = rng.normal(size=(5, 3))
        start = alone(rng.normal(size=(5, 3)))
        np.testing.assert_array_equal(alone(gains), counted(gains))
        np.testing.assert_array_equal(alone(gains, start, 2), counted(gains, start, 2))


@pytest.mark.parametrize(
    ("rules", "forbidden", "message"),
    [
        (
            "at_least = { a = 6 }",
            None,
            "No assignment has at least 6 units of 'a': .* adds up to 0 at least and 5 at most",
        ),
        ("at_least = { a = 2 }", (slice(0, 4), 0), "at least 2 units of 'a': .* 0 at least and 1 at most"),
        ("", (1, slice(None)), r"Row 1 of Allowed.units allows no action at all \(1 such row"),
        (
            "at_least = { a = 3, b = 3 }",
            None,
            "No assignment of 5 units .*: at least 3 units of 'a'; at least 3 units of 'b'.* Any one of these could be",
        ),
        (
            "at_least = { a = 3 }\ncost = { a = 2.0 }\nmax_cost = 5.0",
            None,
            "at least 3 units of 'a'; a total cost of at most 5",
        ),
    ],
)
def test_constraints_that_contradict_each_other_are_named(rules, forbidden, message):
    mask = np.ones((5, 3), bool)
    if forbidden is not None:
        mask[forbidden] = False
    with pytest.raises(ProblemError, match=message):
        feasible(rules, mask)


@pytest.fixture
def max_share(monkeypatch):
    """A kind of rule of another package."""
    monkeypatch.setattr(base._KINDS, "_parts", {**kinds()})
    path = Path(__file__).parents[1] / "outside" / "max_share.py"
    module = importlib.util.spec_from_file_location("max_share", path)
    module.loader.exec_module(importlib.util.module_from_spec(module))
    return "max_share"


def test_a_kind_of_rule_of_another_package_is_a_key_of_the_spec(max_share):
    assert nearest(feasible(f"{max_share} = {{ a = 0.4 }}"), np.zeros(5, int)).tolist().count(0) == 2
    with pytest.raises(SpecError, match=r"line 13, constraints\.max_share\.a: .much. is not allowed"):
        parse_spec(BASE + f'{max_share} = {{ a = "much" }}')
    with pytest.raises(SpecError, match=r"constraints\.max_share names 'd', which is no action"):
        parse_spec(BASE + f"{max_share} = {{ d = 0.4 }}")


def test_a_rule_of_no_kind_is_told():
    with pytest.raises(
        SpecError, match=r"line 13, constraints\.at_mots: there is no such key\. Did you mean 'at_most'\?"
    ):
        parse_spec(BASE + "at_mots = { a = 1 }")


NUMBERS = BASE.replace(
    'options = ["a", "b", "c"]', "numbers = { price = { low = 1, high = 5 }, size = { low = 0, high = 1 } }"
)


def numbers(rules, num_units, fixed=None):
    limits = limits_of(parse_spec(NUMBERS + rules), num_units)
    return Feasible.build(cobed.Box([1.0, 0.0], [5.0, 1.0]), num_units, Allowed(fixed=fixed, rules=limits))


def test_numbers_are_lowered_as_little_as_possible_to_keep_the_cost():
    actions = np.array([[5.0, 1.0], [5.0, 1.0], [3.0, 0.5]])
    fixed = np.where([[False], [False], [True]], actions, np.nan)
    allowed = numbers("cost = { price = 1.0, size = 4.0 }\nmax_cost = 20.0", 3, fixed)
    found = allowed.nearest(actions)
    assert (found @ [1.0, 4.0]).sum() == pytest.approx(20, rel=1e-4)
    assert (found @ [1.0, 4.0]).sum() <= 20
    np.testing.assert_array_equal(found[2], actions[2])
    # Both numbers save 4 over their whole range: 3 too much is three quarters of one range, however divided.
    assert np.abs((found - actions) / [4, 1]).sum() == pytest.approx(0.75, abs=1e-3)
    np.testing.assert_array_equal(allowed.nearest(found), found)


def test_numbers_that_cost_too_much_at_their_cheapest_are_told():
    message = "No batch of these actions has a total cost of at most 2, .* at best one of them is broken by 1"
    with pytest.raises(ProblemError, match=message):
        numbers("cost = { price = 1.0 }\nmax_cost = 2.0", 3)
