"""Missing cells and new levels: what they become, what is known before stays, and how they are told."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cobed.campaign.campaign import Campaign
from cobed.campaign.check import check_tables
from cobed.campaign.constraints import permitted
from cobed.campaign.encoding import Encoding, encode, encode_contexts, fit_encoding, grow_encoding, read_cells
from cobed.campaign.gaps import count_gaps, gap_sentences
from cobed.campaign.spec import parse_spec
from cobed.campaign.tables import MISSING, Complaints, read_table
from cobed.errors import TableError

SPEC = """name = "spring"
[units]
id = "customer"
[context]
age = "numeric"
channel = "categorical"
new = "binary"
[action]
column = "offer"
options = ["none", "5%"]
[outcome]
column = "amount"
likelihood = "normal"
typical = 5
spread = 2
"""
READ = parse_spec(SPEC)
FULL = pd.DataFrame(
    {
        "customer": ["a", "b", "c", "d"],
        "age": ["20", "30", "40", "30"],
        "channel": ["Web", "Phone", "Web", "Shop"],
        "new": ["yes", "no", "no", "no"],
    }
)
NAMES = ["age", "channel=Phone", "channel=Shop", "channel=Web", "new"]


def first(frame, spec=READ):
    table = read_table(frame, "units")
    encoding = fit_encoding(spec, [table])
    return encoding, encode_contexts(spec, encoding, table)[0]


def deployed(encoding, frame, spec=READ):
    """The encoding and the contexts of targets."""
    table = read_table(frame, "targets")
    complaints = Complaints(table)
    cells = read_cells(spec, encoding, table, complaints, strict=False)
    complaints.tell()
    known = encoding.knowing(spec, cells)
    return known, encode(spec, known, cells), cells


def test_a_table_without_gaps_has_no_entry_for_them():
    encoding, contexts = first(FULL)
    assert encoding.names(READ) == NAMES
    assert json.loads(encoding.to_json()) == {"fitted": encoding.fitted}
    assert contexts.shape == (4, 5)


@pytest.mark.parametrize("word", [*MISSING, "NA", "Unknown", " NaN ", None, np.nan])
def test_a_missing_cell_is_a_fact_beside_the_numbers_of_an_average_unit(word):
    """The mean of age, no level, the share of ones; and one entry more by column, 1 where the cell is missing."""
    frame = FULL.astype(object)
    columns = ["age", "channel", "new"] if word != "none" else ["age", "new"]
    frame.loc[3, columns] = word
    encoding, contexts = first(frame)
    labels = encoding.labels(READ)
    assert {name for name, found in labels.items() if found[-1] == f"{name} (missing)"} == set(columns)
    row = dict(zip(encoding.names(READ), contexts[3], strict=True))
    assert (row["age"], row["new"]) == (0, pytest.approx(1 / 3))
    assert all(row[f"{name} (missing)"] == 1 for name in columns)
    assert not any(contexts[:3, encoding.names(READ).index(f"{name} (missing)")].any() for name in columns)
    if word != "none":
        assert not any(value for name, value in row.items() if name.startswith("channel="))


def test_a_level_or_an_option_wins_over_a_word_for_missing():
    """`unknown` in the list of levels is that level, `none` among names is a name, also where the spec lists nothing."""
    listed = parse_spec(
        SPEC.replace('channel = "categorical"', 'channel = { type = "categorical", levels = ["Web", "unknown"] }')
    )
    encoding, _ = first(FULL.assign(channel=["Web", "unknown", "unknown", "Web"]), listed)
    assert encoding.facts == {}
    with pytest.raises(TableError, match=r"'Unknown' is not allowed\. .* Did you mean 'unknown'\?"):
        first(FULL.assign(channel=["Web", "unknown", "Unknown", "Web"]), listed)
    encoding, _ = first(FULL.assign(channel=["Web", "none", "NA", "Web"]))
    assert (encoding.fitted["channel"], encoding.facts) == (["Web", "none"], {"channel": ["missing"]})
    # Stores of earlier versions may have such levels.
    old = Encoding({"age": [30.0, 10.0], "channel": ["NA", "Web"]})
    assert deployed(old, FULL.assign(channel=["NA", "NA", "Web", "Web"]))[1][:, 1:3].tolist() == [
        [1, 0], [1, 0], [0, 1], [0, 1]
    ]  # fmt: skip


def test_a_gap_that_comes_at_deployment_has_an_entry_that_no_outcome_has_taught():
    encoding, _ = first(FULL)
    targets = FULL.assign(age=["20", "NA", "40", "30"], channel=["Web", "Fax", "Phnoe", ""])
    known, contexts, cells = deployed(encoding, targets)
    assert known.names(READ) == ["age", "age (missing)", *NAMES[1:4], "channel (missing)", "channel (new)", "new"]
    # Not a millionth of a known row changes: the same numbers, zeros in the new entries.
    _, before, _ = deployed(encoding, FULL)
    np.testing.assert_array_equal(np.delete(contexts[0], [1, 5, 6]), before[0])
    assert contexts[1].tolist() == [0, 1, 0, 0, 0, 0, 1, 0]
    assert contexts[2, 2:7].tolist() == [0, 0, 0, 0, 1]
    assert contexts[3, 2:7].tolist() == [0, 0, 0, 1, 0]
    assert cells["channel"] == ["Web", "Fax", "Phnoe", None]
    assert Encoding.from_json(known.to_json()) == known
    gaps = count_gaps(READ, encoding, cells, "targets")
    assert (gaps.missing, gaps.new) == ({"age": 1, "channel": 1}, {"channel": 2})
    assert any("'Phnoe' (1 row(s)) is new. Did you mean 'Phone'?" in warning for warning in gaps.warnings)
    assert any("50% of the cells hold a level that was not there before" in warning for warning in gaps.warnings)
    assert gap_sentences(gaps.summary(), gaps.rows) == [
        "Missing cells, of 4 rows, by column: age 1 (25%), channel 1 (25%).",
        "Cells with a rare or new level, of 4 rows, by column: channel 2 (50%).",
    ]


def test_what_means_nothing_is_refused_at_deployment_too():
    encoding, _ = first(FULL)
    with pytest.raises(TableError, match=r"targets, row 3, column 'age': 'old' is not allowed"):
        deployed(encoding, FULL.assign(age=["NA", "20", "", "old"]))


def test_levels_of_later_tables_are_learned_and_known_rows_keep_their_numbers():
    encoding, contexts = first(FULL)
    later = read_table(FULL.assign(channel=["Fax", "Mail", "Web", "NA"]))
    grown = grow_encoding(READ, encoding, [later])
    assert grown.fitted["channel"] == ["Phone", "Shop", "Web", "Fax", "Mail"]
    assert grown.facts == {"channel": ["missing"]}
    _, again, _ = deployed(grown, FULL)
    np.testing.assert_array_equal(again[:, [0, 1, 2, 3, 7]], contexts)
    with pytest.raises(TableError, match=r"'Phnoe' is not allowed\. .* Did you mean 'Phone'\?"):
        encode_contexts(READ, grown, read_table(FULL.assign(channel="Phnoe")))
    # 'Team B' is no typing error of 'Team A'.
    teams, _ = first(FULL.assign(channel=["Team A", "Team B", "Team A", "Team B"]))
    found = grow_encoding(READ, teams, [read_table(FULL.assign(channel=["Team A", "Team C", "Team 1", "Team B"]))])
    assert found.fitted["channel"] == ["Team A", "Team B", "Team 1", "Team C"]


def test_the_rarest_of_many_levels_share_one_entry():
    levels = [f"L{i}" for i in range(60) for _ in range(10 if i < 50 else 2)]
    frame = pd.DataFrame({"customer": range(len(levels)), "age": 1, "channel": levels, "new": "yes"})
    encoding, contexts = first(frame)
    assert len(encoding.fitted["channel"]) == 50
    assert encoding.facts == {"channel": ["new"]}
    assert contexts[:, -2].tolist() == [0.0] * 500 + [1.0] * 20
    (found,) = check_tables(READ, [read_table(frame)])
    assert "Cells with a rare or new level, of 520 rows, by column: channel 20 (4%)" in found.sentence
    with pytest.raises(TableError, match="60 different values in 60 rows, like ids or free text"):
        first(frame.drop_duplicates("channel"))


def test_a_column_of_one_value_tells_something_where_it_is_missing_elsewhere():
    _, contexts = first(FULL.assign(channel=["Web", "", "Web", ""]))
    assert contexts[:, 1:3].tolist() == [[1, 0], [0, 1], [1, 0], [0, 1]]
    for cells in (["Web"] * 4, [""] * 4):
        with pytest.raises(TableError, match="tells nothing about a unit"):
            first(FULL.assign(channel=cells))


def test_what_a_rule_forbids_is_not_given_where_the_cell_is_missing():
    """It may be one of the values that the rule names. A new level is not."""
    spec = parse_spec(SPEC + '[[constraints.forbid]]\naction = "5%"\ncolumn = "channel"\nvalues = ["Web"]\n')
    encoding, _ = first(FULL, spec)
    _, _, cells = deployed(encoding, FULL.assign(channel=["Web", "", "Fax", "Phone"]), spec)
    mask = permitted(spec, cells)
    assert mask is not None
    assert mask[:, 1].tolist() == [False, False, True, True]


def test_check_counts_gaps_by_column_and_is_loud_where_they_are_many():
    frame = FULL.assign(age=["", "", "NA", "30"], new=["", "no", "no", "yes"])
    (found,) = check_tables(READ, [read_table(frame, "units")])
    assert "Missing cells, of 4 rows, by column: age 3 (75%), new 1 (25%)." in found.sentence
    (warning,) = [warning for warning in found.warnings if "half" in warning]
    assert "age (75%)" in warning
    assert "new" not in warning


FITTED, _ = first(FULL)
cell = st.sampled_from(["1", "2.5", "", "NA", "Web", "Phone", "Fax", "yes", "no", "x", "unknown", "7"])


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.lists(st.tuples(cell, cell, cell), min_size=1, max_size=6))
def test_any_targets_are_encoded_or_told_and_stay_the_same_in_the_store(rows):
    """Read, encoded, stored as JSON and encoded again."""
    frame = pd.DataFrame(rows, columns=["age", "channel", "new"]).assign(customer=range(len(rows)))
    try:
        known, contexts, cells = deployed(FITTED, frame)
    except TableError:
        with pytest.raises(TableError, match="targets, row"):
            deployed(FITTED, frame)
        return
    assert np.isfinite(contexts).all()
    assert contexts.shape[1] == len(known.names(READ))
    np.testing.assert_array_equal(encode(READ, known, json.loads(json.dumps(cells))), contexts)


# A whole campaign.


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """Sixty units of history; an offer earns 2 more of those who came by the web."""
    place = tmp_path_factory.mktemp("campaign")
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {
            "customer": [f"u{i}" for i in range(60)],
            "age": rng.normal(40, 10, 60).round(1),
            "channel": ["Web", "Phone", "Shop"] * 20,
            "new": ["yes", "no"] * 30,
            "offer": rng.choice(["none", "5%"], 60),
        }
    )
    effect = (rows["offer"] == "5%") & (rows["channel"] == "Web")
    made = Campaign.create(parse_spec(SPEC), place / "campaign.db")
    made.add_outcomes(rows.assign(amount=5 + 2 * effect + rng.normal(0, 0.5, 60)))
    yield made
    made.close()


def test_rows_with_gaps_get_a_policy_with_a_wider_interval_and_are_counted(campaign):
    targets = pd.DataFrame(
        {
            "customer": ["known", "new level", "no age", "no channel"],
            "age": ["40", "40", "NA", "40"],
            "channel": ["Phone", "Fax", "Phone", ""],
            "new": "no",
        }
    )
    frame = campaign.deploy(targets)
    width = (frame["high"] - frame["low"]).tolist()
    assert width[0] < min(width[1:])
    assert (campaign.deployed["missing"], campaign.deployed["new"]) == ({"age": 1, "channel": 1}, {"channel": 1})
    # What is known is known as well as without them: the same draws of other coefficients, up to sampling.
    alone = campaign.deploy(targets.iloc[:1])
    assert alone["expected"].iloc[0] == pytest.approx(frame["expected"].iloc[0], abs=0.1)
    groups = {(row["column"], row["group"]) for row in campaign.policies()[-2]["where"]}
    assert {("age", "(missing)"), ("channel", "(missing)"), ("channel", "(new)")} <= groups


def test_history_with_gaps_is_taken_and_its_new_levels_are_learned(campaign):
    rows = pd.DataFrame(
        {
            "customer": ["h1", "h2"],
            "age": ["", 30],
            "channel": ["Fax", None],
            "new": ["?", "no"],
            "offer": "5%",
            "amount": 5,
        }
    )
    assert campaign.add_outcomes(rows).added == 2
    encoding = campaign.encoding()
    assert "Fax" in encoding.fitted["channel"]
    assert encoding.facts == {"age": ["missing"], "channel": ["missing"], "new": ["missing"]}
    stored = campaign.export().set_index("customer").loc[["h1", "h2"]]
    assert stored["age"].isna().tolist() == [True, False]
    assert stored["channel"].fillna("-").tolist() == ["Fax", "-"]
    assert campaign.data().contexts.shape == (62, len(encoding.names(campaign.spec)))
