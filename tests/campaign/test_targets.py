"""Deployment where some rows cannot be used, and hostile names on their way out and back."""

import csv
import os
import subprocess
import sys

import pandas as pd
import pytest
import typer

from cobed.campaign.campaign import Campaign
from cobed.campaign.spec import parse_spec
from cobed.cli import campaign as commands
from cobed.errors import CobedError, SpecError, StorageError, TableError

SPEC = """name = "spring"
[units]
id = "=id"
[context]
recency = "numeric"
"@channel" = "categorical"
[action]
column = "-offer"
options = ["none", "=5%+1", "@all"]
[outcome]
column = "+visit"
likelihood = "normal"
typical = 5
spread = 2
[design]
designer = "Random"
"""


def people(number, start=0):
    return pd.DataFrame(
        {
            "=id": [f"=u{i}" for i in range(start, start + number)],
            "recency": [i % 7 for i in range(number)],
            "@channel": [["+Web", "-Phone", "Shop"][i % 3] for i in range(number)],
            "note": ["=cmd()"] * number,
        }
    )


def history(number):
    rows = people(number, 100)
    return rows.assign(**{"-offer": ["none", "=5%+1", "@all", "none"] * (number // 4), "+visit": range(number)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A campaign with outcomes, every name of which a spreadsheet would take for a formula."""
    place = tmp_path_factory.mktemp("campaign")
    (place / "campaign.toml").write_text(SPEC)
    campaign = Campaign.create(place / "campaign.toml", place / "campaign.db")
    campaign.add_outcomes(history(12))
    campaign.close()
    return place


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_good_rows_are_deployed_and_bad_ones_kept_apart_with_the_reason(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    rows = people(8).astype(object)
    rows.loc[1, "recency"], rows.loc[2, "@channel"], rows.loc[3, "=id"], rows.loc[4, "=id"] = "x", "+Wbe", "", "=u0"
    rows.to_csv("targets.csv", index=False)
    with pytest.raises(typer.Exit) as stopped:
        commands.deploy(folder / "targets.csv")
    assert stopped.value.exit_code == 3
    out, said = capsys.readouterr()
    assert "Cells with a rare or new level, of 5 rows, by column: @channel 1 (20%)." in out
    assert "'+Wbe' (1 row(s)) is new. Did you mean '+Web'?" in out
    assert "3 of 8 rows could not be used and are in rejected.csv" in said
    assert "recency 1" in said
    policy, rejected = pd.read_csv("policy.csv"), pd.read_csv("rejected.csv")
    # A level that nobody has seen gets what is known of the population, and a near miss is told.
    assert policy["'=id"].tolist() == ["'=u0", "'=u2", "'=u5", "'=u6", "'=u7"]
    assert rejected["row"].tolist() == [3, 5, 6]
    assert list(rejected.columns[:4]) == ["'=id", "recency", "'@channel", "note"]
    expected = ["'x' is not allowed", "needs an id", "row 2 already"]
    for reason, words in zip(rejected["reason"], expected, strict=True):
        assert words in reason
    # What was bad is of this run alone.
    people(3).to_csv("targets.csv", index=False)
    commands.deploy(folder / "targets.csv")
    assert not (folder / "rejected.csv").exists()
    assert len(pd.read_csv("policy.csv")) == 3
    # Nobody's own file is removed.
    (folder / "rejected.csv").write_text("mine")
    with pytest.raises(StorageError, match="was changed since cobed wrote it"):
        commands.deploy(folder / "targets.csv")
    (folder / "rejected.csv").unlink()


def test_no_good_row_is_an_error_and_one_bad_row_too_in_python(folder):
    campaign = Campaign.open(folder / "campaign.db")
    bad = people(2).assign(recency="x")
    with pytest.raises(TableError, match="targets, row 0, column 'recency'"):
        campaign.split(bad)
    with pytest.raises(TableError, match="targets, row 1, column 'recency'"):
        campaign.deploy(people(2).assign(recency=[1, "x"]))
    good, rejected = campaign.split(people(3).assign(recency=[1, "x", 2]).set_index("=id"))
    policy = campaign.deploy(good)
    assert policy.index.tolist() == ["=u0", "=u2"]
    assert (rejected.index.tolist(), rejected["row"].tolist()) == (["=u1"], ["=u1"])
    campaign.close()


def test_hostile_names_survive_the_way_out_and_back(folder, tmp_path, monkeypatch):
    """Design, observe, deploy and export through files: no cell begins like a formula, and all comes back as it was."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "campaign.toml").write_text(SPEC)
    people(6).to_csv("units.csv", index=False)
    for end in ("csv", "xlsx"):
        commands.design(tmp_path / "units.csv", out=tmp_path / f"assignments.{end}")
    cells = [cell for row in rows_of("assignments.csv") for cell in row]
    assert not [cell for cell in cells if cell[:1] in ("=", "+", "-", "@")]
    assigned = pd.read_csv("assignments.csv", dtype=str).assign(**{"'+visit": range(6)})
    assigned.to_csv("outcomes.csv", index=False)
    commands.observe(tmp_path / "outcomes.csv")
    commands.deploy(tmp_path / "units.csv")
    commands.export(out=tmp_path / "all.csv")
    campaign = Campaign.open("campaign.db")
    found = campaign.export()
    campaign.close()
    assert found["=id"].tolist() == people(6)["=id"].tolist()
    assert found["@channel"].tolist() == people(6)["@channel"].tolist()
    assert found["as_planned"].all()
    assert found["+visit"].tolist() == list(range(6))
    for name in ("policy.csv", "all.csv"):
        starts = [cell[:2] for row in rows_of(name) for cell in row if cell[:1] in ("=", "+", "-", "@")]
        assert all(start[0] == "-" and start[1].isdigit() for start in starts)


def test_the_code_of_a_spec_is_announced_and_can_be_refused(tmp_path, monkeypatch, capsys):
    from cobed.campaign.encoding import Encoding
    from cobed.campaign.engine import build_model

    (tmp_path / "spring_model.py").write_text("raise RuntimeError('ran')\n")
    spec = parse_spec(SPEC.replace("[design]", '[model]\nprogram = "spring_model:model"\n[design]'))
    encoding = Encoding({"recency": [0.0, 1.0], "@channel": ["a", "b"]})
    monkeypatch.setenv("COBED_NO_PROGRAM", "1")
    with pytest.raises(SpecError, match="--no-program"):
        build_model(spec, encoding, tmp_path)
    assert "running the code" not in capsys.readouterr().err
    monkeypatch.setenv("COBED_NO_PROGRAM", "0")
    with pytest.raises(SpecError, match="cannot be loaded: RuntimeError: ran"):
        build_model(spec, encoding, tmp_path)
    assert f"running the code of {tmp_path / 'spring_model.py'}" in capsys.readouterr().err


def test_names_no_terminal_can_show_are_printed_all_the_same(tmp_path):
    (tmp_path / "campaign.toml").write_text(SPEC)
    people(3).to_csv(tmp_path / "units.csv", index=False)
    name = b"units\xff.csv"
    os.rename(tmp_path / "units.csv", os.fsencode(tmp_path) + b"/" + name)
    command = [sys.executable, "-c", "from cobed.cli import main; main()", "check", name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert b"units\\udcff.csv: fine." in done.stdout


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"=id": ["a", "b\udcff"], "recency": 1, "@channel": ["x", "y"]}, dtype=object),
        pd.DataFrame([["a", 1, "x", 1]], columns=pd.Index(["=id", "recency", "@channel", "h\udcff"], dtype=object)),
        pd.DataFrame({"=id": ["a", "b\x00"], "recency": 1, "@channel": ["x", "y"]}, dtype=object),
        pd.DataFrame({"=id": ["a" * 10_000, "b" * 10_000], "recency": 1, "@channel": ["x", "y"]}, dtype=object),
    ],
)
def test_what_is_no_text_is_told(folder, frame):
    campaign = Campaign.open(folder / "campaign.db")
    for call in (campaign.recommend, campaign.split, campaign.add_outcomes):
        with pytest.raises(CobedError) as error:
            call(frame)
        assert len(str(error.value)) < 1_000
    campaign.close()
