"""Near misses: what is nearly an option, a level, a column or an id is told with its likely meaning, and nothing is stored."""

import numpy as np
import pandas as pd
import pytest

from cobed.campaign import records as kept
from cobed.campaign.campaign import Campaign
from cobed.campaign.check import check_tables
from cobed.campaign.constraints import check_levels
from cobed.campaign.encoding import fit_encoding
from cobed.campaign.near import id_key, near, plain, spellings
from cobed.campaign.records import Assignment, Round
from cobed.campaign.spec import parse_spec
from cobed.campaign.tables import read_table
from cobed.errors import CampaignError, CobedError, SpecError, TableError

SPEC = """name = "spring"
[units]
id = "customer"
[context]
recency = "numeric"
channel = "categorical"
[action]
column = "offer"
options = ["none", "5%", "Café"]
[outcome]
column = "visit"
likelihood = "bernoulli"
"""
UNITS = pd.DataFrame(
    {"customer": [f"{i:03d}" for i in range(1, 9)], "recency": range(8), "channel": ["Web", "Phone", "Shop", "Web"] * 2}
)


@pytest.fixture
def campaign(tmp_path):
    """One round of eight units, 001 to 008, as if it had been designed."""
    made = Campaign.create(parse_spec(SPEC), tmp_path / "campaign.db")
    rows = [
        Assignment(unit, {"recency": float(i), "channel": "Web"}, "none" if i % 2 else "5%")
        for i, unit in enumerate(UNITS["customer"])
    ]
    with made.store.transaction() as connection:
        kept.write_meta(connection, "encoding", fit_encoding(made.spec, [read_table(UNITS)]).to_json())
        kept.write_round(connection, Round(1, kept.now(), "", 0, 1, {"score": None, "warnings": []}), rows)
    yield made
    made.close()


def test_words_are_near_by_case_spaces_accents_and_one_typing_error():
    for word, valid in [
        ("web", "Web"), ("WEB ", "Web"), ("cafe\u0301", "Café"), ("Cafe", "Café"), ("New\u00a0York", "new york"),
        ("Phnoe", "Phone"), ("Phon", "Phone"), ("Phonee", "Phone"), ("Phome", "Phone"), ("e mail", "email"),
    ]:  # fmt: skip
        assert near(word, ["other", valid, "else"]) == valid, word
    for word in ("Phnee", "A", "Fax", "North 2"):
        assert near(word, ["Phone", "B", "Mail", "North 1"]) is None, word
    assert plain("  Ä\u00a0B ") == "a b"


@pytest.mark.parametrize(("changed", "true"), [("7", "007"), ("7.0", "007"), ("1E+05", "100000"), ("1e5", "0100000"),
                                               ("ab1", "AB1"), ("AB 1", "AB1"), ("é", "e\u0301")])  # fmt: skip
def test_ids_that_a_spreadsheet_changed_have_one_key_and_are_found_by_their_spellings(changed, true):
    assert id_key(changed) == id_key(true)
    assert true in set(spellings(changed))


def test_ids_that_differ_have_different_keys():
    words = ["7", "70", "C7", "C07", "7a", "0.7", "7.5", "1e", "1e-5", "-7", ""]
    assert len({id_key(word) for word in words}) == len(words)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        # An option that pandas may have taken for missing.
        ({"offer": "None"}, r"column 'offer': 'None' is not allowed\. .* Did you mean 'none'\?"),
        ({"offer": "NA"}, r"column 'offer': 'NA' is not allowed"),
        ({"offer": "-"}, r"column 'offer': '-' is not allowed"),
        ({"offer": None}, r"column 'offer': None is not allowed\. Programs such as pandas take the option 'none'"),
        ({"offer": np.nan}, r"column 'offer': nan is not allowed\. Programs such as pandas"),
        ({"offer": "cafe"}, r"Did you mean 'Café'\?"),
        ({"offer": "5 %"}, r"Did you mean '5%'\?"),
        ({"visit": "yess"}, r"column 'visit': 'yess' is not allowed\. .* Did you mean 'yes'\?"),
        ({"Offer": "none"}, r"has no column 'offer', .* Did you mean 'Offer'\?"),
        ({"ofer": "none"}, r"has no column 'offer', .* Did you mean 'ofer'\?"),
        (
            {"customer": "1"},
            r"row 0, column 'customer': '1' is not in any round, but '001' is \(1 such row\(s\)\)\. Did you",
        ),
        ({"customer": 1}, r"'1' is not in any round, but '001' is"),
        ({"customer": "1.0"}, r"but '001' is"),
        ({"customer": 1.0}, r"but '001' is"),
    ],
)
def test_near_misses_among_outcomes_are_told_and_nothing_is_stored(campaign, cells, message):
    row = {"customer": "001", "visit": 1, **cells}
    frame = pd.DataFrame([row, {**row, "customer": "002"}]).astype({"customer": object})
    with pytest.raises(TableError, match=message):
        campaign.add_outcomes(frame)
    assert campaign.status().num_outcomes == 0
    assert not len(campaign.uploads())


def test_a_cell_that_is_exactly_an_option_is_that_option(campaign):
    receipt = campaign.add_outcomes(pd.DataFrame({"customer": ["001"], "offer": ["none"], "visit": ["Yes "]}))
    assert (receipt.added, receipt.other_action) == (1, 1)
    assert campaign.export().set_index("customer").loc["001", "offer"] == "none"


def test_an_empty_action_in_a_file_is_told_where_an_option_is_called_none(campaign, tmp_path):
    (tmp_path / "outcomes.csv").write_text("customer,offer,visit\n001,,1\n")
    with pytest.raises(TableError, match=r"row 2, column 'offer': the cell is empty\. Programs such as pandas"):
        campaign.add_outcomes(tmp_path / "outcomes.csv")
    # Empty text in a DataFrame was written on purpose: as planned.
    assert campaign.add_outcomes(pd.DataFrame({"customer": ["001"], "offer": [""], "visit": [1]})).other_action == 0


def test_empty_actions_without_an_outcome_are_nobody_s_fault(campaign):
    frame = pd.DataFrame({"customer": ["001", "002"], "offer": [None, "none"], "visit": [None, 1]})
    assert campaign.add_outcomes(frame).added == 1


def test_ids_that_are_alike_are_different_units_where_the_spec_says_so(campaign):
    exact = parse_spec(SPEC.replace('id = "customer"', 'id = "customer"\nexact_ids = true'))
    row = {"customer": ["1"], "visit": [1], "offer": ["none"], "recency": [1], "channel": ["Web"]}
    with pytest.raises(TableError, match="exact_ids = true"):
        campaign.add_outcomes(pd.DataFrame(row))
    campaign.spec = exact
    assert campaign.add_outcomes(pd.DataFrame(row)).unplanned == 1


def test_units_that_are_nearly_known_ones_are_told_before_a_round_is_designed(campaign):
    with pytest.raises(TableError, match=r"'1' is not in any round, but '001' is \(8 such row"):
        campaign.recommend(UNITS.assign(customer=range(1, 9)))
    assert len(campaign.rounds()) == 1


def test_ids_are_compared_with_all_there_are_where_that_is_less(campaign):
    many = pd.DataFrame({"customer": [str(i) for i in range(5, 60)], "visit": 1})
    with pytest.raises(TableError, match=r"'5' is not in any round, but '005' is \(4 such row"):
        campaign.add_outcomes(many)


FORBID = '[[constraints.forbid]]\naction = "none"\ncolumn = "channel"\nvalues = ["{}"]\n'


@pytest.mark.parametrize("value", ["web", "Phnoe"])
def test_a_forbidden_level_with_a_typing_error_is_told_as_soon_as_the_levels_are_known(value):
    spec, table = parse_spec(SPEC + FORBID.format(value)), read_table(UNITS)
    message = (
        f"constraints.forbid names '{value}', and the column 'channel' has no such level: Phone, Shop, Web. Did you"
    )
    with pytest.raises(SpecError, match=message):
        check_levels(spec, fit_encoding(spec, [table]))
    with pytest.raises(SpecError, match=message):
        check_tables(spec, [table])


def test_a_forbidden_level_that_nobody_has_is_told_by_check():
    (found,) = check_tables(parse_spec(SPEC + FORBID.format("Fax")), [read_table(UNITS)])
    assert "'Fax', and no unit has this level in the column 'channel': it forbids nothing" in found.warnings[0]


def test_levels_that_are_nearly_the_same_are_one_level_misspelled():
    spec = parse_spec(SPEC)
    with pytest.raises(
        TableError, match=r"column 'channel': 'web' \(1 such row\(s\)\) is nearly 'Web'\. Did you mean 'Web'"
    ):
        fit_encoding(spec, [read_table(UNITS.assign(channel=["Web"] * 4 + ["web", "Shop", "Shop", "Phone"]))])
    listed = parse_spec(SPEC.replace('"categorical"', '{ type = "categorical", levels = ["Web", "web"] }'))
    assert fit_encoding(listed, [read_table(UNITS)]).fitted["channel"] == ["Web", "web"]


def test_numbers_in_another_country_s_way_are_told_with_their_likely_meaning():
    spec = parse_spec(SPEC)
    for cell, meant in [("1,5", "1.5"), ("1.234,5", "1234.5"), ("1 000", "1000"), ("12 kg", "12"), ("$5", "5")]:
        with pytest.raises(TableError, match=rf"Did you mean {meant}\?"):
            check_tables(spec, [read_table(UNITS.assign(recency=[cell] * 8))])


def test_a_part_of_the_numbers_of_an_action_is_told(tmp_path):
    text = SPEC.replace(
        'column = "offer"\noptions = ["none", "5%", "Café"]',
        "numbers = { price = { low = 0, high = 9 }, size = { low = 0, high = 9 } }",
    )
    spec = parse_spec(text)
    with pytest.raises(TableError, match="has the column 'price' but not 'size'"):
        check_tables(spec, [read_table(UNITS.assign(price=1, visit=1))])


# `check` judges tables together, and knows the store.


def test_check_says_what_each_table_would_be_used_as(campaign):
    outcomes = pd.DataFrame({"customer": ["001", "x"], "visit": [1, 0], "offer": "5%", "recency": 1, "channel": "Web"})
    found = check_tables(campaign.spec, [read_table(UNITS, "u"), read_table(outcomes, "o")], campaign)
    assert found[0].sentence.endswith("As units or targets: 8 of them are in a round already.")
    assert found[1].sentence.endswith("As outcomes: 1 of round 1, 1 of no round, which would be history.")
    with pytest.raises(TableError, match="has no column 'recency', needed for 1 unit"):
        check_tables(campaign.spec, [read_table(outcomes[["customer", "visit"]], "o")], campaign)
    with pytest.raises(TableError, match="o, row 0, column 'customer': '2' is not in any round, but '002' is"):
        check_tables(campaign.spec, [read_table(outcomes.assign(customer=["2", "x"]), "o")], campaign)


def test_check_compares_tables_with_each_other_where_there_is_no_store():
    spec = parse_spec(SPEC)
    units = read_table(UNITS, "units")
    outcomes = read_table(pd.DataFrame({"customer": ["1"], "visit": [1]}), "outcomes")
    with pytest.raises(TableError, match="outcomes, row 0, column 'customer': '1' is not in units, but '001' is"):
        check_tables(spec, [units, outcomes])
    targets = UNITS.assign(channel=["Fax", *UNITS["channel"][1:]], recency=range(10_000, 90_000, 10_000))
    _, found = check_tables(spec, [units, read_table(targets, "targets")])
    assert any("'Fax' is not in units" in warning for warning in found.warnings)
    assert any("column 'recency': its values lie far from" in warning for warning in found.warnings)


def test_check_changes_nothing_in_the_store(campaign, tmp_path):
    before = campaign.export()
    for frame in (UNITS, UNITS.assign(visit=1, offer="none")):
        check_tables(campaign.spec, [read_table(frame)], campaign)
    pd.testing.assert_frame_equal(campaign.export(), before)


# Scales.


def test_a_table_far_from_the_first_one_is_told_by_column(campaign):
    history = UNITS.assign(customer=[f"h{i}" for i in range(8)], visit=1, offer="5%")
    assert campaign.add_outcomes(history).warnings == ()
    far = history.assign(customer=[f"k{i}" for i in range(8)], recency=[1e5] * 8)
    (warning,) = campaign.add_outcomes(far).warnings
    assert "column 'recency'" in warning
    assert "from 100000 to 100000" in warning
    assert "mean 3.5 and deviation 2.29" in warning


def test_the_scale_is_fitted_again_only_before_there_are_outcomes(campaign):
    campaign.refit(UNITS.assign(recency=range(0, 8_000, 1_000)))
    assert campaign.encoding().fitted["recency"][0] == 3_500
    campaign.add_outcomes(pd.DataFrame({"customer": ["001"], "visit": [1]}))
    with pytest.raises(CobedError, match=r"cannot be fitted again: 1 outcome\(s\) have come back"):
        campaign.refit(UNITS)
    assert campaign.encoding().fitted["recency"][0] == 3_500


@pytest.mark.parametrize("values", [[5.0], [0.1] * 7, [1e30] * 3, [0.0] * 2])
def test_a_constant_first_column_gives_a_scale_that_means_something(values):
    spec = parse_spec(SPEC.replace('channel = "categorical"\n', ""))
    table = read_table(pd.DataFrame({"customer": range(len(values)), "recency": values}))
    mean, deviation = fit_encoding(spec, [table]).fitted["recency"]
    assert (mean, deviation) == (pytest.approx(values[0]), 1.0)
    (found,) = check_tables(spec, [table])
    assert "in every row" in found.warnings[0]


def test_a_unit_that_is_nearly_one_of_the_round_is_told_when_it_is_pinned_rejected_or_withdrawn(campaign):
    for act in (
        lambda unit: campaign.pin({unit: "none"}),
        lambda unit: campaign.reject([unit]),
        lambda unit: campaign.withdraw([unit]),
    ):
        with pytest.raises(CampaignError, match=r"Unit '1' is .*\. Did you mean '001'\?"):
            act("1")
        with pytest.raises(CampaignError, match=r"Unit 'nobody' is") as error:
            act("nobody")
        assert "Did you mean" not in str(error.value)
