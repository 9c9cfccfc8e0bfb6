"""The commands of a campaign, run as a user runs them: what they say when something is wrong, and killed at any moment."""

import os
import random
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest

from cobed.campaign import store
from cobed.campaign.campaign import Campaign

SPEC = """name = "spring"
[units]
id = "customer"
[context]
recency = "numeric"
new = "binary"
[action]
column = "offer"
options = ["none", "5%"]
[outcome]
column = "amount"
likelihood = "normal"
typical = 50
spread = 10
[design]
budget = "smoke"
max_targets = 5
"""
# -u: what was printed before a kill is read.
COMMAND = [sys.executable, "-u", "-c", "from cobed.cli import main; main()"]


def cobed(*arguments, cwd):
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, cwd=cwd)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "campaign.toml").write_text(SPEC)
    rows = [f"{i:03d},{i % 7},{i % 2}" for i in range(12)]
    (tmp_path / "customers.csv").write_text("customer,recency,new\n" + "\n".join(rows) + "\n")
    history = [f"h{i},{i % 7},{i % 2},{'none' if i % 3 else '5%'},{40 + i}" for i in range(12)]
    (tmp_path / "history.csv").write_text("customer,recency,new,offer,amount\n" + "\n".join(history) + "\n")
    return tmp_path


def test_check_needs_no_jax(folder):
    spec = SPEC.replace("max_targets = 5", 'designer = "Thompson"\nobjective = "value"\n[model]\ninference = "nuts"')
    (folder / "campaign.toml").write_text(spec.replace("[outcome]", 'in_use = ["none"]\n[outcome]'))
    code = "import sys; from cobed.cli import app; app(['check', 'customers.csv'], standalone_mode=False)"
    answer = subprocess.run(
        [sys.executable, "-c", code + "; sys.exit('jax' in sys.modules)"], cwd=folder, capture_output=True, text=True
    )
    assert answer.returncode == 0, answer.stderr
    assert "customers.csv: fine. 12 rows, 2 context column(s)" in answer.stdout


def test_init_writes_a_spec_that_passes_its_own_check_and_is_never_written_over(run_command, folder):
    arguments = ["init", "new.toml", "--from", "history.csv", "--action", "offer", "--outcome", "amount"]
    assert run_command(*arguments, cwd=folder).returncode == 0
    answer = run_command("check", "--spec", "new.toml", "history.csv", cwd=folder)
    assert "12 outcomes, 12 actions" in answer.stdout, answer.stderr
    again = run_command(*arguments, cwd=folder)
    assert again.returncode == 1
    assert "exists already and is not written over" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "--spec", "no.toml"], "cobed: no.toml does not exist. `cobed init` writes one"),
        (["check", "nothing.csv"], "cobed: nothing.csv does not exist"),
        (["design", "bad.csv"], "cobed: bad.csv, row 3, column 'recency': 'x' is not allowed"),
        (["observe", "bad.csv"], "cobed: bad.csv has no column 'amount', the outcome of campaign.toml"),
        (["deploy", "customers.csv"], "cobed: There is no campaign in campaign.db yet"),
        (["status"], "cobed: There is no campaign in campaign.db yet"),
        (["design", "customers.csv", "--pin", "001"], "cobed: --pin '001' is not of the form UNIT=ACTION"),
        (["design", "customers.csv", "--store", "mysql://x"], "cobed: 'mysql' databases are not supported"),
    ],
)
def test_what_is_wrong_is_a_sentence_and_not_a_traceback(run_command, folder, arguments, message):
    (folder / "bad.csv").write_text("customer,recency,new\n1,2,0\n2,x,1\n")
    answer = run_command(*arguments, cwd=folder)
    assert answer.returncode == 1
    assert answer.stderr.startswith(message), answer.stderr
    assert "Traceback" not in answer.stderr


def test_outputs_take_the_place_of_nothing_else(run_command, folder):
    """All told before the work: none of these commands computes anything."""
    (folder / "assignments.csv").write_text("customer,offer,amount\n001,none,12\n")
    (folder / "report.html").write_text("mine")
    (folder / "campaign.db-wal").write_text("")
    for line, message in [
        ("design customers.csv", "assignments.csv exists already, and it is not known that cobed wrote it"),
        ("design customers.csv --out customers.csv", "customers.csv is the table of units and is not written over"),
        ("design customers.csv --targets history.csv --out ./history.csv", "history.csv is the table of targets"),
        ("design customers.csv --out campaign.db", "campaign.db is the store of the campaign"),
        ("design customers.csv --out campaign.db-wal", "campaign.db-wal is a part of the store"),
        ("design customers.csv --out campaign.toml", "campaign.toml is the spec"),
        ("design customers.csv --out out.xls", "out.xls: tables are written as CSV"),
        ("plan customers.csv --out campaign.toml", "campaign.toml is the spec"),
        ("plan customers.csv --out report.html", "report.html exists already"),
        ("deploy customers.csv --out customers.csv", "customers.csv is the table of targets"),
        ("report", "report.html exists already"),
        ("export --out .", ". is a directory"),
    ]:
        answer = run_command(*line.split(), cwd=folder)
        assert answer.returncode == 1, line
        assert answer.stderr.startswith(f"cobed: {message}"), answer.stderr
    assert not (folder / "campaign.db").exists()
    for line in ("design customers.csv", "plan customers.csv", "export", "report", "demo", "reproduce discrete"):
        answer = run_command(*line.split(), "--out", "", cwd=folder)
        assert answer.returncode == 2, line
        assert "the name is empty" in answer.stderr, answer.stderr


@pytest.mark.slow
def test_a_plan_is_printed_and_written_and_starts_no_campaign(folder):
    answer = cobed("plan", "customers.csv", "--size", "3", "--size", "12", "--worlds", "20", cwd=folder)
    assert answer.returncode == 0, answer.stderr
    assert "regret, CO-BED" in answer.stdout
    assert f"Plan: {(folder / 'plan.html').resolve()}" in answer.stdout
    assert (folder / "plan.json").exists()
    assert not (folder / "campaign.db").exists()
    wrong = cobed("plan", "customers.csv", "--size", "13", cwd=folder)
    assert wrong.returncode == 1
    assert wrong.stderr.startswith("cobed: A plan for 13 units needs as many rows of contexts")


def test_a_killed_observe_is_whole_or_not_at_all(folder):
    """Killed at a few moments, from before the transaction to after it; the same command then finishes the work."""
    for delay in (0.3, 0.8, 1.2):
        process = subprocess.Popen([*COMMAND, "observe", "history.csv"], cwd=folder, stdout=subprocess.PIPE, text=True)
        time.sleep(delay)
        os.kill(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        if store.holds_campaign(folder / "campaign.db"):
            campaign = Campaign.open(folder / "campaign.db")
            found = campaign.status().num_outcomes
            campaign.close()
            assert found == 12 if "added" in said else found in (0, 12)
    answer = cobed("observe", "history.csv", cwd=folder)
    assert answer.returncode == 0, answer.stderr
    assert "12 outcome(s) in all" in answer.stdout


@pytest.mark.slow
def test_killed_at_random_moments_nothing_acknowledged_is_lost_and_the_next_command_works(folder):
    """Design, observe and deploy, killed without warning 50 times in all."""
    rng = random.Random(0)
    assert cobed("observe", "history.csv", cwd=folder).returncode == 0
    known = 12
    for attempt in range(50):
        command = ["design customers.csv", "observe new.csv", "deploy customers.csv"][attempt % 3].split()
        pd.DataFrame({"customer": ["h0", "h1"], "amount": [float(attempt), 50.0]}).to_csv(
            folder / "new.csv", index=False
        )
        process = subprocess.Popen(
            [*COMMAND, *command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        time.sleep(rng.uniform(0.1, 4.0 if command[0] == "observe" else 25.0))
        os.kill(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        campaign = Campaign.open(folder / "campaign.db")
        table, rounds = campaign.export(), campaign.rounds()
        campaign.close()
        assert int(table["amount"].notna().sum()) == known
        if "corrected" in said:
            assert table.loc[table["customer"] == "h0", "amount"].item() == attempt
        if "Round 1" in said:
            assert rounds[-1].id == 1
        assert sum(table["round"] == 1) in (0, 12)
    for command in ("design customers.csv", "observe new.csv", "deploy customers.csv", "report"):
        answer = cobed(*command.split(), cwd=folder)
        assert answer.returncode == 0, answer.stderr
