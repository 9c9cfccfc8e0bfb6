"""A whole campaign under random sequences of all commands, against a reference in memory.

Commands are given on the command line of this process, in processes of their own, and in Python; files are edited, processes
are killed, stores are closed and opened, several write at once; on SQLite and on PostgreSQL. After every step the store holds
what the reference holds, nothing but outputs lies beside the inputs, and what the user wrote is as it was. Designs of this process
are drawn at random, because a real one compiles for seconds; those of other processes are real. The sequences are the
same in every run (`derandomize`).
"""

import random
import sys
import threading
from pathlib import Path

import jax
import jax.random as jr
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

sys.path.insert(0, str(Path(__file__).parent))
from driver import SPEC, Driver
from forks import Forks, Kill
from reference import ACTION, ID, OPTIONS, OUTCOME

from cobed.campaign.campaign import Campaign
from cobed.designers.result import DesignResult
from cobed.errors import CobedError

HOW = st.sampled_from(["command", "python", "process"])
SEED = st.integers(0, 2**32)


def random_design(spec, model, posterior, batch, seed, budget=None, progress=None):
    """In the place of a design: actions at random, those of fixed units kept."""
    actions = np.asarray(jax.vmap(model.action_space.sample)(jr.split(jr.key(seed), len(batch.contexts))))
    names = [model.action_space.label(action) for action in actions]
    return DesignResult("Random", actions, names, batch.contexts, None, [], "", seed, 0.0, 0.0)


class Machine(Driver):
    """What people, programs and accidents do to a campaign."""

    # Outcomes.

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
            # An empty cell could mean the option that is called none: it is allowed where there is no outcome yet.
            rows = [{**row, ACTION: rng.choice(OPTIONS if row[OUTCOME] else ["", *OPTIONS])} for row in rows]
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
             {ID: rows[0][ID]}, {ACTION: ""}, {OUTCOME: "1e39"}, {"recency": "1,5"}, {ACTION: "None"}, {ACTION: "NA"}]
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

    @precondition(lambda self: any(self.reference.rounds.values()))
    @rule(how=st.sampled_from(["command", "python"]), seed=SEED, again=st.booleans())
    def design_among_known_units(self, how, seed, again):
        """Units that have an outcome or wait for one are left out unless asked for; `--take` draws from the others."""
        self.count("design among known units")
        rng = random.Random(seed)
        # One unit of the last round is missing, so that no table means the last round once more.
        known = {unit for rows in self.reference.rounds.values() for unit in list(rows)[1:]}
        units = rng.sample(sorted(known), min(3, len(known))) + self.new_units(rng.randrange(3))
        free = [unit for unit in units if again or unit not in self.reference.busy()]
        if not units:
            return
        name = self.table(self.people(units))
        take = rng.choice([None, None, 1, 2])
        targets = rng.choice([None, self.table(self.people(self.new_units(2)))])
        possible = bool(free) and (take or 0) <= len(free)
        if how == "python":
            goal = None if targets is None else self.folder / targets
            if not possible:
                with pytest.raises(CobedError, match=r"have an outcome|cannot be drawn"):
                    self.opened().recommend(self.folder / name, goal, take=take, again=again)
                return
            chosen = self.opened().recommend(self.folder / name, goal, take=take, again=again)[ID].tolist()
        else:
            out = f"known{self.number}.csv"
            options = [*(["--take", str(take)] if take else []), *(["--again"] if again else [])]
            options += [] if targets is None else ["--targets", targets]
            code, said = self.command("design", name, "--out", out, *options)
            assert (code == 0) == possible, said
            if not possible:
                return
            chosen = self.output(out)[ID].tolist()
        assert chosen == [unit for unit in free if unit in chosen]
        assert len(chosen) == (take or len(free))
        self.designed(chosen)

    @precondition(lambda self: max(self.reference.rounds, default=0) > 0)
    @rule(how=st.sampled_from(["command", "python"]), seed=SEED)
    def pin_and_reject(self, how, seed):
        """Units of the last round, whatever has come back of it so far."""
        self.count("pin and reject")
        rng = random.Random(seed)
        number = max(self.reference.rounds)
        rows = self.reference.rounds[number]
        back = self.reference.outcomes()
        if len(rows) < 2:
            return
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

    @precondition(lambda self: self.number > 2)
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
