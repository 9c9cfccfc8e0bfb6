"""Users' tables: what survives, and what is said about cells that cannot be used."""

import contextlib
import csv as csv_module

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cobed.campaign.check import check_tables
from cobed.campaign.encoding import encode_contexts, fit_encoding
from cobed.campaign.spec import parse_spec
from cobed.campaign.tables import Complaints, read_table, write_table
from cobed.campaign.template import guess
from cobed.errors import TableError

SPEC = parse_spec("""name = "spring"
[units]
id = "customer"
[context]
recency = "numeric"
channel = { type = "categorical", levels = ["Web", "Phone"] }
new = "binary"
[action]
column = "offer"
options = ["none", "5%"]
[outcome]
column = "visits"
likelihood = "poisson"
""")
HEAD = "customer,recency,channel,new\n"


@pytest.fixture
def csv(tmp_path):
    def write(text):
        path = tmp_path / "customers.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def encoded(path):
    table = read_table(path)
    table.ids("customer")
    return encode_contexts(SPEC, fit_encoding(SPEC, [table]), table)[0]


def test_columns_become_numbers_by_the_stored_encoding(csv):
    table = read_table(csv(HEAD + "a,1,Web,yes\nb,3,Phone,FALSE\n"))
    encoding = fit_encoding(SPEC, [table])
    found, cells = encode_contexts(SPEC, encoding, table)
    # recency has mean 2 and deviation 1.
    np.testing.assert_allclose(found, [[-1, 1, 0, 1], [1, 0, 1, 0]])
    assert cells == {"recency": [1.0, 3.0], "channel": ["Web", "Phone"], "new": [1.0, 0.0]}
    later = read_table(pd.DataFrame({"recency": [4], "channel": ["Web"], "new": [True]}))
    np.testing.assert_allclose(
        encode_contexts(SPEC, type(encoding).from_json(encoding.to_json()), later)[0], [[2, 1, 0, 1]]
    )


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + HEAD + "007,1,Web,1\n",
        '"customer","recency","channel","new"\n"007","1","Web","1"\n',
        "customer;recency;channel;new\r\n007;1;Web;1\r\n",
        "customer\trecency\tchannel\tnew\n007\t1\tWeb\t1",
        HEAD + "\n007 , 1 , Web , 1 \n\n",
        "note,customer,recency,channel,new\n" + '"a ""quoted"", cell\nof two lines",007,1,Web,1\n',
        HEAD + "007,1,Web,1,\n",
    ],
)
def test_ids_stay_text_whatever_the_file_looks_like(csv, text):
    assert read_table(csv(text)).ids("customer").tolist() == ["007"]
    assert encoded(csv(text)).tolist() == [[0, 1, 0, 1]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "1,a,Web,1\n", r"customers\.csv, row 2, column 'recency': 'a' is not allowed\. A finite number"),
        (HEAD + "1,1,Web,1\n\n2,n/a,Web,1\n3,x,Web,1\n", r"row 5, column 'recency': 'x' is not allowed"),
        (HEAD + "1,inf,Web,1\n2,1e39,Web,1\n", r"row 3, column 'recency': '1e39'"),
        (HEAD + "1,1,Wbe,1\n", r"row 2, column 'channel': 'Wbe' is not allowed\. Allowed: Web, Phone"),
        (HEAD + "1,1,Web,maybe\n", r"column 'new': 'maybe' is not allowed\. Allowed: 0 or 1, yes or no"),
        (HEAD + "1,1,Web,1\n1,2,Web,1\n", r"row 3, column 'customer': the id '1' stands in row 2 already"),
        (HEAD + ",1,Web,1\n", r"row 2, column 'customer': the cell is empty\. Every row needs an id"),
        (HEAD + "1,1,Web,1,5\n", r"row 2: the row has more cells than the heading, 4; the first too many is '5'"),
        (HEAD + "1,1,Web,1\n1,1,Web,1,5,6\n", r"cannot be read as CSV: .*[Ee]xpected 5 fields in line 3, saw 6"),
        ("customer,recncy,channel,new\n1,1,Web,1\n", r"no column 'recency', .* Did you mean 'recncy'\?"),
        ("customer,recency,channel,channel\n", r"row 1: the table has two columns called 'channel'"),
        (HEAD, "has no rows"),
        ("", "customers.csv cannot be read as CSV"),
        (b"customer,recency\n1,\xff\n", "is not UTF-8 text"),
        (HEAD + '1,1,"Web,1\n', "cannot be read as CSV: .*inside string"),
    ],
)
def test_an_error_names_file_row_column_value_and_what_is_allowed(csv, text, message):
    with pytest.raises(TableError, match=message) as error:
        encoded(csv(text))
    assert "customers.csv" in str(error.value)


def test_the_first_twenty_bad_cells_are_told_in_the_order_of_the_rows_and_the_others_counted(csv):
    rows = "".join(f"{i},x,Web,z\n" for i in range(30))
    with pytest.raises(TableError) as error:
        encoded(csv(HEAD + rows))
    lines = str(error.value).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "... and 40 more in customers.csv."
    assert [line.split(", ")[1] for line in lines[:4]] == ["row 2", "row 2", "row 3", "row 3"]


def test_other_files_are_told(tmp_path):
    (tmp_path / "x.parquet").write_text("no parquet")
    for source, message in [
        (tmp_path / "nothing.csv", "does not exist"),
        (tmp_path, "is a directory"),
        (tmp_path / "x.parquet", "cannot be read"),
        ([1, 2], "a path or a pandas DataFrame, got list"),
    ]:
        with pytest.raises(TableError, match=message):
            read_table(source)


def test_parquet_and_frames_keep_their_rows_columns_and_index(tmp_path):
    frame = pd.DataFrame({"customer": [12, 3], "recency": [1.5, 2], "channel": ["Web", "Phone"], "new": [True, False]})
    path = write_table(frame, tmp_path / "customers.parquet")
    for source in (path, frame, frame.set_axis(["x", "y"])):
        table = read_table(source)
        assert table.ids("customer").tolist() == ["12", "3"]
        np.testing.assert_allclose(encode_contexts(SPEC, fit_encoding(SPEC, [table]), table)[0][:, 3], [1, 0])
    bad = frame.assign(recency=[1.0, np.inf]).set_axis(["x", "y"])
    with pytest.raises(TableError, match="the table, row y, column 'recency': inf is not allowed"):
        check_tables(SPEC, [read_table(bad)])


def test_whole_numbers_with_a_gap_keep_their_names_as_ids():
    frame = pd.DataFrame({"customer": [12.0, None, 3.0]})
    with pytest.raises(TableError, match=r"row 1, column 'customer': nan is not allowed\. Every row needs an id"):
        read_table(frame).ids("customer")
    assert read_table(frame.dropna()).ids("customer").tolist() == ["12", "3"]


def test_check_says_what_a_table_holds_and_what_is_wrong_with_its_outcomes(csv):
    good = "customer,recency,channel,new,offer,visits,note\n1,1,Web,1,none,3,a\n2,2,Web,0,,,b\n"
    assert check_tables(SPEC, [read_table(csv(good))])[0].sentence == (
        "fine. 2 rows, 3 context column(s), 1 outcomes, 1 actions, 1 other column(s), which pass through."
    )
    for cell, message in [
        ("1.5", "whole numbers from 0 up"),
        ("-1", "whole numbers from 0 up"),
        ("x", "finite number"),
    ]:
        with pytest.raises(TableError, match=message):
            check_tables(SPEC, [read_table(csv(good.replace(",3,", f",{cell},")))])
    with pytest.raises(TableError, match=r"column 'offer': '7%' is not allowed\. Allowed: none, 5%"):
        check_tables(SPEC, [read_table(csv(good.replace("none", "7%")))])
    with pytest.raises(TableError, match="neither the other context columns nor the outcome"):
        check_tables(SPEC, [read_table(csv("customer,b\n1,2\n"))])


def test_a_template_is_guessed_from_a_table(csv):
    path = csv("age,member_id,city,offer,spend,remark\n30,a1,Ulm,A,1.5,x y\n41,a2,Bern,B,2.25,z\n50,a3,Ulm,B,3.75,w\n")
    spec = parse_spec(guess("spring", read_table(path), "offer", "spend"))
    assert spec.units.id == "member_id"
    assert {name: column.type for name, column in spec.context.items()} == {
        "age": "numeric", "city": "categorical",
    }  # fmt: skip
    assert spec.action.options == ("A", "B")
    assert (spec.outcome.likelihood, spec.outcome.typical) == ("normal", 2.5)


# Any cells at all: encoded, or told with the file, the row and the column.

cells = st.one_of(
    st.text(max_size=8), st.integers(-5, 5).map(str), st.floats().map(str),
    st.sampled_from(["Web", "Phone", "yes", "no", "", "nan", '"', ",", "\n", "\r", ";", "007", "1e400", "\x00", "é"]),
)  # fmt: skip
tables = st.lists(st.lists(cells, min_size=3, max_size=5), min_size=0, max_size=4)
quiet = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]}


@contextlib.contextmanager
def told():
    """Allows an error of ours that names the file, and no other."""
    try:
        yield
    except TableError as error:
        if "customers.csv" not in str(error):
            raise RuntimeError(f"the file is not named: {error}") from error


def encoded_or_told(path, rows, quoted):
    def cell(value):
        return '"' + value.replace('"', '""') + '"' if quoted else value

    text = HEAD + "".join(",".join(map(cell, [f"id{i}", *row])) + "\n" for i, row in enumerate(rows))
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with told():
        assert np.isfinite(encoded(path)).all()


@settings(max_examples=100, derandomize=True, **quiet)
@given(tables, st.booleans())
def test_any_cells_are_encoded_or_told(tmp_path, rows, quoted):
    encoded_or_told(tmp_path / "customers.csv", rows, quoted)


@pytest.mark.slow
@settings(max_examples=3000, derandomize=True, **quiet)
@given(tables, st.booleans())
def test_thousands_of_tables_are_encoded_or_told(tmp_path, rows, quoted):
    encoded_or_told(tmp_path / "customers.csv", rows, quoted)


@settings(max_examples=50, derandomize=True, **quiet)
@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_told(tmp_path, content):
    path = tmp_path / "customers.csv"
    path.write_bytes(content)
    with told():
        check_tables(SPEC, [read_table(path)])


HOSTILE = [
    "=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "-", "+", "=", "'=1", "''+x", "'plain", "-5", "+3.5e2",
    "-10%", "\uff1d1", "a\rb", 'say "hi", you', "x\ny", "#N/A", "TRUE", "007",
]  # fmt: skip


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "t.parquet", "t.xlsx"])
def test_text_that_looks_like_a_formula_comes_back_as_it_was(tmp_path, name):
    frame = pd.DataFrame({"id": [f"u{i}" for i in range(len(HOSTILE))], "=cell()": HOSTILE, "n": range(len(HOSTILE))})
    path = write_table(frame, tmp_path / name)
    table = read_table(path)
    # Excel has one kind of line break.
    expected = [cell.replace("\r", "\n") for cell in HOSTILE] if name == "t.xlsx" else HOSTILE
    assert list(table.frame.columns) == list(frame.columns)
    assert table.frame["=cell()"].tolist() == expected
    assert table.numbers("n", Complaints(table)).tolist() == list(range(len(HOSTILE)))
    write_table(table.frame, path)  # and again, over what was written
    assert read_table(path).frame["=cell()"].tolist() == expected


def test_no_cell_of_a_csv_begins_like_a_formula(tmp_path):
    frame = pd.DataFrame({"=id": HOSTILE, "kind": pd.Categorical(HOSTILE)})
    with open(write_table(frame, tmp_path / "t.csv"), newline="", encoding="utf-8") as file:
        rows = list(csv_module.reader(file))
    assert len(rows) == len(HOSTILE) + 1
    for cell in (cell for row in rows for cell in row):
        assert cell in ("-5", "+3.5e2", "-10%") or cell[:1] not in "=+-@\t\r\n\uff1d", cell


def test_excel_holds_text_as_text(tmp_path):
    from openpyxl import load_workbook

    path = write_table(pd.DataFrame({"a": HOSTILE, "b": [1.5, np.nan] + [2] * (len(HOSTILE) - 2)}), tmp_path / "t.xlsx")
    cells = list(load_workbook(path).active.iter_rows(min_row=2))
    assert [row[0].data_type for row in cells] == ["s"] * len(HOSTILE)
    assert [row[1].value for row in cells[:3]] == [1.5, None, 2]
