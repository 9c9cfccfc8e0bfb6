"""Kinds of context columns: what every one of them keeps, and one of another package."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cobed.campaign.columns import base, kinds, read_column
from cobed.campaign.tables import Complaints, read_table
from cobed.errors import SpecError

OUTSIDE = Path(__file__).parents[1] / "outside"
# Cells that suit each kind, and one that it refuses.
CELLS = {
    "numeric": (["1.5", "-2", "7e3", "0"], "many"),
    "binary": (["yes", "no", "1", "0"], "perhaps"),
    "categorical": (["Web", "Phone", "Web", "Shop"], "Fax"),
    "weekday": (["Monday", "Sunday", "Friday", "Monday"], "Sonntag"),
}
SPEC = """name = "spring"
[units]
id = "customer"
[context]
day = "weekday"
[action]
column = "offer"
options = ["none", "5%"]
[outcome]
column = "visit"
likelihood = "bernoulli"
[[constraints.forbid]]
action = "5%"
column = "day"
values = ["Sunday"]
"""


@pytest.fixture(params=list(CELLS))
def kind(request, monkeypatch):
    """Each kind in turn; that of the other package is known for one test."""
    if request.param == "weekday":
        monkeypatch.setattr(base._KINDS, "_parts", dict(base._KINDS._parts))
        monkeypatch.syspath_prepend(OUTSIDE)
        monkeypatch.delitem(sys.modules, "weekday", raising=False)
        importlib.import_module("weekday")
    return base.kind_named(request.param)


def tables(kind):
    good, bad = CELLS[kind.name]
    return [
        read_table(pd.DataFrame({"id": range(len(cells)), "x": cells}), "units") for cells in (good, [*good[:3], bad])
    ]


def test_the_examples_are_of_all_registered_kinds():
    assert {kind.name for kind in kinds()} == set(CELLS) - {"weekday"}


def test_what_is_stored_of_a_column_gives_the_same_numbers(kind):
    table, _ = tables(kind)
    column = read_column(kind.name)
    fitted = column.fit("x", [table])
    cells = column.read("x", table, fitted, Complaints(table))
    encoded = column.encode(cells, fitted)
    assert encoded.shape == (4, len(column.labels("x", fitted)))
    assert np.isfinite(encoded).all()
    assert len(set(column.labels("x", fitted))) == encoded.shape[1]
    stored_cells, stored_fitted = json.loads(json.dumps([cells, fitted]))
    np.testing.assert_array_equal(column.encode(stored_cells, stored_fitted), encoded)
    assert column.encode([], fitted).shape == (0, encoded.shape[1])
    assert len(column.groups(cells)) == 4
    assert column.refit(None, fitted) == fitted


def test_a_bad_cell_is_told_by_row_and_column_and_stops_no_other(kind):
    table, other = tables(kind)
    column = read_column(kind.name)
    fitted = column.fit("x", [table])
    complaints = Complaints(other)
    assert len(column.read("x", other, fitted, complaints)) == 4
    (said,) = complaints.by_row().items()
    assert said[0] == 3
    assert "column 'x'" in said[1]


def test_a_kind_is_proposed_for_its_own_cells(kind):
    assert next(each for each in kinds() if each.suits(tables(kind)[0], "x")) is kind


def test_rules_find_the_units_with_the_values_they_name(kind):
    table, _ = tables(kind)
    column = read_column(kind.name)
    fitted = column.fit("x", [table])
    cells = column.read("x", table, fitted, Complaints(table))
    if not kind.has_names:
        assert kind.is_number
        return
    name = CELLS[kind.name][0][0]
    expected = [cell == cells[0] for cell in cells]
    assert column.problem_of_values("x", [name], fitted) is None
    assert column.holds(cells, [name]).tolist() == expected


def test_a_name_that_is_taken_is_refused():
    with pytest.raises(SpecError, match="needs a name of its own; got 'numeric'"):
        base.register(base.kind_named("numeric"))


def run(folder, *command):
    """A command in a process of its own, beside an installed package that brings a kind of column."""
    path = f"{Path(base.__file__).parents[3]}:{folder}"
    found = subprocess.run(
        [sys.executable, "-c", "from cobed.cli import main; main()", *command],
        cwd=folder, env={"PYTHONPATH": path, "PATH": ""}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    return found.returncode, found.stdout + found.stderr


def test_a_kind_of_another_package_is_proposed_by_init_and_taken_by_a_spec(tmp_path):
    info = tmp_path / "weekdays-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: weekdays\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[cobed.columns]\nweekday = weekday\n")
    (tmp_path / "weekday.py").write_text((OUTSIDE / "weekday.py").read_text())
    days = ["Monday", "Sunday", "Friday", "Tuesday"] * 3
    table = pd.DataFrame({"customer": [f"c{i}" for i in range(12)], "day": days, "offer": ["none", "5%"] * 6})
    table.assign(visit=[0, 1, 1] * 4).to_csv(tmp_path / "history.csv", index=False)
    code, said = run(tmp_path, "init", "--from", "history.csv", "--action", "offer", "--outcome", "visit")
    assert code == 0, said
    assert 'day = "weekday"' in (tmp_path / "campaign.toml").read_text()
    (tmp_path / "campaign.toml").write_text(SPEC)
    code, said = run(tmp_path, "observe", "history.csv")
    assert code == 0, said
    assert "12 outcome(s) added" in said
    table.drop(columns="offer").assign(day="Someday").to_csv(tmp_path / "later.csv", index=False)
    code, said = run(tmp_path, "check", "later.csv")
    assert code == 1
    assert "later.csv, row 2, column 'day': 'Someday' is not allowed. Allowed: Monday, Tuesday" in said
