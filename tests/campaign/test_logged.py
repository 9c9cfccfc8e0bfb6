"""Which outcomes judge policies, with which weights: by hand, without a model."""

import numpy as np
import pandas as pd
import pytest

from cobed.campaign import records
from cobed.campaign.campaign import Campaign
from cobed.campaign.crossfit import OutOfFold
from cobed.campaign.evaluation import _supported
from cobed.campaign.logged import matching, net_rewards, read_by_chance, read_choices
from cobed.campaign.records import Assignment, Outcome, Round
from cobed.campaign.spec import parse_spec
from cobed.campaign.tables import read_table

SPEC = """name = "spring"
[units]
id = "customer"
[context]
age = "numeric"
[action]
column = "offer"
options = ["none", "mail", "call"]
[outcome]
column = "amount"
likelihood = "normal"
typical = 10.0
spread = 2.0
[value]
outcome = 2.0
cost = { mail = 1.0, call = { share = 0.5 } }
"""
PRICES = SPEC.split("[value]")[0].replace(
    'column = "offer"\noptions = ["none", "mail", "call"]', "numbers = { price = { low = 0.0, high = 10.0 } }"
)
HALVES = {"share": 0.5, "among": {"none": 0.5, "mail": 0.5}}
THIRDS = {"share": 0.5, "among": dict.fromkeys(["none", "mail", "call"], 1 / 3)}


@pytest.fixture
def store(tmp_path):
    """Two units of history, one with a probability; a round of two random units, one that got something else, a designed one."""
    (tmp_path / "campaign.toml").write_text(SPEC)
    campaign = Campaign.create(tmp_path / "campaign.toml")
    history = {
        "customer": ["h1", "h2"],
        "age": [30, 40],
        "offer": ["none", "mail"],
        "amount": [1.0, 2.0],
        "propensity": [0.25, None],
    }
    campaign.add_outcomes(pd.DataFrame(history))
    rows = [
        Assignment("a", {"age": 30.0}, "mail", chance=HALVES), Assignment("b", {"age": 40.0}, "call", chance=THIRDS),
        Assignment("c", {"age": 50.0}, "none", chance=THIRDS), Assignment("d", {"age": 50.0}, "none"),
    ]  # fmt: skip
    with campaign.store.transaction() as connection:
        records.write_round(connection, Round(1, "now", "hash", 0, 1, {}), rows)
        upload = records.write_upload(connection, "hash", "outcomes.csv")
        given = [("a", "mail"), ("b", "call"), ("c", "mail"), ("d", "none")]
        records.write_outcomes(connection, [Outcome(1, unit, 4.0, action) for unit, action in given], upload)
    yield campaign.store
    campaign.close()


def read(store, text=SPEC, round=None):
    return store.read(lambda connection: read_by_chance(connection, parse_spec(text), round))


def test_units_that_got_something_else_than_chance_gave_them_are_left_out_and_counted(store):
    logged = read(store)
    assert logged.units == ["h1", "a", "b"]
    assert logged.num_others == 1
    assert logged.propensity.tolist() == [0.25, 0.5, 1 / 3]
    assert logged.rounds.tolist() == [0, 1, 1]
    assert logged.chances.tolist() == [[1, 0, 0], [0.5, 0.5, 0], [1 / 3] * 3]
    assert len(logged.entries) == 6
    assert read(store, round=1).units == ["a", "b"]
    assert read(store, round=0).num_others == 0


def test_shares_of_history_stand_for_those_without_a_probability(store):
    logged = read(store, SPEC + "[design]\nhistory_shares = { none = 0.4, mail = 0.6 }\n")
    assert logged.units == ["h1", "h2", "a", "b"]
    assert logged.propensity.tolist() == [0.25, 0.6, 0.5, 1 / 3]
    assert logged.chances[1].tolist() == [0.4, 0.6, 0]


def test_weights_are_one_over_the_probability_where_the_policy_gives_what_the_unit_got(store):
    spec, logged = parse_spec(SPEC), read(store)
    got, chosen = np.eye(3)[[0, 1, 2]], np.eye(3)[[0, 0, 2]]
    weights, probability = matching(spec, logged, got, chosen)
    assert weights.tolist() == [4, 0, 3]
    assert probability.tolist() == [1, 0.5, 1 / 3]


def test_numbers_match_within_a_tenth_of_the_range_cut_at_its_bounds(store):
    logged = read(store).part(np.array([1, 2, 2]))
    logged.propensity[:] = 0.1  # the density over 0 to 10
    weights, probability = matching(
        parse_spec(PRICES), logged, np.array([[5.0], [0.9], [3.0]]), np.array([[6.0], [0.0], [5.0]])
    )
    assert probability == pytest.approx([0.2, 0.1, 0.2])
    assert weights == pytest.approx([5, 10, 0])


def test_outcomes_are_worth_what_the_spec_says():
    # 2 * 3; 2 * 3 - 1; half of 2 * 3
    assert net_rewards(parse_spec(SPEC), np.eye(3), np.full(3, 3.0)).tolist() == [6, 5, 3]
    assert net_rewards(parse_spec(PRICES), np.ones((2, 1)), np.array([3.0, 4.0])).tolist() == [3, 4]


def test_a_table_decides_for_the_units_it_names():
    table = read_table(pd.DataFrame({"customer": ["b", "x", "c"], "offer": ["call", "none", None]}), "policy.csv")
    chosen, decides = read_choices(parse_spec(SPEC), table, ["a", "b", "c", "b"])
    assert decides.tolist() == [False, True, False, True]
    assert chosen[decides].tolist() == [[0, 0, 1], [0, 0, 1]]


def test_history_that_could_not_give_what_a_policy_gives_counts_for_none(store):
    spec, logged = parse_spec(SPEC), read(store)
    calls, nothing = np.eye(3)[[2, 0, 0]], np.eye(3)[[0, 0, 0]]
    usable, (said,) = _supported(spec, logged, OutOfFold(np.zeros(3), {"one": calls, "other": nothing}, {}))
    assert usable.tolist() == [False, True, True]
    assert "The 1 random units of history are left out" in said
    assert _supported(spec, logged, OutOfFold(np.zeros(3), {"other": nothing}, {}))[0].all()
