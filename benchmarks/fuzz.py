"""Gives cobed specs, tables, frames and command lines that nobody should write, and counts what is not told in a sentence.

python benchmarks/fuzz.py [--count 100000] [--workers 2] [--seed 0] [--case KIND SEED]

A case is its kind and its seed: `--case frame 1234` runs one again and shows it. Everything is exercised as a user would, up to
the point where the engine starts: a spec is read and given tables; a table is read, checked, encoded, taken as outcomes, and
given to design and deploy. Any error that is not a `CobedError`, any case that takes a minute, and any refused table of
outcomes that changed the store all the same is a failure; so is a message of more than 20,000 characters.
"""

import argparse
import contextlib
import gzip
import io
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "campaign"))
from broken import GOOD, a_frame, a_spec, break_bytes, campaign_tests, text_table, word

from cobed.campaign.campaign import Campaign
from cobed.campaign.check import check_tables
from cobed.campaign.constraints import check_levels
from cobed.campaign.encoding import encode_contexts, fit_encoding
from cobed.campaign.spec import changed_sections, parse_spec, read_spec
from cobed.campaign.tables import read_table, write_table
from cobed.campaign.template import guess
from cobed.cli import main as run_command
from cobed.errors import CobedError

SECONDS = 60
LONGEST = 20_000
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None


class ReachedEngine(CobedError):
    """Everything before the engine went well."""


class Refused(CobedError):
    """A command ended in a sentence."""


def fuzz_spec(rng: random.Random, folder: Path) -> None:
    text = a_spec(rng)
    if rng.random() < 0.3:
        (folder / "campaign.toml").write_bytes(text.encode(rng.choice(["utf-8", "utf-16"]), "surrogatepass"))
        spec, text = read_spec(folder / "campaign.toml")
    else:
        spec = parse_spec(text)
    changed_sections(spec, parse_spec(GOOD[0]))
    if rng.random() < 0.2:
        spec.model_dump_json()
        give_to_campaign(rng, folder, text, read_table(people_for(spec, rng)))


def people_for(spec: Any, rng: random.Random) -> pd.DataFrame:
    """A table that fits a spec."""
    columns: dict[str, Any] = {spec.units.id: [f"u{i}" for i in range(4)]}
    for name, column in spec.context.items():
        levels = list(column.levels or ("Web", "Phone")) if column.type == "categorical" else [0, 1]
        columns[name] = [levels[i % len(levels)] for i in range(4)]
    return pd.DataFrame(columns)


# Tables.


def fuzz_csv(rng: random.Random, folder: Path) -> None:
    head, rows = text_table(rng)
    separator = rng.choice([",", ",", ",", ";", "\t", "|"])
    quoted = rng.random() < 0.5

    def cell(text: str) -> str:
        return '"' + text.replace('"', '""') + '"' if quoted else text

    end = rng.choice(["\n", "\r\n", "\r"])
    text = "".join(separator.join(map(cell, row)) + end for row in [head, *rows])
    content = text.encode(rng.choice(["utf-8"] * 8 + ["utf-8-sig", "utf-16"]), "surrogatepass")
    if rng.random() < 0.2:
        content = break_bytes(rng, content)
    name = rng.choice(["table.csv"] * 6 + ["table.tsv", "table", "table.csv.gz", "table.xlsx", "table.zip"])
    if name.endswith("gz") and rng.random() < 0.7:
        content = gzip.compress(content)
    (folder / name).write_bytes(content)
    give_table(rng, folder, folder / name)


def fuzz_file(rng: random.Random, folder: Path) -> None:
    """Parquet and Excel files, often damaged."""
    frame = a_frame(rng, plain=True)
    path = folder / rng.choice(["table.parquet", "table.pq", "table.xlsx"])
    buffer = io.BytesIO()
    try:
        if path.suffix == ".xlsx":
            frame.to_excel(buffer, index=rng.random() < 0.2)
        else:
            frame.to_parquet(buffer, index=rng.choice([None, True, False]))
    except Exception:
        # What the format cannot hold is not ours to read.
        buffer.write(b"PAR1")
    content = buffer.getvalue()
    path.write_bytes(break_bytes(rng, content) if rng.random() < 0.5 else content)
    give_table(rng, folder, path)


def fuzz_frame(rng: random.Random, folder: Path) -> None:
    give_table(rng, folder, a_frame(rng))


# What is done with them.


def give_table(rng: random.Random, folder: Path, source: Any) -> None:
    spec = parse_spec(campaign_tests.SPEC)
    table = read_table(source)
    if rng.random() < 0.3:
        with contextlib.suppress(CobedError):
            guess("fuzz", table, rng.choice([None, "offer"]), rng.choice([None, "amount"]))
        with contextlib.suppress(CobedError):
            table.part(np.arange(min(2, len(table))))
    if rng.random() < 0.15:
        give_to_campaign(rng, folder, rng.choice([campaign_tests.SPEC, *GOOD]), table)
        return
    check_tables(spec, [table])
    encoding = fit_encoding(spec, [table])
    contexts, _ = encode_contexts(spec, type(encoding).from_json(encoding.to_json()), table)
    if not np.isfinite(contexts).all():
        raise AssertionError("contexts that are not finite were let through")
    check_levels(spec, encoding)


def give_to_campaign(rng: random.Random, folder: Path, text: str, table: Any) -> None:
    """As outcomes, as units, as targets; with history in the store or not."""
    (folder / "spec.toml").write_text(text, errors="surrogatepass")
    campaign = Campaign.create(folder / "spec.toml", folder / "campaign.db")
    try:
        if rng.random() < 0.5:
            with contextlib.suppress(CobedError):
                campaign.add_outcomes(campaign_tests.people(4).assign(offer=["none", "5%"] * 2, amount=[50.0] * 4))
        calls = [campaign.add_outcomes, campaign.recommend, campaign.deploy, campaign.recommend]
        for call in rng.sample(calls, 2):
            before = campaign.export()
            try:
                call(table)
            except CobedError:
                pd.testing.assert_frame_equal(campaign.export(), before)
        campaign.status()
        frame = campaign.export()
        if len(frame):
            write_table(frame, folder / rng.choice(["out.csv", "out.parquet"]))
    finally:
        campaign.close()


COMMANDS = [
    "init",
    "check",
    "design",
    "observe",
    "deploy",
    "report",
    "status",
    "export",
    "plan",
    "withdraw",
    "version",
    "x",
]
OPTIONS = [
    "--spec", "--store", "--out", "--take", "--pin", "--reject", "--targets", "--round", "--from", "--action", "--outcome",
    "--again", "--size", "--worlds", "--budget", "--seed", "--help", "--no-program", "--nothing",
]  # fmt: skip
VALUES = [
    "campaign.toml", "bad.toml", "customers.csv", "history.csv", "bad.csv", "bytes.csv", "campaign.db", "nothing", "", ".", "a/b",
    "out.csv", "out.parquet", "out.xlsx", "out.html", "customers.csv/x", "0", "1", "-1", "1.5", "99999999999999999999", "001=none",
    "001=", "=none", "sqlite://", "sqlite:///x.db", "postgresql://u:secret@localhost:x/d", "postgresql://u:secret@[::1/d",
    "mysql://x", "://", "x" * 300, "smoke", "-",
]  # fmt: skip


def fuzz_command(rng: random.Random, folder: Path) -> None:
    """A command line in a folder with a spec, tables, and perhaps a campaign."""
    (folder / "campaign.toml").write_text(campaign_tests.SPEC)
    (folder / "bad.toml").write_bytes(a_spec(rng).encode("utf-8", "surrogatepass"))
    campaign_tests.people(4).to_csv(folder / "customers.csv", index=False)
    past = campaign_tests.people(4, 50).assign(offer=["none", "5%"] * 2, amount=50.0)
    past.to_csv(folder / "history.csv", index=False)
    head, rows = text_table(rng)
    (folder / "bad.csv").write_bytes("\n".join(map(",".join, [head, *rows])).encode("utf-8", "surrogatepass"))
    (folder / "bytes.csv").write_bytes(rng.randbytes(rng.randrange(50)))
    if rng.random() < 0.5:
        opened = Campaign.create(folder / "campaign.toml", folder / "campaign.db")
        opened.add_outcomes(past)
        opened.close()
    arguments = [rng.choice(COMMANDS)]
    for _ in range(rng.randrange(5)):
        if rng.random() < 0.6:
            arguments.append(rng.choice(OPTIONS))
        given = rng.choice(VALUES) if rng.random() < 0.85 else word(rng).replace("\0", "").replace("/", "")
        # What a shell can give: bytes that are not text arrive as lone surrogates of one range.
        arguments.append(given.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape"))
    os.chdir(folder)
    sys.argv = ["cobed", *arguments]
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", errors=errors) for errors in ("strict", "backslashreplace")]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        code: Any = 0
        try:
            run_command()
        except SystemExit as end:
            code = end.code
            print(code, file=sys.stderr)
        finally:
            os.chdir("/")
    for stream in streams:
        stream.flush()
        said = stream.buffer.getvalue().decode()
        if "secret" in said:
            raise AssertionError(f"a password is printed: {said}")
        if "Traceback" in said:
            raise AssertionError(said)
    if code:
        raise Refused("by the command line")


KINDS: dict[str, tuple[float, Callable[[random.Random, Path], None]]] = {
    "spec": (0.60, fuzz_spec), "csv": (0.18, fuzz_csv), "frame": (0.16, fuzz_frame), "file": (0.03, fuzz_file),
    "command": (0.03, fuzz_command),
}  # fmt: skip


# Running them.


def stop_at_the_engine() -> None:
    """What needs JAX is not what is fuzzed."""

    def reached(*_: Any, **__: Any) -> Any:
        raise ReachedEngine("engine")

    Campaign._posterior = reached
    import cobed.campaign.plan

    cobed.campaign.plan.make_plan = reached


def run_case(kind: str, seed: int) -> str:
    """'told' or 'accepted'; any other error is raised."""

    def too_long(*_: Any) -> None:
        raise TimeoutError(f"longer than {SECONDS} s")

    rng = random.Random(f"{kind} {seed}")
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(SECONDS)
    try:
        with tempfile.TemporaryDirectory(prefix="cobed-fuzz-", dir=MEMORY) as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            KINDS[kind][1](rng, Path(folder))
    except CobedError as error:
        if len(str(error)) > LONGEST:
            raise AssertionError(f"a message of {len(str(error)):,} characters") from error
        return "told"
    finally:
        signal.alarm(0)
    return "accepted"


def run_many(cases: list[tuple[str, int]]) -> tuple[Counter[tuple[str, str]], list[tuple[str, int, str]]]:
    counts, failures = Counter(), []
    for kind, seed in cases:
        try:
            counts[kind, run_case(kind, seed)] += 1
        except BaseException as error:
            counts[kind, "failed"] += 1
            failures.append((kind, seed, "".join(traceback.format_exception_only(error)).strip()[:300]))
    return counts, failures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0, help="of the first case of each kind")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--case", nargs=2, metavar=("KIND", "SEED"))
    options = parser.parse_args()
    stop_at_the_engine()
    if options.case:
        print(run_case(options.case[0], int(options.case[1])))
        return
    whole = sum(KINDS[kind][0] for kind in options.kinds)
    cases = [
        (kind, options.seed + i) for kind in options.kinds for i in range(round(options.count * KINDS[kind][0] / whole))
    ]
    parts = [cases[start :: max(1, len(cases) // 250)] for start in range(max(1, len(cases) // 250))]
    counts, num_failures = Counter(), 0
    with multiprocessing.get_context("fork").Pool(options.workers) as pool:
        for done, (some, failures) in enumerate(pool.imap_unordered(run_many, parts), 1):
            counts += some
            num_failures += len(failures)
            for kind, seed, text in failures:
                print(f"FAILED --case {kind} {seed}: {text}", flush=True)
            if done % 20 == 0:
                print(f"{counts.total():,} cases", file=sys.stderr, flush=True)
    table = pd.Series({key: number for key, number in counts.items()}).unstack(fill_value=0)
    print(table.assign(cases=table.sum(axis=1)).to_string())
    print(f"{counts.total():,} cases, {num_failures} failure(s).")
    sys.exit(num_failures > 0)


if __name__ == "__main__":
    main()
