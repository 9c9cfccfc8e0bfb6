"""The command line, run as a user runs it."""

import subprocess
import sys

import pytest


def cobed(*arguments, cwd=None):
    command = [sys.executable, "-c", "from cobed.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd)


def test_help_and_import_do_not_load_jax():
    code = "import sys, cobed, cobed.cli; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    answer = cobed("--help")
    assert answer.returncode == 0
    assert "demo" in answer.stdout


def test_every_public_name_can_be_loaded():
    import cobed as package

    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = package.nothing


def test_the_demo_prints_the_design_and_leaves_a_figure(tmp_path):
    answer = cobed("demo", "--budget", "smoke", "--out", "here", cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert "-3.00" in answer.stdout
    assert "nats" in answer.stdout
    assert "0 s left" in answer.stderr
    figure = (tmp_path / "here" / "design.html").read_text()
    assert "Which action is tried on whom" in figure
    assert 'src="http' not in figure
    assert sorted(path.name for path in (tmp_path / "here").iterdir()) == ["design.html", "design.json", "design.npz"]


def test_a_wrong_budget_is_a_sentence_and_not_a_traceback(tmp_path):
    answer = cobed("demo", "--budget", "enormous", cwd=tmp_path)
    assert answer.returncode == 1
    assert answer.stderr.startswith("cobed: Unknown budget 'enormous'. Allowed: 'smoke', 'quick', 'paper'")
    assert list(tmp_path.iterdir()) == []
