"""The examples people copy: docstrings and the README's code, run."""

import ast
import doctest
import importlib
import re
from pathlib import Path

import pytest

import cobed

README = Path(__file__).parents[1] / "README.md"
PROCESSES = README.with_name("docs") / "gaussian-processes.md"
TUTORIAL = README.with_name("docs") / "campaign.md"
API = README.with_name("docs") / "api.md"
GUARANTEES = README.with_name("docs") / "guarantees.md"


@pytest.mark.parametrize("module", ["spaces.discrete", "spaces.box", "spaces.product", "problem", "designers.cobed"])
def test_the_examples_of_the_docstrings_run(module):
    result = doctest.testmod(importlib.import_module(f"cobed.{module}"))
    assert result.attempted > 0
    assert result.failed == 0


def test_the_code_of_the_readme_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert blocks
    names = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    printed = capsys.readouterr().out
    assert "nats" in printed
    assert "expected_reward" in printed


@pytest.mark.slow
def test_the_page_about_historical_data_runs(capsys):
    """The design goes where the habit never went, and beats it."""
    names = {}
    for block in re.findall(r"```python\n(.*?)```", PROCESSES.read_text(), flags=re.DOTALL):
        exec(compile(block, str(PROCESSES), "exec"), names)
    printed = capsys.readouterr().out
    assert "jointly Gaussian" in printed
    assert "expected_reward" in printed
    regrets = names["regrets"]
    assert regrets["designed"].mean < 0.5 * regrets["habit"].mean
    # What each target would earn at the deployed discount, beside the best: history alone has never seen these discounts.
    targets, actions = names["targets"][:, 0], names["policy"].actions[:, 0]
    lost = 10 + 2 * targets - names["mean_sales"](targets, actions)
    assert lost.mean() < 1.0


def test_the_tutorial_of_a_campaign_runs(tmp_path, monkeypatch, capsys):
    """Its Python is run, its campaign.toml is written, its commands are given, in their order."""
    from cobed.cli import app

    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```(python|toml|sh)\n(.*?)```", TUTORIAL.read_text(), flags=re.DOTALL)
    names, told = {}, {}
    for kind, block in blocks:
        if kind == "python":
            exec(compile(block, str(TUTORIAL), "exec"), names)
        elif kind == "toml":
            (tmp_path / "campaign.toml").write_text(block)
        for line in block.splitlines() if kind == "sh" else []:
            program, *arguments = line.split()
            assert program == "cobed"
            app(arguments, standalone_mode=False)
            told.setdefault(arguments[0], []).append(capsys.readouterr().out)
    assert "customers.csv: fine. 24 rows" in told["check"][0]
    assert "regret, CO-BED" in told["plan"][0]
    assert any(words in told["plan"][0] for words in ("Design: 24 units", "Random assignment is enough", "Stop: "))
    assert "Round 1, designed: 24 units in assignments.csv" in told["design"][0]
    assert "Round 1, designed anew" in told["design"][1]
    assert told["observe"][0].startswith("20 outcome(s) added")
    assert "nothing changed" in told["observe"][1]
    assert told["observe"][2].startswith("4 outcome(s) added, 0 corrected, 20 known already")
    assert "more visits per 1,000 customers than" in told["deploy"][0]
    assert "Gain over actions at random" in told["deploy"][0]
    assert "what to do" in told["trust"][0]
    page = (tmp_path / "report.html").read_text()
    assert "What to do, and for whom" in page
    assert 'src="http' not in page
    policy = names["policy"]
    assert not ((policy["offer"] == "10%") & (policy["newbie"] == "yes")).any()


def test_every_public_name_is_documented_with_an_example_that_runs(tmp_path, monkeypatch):
    """A name counts as shown where the code of docs/api.md uses it, and as documented where its text names it."""
    monkeypatch.chdir(tmp_path)
    text = API.read_text()
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL))
    used = {
        node.attr
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "cobed"
    }
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    names = [name for name in cobed.__all__ if name != "__version__"]
    assert not [name for name in names if name not in used], "without an example"
    assert not [name for name in names if f"`{name}`" not in prose], "not documented"
    assert used <= {*cobed.__all__}
    exec(compile(code, str(API), "exec"), {})


def named_tests(path):
    names = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    return {node.name: [ast.unparse(mark) for mark in node.decorator_list] for node in names}


def test_every_guarantee_names_tests_and_benchmarks_that_exist():
    """Also whether they are slow, and where no promise is without one."""
    text = GUARANTEES.read_text()
    root = README.parent
    named = re.findall(r"(\*slow\* )?`(tests/[\w/]+\.py)::(test_\w+)`", text)
    assert len(named) == text.count("::")
    for slow, file, name in named:
        found = named_tests(root / file)
        assert name in found, f"{file}::{name}"
        assert bool(slow) == ("pytest.mark.slow" in found[name]), f"{file}::{name} is slow or not"
    for file in re.findall(r"`(benchmarks/\w+\.py)", text):
        assert (root / file).exists(), file
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| promise")]
    assert len(rows) > 20
    for row in rows:
        assert "::" in row or "benchmarks/" in row, row
