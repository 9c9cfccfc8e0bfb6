"""The command line, run as a user runs it."""

import os
import subprocess
import sys

import pandas as pd
import pytest


def cobed(*arguments, cwd=None):
    command = [sys.executable, "-c", "from cobed.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd)


def test_what_needs_no_design_does_not_load_jax():
    code = "import sys, cobed, cobed.cli, cobed.campaign.campaign; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_process_says_what_is_asked_or_what_is_wrong_and_ends_accordingly(tmp_path):
    answer = cobed("--help")
    assert answer.returncode == 0
    assert "demo" in answer.stdout
    (tmp_path / "campaign.toml").write_text("")
    wrong = cobed("status", cwd=tmp_path)
    assert wrong.returncode == 1
    assert wrong.stderr.startswith("cobed: There is no campaign in campaign.db yet")


def test_every_public_name_can_be_loaded():
    import cobed as package

    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = package.nothing


# Without curves, which take most of the time to compile.
SMALL_DEMO = """
from pathlib import Path
from cobed.campaign import simulated
simulated.SPEC += '[model]\\nfamily = "linear"'
from cobed.cli.demo import run
run(Path("here"), 0, "smoke", simulated.Sizes(history=120, round=40, region=500), num_random=1)
"""


def test_the_demo_leaves_a_campaign_to_go_on_with_and_writes_over_none(run_command, tmp_path):
    answer = subprocess.run([sys.executable, "-c", SMALL_DEMO], capture_output=True, text=True, cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    for sentence in (
        "simulated", "120 outcome(s) added", "Round 1, designed: 40 units", "Round 2, designed: 40 units",
        "500 units in policy.csv", "at most 125 units of 'styling advice'", "best single offer: ", "best policy of all",
    ):  # fmt: skip
        assert sentence in answer.stdout, sentence
    report = tmp_path / "here" / "report.html"
    assert f"Report: {report.resolve()}" in answer.stdout
    assert "Which offer for whom (simulated)" in report.read_text()
    status = run_command("status", cwd=tmp_path / "here")
    assert "200 outcome(s), 0 awaited, 1 deployment(s)" in status.stdout, status.stderr
    from cobed.cli.demo import _free

    assert _free(tmp_path / "here") == tmp_path / "here-2"


@pytest.mark.slow
def test_the_campaign_at_random_differs_from_the_demo_by_its_designer_alone(tmp_path, monkeypatch):
    """With the same designer it ends in the policy that the commands have written."""
    from cobed.campaign import simulated

    monkeypatch.setattr(simulated, "SPEC", simulated.SPEC + '[model]\nfamily = "linear"')
    assert subprocess.run([sys.executable, "-c", SMALL_DEMO], capture_output=True, cwd=tmp_path).returncode == 0
    shop = simulated.make_shop(0, "smoke", simulated.Sizes(history=120, round=40, region=500))
    policy = pd.read_csv(tmp_path / "here" / "policy.csv")["offer"].tolist()
    assert shop.policy_after("CO-BED", 0) == policy
    assert shop.policy_after("Random", 0) != policy


@pytest.mark.parametrize(
    ("ours", "random", "sentence"),
    [
        (9.0, 8.0, "earns 2,000 EUR more per 1,000 customers than the best single offer: +20,000 EUR in the region"),
        (6.5, 8.0, "earns 500 EUR less per 1,000 customers than the best single offer: -5,000 EUR in the region"),
    ],
)
def test_the_demo_tells_what_happened_also_where_the_policy_lost(ours, random, sentence):
    from cobed.cli.demo import comparison

    text = comparison(ours, random, 7.0, 10.0, 10_000)
    assert sentence in text
    assert "offers at random 33%" in text


def test_a_wrong_budget_is_a_sentence_and_not_a_traceback(run_command, tmp_path):
    answer = run_command("demo", "--budget", "enormous", cwd=tmp_path)
    assert answer.returncode == 1
    assert answer.stderr.startswith("cobed: Unknown budget 'enormous'. Allowed: 'smoke', 'quick', 'paper'")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["discreet"],
            "cobed: There is no experiment 'discreet'. Allowed: discrete, continuous, ablation, gp, bandit, causal.",
        ),
        (["discrete", "--seeds", "0"], "cobed: --seeds must be at least 1, got 0."),
        (["discrete", "--worlds", "1"], "cobed: --worlds must be at least 2"),
    ],
)
def test_a_wrong_reproduction_is_a_sentence_and_leaves_nothing(run_command, tmp_path, arguments, message):
    answer = run_command("reproduce", *arguments, cwd=tmp_path)
    assert answer.returncode == 1
    assert answer.stderr.startswith(message)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_killed_reproduction_goes_on_to_the_same_results(tmp_path):
    """Killed without warning after its first parts, and run again: the same numbers as a run left in peace."""
    import json
    import os
    import signal
    import time

    command = [sys.executable, "-c", "from cobed.cli import main; main()", "reproduce", "discrete", "--budget", "smoke"]
    process = subprocess.Popen([*command, "--out", "killed"], cwd=tmp_path, stderr=subprocess.DEVNULL)
    parts = tmp_path / "killed" / "parts"
    while process.poll() is None and len(list(parts.glob("*.npz")) if parts.exists() else []) < 2:
        time.sleep(0.2)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    for out in ("killed", "whole"):
        assert cobed("reproduce", "discrete", "--budget", "smoke", "--out", out, cwd=tmp_path).returncode == 0
    killed, whole = (json.loads((tmp_path / out / "results.json").read_text())["rows"] for out in ("killed", "whole"))
    for row in [*killed, *whole]:
        row.pop("seconds_design"), row.pop("seconds_total")
    assert killed == whole


def test_the_version_is_an_option_too():
    import cobed as package

    assert cobed("--version").stdout.strip() == package.__version__


@pytest.mark.parametrize(("typed", "offered"), [("cobed de", "deploy"), ("cobed design --ne", "--next")])
def test_the_shell_completes_commands_and_options(typed, offered):
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1), "_COBED_COMPLETE": "complete_bash"}
    answer = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv[0] = 'cobed'; from cobed.cli import main; main()"],
        capture_output=True, text=True, env={**os.environ, **words},
    )  # fmt: skip
    assert offered in answer.stdout.split(), answer.stdout + answer.stderr
