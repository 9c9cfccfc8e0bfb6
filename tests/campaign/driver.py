"""How the test of a whole campaign gives commands, and what it checks after every one of them."""

import contextlib
import io
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
from forks import Forks
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant
from reference import ACTION, CONTEXT, ID, OPTIONS, OUTCOME, Planned, Reference

from cobed.campaign.campaign import Campaign
from cobed.campaign.store import holds_campaign
from cobed.cli import main
from cobed.errors import CobedError

SPEC = """name = "machine"
seed = 0
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
max_targets = 2
"""
# What cobed may leave in the folder beside what it is asked to write: the store, the list of its outputs, and the journals by which
# SQLite takes back what a killed process had begun.
ITS_OWN = {"campaign.db", "campaign.db-wal", "campaign.db-shm", "campaign.db-journal", ".cobed-written"}


class Driver(RuleBasedStateMachine):
    """One campaign in a folder of its own, the reference beside it, and what holds after every step."""

    new_store: ClassVar = staticmethod(lambda folder: None)  # a database URL, or None for campaign.db in the folder
    forks: ClassVar[Forks | None] = None
    steps: ClassVar[dict[str, int]] = {}

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="cobed-machine-"))
        self.url = self.new_store(self.folder)
        self.reference = Reference()
        self.number = 0
        self.files: dict[str, bytes | None] = {}  # what lies in the folder; the bytes of those that must not change
        self.tables: list[tuple[str, list[dict[str, str]]]] = []  # of outcomes, taken before
        self.uploads: list[str] = []
        self.policies = 0
        self.campaign: Campaign | None = None

    def teardown(self):
        if self.campaign is not None:
            self.campaign.close()
        shutil.rmtree(self.folder)

    # How things are asked for.

    def count(self, name):
        self.steps[name] = self.steps.get(name, 0) + 1

    def command(self, *arguments, how="command"):
        """A command line: its exit code and what it printed. A traceback fails the test."""
        store = [] if self.url is None or arguments[0] in ("init", "check") else ["--store", self.url]
        if how == "process" and self.forks is not None:
            ran = self.forks.run(*arguments, *store, cwd=self.folder)
            code, said = ran.code, ran.said + ran.complained
        else:
            code, said = self._in_this_process([*arguments, *store])
        assert "Traceback" not in said, said
        assert code in (0, 1, 2, 3), said
        return code, said

    def _in_this_process(self, arguments):
        out, before, argv = io.TextIOWrapper(io.BytesIO(), "utf-8"), Path.cwd(), sys.argv
        os.chdir(self.folder)
        sys.argv = ["cobed", *arguments]
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                main()
                code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1 if end.code else 0
            out.write(f"\n{end.code}")
        finally:
            os.chdir(before)
            sys.argv = argv
        out.flush()
        return code, out.buffer.getvalue().decode()

    def opened(self):
        if self.campaign is None:
            self.campaign = Campaign.open(self.url or self.folder / "campaign.db", self.folder / "campaign.toml")
        return self.campaign

    def begun(self):
        return holds_campaign(self.url or self.folder / "campaign.db")

    def table(self, rows, columns=None):
        """A new table of the user's."""
        self.number += 1
        name = f"table{self.number}.csv"
        pd.DataFrame(rows, columns=columns).to_csv(self.folder / name, index=False)
        self.files[name] = (self.folder / name).read_bytes()
        return name

    def people(self, units):
        return [{ID: unit, "recency": str(float(int(unit[1:]) % 7)), "new": str(int(unit[1:]) % 2)} for unit in units]

    def new_units(self, number):
        start = 1000 + self.number * 10
        return [f"c{start + i:05d}" for i in range(number)]

    # The start.

    @initialize()
    def write_the_spec(self):
        (self.folder / "campaign.toml").write_text(SPEC)
        self.files["campaign.toml"] = (self.folder / "campaign.toml").read_bytes()

    def take(self, rows, how, round=None):
        """Give a table of outcomes that nothing is wrong with, one way or the other."""
        name = self.table(rows)
        code, said = self.observe(name, how, round)
        assert code == 0, said
        self.reference.observe(name, rows, round)
        self.tables.append((name, rows))
        self.uploads.append(name)

    def observe(self, name, how, round=None):
        if how == "python" and self.begun():
            try:
                return 0, str(self.opened().add_outcomes(self.folder / name, round=round))
            except CobedError as error:
                return 1, str(error)
        return self.command("observe", name, *([] if round is None else ["--round", str(round)]), how=how)

    def designed(self, units):
        """Look at the round that a design has stored, and take what it planned into the reference."""
        frame = self.opened().export()
        number = max(frame["round"].tolist())
        rows = frame[frame["round"] == number]
        assert rows[ID].tolist() == units
        old = self.reference.rounds.get(number, {})
        back = self.reference.outcomes()
        new = {}
        for row, person in zip(rows.to_dict("records"), self.people(units), strict=True):
            context = tuple(float(person[name]) for name in CONTEXT)
            assert tuple(row[name] for name in CONTEXT) == context
            assert row[ACTION] in OPTIONS
            # What was done stays what was planned then.
            done = (number, row[ID]) in back
            new[row[ID]] = old[row[ID]] if done else Planned(context, row[ACTION], row["state"])
        self.reference.rounds[number] = new
        return number, new

    def output(self, name):
        """A file that cobed wrote, as text; it may write it again."""
        self.files[name] = None
        return pd.read_csv(self.folder / name, dtype=str, keep_default_na=False)

    # After every step.

    def held(self):
        """What the store holds, in the order of the reference's rows."""
        campaign = self.opened() if self.begun() else None
        frame = pd.DataFrame() if campaign is None else campaign.export()
        columns = ["round", ID, *CONTEXT, ACTION, "state", "as_planned", OUTCOME]
        return [
            tuple(None if isinstance(value, float) and np.isnan(value) else value for value in row)
            for row in (frame[columns].itertuples(index=False, name=None) if len(frame) else ())
        ]

    @invariant()
    def nothing_is_lost_and_nothing_invented(self):
        assert self.held() == self.reference.export()
        if self.begun():
            status = self.opened().status()
            assert status.num_outcomes == len(self.reference.outcomes())
            assert status.num_policies == self.policies

    @invariant()
    def only_outputs_lie_beside_what_the_user_wrote(self):
        for path in self.folder.iterdir():
            name = path.name
            assert name in ITS_OWN or name in self.files, f"{name} was left"
        for name, content in self.files.items():
            if content is not None:
                assert (self.folder / name).read_bytes() == content, f"{name} was changed"
