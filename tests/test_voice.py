"""How commands speak: to people, to programs, and only of what is wrong."""

import contextlib
import io
import json
import sys

import pandas as pd
import pytest

from cobed.cli.voice import Voice, speaking, told, voice
from cobed.errors import CampaignError
from cobed.progress import Progress


@speaking
def example(fails: bool = False) -> None:
    voice.say("Two rows.")
    voice.warn(["one is odd"])
    voice.table("rows", pd.DataFrame({"day": ["3 March"], "n": [2]}), pd.DataFrame({"day": ["2026-03-03"], "n": [2]}))
    voice.record(total=2)
    if fails:
        raise CampaignError("it broke")


def test_people_get_sentences_and_tables(capsys):
    example()
    assert capsys.readouterr().out.splitlines() == ["Two rows.", "Warning: one is odd", "    day  n", "3 March  2"]


def test_programs_get_one_document_and_the_next_command_speaks_to_people_again(capsys):
    example(as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert document == {
        "sentences": ["Two rows."], "warnings": ["one is odd"], "rows": [{"day": "2026-03-03", "n": 2}], "total": 2,
    }  # fmt: skip
    example()
    assert capsys.readouterr().out.startswith("Two rows.")


def test_the_document_tells_an_error_too(capsys):
    with pytest.raises(CampaignError):
        example(as_json=True, fails=True)
    assert json.loads(capsys.readouterr().out)["error"] == "it broke"


def test_quiet_commands_say_only_what_is_wrong(capsys):
    example(quiet=True)
    assert capsys.readouterr().out == "Warning: one is odd\n"


def test_progress_is_told_by_its_stage_share_and_the_time_left():
    assert told(Progress("starts", 5, 20, 1.2, 65.0)) == "starts 25%, about 1 min 05 s left"
    assert told(Progress("starts", 20, 20, 1.2, 0.0)) == "starts 100%"
    assert told(Progress("starts", 5, 20, 1.2, float("nan"))) == "starts 25%"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_gets_one_line_that_is_rewritten_and_begins_with_compiling(monkeypatch):
    lines = []

    class Status:
        @contextlib.contextmanager
        def begin(self, text):
            self.update(text)
            yield self

        def update(self, text):
            lines.append(text)

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr("rich.console.Console.status", lambda console, text: Status().begin(text))
    with Voice().working("design") as report:
        assert report is not None
        report(Progress("starts", 5, 20, 1.2, 65.0))
    assert lines == ["design: compiling", "design: starts 25%, about 1 min 05 s left"]


def test_a_terminal_gets_colours_and_what_a_table_says_is_no_markup(monkeypatch):
    out, speaker = Terminal(), Voice()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    speaker.warn(["odd"])
    speaker.table("rows", pd.DataFrame({"day [x]": ["[b]"], "n": [2]}))
    assert "\x1b[" in out.getvalue().splitlines()[0]
    assert "[b]" in out.getvalue()
    assert "day [x]" in out.getvalue()
