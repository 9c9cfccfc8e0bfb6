"""Assignments repaired to satisfy a round's constraints, against all assignments there are."""

import itertools

import numpy as np
import pytest

from cobed.campaign.constraints import Forbids, RoundRule, repair_numbers, repair_options
from cobed.campaign.encoding import Encoding
from cobed.campaign.spec import parse_spec
from cobed.errors import CampaignError

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
FREE = np.full(5, -1)
UNITS = [f"u{i}" for i in range(5)]


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
def test_the_repair_has_the_fewest_changes_of_all_assignments_allowed(rules, seed):
    spec = parse_spec(BASE + rules)
    rng = np.random.default_rng(seed)
    wanted, rewards = rng.integers(0, 3, 5), rng.normal(size=(5, 3))
    forbidden = rng.random((5, 3)) < 0.2
    forbidden[forbidden.all(axis=1)] = False
    possible = list(allowed_assignments(spec, forbidden))
    if not possible:
        with pytest.raises(CampaignError):
            repair_options(spec, wanted, rewards, forbidden, FREE, UNITS)
        return
    fewest = min((wanted != chosen).sum() for chosen in possible)
    best = max(rewards[np.arange(5), chosen].sum() for chosen in possible if (wanted != chosen).sum() == fewest)
    found = repair_options(spec, wanted, rewards, forbidden, FREE, UNITS)
    assert any((found == chosen).all() for chosen in possible)
    assert (wanted != found).sum() == fewest
    assert rewards[np.arange(5), found].sum() == pytest.approx(best, abs=1e-5)


def test_a_design_that_satisfies_everything_is_left_alone():
    spec = parse_spec(BASE + "at_most = { a = 5 }")
    wanted = np.array([0, 1, 2, 0, 1])
    found = repair_options(spec, wanted, np.zeros((5, 3)), np.zeros((5, 3), bool), FREE, UNITS)
    np.testing.assert_array_equal(found, wanted)


def test_pinned_units_keep_their_option_and_count():
    spec = parse_spec(BASE + "at_most = { a = 2 }")
    pinned = np.array([0, -1, 0, -1, -1])
    found = repair_options(spec, np.zeros(5, int), np.zeros((5, 3)), np.zeros((5, 3), bool), pinned, UNITS)
    assert found[[0, 2]].tolist() == [0, 0]
    assert (found == 0).sum() == 2


def test_forbidden_options_follow_the_context():
    spec = parse_spec(
        BASE
        + 'forbid = [{ action = "b", column = "new", values = ["yes"] }, '
        + '{ action = "c", column = "channel", values = ["Web", "Shop"] }]'
    )
    # One column for each of the channels Phone and Web, then that of new. Nobody in these tables is from a Shop.
    forbids = Forbids.of(spec, Encoding({"channel": ["Phone", "Web"]}))
    assert forbids is not None
    expected = [[False, True, True], [False, False, False], [False, True, False]]
    np.testing.assert_array_equal(forbids.at(np.array([[0, 1, 1], [1, 0, 0], [1, 0, 1.0]])), expected)
    assert Forbids.of(parse_spec(BASE), Encoding({"channel": ["Phone", "Web"]})) is None


@pytest.mark.parametrize(
    ("values", "expected"), [('["no"]', [1, 0]), ('["no", "0"]', [1, 0]), ('["yes", "no"]', [1, 1])]
)
def test_a_binary_column_forbids_by_either_value(values, expected):
    rule = f'forbid = [{{ action = "b", column = "new", values = {values} }}]'
    forbids = Forbids.of(parse_spec(BASE + rule), Encoding({"channel": ["Phone", "Web"]}))
    assert forbids is not None
    assert forbids.at(np.array([[0, 1, 0], [0, 1, 1.0]]))[:, 1].tolist() == expected


def test_where_nothing_is_counted_each_unit_is_chosen_for_alone():
    """Against the same with a count that does not bind, for which an integer program is solved."""
    rng = np.random.default_rng(0)
    forbidden = rng.random((5, 3)) < 0.3
    forbidden[forbidden.all(axis=1)] = False
    alone, counted = (
        RoundRule(parse_spec(BASE + rules), forbidden, FREE, np.ones(5, bool)) for rules in ("", "at_most = { a = 5 }")
    )
    for _ in range(10):
        gains = rng.normal(size=(5, 3))
        start = alone(rng.normal(size=(5, 3)))
        np.testing.assert_array_equal(alone(gains), counted(gains))
        np.testing.assert_array_equal(alone(gains, start, 2), counted(gains, start, 2))


@pytest.mark.parametrize(
    ("rules", "forbidden", "message"),
    [
        ("at_least = { a = 6 }", None, "at_least asks for 6 units of 'a', and 5 of the 5 units may get it"),
        ("at_least = { a = 2 }", (slice(0, 4), 0), "asks for 2 units of 'a', and 1 of the 5 units"),
        ("", (1, slice(None)), r"Unit 'u1' may get no option at all: .* \(1 such unit\(s\)\)"),
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
    spec = parse_spec(BASE + rules)
    mask = np.zeros((5, 3), bool)
    if forbidden is not None:
        mask[forbidden] = True
    with pytest.raises(CampaignError, match=message):
        repair_options(spec, np.full(5, 2), np.zeros((5, 3)), mask, FREE, UNITS)


NUMBERS = BASE.replace(
    'options = ["a", "b", "c"]', "numbers = { price = { low = 1, high = 5 }, size = { low = 0, high = 1 } }"
)


def test_numbers_are_lowered_as_little_as_possible_to_keep_the_cost():
    spec = parse_spec(NUMBERS + "cost = { price = 1.0, size = 4.0 }\nmax_cost = 20.0")
    actions = np.array([[5.0, 1.0], [5.0, 1.0], [3.0, 0.5]])
    found = repair_numbers(spec, actions, np.array([True, True, False]))
    assert (found @ [1.0, 4.0]).sum() == pytest.approx(20, rel=1e-4)
    assert (found @ [1.0, 4.0]).sum() <= 20
    np.testing.assert_array_equal(found[2], actions[2])
    # Both numbers save 4 over their whole range: 3 too much is three quarters of one range, however divided.
    assert np.abs((found - actions) / [4, 1]).sum() == pytest.approx(0.75, abs=1e-3)
    np.testing.assert_array_equal(repair_numbers(spec, found, np.ones(3, bool)), found)


def test_numbers_that_cost_too_much_at_their_cheapest_are_told():
    spec = parse_spec(NUMBERS + "cost = { price = 1.0 }\nmax_cost = 2.0")
    with pytest.raises(CampaignError, match="max_cost allows 2, and the cheapest actions for 3 units cost 3"):
        repair_numbers(spec, np.full((3, 2), 1.0), np.ones(3, bool))
