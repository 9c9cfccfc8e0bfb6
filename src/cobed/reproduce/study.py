"""Run an experiment, one part at a time: a method on a problem with a seed. Each part is kept when it is done."""

import dataclasses
import functools
import json
import os
import platform
import shutil
import subprocess
import time
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.random as jr
import numpy as np

from cobed import __version__
from cobed.errors import StorageError
from cobed.identity import differences, parts_of
from cobed.information import Estimate, Measurement, measure_information, prepare_measurement
from cobed.metrics import Score
from cobed.problem import Problem
from cobed.progress import Progress, Reporter, within
from cobed.reproduce.experiment import Effort, Method, Setting
from cobed.reproduce.protocol import METRICS, Keys, Worlds
from cobed.storage import check_output, make_folder, write_output, write_whole
from cobed.types import Array, Key

# results.json is written anew at most so often, in seconds, while parts are done.
WRITE_EVERY = 5.0
# Parts with so much work, and those whose information is measured, come last: the others are most of a report, and take a
# small share of the time.
MUCH_WORK = 50.0
NOT_MEASURED = Estimate(float("nan"), float("nan"))


@dataclasses.dataclass(frozen=True)
class Part:
    """One method in one setting with one seed."""

    setting: Setting
    method: Method
    seed: int

    @property
    def measured(self) -> bool:
        return self.setting.num_measured is None or self.seed < self.setting.num_measured

    @property
    def work(self) -> float:
        return self.method.work + self.setting.critic_work * self.measured

    @property
    def name(self) -> str:
        symbols = " ".join(f"{symbol}={value}" for symbol, value in self.setting.symbols.items())
        return ", ".join(filter(None, [self.method.name, symbols, f"seed {self.seed}"]))

    @property
    def slug(self) -> str:
        return "".join(letter if letter.isalnum() or letter in ".-=" else "_" for letter in self.name)


def parts_of_study(settings: Iterable[Setting], num_seeds: int) -> list[Part]:
    """Every method of every setting with every seed, those that take long last."""
    parts = []
    for setting in settings:
        for seed in range(num_seeds):
            chosen = [method for method in setting.methods if method.num_seeds is None or seed < method.num_seeds]
            parts += [Part(setting, method, seed) for method in chosen]
    return sorted(parts, key=lambda part: part.measured or part.work >= MUCH_WORK)


@dataclasses.dataclass(frozen=True)
class Record:
    """What a part gave. `worlds["exact"]["regret"]` (W,) are the scores of a protocol, world by world. The information is
    not a number where it was not measured. `reason` says why a designer took its objective."""

    method: str
    setting: dict[str, Any]
    seed: int
    cmv_eig: float
    cmv_eig_se: float
    seconds_design: float
    seconds_total: float
    actions: np.ndarray
    history: np.ndarray
    worlds: Worlds
    reason: str = ""

    def score(self, protocol: str, metric: str) -> Score | None:
        """The metric under the protocol; None where it was not measured or does not apply."""
        values = self.worlds.get(protocol, {}).get(metric)
        return None if values is None else Score(values)

    def headline(self, seconds_left: float) -> tuple[float, float, str]:
        """What to tell of a part that is done: its information, or its regret where that alone was measured."""
        if not np.isnan(self.cmv_eig) or not self.worlds:
            return self.cmv_eig, seconds_left, "nats"
        regret = self.score(next(iter(self.worlds)), "regret")
        return float("nan") if regret is None else regret.mean, seconds_left, "regret"

    def rows(self) -> list[dict[str, Any]]:
        """The rows of results.json: one per protocol, or one without where only the information was measured."""
        return [self._row(protocol) for protocol in self.worlds or ("none",)]

    def _row(self, protocol: str) -> dict[str, Any]:
        row: dict[str, Any] = {"method": self.method, "protocol": protocol, "seed": self.seed, "setting": self.setting}
        measured = not np.isnan(self.cmv_eig)
        row |= {"cmv_eig": self.cmv_eig if measured else None, "cmv_eig_se": self.cmv_eig_se if measured else None}
        num_worlds = 0
        for metric in METRICS:
            score = self.score(protocol, metric)
            row |= {metric: None if score is None else score.mean, f"{metric}_se": None}
            # A closed form has no worlds, and no standard error over them.
            if score is not None and score.num_worlds > 1:
                row[f"{metric}_se"], num_worlds = score.standard_error, score.num_worlds
        times = {"seconds_design": self.seconds_design, "seconds_total": self.seconds_total}
        return row | times | {"num_worlds": num_worlds}


class Folder:
    """Where a study keeps its parts: one .npz each, written whole, and results.json made from them."""

    def __init__(self, path: Path, experiment: str, budget: str, effort: Effort):
        self.path, self.experiment, self.budget = Path(path), experiment, budget
        self.fingerprint = parts_of(experiment=experiment, effort=effort)
        for name in ("results.json", "report.html", "findings.txt"):
            check_output(self.path / name)
        make_folder(self.path / "parts")

    def checkpoint(self, part: Part) -> Path:
        return self.path / "checkpoints" / part.slug

    def save(self, part: Part, record: Record) -> None:
        numbers = dict(vars(record))
        arrays = {name: numbers.pop(name) for name in ("actions", "history")}
        for protocol, scores in numbers.pop("worlds").items():
            arrays |= {f"{protocol}/{metric}": values for metric, values in scores.items()}
        meta = json.dumps({"schema": 1, "fingerprint": self.fingerprint, **numbers})
        write_whole(self._file(part), lambda file: np.savez(file, allow_pickle=False, meta=np.array(meta), **arrays))
        shutil.rmtree(self.checkpoint(part), ignore_errors=True)

    def load(self, part: Part) -> Record | None:
        """The record of a part that is done; None where it is not. `StorageError` where it was made with other settings."""
        path = self._file(part)
        if not path.exists():
            return None
        try:
            with np.load(path, allow_pickle=False) as archive:
                meta = json.loads(str(archive["meta"]))
                if different := differences(dict(meta.pop("fingerprint")), self.fingerprint):
                    raise StorageError(
                        f"{path} was made with another budget or version. What differs: {'; '.join(different)}. "
                        f"Give another --out, or delete {self.path}."
                    )
                meta.pop("schema")
                worlds: Worlds = {}
                for name in archive.files:
                    protocol, _, metric = name.partition("/")
                    if metric:
                        worlds.setdefault(protocol, {})[metric] = archive[name]
                return Record(actions=archive["actions"], history=archive["history"], worlds=worlds, **meta)
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
            raise StorageError(f"{path} cannot be read ({error}). Delete it to do this part again.") from error

    def write_results(self, records: Iterable[Record]) -> Path:
        """results.json, as it stands."""
        document = {
            "experiment": self.experiment,
            "budget": self.budget,
            "commit": _commit(),
            "machine": {
                "processor": platform.processor() or platform.machine(),
                "num_cores": os.cpu_count(),
                "python": platform.python_version(),
                "jax": jax.__version__,
                "cobed": __version__,
            },
            "rows": [row for record in records for row in record.rows()],
        }
        path = self.path / "results.json"
        return write_output(path, lambda file: file.write(json.dumps(document, indent=1).encode()))

    def _file(self, part: Part) -> Path:
        return self.path / "parts" / f"{part.slug}.npz"


def run_study(parts: Sequence[Part], folder: Folder, effort: Effort, progress: Reporter | None = None) -> list[Record]:
    """Do every part that is not done yet, in order. Ctrl-C stops between steps; the same call goes on from there."""
    records: list[Record] = []
    kept = [folder.load(part) for part in parts]
    work_left = sum(part.work for part, record in zip(parts, kept, strict=True) if record is None)
    work_done = seconds = 0.0
    left = float("nan")
    bench = _Bench(effort)
    written = time.perf_counter()
    try:
        for index, (part, record) in enumerate(zip(parts, kept, strict=True)):
            if record is None:
                started = time.perf_counter()
                stage = f"{folder.experiment}, part {index + 1} of {len(parts)}: {part.name}"
                record = _run_part(part, folder, bench, within(stage, left, progress))
                folder.save(part, record)
                seconds += time.perf_counter() - started
                work_done, work_left = work_done + part.work, work_left - part.work
                left = work_left * seconds / work_done
                if progress is not None:
                    progress(Progress(stage, index + 1, len(parts), *record.headline(left)))
            records.append(record)
            if time.perf_counter() - written > WRITE_EVERY:
                folder.write_results(records)
                written = time.perf_counter()
    finally:
        folder.write_results(records)
    return records


class _Bench:
    """The problem of a part and what measures information there, with its draws: kept while setting and seed stay the same."""

    def __init__(self, effort: Effort):
        self.effort = effort
        self._made_for: tuple[int, int] | None = None
        self._problem: Problem | None = None
        self._measurement: Measurement | None = None

    def problem(self, part: Part) -> Problem:
        # The settings are alive as long as the study, so no other can have this one's id.
        wanted = (id(part.setting), part.seed)
        if self._problem is None or self._made_for != wanted:
            self._measurement = None  # freed before the next is made
            self._made_for, self._problem = wanted, part.setting.problem(part.seed)
        return self._problem

    def information(self, key: Key[Array, ""], part: Part, actions: np.ndarray) -> Estimate:
        problem, budget = self.problem(part), self.effort.critic
        if self._measurement is None:
            self._measurement = prepare_measurement(key, problem, budget, self.effort.network)
        return measure_information(key, self._measurement, problem.check_actions(actions), budget)


def _run_part(part: Part, folder: Folder, bench: _Bench, progress: Reporter | None) -> Record:
    started = time.perf_counter()
    problem = bench.problem(part)
    long = {"progress": progress, "checkpoint": folder.checkpoint(part)} if part.method.trains else {}
    result = part.method.design(problem, seed=part.seed, **long)
    if result.interrupted:
        raise KeyboardInterrupt
    # The same worlds, noise and batches for every method with this seed: their differences are paired.
    exact_key, paper_key, critic_key = jr.split(jr.fold_in(jr.key(part.seed), 1), 3)
    information = bench.information(critic_key, part, result.actions) if part.measured else NOT_MEASURED
    worlds = part.setting.scores(Keys(exact_key, paper_key), problem, result.actions, bench.effort)
    return Record(
        method=part.method.name,
        setting=part.setting.symbols,
        seed=part.seed,
        cmv_eig=information.value,
        cmv_eig_se=information.standard_error,
        seconds_design=result.seconds_design,
        seconds_total=time.perf_counter() - started,
        actions=result.actions,
        history=result.history,
        worlds=worlds,
        reason=result.reason,
    )


@functools.cache
def _commit() -> str:
    """The commit of the source, where it is a git checkout; otherwise the version."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return __version__
