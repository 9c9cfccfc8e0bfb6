"""The examples people copy: docstrings and the README's code, run."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.parametrize("module", ["spaces", "problem", "designers.cobed"])
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
