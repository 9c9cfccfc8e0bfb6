"""A whole campaign under random sequences of all commands, against a reference in memory.

Commands are given on the command line of this process, in processes of their own, and in Python; files are edited, processes
are killed, stores are closed and opened, several write at once; on SQLite and on PostgreSQL. After every step the store holds
what the reference holds, nothing but outputs lies beside the inputs, and what the user wrote is as it was. Designs of this process
are drawn at random, because a real one compiles for seconds; those of other processes are real. The sequences are the
same in every run (`derandomize`).
"""

import contextlib
import io
import os
import random
import shutil
import sys
import tempfile
import threading
from pathlib import Path
from typing import ClassVar

import jax
import jax.random as jr
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

sys.path.insert(0, str(Path(__file__).parent))
from forks import Forks, Kill
from reference import ACTION, CONTEXT, ID, OPTIONS, OUTCOME, Planned, Reference

from cobed.campaign.campaign import Campaign
from cobed.campaign.store import holds_campaign
from cobed.cli import main
from cobed.designers.result import DesignResult
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
# What cobed may leave in the folder beside what it is asked to write: the store, its journals, the list of its outputs.
ITS_OWN = {"campaign.db", "campaign.db-wal", "campaign.db-shm", ".cobed-written"}
HOW = st.sampled_from(["command", "python", "process"])
SEED = st.integers(0, 2**32)


def random_design(spec, model, posterior, batch, targets, seed, budget=None, progress=None, rule=None, **_):
    """In the place of a design: actions at random, those of fixed units kept."""
    actions = np.asarray(jax.vmap(model.action_space.sample)(jr.split(jr.key(seed), len(batch.contexts))))
    names = [model.action_space.label(action) for action in actions]
    return DesignResult("Random", actions, names, batch.contexts, None, [], "", seed, 0.0, 0.0)


class Machine(RuleBasedStateMachine):
    """One campaign in a folder of its own."""

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
        out, before, argv = io.StringIO(), Path.cwd(), sys.argv
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
        return code, out.getvalue()

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

    # Outcomes.

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

    @rule(number=st.integers(1, 3), how=HOW, seed=SEED)
    def observe_history(self, number, how, seed):
        self.count("observe history")
        rng = random.Random(seed)
        rows = self.people(self.new_units(number))
        self.take([{**row, ACTION: rng.choice(OPTIONS), OUTCOME: str(rng.randrange(40, 60))} for row in rows], how)

    @precondition(lambda self: any(self.reference.rounds.values()))
    @rule(how=HOW, seed=SEED, named=st.booleans())
    def observe_units(self, how, seed, named):
        """Some of the units of a round: first, late or corrected; some cells empty; some got another action."""
        self.count("observe units")
        rng = random.Random(seed)
        number = rng.choice(sorted(n for n, rows in self.reference.rounds.items() if rows))
        # Without --round each outcome belongs to its unit's last round.
        units = [unit for unit in self.reference.rounds[number] if named or self.reference.last_round(unit) == number]
        rows = [
            {ID: unit, OUTCOME: rng.choice(["", str(rng.randrange(40, 60))])} for unit in units if rng.random() < 0.7
        ]
        if rng.random() < 0.4:
            rows = [{**row, ACTION: rng.choice(["", *OPTIONS])} for row in rows]
        if rows:
            self.take(rows, how, number if named else None)

    @precondition(lambda self: self.tables)
    @rule(how=HOW, seed=SEED)
    def observe_again(self, how, seed):
        """A table that was taken before: what it says counts again, or it is told that it could mean two rounds."""
        self.count("observe again")
        name, rows = random.Random(seed).choice(self.tables)
        code, said = self.observe(name, how)
        if code == 0:
            again = f"{name} again {self.number}"
            self.number += 1
            before = len(self.reference.log)
            self.reference.observe(again, rows)
            assert ("nothing changed" in said) == (len(self.reference.log) == before), said
        else:
            assert "was taken before, for round" in said, said

    @rule(how=HOW, seed=SEED)
    def observe_what_is_wrong(self, how, seed):
        """Refused with the row and the column, and nothing is stored."""
        self.count("observe what is wrong")
        rng = random.Random(seed)
        rows = [{**row, ACTION: "none", OUTCOME: "50"} for row in self.people(self.new_units(3))]
        change = rng.choice(
            [{OUTCOME: "many"}, {OUTCOME: "inf"}, {ACTION: "7%"}, {"recency": "x"}, {"new": "maybe"}, {ID: ""},
             {ID: rows[0][ID]}, {ACTION: ""}, {OUTCOME: "1e39"}, {"recency": ""}, {ACTION: "None"}, {ACTION: "NA"}]
        )  # fmt: skip
        rows[rng.randrange(1, 3)] |= change
        code, said = self.observe(self.table(rows), how)
        assert code == 1, (change, said)
        assert "row" in said, said

    @precondition(lambda self: self.reference.outcomes())
    @rule(how=HOW, seed=SEED)
    def withdraw(self, how, seed):
        """The outcome of a unit, or all of one table."""
        self.count("withdraw")
        rng = random.Random(seed)
        campaign = self.opened()
        whole = [name for name in self.uploads if name not in self.reference.withdrawn]
        if whole and rng.random() < 0.4:
            name = rng.choice(whole)
            found = campaign.uploads()
            (upload,) = found.loc[found["name"] == name, "upload"].tolist()[:1]
            code, said = self.withdrawal(how, upload=upload)
            assert code == 0, said
            self.reference.withdrawn.add(name)
            return
        unit = rng.choice(sorted({unit for _, unit in self.reference.outcomes()}))
        code, said = self.withdrawal(how, unit=unit)
        self.number += 1
        assert (code == 0) == self.reference.withdraw_unit(f"withdrawal {self.number}", unit), said

    def withdrawal(self, how, unit=None, upload=None):
        if how == "python":
            try:
                return 0, str(self.opened().withdraw([] if unit is None else [unit], upload=upload))
            except CobedError as error:
                return 1, str(error)
        return self.command("withdraw", *([unit] if upload is None else ["--upload", str(upload)]), how=how)

    # Designs.

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

    @rule(number=st.integers(2, 4), how=st.sampled_from(["command", "python"]), seed=SEED)
    def design(self, number, how, seed):
        self.count("design")
        units = self.new_units(number)
        rows = self.people(units)
        name = self.table([{**row, "note": f"=1+{i}"} for i, row in enumerate(rows)])
        if how == "python" and self.begun():
            frame = self.opened().recommend(self.folder / name)
        else:
            out = f"round{self.number}.csv"
            code, said = self.command("design", name, "--out", out)
            assert code == 0, said
            frame = self.output(out)
        planned = self.designed(units)[1]
        assert frame[ID].tolist() == units
        assert frame[ACTION].tolist() == [planned[unit].action for unit in units]

    @precondition(lambda self: max(self.reference.rounds, default=0) > 0)
    @rule(how=st.sampled_from(["command", "python"]), seed=SEED)
    def pin_and_reject(self, how, seed):
        """Units of the last round, whatever has come back of it so far."""
        self.count("pin and reject")
        rng = random.Random(seed)
        number = max(self.reference.rounds)
        rows = self.reference.rounds[number]
        back = self.reference.outcomes()
        pinned, refused = rng.sample(sorted(rows), 2)
        action = rng.choice(OPTIONS)
        name = self.table(self.people(list(rows)))
        free = (number, pinned) not in back and (number, refused) not in back
        out = f"pinned{self.number}.csv"
        arguments = ["design", name, "--out", out, "--pin", f"{pinned}={action}", "--reject", refused]
        code, said = self.command(*arguments)
        if not free:
            assert code == 1, said
            # What comes first may be stored: it is a wish of the user, and no outcome stands against it.
            self.wishes(number)
            return
        if code == 1:
            # Both options of a unit refused.
            assert "no option" in said, said
            self.wishes(number)
            return
        before = rows[refused].action
        _, new = self.designed(list(rows))
        assert new[pinned].action == action
        assert new[pinned].state == "pinned"
        assert new[refused].action != before
        self.output(out)

    def wishes(self, number):
        frame = self.opened().export()
        for row in frame[frame["round"] == number].to_dict("records"):
            old = self.reference.rounds[number][row[ID]]
            if (number, row[ID]) not in self.reference.outcomes():
                self.reference.rounds[number][row[ID]] = old._replace(action=row[ACTION], state=row["state"])

    # The user's own edits.

    @precondition(lambda self: max(self.reference.rounds, default=0) > 0)
    @rule(seed=SEED)
    def fill_in_the_assignments(self, seed):
        """As the command told them to; then the same command again must leave what they wrote."""
        self.count("fill in the assignments")
        rng = random.Random(seed)
        units = self.new_units(2)
        name = self.table(self.people(units))
        out = f"assignments{self.number}.csv"
        code, said = self.command("design", name, "--out", out)
        assert code == 0, said
        self.designed(units)
        frame = self.output(out)
        frame[OUTCOME] = [str(rng.randrange(40, 60)), ""]
        frame.to_csv(self.folder / out, index=False)
        self.files[out] = (self.folder / out).read_bytes()
        code, said = self.command("design", name, "--out", out)
        assert code == 1, said
        assert out in said, said
        code, said = self.command("observe", out)
        assert code == 0, said
        self.reference.observe(out, frame.to_dict("records"))
        self.tables.append((out, frame.to_dict("records")))
        self.uploads.append(out)

    @rule(seed=SEED)
    def edit_the_spec(self, seed):
        """What stored rows depend on cannot be changed once there are any; the rest can."""
        self.count("edit the spec")
        rng = random.Random(seed)
        path = self.folder / "campaign.toml"
        if rng.random() < 0.5:
            path.write_text(SPEC.replace("seed = 0", f"seed = {rng.randrange(5)}"))
            self.files["campaign.toml"] = path.read_bytes()
            self.reopen()
            return
        good = path.read_bytes()
        old, new = rng.choice(
            [('"5%"', '"6%"'), ('"numeric"', '"binary"'), ("[units]", "[unit"), ("typical = 50", 'typical = "x"')]
        )
        path.write_text(good.decode().replace(old, new))
        code, said = self.command("status")
        refused = old in ("[units]", "typical = 50") or bool(self.reference.rounds) or not self.begun()
        assert (code == 1) == refused, said
        path.write_bytes(good)

    def reopen(self):
        if self.campaign is not None:
            self.campaign.close()
            self.campaign = None

    # What is asked.

    @rule(how=HOW, which=st.sampled_from(["status", "export", "check", "init", "report", "reopen"]))
    def ask(self, how, which):
        self.count(which)
        if which == "reopen":
            self.reopen()
            return
        out = {"export": "campaign.csv", "report": "report.html"}.get(which)
        arguments = [which, *(["--out", out] if out else [])]
        if which in ("check", "init"):
            name = self.table(self.people(self.new_units(3)))
            arguments = ["check", name] if which == "check" else ["init", f"spec{self.number}.toml", "--from", name]
            if which == "init":
                self.files[f"spec{self.number}.toml"] = None
        code, said = self.command(*arguments, how=how)
        assert (code == 0) == (which in ("check", "init") or self.begun()), said
        if code == 0 and out:
            self.files[out] = None
        if code == 0 and which == "export" and self.reference.rounds:
            assert len(self.output("campaign.csv")) == len(self.reference.export())

    @rule(how=st.sampled_from(["command", "python"]), bad=st.booleans())
    def deploy(self, how, bad):
        """Rows that cannot be used stop nobody else: they are written apart, with their reasons."""
        self.count("deploy")
        units = self.new_units(3)
        rows = self.people(units)
        if bad:
            rows[1]["recency"] = "many"
        name = self.table(rows)
        possible = bool(self.reference.outcomes())
        if how == "python" and not bad and self.begun():
            if not possible:
                with pytest.raises(CobedError, match="No outcome has come back yet"):
                    self.opened().deploy(self.folder / name)
                return
            frame = self.opened().deploy(self.folder / name)
        else:
            out = f"policy{self.number}.csv"
            code, said = self.command("deploy", name, "--out", out)
            assert (code != 1) == possible, said
            if not possible:
                return
            assert (code != 0) == bad, said
            frame = self.output(out)
            if bad:
                rejected = [path.name for path in self.folder.glob("*rejected*.csv")]
                assert rejected
                self.files |= dict.fromkeys(rejected)
        assert frame[ID].tolist() == [unit for i, unit in enumerate(units) if not bad or i != 1]
        assert set(frame[ACTION]) <= set(OPTIONS)
        self.policies += 1

    # Several at once.

    @precondition(lambda self: self.begun())
    @rule(seed=SEED)
    def observe_at_the_same_time(self, seed):
        """Four writers, each with a campaign of its own, and a reader: all that was acknowledged is there."""
        self.count("observe at the same time")
        rng = random.Random(seed)
        jobs = []
        for _ in range(4):
            rows = [{**row, ACTION: rng.choice(OPTIONS), OUTCOME: "50"} for row in self.people(self.new_units(2))]
            jobs.append((self.table(rows), rows))
        failures, order = [], []

        def write(name):
            try:
                campaign = Campaign.open(self.url or self.folder / "campaign.db", self.folder / "campaign.toml")
                campaign.add_outcomes(self.folder / name)
                campaign.status()
                campaign.close()
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=write, args=(name,)) for name, _ in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures
        order = self.opened().export()[ID].tolist()
        # Round 0 has them in the order in which they came.
        for name, rows in sorted(jobs, key=lambda job: order.index(job[1][0][ID])):
            self.reference.observe(name, rows)
            self.tables.append((name, rows))
            self.uploads.append(name)

    # Kills.

    @precondition(lambda self: self.forks is not None)
    @rule(seed=SEED)
    def kill(self, seed):
        """At a random moment, or at a call that writes."""
        rng = random.Random(seed)
        if rng.random() < 0.2:
            self.kill_a_design(Kill(rng.uniform(0.1, 4.0)))
        elif rng.random() < 0.5:
            self.kill_an_observe(Kill(rng.uniform(0, 0.15)))
        else:
            self.kill_an_observe(Kill(rng.uniform(0, 0.002), rng.randrange(25)))

    def killed(self, kill, *arguments):
        store = [] if self.url is None else ["--store", self.url]
        ran = self.forks.run(*arguments, *store, cwd=self.folder, kill=kill)
        assert "Traceback" not in ran.complained, ran.complained
        return ran.said

    def kill_an_observe(self, kill):
        """The table is taken whole or not at all."""
        self.count("kill an observe")
        rows = [{**row, ACTION: "none", OUTCOME: "50"} for row in self.people(self.new_units(3))]
        name = self.table(rows)
        said = self.killed(kill, "observe", name)
        after = self.reference.copy()
        after.observe(name, rows)
        if self.held() == after.export():
            self.reference = after
            self.tables.append((name, rows))
            self.uploads.append(name)
        else:
            assert "added" not in said

    def kill_a_design(self, kill):
        """Its round is stored or not; the file is there only where it is."""
        self.count("kill a design")
        units = self.new_units(2)
        out = f"killed{self.number}.csv"
        said = self.killed(kill, "design", self.table(self.people(units)), "--out", out)
        if set(units) & {row[1] for row in self.held()}:
            self.designed(units)
        else:
            assert "Round" not in said
        if (self.folder / out).exists():
            assert self.output(out)[ID].tolist() == units
            assert self.reference.last_round(units[0]) is not None

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


def run(machine, num_sequences, num_steps):
    machine.steps = {}
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=num_sequences, stateful_step_count=num_steps, derandomize=True, deadline=None, database=None,
            phases=[Phase.generate], suppress_health_check=list(HealthCheck),
        ),
    )  # fmt: skip
    total = sum(machine.steps.values())
    print(f"{total} steps: {dict(sorted(machine.steps.items()))}")
    return total


@pytest.fixture(autouse=True)
def random_designs(monkeypatch):
    monkeypatch.setattr("cobed.campaign.rounds.design_batch", random_design)


@pytest.fixture
def forks(tmp_path):
    started = Forks(tmp_path / "cache")
    yield started
    started.close()


def test_a_campaign_holds_what_it_was_told_and_nothing_else():
    """Some sequences on SQLite, without other processes."""
    assert run(type("Short", (Machine,), {}), 4, 15) >= 40


@pytest.mark.slow
def test_a_campaign_on_sqlite_holds_what_it_was_told_through_kills_and_thousands_of_steps(forks):
    assert run(type("WithKills", (Machine,), {"forks": forks}), 30, 50) >= 1_300


@pytest.mark.slow
def test_a_campaign_on_postgresql_holds_what_it_was_told_through_kills_and_a_thousand_steps(forks, postgres_server):
    import psycopg

    def new_store(folder):
        name = folder.name.replace("-", "_").lower()
        with psycopg.connect(postgres_server, autocommit=True) as connection:
            connection.execute(f"create database {name}")
        return postgres_server.replace("/postgres?", f"/{name}?")

    assert run(type("OnServer", (Machine,), {"forks": forks, "new_store": staticmethod(new_store)}), 20, 50) >= 800
