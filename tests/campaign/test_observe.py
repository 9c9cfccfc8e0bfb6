"""Outcomes that come, come again, are corrected and withdrawn: what counts, and that nothing is lost. Needs no JAX."""

import pandas as pd
import pytest

from cobed.campaign import records
from cobed.campaign.campaign import Campaign
from cobed.campaign.records import Assignment, Round
from cobed.errors import CampaignError

SPEC = """name = "spring"
[units]
id = "customer"
[context]
new = "binary"
[action]
column = "offer"
options = ["none", "5%"]
[outcome]
column = "amount"
likelihood = "normal"
typical = 50
spread = 10
"""


def plan_round(campaign, number, units):
    """A round as a design would store it."""
    rows = [Assignment(unit, {"new": 0.0}, "5%") for unit in units]
    with campaign.store.transaction() as connection:
        records.write_meta(connection, "encoding", '{"scales": {}, "levels": {}}')
        records.write_round(connection, Round(number, records.now(), "", 0, 1, {}), rows)


@pytest.fixture
def campaign(tmp_path, store_url):
    (tmp_path / "campaign.toml").write_text(SPEC)
    made = Campaign.create(tmp_path / "campaign.toml", store_url)
    plan_round(made, 1, ["a", "b", "c"])
    yield made
    made.close()


def told(**values):
    return pd.DataFrame({"customer": list(values), "amount": list(values.values())})


def amounts(campaign, round=1):
    table = campaign.export()
    return table[table["round"] == round].set_index("customer")["amount"].dropna().to_dict()


def history(campaign):
    with campaign.store.reading() as connection:
        return [(row.round, row.unit, row.value) for row in records.read_outcomes(connection, history=True)]


def test_the_last_table_counts_also_where_it_came_before(campaign):
    first, second = told(a=1.0, b=2.0), told(a=10.0)
    assert campaign.add_outcomes(first).added == 2
    assert campaign.add_outcomes(second).corrected == 1
    again = campaign.add_outcomes(first)
    assert (again.corrected, again.unchanged, again.duplicate) == (1, 1, False)
    assert amounts(campaign) == {"a": 1.0, "b": 2.0}
    assert campaign.add_outcomes(first).duplicate
    assert history(campaign) == [(1, "a", 1.0), (1, "b", 2.0), (1, "a", 10.0), (1, "a", 1.0)]
    assert campaign.uploads()["rows"].tolist() == [2, 1, 1]


def test_a_table_without_the_action_leaves_what_was_told_of_it(campaign):
    campaign.add_outcomes(told(a=1.0).assign(offer="none"))
    campaign.add_outcomes(told(a=2.0))
    row = campaign.export().set_index("customer").loc["a"]
    assert (row["offer"], row["amount"], row["as_planned"]) == ("none", 2.0, False)


def test_identical_tables_of_two_rounds_belong_each_to_its_round(campaign):
    table = told(a=1.0, b=0.0)
    campaign.add_outcomes(table)
    plan_round(campaign, 2, ["a", "b"])
    with pytest.raises(CampaignError, match=r"was taken before, for round 1.*--round 1.*--round 2"):
        campaign.add_outcomes(table)
    assert amounts(campaign, 2) == {}
    assert campaign.add_outcomes(table, round=1).duplicate
    assert campaign.add_outcomes(table, round=2).added == 2
    assert amounts(campaign, 2) == amounts(campaign, 1) == {"a": 1.0, "b": 0.0}
    assert campaign.add_outcomes(table).duplicate


def test_another_table_of_the_same_units_goes_to_their_last_round(campaign):
    campaign.add_outcomes(told(a=1.0))
    plan_round(campaign, 2, ["a"])
    assert campaign.add_outcomes(told(a=3.0)).added == 1
    assert (amounts(campaign, 1), amounts(campaign, 2)) == ({"a": 1.0}, {"a": 3.0})


def test_a_withdrawn_outcome_is_awaited_again_and_stays_in_the_history(campaign):
    campaign.add_outcomes(told(a=1.0, b=2.0))
    before = campaign.rounds()[-1]
    assert str(campaign.withdraw(["a"])) == "1 outcome(s) withdrawn."
    assert amounts(campaign) == {"b": 2.0}
    after = campaign.rounds()[-1]
    assert (after.num_outcomes, after.num_waiting, after.revision) == (1, 2, before.revision + 1)
    assert history(campaign) == [(1, "a", 1.0), (1, "b", 2.0), (1, "a", None)]
    # The same table counts again where it does not agree with what counts now.
    assert campaign.add_outcomes(told(a=1.0, b=2.0)).added == 1
    assert amounts(campaign) == {"a": 1.0, "b": 2.0}


def test_a_withdrawal_says_what_it_cannot_find_and_then_changes_nothing(campaign):
    campaign.add_outcomes(told(a=1.0, b=2.0))
    plan_round(campaign, 2, ["a"])
    for units, message in (
        (["b", "nobody"], "Unit 'nobody' is in no round"),
        (["b", "c"], r"Unit 'c' has no outcome in round 1\. Nothing"),
        (["b", "a"], "Unit 'a' has no outcome in round 2. It has one in round 1: --round 1"),
    ):
        with pytest.raises(CampaignError, match=message):
            campaign.withdraw(units)
    with pytest.raises(CampaignError, match="There is no round 7"):
        campaign.withdraw(["a"], round=7)
    with pytest.raises(CampaignError, match="Give either the units"):
        campaign.withdraw()
    with pytest.raises(CampaignError, match="There is no upload 9"):
        campaign.withdraw(upload=9)
    assert amounts(campaign) == {"a": 1.0, "b": 2.0}
    assert len(campaign.uploads()) == 1
    assert campaign.withdraw(["a"], round=1).withdrawn == 1


def test_a_withdrawn_upload_gives_way_to_what_counted_before_it(campaign):
    campaign.add_outcomes(told(a=1.0, b=2.0))
    campaign.add_outcomes(told(a=10.0, b=20.0, c=30.0))
    campaign.add_outcomes(told(b=200.0))
    assert str(campaign.withdraw(upload=2)) == (
        "1 outcome(s) withdrawn, 1 as they were before, 1 told anew since and kept."
    )
    assert amounts(campaign) == {"a": 1.0, "b": 200.0}
    # What was withdrawn does not come back with the one after it.
    campaign.withdraw(upload=3)
    assert amounts(campaign) == {"a": 1.0, "b": 2.0}
    with pytest.raises(CampaignError, match="Upload 2 was withdrawn already"):
        campaign.withdraw(upload=2)
    campaign.withdraw(upload=1)
    assert amounts(campaign) == {}
    assert campaign.status().num_outcomes == 0
    assert campaign.add_outcomes(told(a=1.0, b=2.0)).added == 2
    assert amounts(campaign) == {"a": 1.0, "b": 2.0}


def test_a_withdrawal_can_be_withdrawn(campaign):
    campaign.add_outcomes(told(a=1.0, b=2.0))
    campaign.withdraw(["a", "b"])
    assert campaign.withdraw(upload=2).restored == 2
    assert amounts(campaign) == {"a": 1.0, "b": 2.0}


def test_history_that_was_withdrawn_is_not_awaited(campaign):
    campaign.add_outcomes(told(h=5.0).assign(new="yes", offer="none"))
    campaign.withdraw(["h"])
    assert campaign.status().rounds["waiting"].tolist() == [0, 3]
    assert campaign.add_outcomes(told(h=6.0)).added == 1


def test_every_change_of_what_is_known_is_noticed(campaign):
    def mark():
        with campaign.store.reading() as connection:
            return records.outcomes_mark(connection)

    marks = [mark()]
    campaign.add_outcomes(told(a=1.0))
    marks.append(mark())
    campaign.add_outcomes(told(a=2.0))
    marks.append(mark())
    campaign.withdraw(["a"])
    marks.append(mark())
    campaign.withdraw(upload=3)
    marks.append(mark())
    campaign.withdraw(upload=2)
    marks.append(mark())
    assert len(set(marks)) == 6


def test_the_numbers_of_a_round_are_those_of_its_rows(campaign):
    for table in (told(a=1.0), told(b=1.0, a=2.0), told(h=1.0, k=2.0).assign(new="no", offer="5%"), told(c=3.0)):
        campaign.add_outcomes(table)
    campaign.withdraw(["a", "h"])
    campaign.withdraw(upload=2)
    for round in campaign.rounds():
        with campaign.store.reading() as connection:
            units = list(records.read_planned(connection, records.assignments.c.round == round.id))
        assert round.num_units == len(units)
        assert round.num_outcomes == sum(unit.outcome is not None for unit in units)
