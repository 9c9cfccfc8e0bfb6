"""The randomised share of a round: who gets an action by chance, with which probability, and who loses it."""

import numpy as np
import pandas as pd
import pytest

from cobed.campaign import records, rounds
from cobed.campaign.campaign import Campaign
from cobed.campaign.chance import Room, draw, propensity
from cobed.campaign.constraints import limits_of
from cobed.campaign.marks import round_marks
from cobed.campaign.spec import parse_spec
from cobed.campaign.template import template
from cobed.designers.result import DesignResult
from cobed.errors import SpecError, TableError

SPEC = """name = "spring"
[units]
id = "customer"
[context]
recency = "numeric"
city = "categorical"
[action]
column = "offer"
options = ["none", "5%", "10%"]
[outcome]
column = "amount"
likelihood = "normal"
typical = 50
spread = 10
[design]
random_share = 0.4
"""
PRICES = SPEC.replace(
    'column = "offer"\noptions = ["none", "5%", "10%"]', "numbers = { price = { low = 5.0, high = 20.0 } }"
)


def people(number):
    names = [f"{i:03d}" for i in range(number)]
    return pd.DataFrame({"customer": names, "recency": np.arange(number) % 4 + 1.0, "city": ["A", "B"] * (number // 2)})


@pytest.fixture(autouse=True)
def quick_design(monkeypatch):
    """In the place of a design: the first option, or the lowest numbers, for all that are open. Keeps what it was given."""
    batches = []

    def choose(spec, model, posterior, batch, seed, budget=None, progress=None):
        batches.append(batch)
        space, number = model.action_space, len(batch.contexts)
        actions = np.zeros((number, space.dim)) + (np.eye(space.dim)[0] if space.options else space.bounds()[0])
        return DesignResult("Fake", actions, [], batch.contexts, None, [], "", seed, 0.0, 0.0)

    monkeypatch.setattr("cobed.campaign.rounds.design_batch", choose)
    return batches


@pytest.fixture
def begin(tmp_path):
    opened = []

    def make(text=SPEC):
        (tmp_path / "campaign.toml").write_text(text)
        opened.append(Campaign.create(tmp_path / "campaign.toml", tmp_path / f"{len(opened)}.db"))
        return opened[-1]

    yield make
    for campaign in opened:
        campaign.close()


def rows_of(campaign, round=1):
    with campaign.store.reading() as connection:
        return {row.unit: row for row in records.read_assignments(connection, round)}


def drawn(campaign):
    return {unit: row for unit, row in rows_of(campaign).items() if row.chance is not None}


def open_room(spec, number, mask=None):
    mask = np.ones((number, spec.action.space.dim), bool) if mask is None else mask
    return mask, Room(spec, mask, limits_of(spec, number), np.full(mask.shape, np.nan))


def test_so_many_units_get_an_action_by_chance_and_all_others_none(begin, quick_design):
    campaign = begin()
    frame = campaign.recommend(people(20))
    by_chance = drawn(campaign)
    assert len(by_chance) == 8 == campaign.rounds()[-1].summary["by_chance"]
    assert all(
        row.chance == {"share": 0.4, "among": dict.fromkeys(["none", "5%", "10%"], 1 / 3)} for row in by_chance.values()
    )
    # The rest of the design knows them as fixed rows.
    fixed = quick_design[-1].allowed.fixed
    assert np.isfinite(fixed).all(axis=1).sum() == 8
    table = campaign.export().set_index("customer")
    assert table["propensity"].notna().sum() == 8
    assert set(table.loc[table["propensity"].isna(), "offer"]) == {"none"}
    assert frame["offer"].tolist() == table["offer"].tolist()


def test_a_spec_without_a_share_draws_nobody_and_keeps_the_marks_of_its_rounds(begin):
    plain = SPEC.replace("[design]\nrandom_share = 0.4\n", "")
    campaign = begin(plain)
    campaign.recommend(people(20))
    assert not drawn(campaign)
    assert "by_chance" not in campaign.rounds()[-1].summary
    marks = round_marks(parse_spec(plain), "tables")
    assert round_marks(parse_spec(plain + "[design]\nrandom_share = 0.0\n"), "tables") == marks
    # What history was like moves no design.
    history = '[design]\nhistory_shares = { none = 0.5, "5%" = 0.5 }\n'
    assert round_marks(parse_spec(plain + history), "tables")[0] == marks[0]
    assert round_marks(parse_spec(SPEC), "tables")[0] != marks[0]
    assert parse_spec(template("spring")).design.random_share == 0.1


def test_draws_are_uniform_over_what_each_unit_may_get():
    """Of 3,000 draws: 5 standard errors, false alarm below 1 in 100,000 for all counts together."""
    spec = parse_spec(SPEC.replace("0.4", "0.5"))
    mask = np.ones((6_000, 3), bool)
    mask[::2, 2] = False
    mask, room = open_room(spec, 6_000, mask)
    units = [str(i) for i in range(6_000)]
    made = draw(spec, units, np.ones(6_000, bool), mask, room, 1).units
    assert len(made) == 3_000
    for parity, options in ((0, ["none", "5%"]), (1, ["none", "5%", "10%"])):
        given = [action for unit, (action, _) in made.items() if int(unit) % 2 == parity]
        assert abs(len(given) - 1_500) < 5 * (6_000 * 0.25 * 0.25) ** 0.5
        for option in options:
            chance = 1 / len(options)
            assert abs(given.count(option) - chance * len(given)) < 5 * (len(given) * chance * (1 - chance)) ** 0.5
        assert set(given) == set(options)
    assert draw(spec, units, np.ones(6_000, bool), mask, open_room(spec, 6_000, mask)[1], 1).units == made
    assert draw(spec, units, np.ones(6_000, bool), mask, open_room(spec, 6_000, mask)[1], 2).units != made


def test_numbers_are_uniform_between_their_bounds(begin):
    campaign = begin(PRICES)
    campaign.recommend(people(200))
    made = drawn(campaign)
    prices = np.array([row.action["price"] for row in made.values()])
    assert len(prices) == 80
    assert all(row.chance == {"share": 0.4, "density": 1 / 15} for row in made.values())
    # The largest distance to the uniform distribution function; 2.3 / sqrt(n) is exceeded once in 20,000.
    heights = np.sort((prices - 5) / 15)
    assert np.abs(heights - np.arange(1, 81) / 80).max() < 2.3 / 80**0.5
    assert campaign.export()["propensity"].dropna().tolist() == [1 / 15] * 80


def test_a_limit_takes_the_draw_from_later_units_and_leaves_the_probabilities_of_the_others():
    """Over 60 draws the units that are left got each option equally often: 5 standard errors, false alarm below 1 in 100,000."""
    spec = parse_spec(SPEC + '[constraints]\nat_most = { "10%" = 2 }\n')
    units = [str(i) for i in range(30)]
    counts, lost = {"none": 0, "5%": 0, "10%": 0}, 0
    for seed in range(60):
        mask, room = open_room(spec, 30)
        made = draw(spec, units, np.ones(30, bool), mask, room, seed)
        given = [action for action, _ in made.units.values()]
        assert given.count("10%") <= 2
        assert len(given) + len(made.lost) == 12
        lost += len(made.lost)
        for action in given:
            counts[action] += 1
    # A unit's draw stops others and not itself: differences of counts are a martingale.
    total = sum(counts.values())
    assert lost > 100
    assert abs(counts["none"] - counts["10%"]) < 5 * (2 / 3 * total) ** 0.5
    assert abs(counts["none"] - counts["5%"]) < 5 * (2 / 3 * total) ** 0.5


@pytest.mark.parametrize(
    "rule",
    ['at_most = { "10%" = 1 }', "at_least = { none = 17 }", 'max_cost = 3.0\ncost = { "5%" = 1.0, "10%" = 2.0 }'],
)
def test_constraints_hold_exactly_and_units_that_lost_their_draw_are_named(begin, rule):
    campaign = begin(SPEC + f"[constraints]\n{rule}\n")
    offers = campaign.recommend(people(20))["offer"].tolist()
    assert offers.count("10%") <= (1 if "at_most" in rule else 20)
    assert offers.count("none") >= (17 if "at_least" in rule else 0)
    assert "cost" not in rule or offers.count("5%") + 2 * offers.count("10%") <= 3
    summary = campaign.rounds()[-1].summary
    (said,) = [warning for warning in summary["warnings"] if "by chance" in warning]
    assert f"{8 - summary['by_chance']} unit(s) were to get an action by chance" in said
    assert summary["by_chance"] == len(drawn(campaign)) < 8


def test_numbers_within_a_cost_lose_their_draw_where_the_range_no_longer_fits(begin):
    campaign = begin(PRICES + "[constraints]\nmax_cost = 135.0\ncost = { price = 1.0 }\n")
    prices = campaign.recommend(people(20))["price"]
    assert prices.sum() <= 135
    assert 0 < len(drawn(campaign)) < 8


def test_a_unit_with_one_option_left_is_not_drawn_for(begin):
    forbid = "".join(
        f'[[constraints.forbid]]\naction = "{name}"\ncolumn = "city"\nvalues = ["A"]\n' for name in ("5%", "10%")
    )
    campaign = begin(SPEC + forbid)
    campaign.recommend(people(20))
    assert {int(unit) % 2 for unit in drawn(campaign)} == {1}
    assert len(drawn(campaign)) == 4


def test_a_unit_whose_action_a_person_changed_is_no_longer_random(begin):
    campaign = begin()
    campaign.recommend(people(20))
    first, second, *others = drawn(campaign)
    campaign.pin({first: rows_of(campaign)[first].action})
    campaign.reject([second])
    assert set(drawn(campaign)) == set(others)
    campaign.recommend(people(20))
    # Designed anew, chance begins anew among those that nobody has steered.
    assert not {first, second} & set(drawn(campaign))
    assert len(drawn(campaign)) == 7
    assert all(row.chance["share"] == 7 / 18 for row in drawn(campaign).values())
    before = drawn(campaign)
    assert campaign.recommend(people(20)) is not None
    assert drawn(campaign) == before


def test_a_drawn_unit_with_an_outcome_stays_random_through_a_new_design(begin):
    campaign = begin()
    campaign.recommend(people(20))
    done, other = list(drawn(campaign))[:2]
    row = rows_of(campaign)[done]
    campaign.add_outcomes(pd.DataFrame({"customer": [done], "amount": [55.0]}))
    campaign.pin({other: "none"})
    campaign.recommend(people(20))
    assert rows_of(campaign)[done] == row
    campaign.add_outcomes(
        pd.DataFrame({"customer": [done], "amount": [55.0], "offer": ["none" if row.action != "none" else "5%"]})
    )
    # It got something else than planned, and who knows why.
    assert campaign.export().set_index("customer")["propensity"].isna()[done]


def test_a_pin_made_while_the_round_is_designed_ends_that_draw(begin, monkeypatch):
    campaign = begin(SPEC + '[constraints]\nat_most = { "10%" = 6 }\n')
    campaign.recommend(people(20))
    campaign.pin({"000": "none"})
    inner = rounds.design_batch

    def meanwhile(*arguments):
        campaign.pin({f"{i:03d}": "10%" for i in range(6)})
        return inner(*arguments)

    monkeypatch.setattr("cobed.campaign.rounds.design_batch", meanwhile)
    offers = campaign.recommend(people(20))["offer"].tolist()
    # The pins take all that the limit leaves; draws of the same option give way.
    assert offers.count("10%") == 6
    assert all(row.action != "10%" for row in drawn(campaign).values())


def test_random_assignment_of_all_has_probabilities_for_all(begin):
    campaign = begin(SPEC + 'designer = "Random"\n')
    campaign.recommend(people(20))
    assert len(drawn(campaign)) == 20


def test_history_brings_its_probabilities(begin):
    campaign = begin()
    history = people(4).assign(offer=["none", "5%", "10%", "none"], amount=1.0, propensity=[0.5, 0.3, 0.2, ""])
    receipt = campaign.add_outcomes(history)
    assert "3 with the probability of their action" in str(receipt)
    assert campaign.export()["propensity"].tolist()[:3] == [0.5, 0.3, 0.2]
    assert campaign.add_outcomes(history).duplicate
    # Told later, and told anew.
    assert campaign.add_outcomes(history.assign(propensity=[0.5, 0.3, 0.2, 0.5])).with_chance == 1
    for wrong in (0.0, -1.0, 1.5, "often"):
        with pytest.raises(TableError, match=r"row 1, column 'propensity'"):
            campaign.add_outcomes(history.assign(propensity=[0.5, wrong, 0.2, 0.5]))


def test_history_was_assigned_in_shares(begin):
    campaign = begin(SPEC + 'history_shares = { none = 0.75, "5%" = 0.25 }\n')
    campaign.add_outcomes(people(4).assign(offer=["none", "5%", "10%", "none"], amount=1.0))
    assert campaign.export()["propensity"].fillna(-1).tolist() == [0.75, 0.25, -1, 0.75]
    for shares, said in (
        ("{ none = 0.5 }", "add up to 1, and these to 0.5"),
        ("{ mail = 1.0 }", "'mail', which is no option"),
    ):
        with pytest.raises(SpecError, match=said):
            parse_spec(SPEC + f"history_shares = {shares}\n")
    with pytest.raises(SpecError, match="numbers are chosen"):
        parse_spec(PRICES + "history_shares = { none = 1.0 }\n")


def test_a_column_of_the_user_called_propensity_keeps_its_name(begin):
    campaign = begin(SPEC.replace("recency", "propensity"))
    table = people(2).rename(columns={"recency": "propensity"}).assign(offer="none", amount=1.0, cobed_propensity=0.5)
    campaign.add_outcomes(table)
    assert campaign.export()[["propensity", "cobed_propensity"]].values.tolist() == [[1.0, 0.5], [2.0, 0.5]]


def test_the_probability_of_an_action():
    assert propensity(None, "none") is None
    assert propensity({"share": 0.1, "among": {"none": 0.5, "5%": 0.5}}, "5%") == 0.5
    assert propensity({"share": 0.1, "density": 0.2}, {"price": 3.0}) == 0.2
    assert propensity({"probability": 0.7}, "none") == 0.7
