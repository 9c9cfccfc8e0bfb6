"""`cobed init` on tables as they come: what it proposes, what it leaves out and why; and what it proposes can be used."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cobed.campaign.encoding import encode_contexts, fit_encoding, read_actions
from cobed.campaign.propose import propose
from cobed.campaign.spec import parse_spec
from cobed.campaign.tables import Complaints, read_table
from cobed.campaign.template import Situation, guess
from cobed.errors import TableError

ROWS = 200
rng = np.random.default_rng(0)
LETTERS = [f"{a}{b}" for a in "abcdefghij" for b in "klmnopqrst"]
RAW = pd.DataFrame(
    {
        "counter": range(ROWS),
        "Subject ID": [f"P{i:04d}" for i in range(ROWS)],
        "height": ["NA" if i % 5 == 0 else f"{160 + i % 31}.5" for i in range(ROWS)],
        "race": [["White", "Asian", "Unknown", ""][i % 4] for i in range(ROWS)],
        "diabetes": [["0", "1", "NA"][i // 2 % 3] for i in range(ROWS)],
        "member": [["none", "gold"][i % 2] for i in range(ROWS)],
        "channel": [str(1 + i * i % 7) for i in range(ROWS)],
        "site": [f"S{min(i // 2, i % 40)}" for i in range(ROWS)],
        "zip": [f"0{2139 + i % 7}" for i in range(ROWS)],
        "since": [f"2024-03-{1 + i % 28:02d}" for i in range(ROWS)],
        "born": [f"{1 + i % 28}/11/1980" for i in range(ROWS)],
        "remark": [f"{LETTERS[i % 100]} {i}" for i in range(ROWS)],
        "country": "CH",
        "rarely": ["x" if i % 50 == 0 else "" for i in range(ROWS)],
        "nothing": "",
        "spelled": [["Male", "male", "Female", "Female "][i % 4] for i in range(ROWS)],
        "offer": [["none", "5%", "NA"][i % 3] for i in range(ROWS)],
        "offer code": [["0", "1", "NA"][i % 3] for i in range(ROWS)],
        "spend": rng.gamma(2, 20, ROWS).round(2),
        "spend after": rng.gamma(2, 20, ROWS).round(2),
    }
)


def test_every_column_is_proposed_or_left_out_with_the_reason():
    text = guess("raw", read_table(RAW, "raw.csv"), "offer", "spend")
    spec = parse_spec(text)
    assert spec.units.id == "Subject ID"
    assert {name: column.type for name, column in spec.context.items()} == {
        "height": "numeric", "race": "categorical", "diabetes": "binary", "member": "categorical", "channel": "numeric",
        "site": "categorical", "zip": "categorical", "spelled": "categorical",
    }  # fmt: skip
    assert spec.action.options == ("5%", "none")
    for line in (
        "# 40 of 200 cells are missing.\nheight",
        "# 100 of 200 cells are missing.\nrace",
        '# whole numbers from 1 to 5: "categorical" if they name something.\nchannel',
        '{ type = "categorical", levels = ["Female", "Male", "male"] }',
        "# counter: it counts the rows.",
        "# since: dates.",
        "# born: dates.",
        "# remark: 200 different texts in 200 rows, like ids or free text.",
        "# country: the same value in every row that has one.",
        "# rarely: 196 of 200 cells are missing.",
        "# nothing: 200 of 200 cells are missing.",
        "# \"offer code\": its cells differ where those of 'offer' do, and nowhere else.",
        '# "spend after": by its name it is known only afterwards.',
    ):
        assert line in text, line


def test_what_the_targets_do_not_have_is_no_context():
    targets = read_table(RAW.drop(columns=["race", "offer", "spend"]), "next.csv")
    spec = parse_spec(guess("raw", read_table(RAW, "raw.csv"), "offer", "spend", Situation(targets)))
    assert "race" not in spec.context
    assert "spend after" in spec.context


def test_many_numbers_of_past_actions_are_a_range_to_choose_from():
    spec = parse_spec(guess("raw", read_table(RAW.assign(dose=[*range(ROWS - 1), "NA"]), "raw.csv"), "dose", "spend"))
    assert spec.action.numbers is not None
    assert (spec.action.numbers["dose"].low, spec.action.numbers["dose"].high) == (0, ROWS - 2)


def test_the_rarest_of_many_levels_are_told():
    sites = [f"S{i % 50}" for i in range(950)] + [f"R{i}" for i in range(50)]
    proposed = propose([read_table(pd.DataFrame({"site": sites}))], ["site"])
    assert proposed["site"] == ("categorical", "100 levels: the 50 rarest (50 rows) count as one.")


pools = st.sampled_from(
    [
        ["1", "2.5", "-3", "1e3"], ["7", "8", "9"], ["0", "1"], ["yes", "no", "NO"], ["Web", "web", "Phone"], ["none", "gold"],
        ["2024-01-01", "2024-05-06"], ["é", "e\u0301", "x"], ["007", "008"], ["inf", "1"], ["a b", "c;d", "=x", "'y"],
        [str(i) for i in range(99)],
    ]
)  # fmt: skip
gaps = st.sampled_from([[], ["NA"], ["", "unknown", "?"], ["none"], ["None"]])


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.lists(st.tuples(pools, gaps, st.integers(0, 2**32 - 1)), min_size=1, max_size=4))
def test_what_is_proposed_for_any_table_can_be_used_with_it(columns):
    """The spec is valid, and every cell of the table is read."""
    frame = pd.DataFrame({"id": [f"u{i}" for i in range(12)]})
    for number, (pool, gap, seed) in enumerate(columns):
        frame[f"c{number}"] = np.random.default_rng(seed).choice([*pool, *gap], 12)
    table = read_table(frame)
    if not any(found.kind for found in propose([table], list(frame.columns[1:])).values()):
        return
    spec = parse_spec(guess("any", table))
    contexts, _ = encode_contexts(spec, fit_encoding(spec, [table]), table)
    assert np.isfinite(contexts).all()


def test_the_raw_table_is_encoded_and_its_actions_are_read():
    table = read_table(RAW, "raw.csv")
    spec = parse_spec(guess("raw", table, "offer", "spend"))
    encoding, complaints = fit_encoding(spec, [table]), Complaints(table)
    contexts, _ = encode_contexts(spec, encoding, table)
    assert contexts.shape == (ROWS, len(encoding.names(spec)))
    assert encoding.facts == {"height": ["missing"], "race": ["missing"], "diabetes": ["missing"]}
    # An option is called none, so that words for missing are doubtful where an action should be.
    read_actions(spec, table, complaints)
    with pytest.raises(TableError, match="'NA' is not allowed"):
        complaints.tell()
