"""Excel and Parquet files: what a cell means, what rows are called, and what cannot be read."""

import datetime
import io
import zipfile

import numpy as np
import pandas as pd
import pytest
from openpyxl import Workbook

from cobed.campaign.sheets import split_sheet
from cobed.campaign.tables import Complaints, read_table, write_table
from cobed.errors import TableError

HEAD = ["customer", "recency", "offer", "since", "new"]


@pytest.fixture
def book(tmp_path):
    """Writes rows into a sheet and gives the path; `change` may do more with the sheet."""

    def write(rows, change=lambda sheet: None, sheets=("Sheet1",)):
        made = Workbook()
        made.active.title = sheets[0]
        for name in sheets[1:]:
            made.create_sheet(name).append(["other"])
        for row in rows:
            made.active.append(row)
        change(made.active)
        made.save(tmp_path / "customers.xlsx")
        return tmp_path / "customers.xlsx"

    return write


def test_cells_are_read_as_a_person_reads_them(book):
    def change(sheet):
        sheet["A2"].number_format = "000"
        sheet["C2"].number_format = "0%"

    rows = [HEAD, [7, 1.5, 0.05, datetime.datetime(2026, 3, 1), True], [], ["x1", 2, "none", "later", False]]
    table = read_table(book(rows, change))
    assert table.ids("customer").tolist() == ["007", "x1"]
    assert table.rows.tolist() == [2, 4]  # as Excel shows them
    assert table.text("offer").tolist() == ["5%", "none"]
    assert table.text("since").tolist() == ["2026-03-01", "later"]
    assert table.numbers("recency", Complaints(table)).tolist() == [1.5, 2]
    assert table.binary("new", Complaints(table)).tolist() == [1, 0]


def test_a_percentage_is_a_number_where_numbers_are_asked_for(book):
    def change(sheet):
        for cell in ("B2", "B3"):
            sheet[cell].number_format = "0.0%"

    table = read_table(book([["id", "rate"], [1, 0.05], [2, 0.125]], change))
    complaints = Complaints(table)
    assert table.numbers("rate", complaints).tolist() == [0.05, 0.125]
    complaints.tell()


def test_numbers_with_a_gap_are_ids_without_a_decimal_point(book):
    assert read_table(book([["id", "n"], [12, None], [3, 4]])).ids("id").tolist() == ["12", "3"]
    assert read_table(book([["id"], [12], ["a"], [3.0]])).ids("id").tolist() == ["12", "a", "3"]


def test_the_first_sheet_is_read_unless_another_is_named(book):
    path = book([["id"], [1]], sheets=("People", "Notes"))
    table = read_table(path)
    assert "2 sheets; the first, 'People', was read" in table.notes[0]
    with pytest.raises(TableError, match=r"customers\.xlsx has no rows"):
        read_table(f"{path}#Notes")
    assert read_table(f"{path}#People").notes == ()
    with pytest.raises(TableError, match=r"no sheet 'People '\. Its sheets are: People, Notes"):
        read_table(f"{path}#People ")
    assert split_sheet("a.csv#b") == (split_sheet("a.csv#b")[0], None)


def test_hidden_rows_are_read_and_counted(book):
    def hide(sheet):
        sheet.row_dimensions[3].hidden = True

    table = read_table(book([["id"], [1], [2]], hide))
    assert len(table) == 2
    assert "1 of the rows are hidden in Excel" in table.notes[0]


@pytest.mark.parametrize(
    ("rows", "change", "message"),
    [
        (
            [["id", "a"], [1, 2], [2, 3]],
            lambda sheet: sheet.merge_cells("A2:A3"),
            "the cells A2:A3 are merged into one",
        ),
        ([["id", "a"], [1, "=1+1"]], lambda sheet: None, "cell B2: the formula '=1.1' has no computed value"),
        ([["id", None], [1, 2]], lambda sheet: None, "row 1: column B has cells and no heading"),
        ([["id", "id"], [1, 2]], lambda sheet: None, "two columns called 'id'"),
        ([["id"]], lambda sheet: None, "has no rows"),
        ([], lambda sheet: None, "has no cells"),
    ],
)
def test_what_cannot_be_read_is_told(book, rows, change, message):
    with pytest.raises(TableError, match=message):
        read_table(book(rows, change))


def test_what_is_no_excel_file_is_told(tmp_path):
    empty = io.BytesIO()
    with zipfile.ZipFile(empty, "w") as archive:
        archive.writestr("xl/workbook.xml", "<no")
    for content in (b"", b"PK", b"a,b\n1,2\n", empty.getvalue()):
        path = tmp_path / "t.xlsx"
        path.write_bytes(content)
        with pytest.raises(TableError, match=r"t\.xlsx cannot be read as an Excel file"):
            read_table(path)
    (tmp_path / "t.xls").write_bytes(b"x")
    with pytest.raises(TableError, match=r"\.xls files are not read\. Save the table as \.xlsx"):
        read_table(tmp_path / "t.xls")


@pytest.mark.parametrize(
    ("cell", "message"), [("x" * 40_000, "Excel holds 32,767"), ("bell\x07", "holds a character that Excel cannot")]
)
def test_what_excel_cannot_hold_is_told_before_anything_is_written(tmp_path, cell, message):
    with pytest.raises(TableError, match=f"t.xlsx, row 2, column 'note': .*{message}"):
        write_table(pd.DataFrame({"note": [cell]}), tmp_path / "t.xlsx")
    assert list(tmp_path.iterdir()) == []


def test_numbers_stay_numbers_from_excel_to_excel(book, tmp_path):
    rows = [["id", "n", "share", "long"], [1, 2.5, 0.05, 12345678901234567], [2, None, 0.1, 5]]

    def percent(sheet):
        sheet["C2"].number_format = sheet["C3"].number_format = "0%"

    first = read_table(book(rows, percent))
    again = read_table(write_table(first.frame, tmp_path / "out.xlsx"))
    for name in ("n", "share"):
        np.testing.assert_array_equal(again.numbers(name, Complaints(again)), first.numbers(name, Complaints(first)))
    assert again.text("share").tolist() == ["5%", "10%"]


def test_an_index_of_parquet_or_of_a_frame_is_a_column(tmp_path):
    frame = pd.DataFrame({"recency": [1, 2]}, index=pd.Index(["007", "8"], name="customer"))
    frame.to_parquet(tmp_path / "t.parquet")
    for source in (tmp_path / "t.parquet", frame):
        table = read_table(source)
        assert table.ids("customer").tolist() == ["007", "8"]
    # What comes back has the index that was given.
    pd.testing.assert_index_equal(read_table(frame).with_columns({"a": 1}).index, frame.index)
    double = frame.set_index("recency", append=True).assign(x=1)
    double.to_parquet(tmp_path / "d.parquet")
    assert list(read_table(tmp_path / "d.parquet").frame.columns) == ["customer", "recency", "x"]
    plain = frame.reset_index().iloc[[1]]
    plain.to_parquet(tmp_path / "p.parquet")
    assert list(read_table(tmp_path / "p.parquet").frame.columns) == ["customer", "recency"]
