"""Who is in the next round: units that are free, once; and who is out in the field. Needs no JAX."""

import hashlib

import numpy as np
import pandas as pd
import pytest

from cobed.campaign import records
from cobed.campaign.campaign import Campaign
from cobed.campaign.records import Assignment, Round
from cobed.campaign.selection import read_field, select_units
from cobed.campaign.tables import read_table
from cobed.errors import CampaignError, TableError

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


def units(*names):
    return pd.DataFrame({"customer": names, "new": ["yes"] * len(names)})


def many(number, start=0):
    return units(*(f"{i:03d}" for i in range(start, start + number)))


class Given:
    """A campaign, and rounds stored as a design would store them."""

    def __init__(self, campaign):
        self.campaign = campaign

    def select(self, table, take=None, **how):
        with self.campaign.store.reading() as connection:
            return select_units(
                connection, self.campaign.spec, read_table(table, "units"), take, **{"again": False, **how}
            )

    def plan(self, table, take=None, **how):
        """The units of the round that comes next, which is stored."""
        chosen = self.select(table, take, **how)
        rows = [Assignment(unit, {"new": 1.0}, "5%") for unit in chosen.table.frame["customer"]]
        made = Round(chosen.number, records.now(), "", 0, chosen.version, {"take": take})
        with self.campaign.store.transaction() as connection:
            records.write_meta(connection, "encoding", '{"scales": {}, "levels": {}}')
            records.write_round(connection, made, rows)
        return [row.unit for row in rows]

    def observe(self, *names):
        self.campaign.add_outcomes(pd.DataFrame({"customer": names, "amount": np.arange(len(names)) + 1.0}))


@pytest.fixture
def given(tmp_path, store_url):
    (tmp_path / "campaign.toml").write_text(SPEC)
    made = Campaign.create(tmp_path / "campaign.toml", store_url)
    yield Given(made)
    made.close()


def test_the_second_draw_has_other_units_than_the_first(given):
    first = given.plan(many(50), 20)
    given.observe(*first[:5])
    second = given.plan(many(50), 20)
    assert len(set(first) | set(second)) == 40
    given.observe(second[0])
    with pytest.raises(
        TableError, match=r"50 units, of which 10 are free; 20 of them cannot be drawn\. 6 have an outcome, 34 wait"
    ):
        given.select(many(50), 20)
    assert len(given.select(many(50), 20, again=True).table) == 20
    assert set(given.plan(many(50), 10)).isdisjoint({*first, *second})


def test_the_same_draw_again_is_the_same_round_until_an_outcome_is_in(given):
    first = given.plan(many(50), 20)
    chosen = given.select(many(50), 20)
    assert (chosen.number, list(chosen.states), chosen.table.frame["customer"].tolist()) == (1, first, first)
    # Also with a table that has grown since, and in another order.
    grown = given.select(many(80)[::-1], 20)
    assert grown.table.frame["customer"].tolist() == first[::-1]
    given.observe(first[0])
    assert given.select(many(50), 20).number == 2


@pytest.mark.parametrize("take", [20, None])
def test_a_new_round_has_the_other_units_of_the_table_before_any_outcome_is_in(given, take):
    first = given.plan(many(50), 20)
    second = given.plan(many(50), take, new_round=True)
    assert set(second).isdisjoint(first)
    assert len(second) == take or {*first, *second} == set(many(50)["customer"])
    # Then it is the last round, which the same command gives once more.
    chosen = given.select(many(50), take)
    assert (chosen.number, list(chosen.states)) == (2, second)
    if take is None:
        with pytest.raises(CampaignError, match=r"All 50 units of units have been in a round .* 50 wait"):
            given.select(many(50), new_round=True)
    else:
        assert given.select(many(50), 5, new_round=True).number == 3
        with pytest.raises(
            TableError, match=r"of which 10 are free; 20 of them cannot be drawn\. 0 have an outcome, 40"
        ):
            given.select(many(50), 20, new_round=True)


def test_a_new_round_does_not_begin_while_pins_of_the_last_one_are_not_designed(given):
    first = given.plan(many(50), 20)
    given.campaign.pin({first[0]: "none"})
    with pytest.raises(CampaignError, match=r"Round 1 was pinned or rejected in part .* without --next"):
        given.select(many(50), 20, new_round=True)


def test_another_number_drawn_is_another_round(given):
    first = given.plan(many(50), 20)
    chosen = given.select(many(50), 10)
    assert chosen.number == 2
    assert set(chosen.table.frame["customer"]).isdisjoint(first)


def test_the_units_drawn_first_are_those_that_version_0_1_0_drew(given):
    """By the seed of the spec, in their order, under a hash of the table's, their number and the seed."""
    table = read_table(many(50), "units")
    places = np.sort(np.random.default_rng(0).choice(50, 20, replace=False))
    chosen = given.select(many(50), 20).table
    assert chosen.frame["customer"].tolist() == table.frame["customer"].iloc[places].tolist()
    assert chosen.hash == hashlib.sha256(f"{table.hash} 20 0".encode()).hexdigest()
    assert chosen.where(3) == f"units, row {places[3]}"


def test_units_with_an_outcome_or_in_the_field_are_left_out_of_a_table_and_counted(given):
    given.plan(units("a", "b", "c"))
    given.observe("a", "b")
    chosen = given.select(units("d", "a", "b", "c", "e"))
    assert chosen.table.frame["customer"].tolist() == ["d", "e"]
    assert chosen.left_out == (
        "3 of the 5 units of units are left out: 2 have an outcome, 1 wait for one. "
        "--again (in Python again=True) takes them too."
    )
    everybody = given.select(units("d", "a", "b", "c", "e"), again=True)
    assert (len(everybody.table), everybody.left_out, everybody.states) == (5, None, {})
    with pytest.raises(CampaignError, match="All 3 units of units have been in a round or in history: 2 have"):
        given.select(units("a", "b", "c"))


def test_the_same_table_again_is_the_same_round_also_where_some_were_left_out(given):
    given.plan(units("a", "b"))
    given.observe("a")
    assert given.plan(units("a", "b", "c", "d")) == ["c", "d"]
    for table in (units("a", "b", "c", "d"), units("d", "c"), units("c", "d", "b")):
        chosen = given.select(table)
        assert (chosen.number, set(chosen.states)) == (2, {"c", "d"})
    assert given.select(units("a", "b", "c", "d")).table.hash == given.select(units("a", "b", "c", "d")).table.hash
    # More units than that are another round.
    assert given.select(units("a", "c", "d", "e")).table.frame["customer"].tolist() == ["e"]


def test_a_round_of_units_taken_again_is_the_same_round_when_asked_again(given):
    given.plan(units("a", "b"))
    given.observe("a", "b")
    assert given.plan(units("a", "b"), again=True) == ["a", "b"]
    assert given.select(units("a", "b"), again=True).number == 2
    given.observe("a")
    assert given.select(units("a", "b"), again=True).number == 3


def test_history_counts_as_an_outcome_and_withdrawn_history_does_not(given):
    given.campaign.add_outcomes(units("h", "k").assign(offer="none", amount=[1.0, 2.0]))
    assert given.select(units("h", "a")).table.frame["customer"].tolist() == ["a"]
    given.campaign.withdraw(["h"])
    assert given.select(units("h", "a")).table.frame["customer"].tolist() == ["h", "a"]


def test_a_withdrawn_outcome_puts_its_unit_back_into_the_field(given):
    given.plan(units("a", "b"))
    given.observe("a", "b")
    given.campaign.withdraw(["a"])
    assert "1 have an outcome, 1 wait for one" in given.select(units("a", "b", "c")).left_out


def test_the_field_is_every_planned_unit_of_another_round_without_an_outcome(given):
    given.campaign.add_outcomes(units("h").assign(offer="none", amount=1.0))
    given.plan(units("a", "b", "c"))
    given.observe("b")
    given.plan(units("d", "e"))

    def field(number, spec=None, num_units=1):
        with given.campaign.store.reading() as connection:
            encoding = given.campaign.encoding()
            return read_field(connection, spec or given.campaign.spec, encoding, number, num_units)

    assert len(field(3)) == 4
    assert len(field(2)) == 2
    np.testing.assert_array_equal(field(2).actions, [[0, 1], [0, 1]])
    spec = given.campaign.spec
    few = spec.model_copy(update={"model": spec.model.model_copy(update={"family": "gp"})})
    cut = field(3, few, few.max_units - 3)
    assert len(cut) == 3
    assert cut.warning.startswith("4 units of other rounds wait for their outcomes; 3 of them, drawn at random, count")
    none = field(3, few, few.max_units)
    assert len(none) == 0
    assert "; 0 of them" in none.warning
    given.observe("a", "c", "d", "e")
    assert field(3) is None
