"""How long `cobed status` and `cobed observe` of one row take with more and more outcomes in the store.

    python benchmarks/store.py [--sizes 1000 62500 250000 1000000] [--repeats 5] [--url postgresql://USER@HOST/DATABASE]

Stores are filled by bulk inserts; each command runs in a new process. Printed: the median of the seconds, their ratio to the
smallest store, the same of the seconds of computing (steadier where others use the machine), and the largest memory of a process.
Times are of the whole command, most of which are imports. With --url the tables of the database are dropped and made again.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import sqlalchemy as sa

from cobed.campaign import records, schema
from cobed.campaign.campaign import Campaign
from cobed.campaign.records import Round
from cobed.campaign.store import Store

SPEC = """name = "load"
[units]
id = "customer"
[context]
recency = "numeric"
channel = "categorical"
[action]
column = "offer"
options = ["none", "5%"]
[outcome]
column = "visit"
likelihood = "bernoulli"
"""
ENCODING = '{"scales": {"recency": [6.0, 3.4]}, "levels": {"channel": ["Phone", "Web"]}}'
ROUNDS, CHUNK = 4, 50_000


def fill(store: Store, number: int) -> None:
    """So many outcomes, in history and three rounds; the last round has 100 units more, in the field."""
    with store.transaction() as connection:
        records.write_meta(connection, "encoding", ENCODING)
        share = number // ROUNDS
        for place in range(ROUNDS):
            size = share + (100 if place == ROUNDS - 1 else 0)
            records.write_round(connection, Round(place, records.now(), "", 0, 1, {"warnings": []}), [])
            upload = records.write_upload(connection, f"hash {place}", f"outcomes-{place}.csv")
            units = [f"C{place}{i:08d}" for i in range(size)]
            for start in range(0, size, CHUNK):
                rows = [
                    {
                        "round": place, "unit": unit, "position": start + i, "action": '"5%"', "state": "planned",
                        "context": f'{{"recency": {i % 12}.0, "channel": "Web"}}', "rejected": "[]",
                    }
                    for i, unit in enumerate(units[start : start + CHUNK])
                ]  # fmt: skip
                connection.execute(sa.insert(schema.assignments), rows)
            for start in range(0, share, CHUNK):
                rows = [
                    {"round": place, "unit": unit, "value": i % 2, "action": '"5%"', "upload": upload, "created": "t"}
                    for i, unit in enumerate(units[start : min(start + CHUNK, share)])
                ]
                connection.execute(sa.insert(schema.outcomes), rows)
            values = {"num_units": size, "num_outcomes": share}
            connection.execute(sa.update(schema.rounds).where(schema.rounds.c.id == place).values(values))
        latest = sa.select(sa.func.max(schema.outcomes.c.id)).where(
            schema.outcomes.c.round == schema.assignments.c.round, schema.outcomes.c.unit == schema.assignments.c.unit
        )
        connection.execute(sa.update(schema.assignments).values(outcome=latest.scalar_subquery()))


def run(folder: Path, *arguments: str) -> tuple[float, float]:
    """Seconds of a whole command, by the clock and of computing."""
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", "from cobed.cli import main; main()", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - started, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def memory(folder: Path, *arguments: str) -> float:
    """The largest memory of a whole command, in MB: of a process that has no other child."""
    code = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
    code += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    command = [sys.executable, "-c", "from cobed.cli import main; main()", *arguments]
    done = subprocess.run(
        [sys.executable, "-c", code, *command], cwd=folder, capture_output=True, text=True, check=True
    )
    return int(done.stdout) / 1024


def measure(size: int, repeats: int, url: str | None) -> dict[str, tuple[float, float, float]]:
    """Median seconds, by the clock and of computing, and largest memory of each command with so many outcomes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "campaign.toml").write_text(SPEC)
        if url is not None:
            schema.metadata.drop_all(sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://")))
        campaign = Campaign.create(folder / "campaign.toml", url)
        fill(campaign.store, size)
        campaign.close()
        where = [] if url is None else ["--store", url]
        seconds: dict[str, list[tuple[float, float]]] = {"status": [], "observe": []}
        for number in range(repeats + 1):
            unit = f"C{ROUNDS - 1}{size // ROUNDS + number:08d}"
            (folder / "one.csv").write_text(f"customer,visit\n{unit},1\n")
            seconds["status"].append(run(folder, "status", *where))
            seconds["observe"].append(run(folder, "observe", "one.csv", *where))
        used = {"status": memory(folder, "status", *where), "observe": memory(folder, "observe", "one.csv", *where)}
        # The first ones read the file from the disk.
        medians = {
            name: [statistics.median(kind) for kind in zip(*all[1:], strict=True)] for name, all in seconds.items()
        }
        return {name: (clock, computing, used[name]) for name, (clock, computing) in medians.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 62_500, 250_000, 1_000_000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--url")
    given = parser.parse_args()
    first: dict[str, tuple[float, float, float]] = {}
    print(f"{'outcomes':>10} {'command':>8} {'seconds':>8} {'ratio':>6} {'computing':>10} {'ratio':>6} {'MB':>6}")
    for size in given.sizes:
        found = measure(size, given.repeats, given.url)
        first = first or found
        for name, (clock, computing, used) in found.items():
            ratios = clock / first[name][0], computing / first[name][1]
            print(
                f"{size:>10,} {name:>8} {clock:>8.2f} {ratios[0]:>6.2f} {computing:>10.2f} {ratios[1]:>6.2f} {used:>6.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
