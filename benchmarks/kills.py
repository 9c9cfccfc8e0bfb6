"""Kills `cobed observe`, `design` and `deploy` without warning, and looks at what is left.

python benchmarks/kills.py [--kills 1000] [--workers 2] [--results kills.jsonl]

How processes are made: a server imports cobed once, and JAX without starting it; each command is a fork of it, a process of
its own that starts JAX, opens the store and is killed by SIGKILL (`tests/campaign/forks.py`). Compiled programs come from
JAX's cache on disk. Half of the kills come at a moment drawn uniformly over the command's usual duration; half at a call
that changes a file or the store (fsync, replace, link, unlink, open, statements, commits), just before or after it or up to
3 ms later, inside of it. SIGKILL is not a power cut: what the operating system has taken, it keeps.

A campaign is set up, and one command killed four times over on what the previous kill left. After each kill the store is
either as before or as after the whole command, as is every file; what the command printed as done is there. Then the command is
run to its end: it works, gives what it gives without any kill, and no other file is left. With --results, stopped, the same
command goes on.
"""

import argparse
import hashlib
import json
import random
import shutil
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "campaign"))
from forks import Forks, Kill, Ran

from cobed.campaign.campaign import Campaign
from cobed.campaign.store import holds_campaign

KILLS = 4  # of one command on one campaign
DURING = 0.003  # seconds that a call may take
STORE, WRITTEN = "campaign.db", ".cobed-written"
JOURNALS = {f"{STORE}-{end}" for end in ("wal", "shm", "journal")}
SPEC = """name = "kills"
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


class Scenario(NamedTuple):
    """A command, and the commands before it that are not killed; `=` copies a file, as a user would who fills it in."""

    name: str
    setup: tuple[str, ...]
    command: str


HISTORY, DESIGN, DEPLOY = "observe history.csv", "design customers.csv", "deploy customers.csv"
SCENARIOS = [
    Scenario("observe, the first command", (), HISTORY),
    Scenario("design, the first command", (), DESIGN),
    Scenario("deploy", (HISTORY,), DEPLOY),
    Scenario("observe, some outcomes of a round", (DESIGN,), "observe some.csv"),
    Scenario("design, after outcomes", (HISTORY,), DESIGN),
    Scenario("deploy over an older policy", (HISTORY, DEPLOY, "observe corrected.csv"), DEPLOY),
    Scenario("observe, corrected outcomes", (HISTORY,), "observe corrected.csv"),
    Scenario(
        "design beside a file filled in by the user",
        (DESIGN, "= filled.csv assignments.csv"),
        "design others.csv --out second.csv",
    ),
    Scenario("deploy with rows that cannot be used", (HISTORY,), "deploy mixed.csv --out policy.parquet"),
]


def write_tables(folder: Path) -> None:
    (folder / "campaign.toml").write_text(SPEC)
    head = ["customer,recency,new", "customer,recency,new,offer,amount"]
    rows = [f"{i:03d},{i % 5},{i % 2}" for i in range(6)]
    (folder / "customers.csv").write_text("\n".join([head[0], *rows]) + "\n")
    others = [f"1{row}" for row in rows]
    (folder / "others.csv").write_text("\n".join([head[0], *others]) + "\n")
    (folder / "mixed.csv").write_text("\n".join([head[0], *rows, "bad,many,1"]) + "\n")
    history = [f"h{i},{i % 5},{i % 2},{'none' if i % 3 else '5%'},{40 + i}" for i in range(12)]
    (folder / "history.csv").write_text("\n".join([head[1], *history]) + "\n")
    filled = [f"{row},none,{45 + i}" for i, row in enumerate(rows)]
    (folder / "filled.csv").write_text("\n".join([head[1], *filled]) + "\n")
    (folder / "some.csv").write_text("customer,amount\n000,41\n001,\n002,43\n")
    (folder / "corrected.csv").write_text("customer,amount\nh0,61\nh1,41\nh2,63\n")


def files(folder: Path) -> dict[str, str]:
    """The hash of each file, but for the store and the list of outputs, whose bytes may differ from run to run."""
    names = [path for path in folder.rglob("*") if path.is_file() and path.name not in {STORE, *JOURNALS, WRITTEN}]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in names}


def stored(folder: Path) -> tuple[str, int]:
    """What the store holds, and how many policies; read from a copy, so that the next command finds what the kill left."""
    with tempfile.TemporaryDirectory() as other:
        for name in (STORE, *JOURNALS):
            if (folder / name).exists():
                shutil.copy(folder / name, other)
        place = Path(other) / STORE
        if not holds_campaign(place):
            return "nothing", 0
        campaign = Campaign.open(place)
        rounds = [(r.id, r.version) for r in campaign.rounds()]
        state = f"{rounds}\n{campaign.export().to_csv(index=False)}"
        num_policies = len(campaign.policies())
        campaign.close()
    return state, num_policies


class Reference(NamedTuple):
    """What a scenario's command does when it is left alone."""

    folder: Path  # as it is before
    ran: Ran
    before: str
    after: str
    files_before: dict[str, str]
    files_after: dict[str, str]


EMPTY = f"[]\n{pd.DataFrame().to_csv(index=False)}"


def prepare(scenario: Scenario, forks: Forks, place: Path) -> Reference:
    """Set the campaign up, then run the command twice on copies: the second time with all programs compiled."""
    folder = place / "before"
    folder.mkdir(parents=True)
    write_tables(folder)
    for command in scenario.setup:
        program, *arguments = command.split()
        if program == "=":
            shutil.copy(folder / arguments[0], folder / arguments[1])
            continue
        ran = forks.run(program, *arguments, cwd=folder)
        assert ran.code == 0, ran.complained
    before, files_before = stored(folder)[0], files(folder)
    filled_in = [command.split()[2] for command in scenario.setup if command.startswith("=")]
    for number in range(2):
        copy = shutil.copytree(folder, place / f"reference{number}")
        ran = forks.run(*scenario.command.split(), cwd=copy)
        assert "Traceback" not in ran.complained, ran.complained
        after, files_after = stored(copy)[0], files(copy)
        for name in filled_in:
            assert files_after[name] == files_before[name], f"{scenario.name}: {name} was written over"
        shutil.rmtree(copy)
    return Reference(folder, ran, before, after, files_before, files_after)


def draw_kill(rng: random.Random, reference: Reference) -> Kill:
    if rng.random() < 0.5:
        return Kill(rng.uniform(0, reference.ran.seconds))
    # Each kind of call as often as the others, however rare it is.
    name = rng.choice(sorted(set(reference.ran.points)))
    places = [place for place, point in enumerate(reference.ran.points) if point == name]
    return Kill(rng.choice([0.0, rng.uniform(0, DURING)]), rng.choice(places))


def faults(ran: Ran, reference: Reference, folder: Path, policies_before: int) -> list[str]:
    """What is wrong after a kill. A file beside the outputs is allowed until the command was run to its end."""
    state, num_policies = stored(folder)
    found = []
    if "Traceback" in ran.complained:
        found.append(f"traceback: {ran.complained}")
    if state not in {reference.before, reference.after, *([EMPTY] if reference.before == "nothing" else [])}:
        found.append(f"the store is neither as before nor as after:\n{state}")
    # The first line says that it is done.
    done = "\n" in ran.said
    if done and state != reference.after:
        found.append("printed as done, and not in the store")
    if num_policies < policies_before:
        found.append("a policy is gone")
    now = files(folder)
    for name in {*reference.files_before, *reference.files_after}:
        allowed = {reference.files_before.get(name), reference.files_after.get(name)}
        if now.get(name) not in allowed:
            found.append(f"{name} is neither as before nor as after")
        if done and now.get(name) != reference.files_after.get(name):
            found.append(f"printed as done, and {name} is not there")
    return found


def episode(number: int, references: list[Reference], forks: Forks, place: Path) -> list[dict[str, Any]]:
    """One campaign, one command: killed so many times, then run to its end."""
    rng = random.Random(number)
    which = number % len(SCENARIOS)
    scenario, reference = SCENARIOS[which], references[which]
    folder = shutil.copytree(reference.folder, place / f"episode{number}")
    records = []
    while len(records) < KILLS:
        policies_before = stored(folder)[1]
        kill = draw_kill(rng, reference)
        ran = forks.run(*scenario.command.split(), cwd=folder, kill=kill)
        if not ran.killed:
            # It was done before the kill came: the next one meets a finished command, so begin anew.
            shutil.rmtree(folder)
            shutil.copytree(reference.folder, folder)
            continue
        stage = ran.points[-1] if ran.points else "before anything"
        left = set(files(folder)) - {*reference.files_before, *reference.files_after}
        records.append(
            {
                "episode": number, "scenario": scenario.name, "kill": kill, "stage": stage, "left": sorted(left),
                "faults": faults(ran, reference, folder, policies_before),
            }
        )  # fmt: skip
    ran = forks.run(*scenario.command.split(), cwd=folder)
    end = records[-1]["faults"]
    if ran.code != reference.ran.code:
        end.append(f"run to its end it gave {ran.code} and not {reference.ran.code}: {ran.complained}")
    if stored(folder)[0] != reference.after:
        end.append("run to its end the store is not as without a kill")
    if files(folder) != reference.files_after:
        end.append(f"run to its end the files are {sorted(files(folder))}, not {sorted(reference.files_after)}")
    shutil.rmtree(folder)
    return records


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--results", type=Path, default=None)
    options = parser.parse_args()
    records = []
    if options.results is not None and options.results.exists():
        records = [json.loads(line) for line in options.results.read_text().splitlines()]
    known = {record["episode"] for record in records}
    waiting = [number for number in range(-(-options.kills // KILLS)) if number not in known]
    turn = threading.Lock()
    with tempfile.TemporaryDirectory(prefix="cobed-kills-") as directory:
        place = Path(directory)
        servers = [Forks(place / "cache") for _ in range(options.workers)]
        references = [prepare(scenario, servers[0], place / str(i)) for i, scenario in enumerate(SCENARIOS)]
        print("Seconds that a command takes: ", end="")
        print(
            ", ".join(f"{s.name} {r.ran.seconds:.2f}" for s, r in zip(SCENARIOS, references, strict=True)), flush=True
        )

        def work(forks: Forks) -> None:
            while True:
                with turn:
                    if not waiting:
                        return
                    number = waiting.pop(0)
                done = episode(number, references, forks, place)
                with turn:
                    records.extend(done)
                    if options.results is not None:
                        with options.results.open("a") as file:
                            file.writelines(json.dumps(record) + "\n" for record in done)
                    for record in done:
                        for fault in record["faults"]:
                            print(
                                f"FAULT, {record['scenario']}, {record['kill']}, {record['stage']}: {fault}", flush=True
                            )
                    if len(records) % 100 < KILLS:
                        print(f"{len(records)} kills", file=sys.stderr, flush=True)

        threads = [threading.Thread(target=work, args=(forks,)) for forks in servers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for forks in servers:
            forks.close()
    report(records)


def report(records: list[dict[str, Any]]) -> None:
    table = pd.crosstab([r["stage"] for r in records], [r["scenario"].split(",")[0].split()[0] for r in records])
    print(
        f"Kills by the last thing that the process did, and by command:\n{table.rename_axis(None, axis=1).to_string()}"
    )
    print("Kills by what was going on: ", Counter(r["scenario"] for r in records))
    print(
        f"Kills after which a temporary file was there, until the next command: {sum(bool(r['left']) for r in records)}"
    )
    num_faults = sum(len(r["faults"]) for r in records)
    print(
        f"{len(records)} kills, {num_faults} fault(s): "
        + ("nothing acknowledged was lost." if not num_faults else "see above.")
    )
    sys.exit(num_faults > 0)


if __name__ == "__main__":
    main()
