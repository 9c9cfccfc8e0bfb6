"""What a designer returns, and how it is kept: one JSON file and one .npz beside it. No pickle."""

import dataclasses
import json
import zipfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cobed import __version__
from cobed.errors import StorageError
from cobed.identity import parts_of
from cobed.information import Estimate
from cobed.notebook import card
from cobed.problem import Problem
from cobed.spaces import label_columns
from cobed.storage import check_output, write_output

if TYPE_CHECKING:
    import pandas as pd

# 1: `score` was called `information`.
SCHEMA = 2


@dataclass(frozen=True)
class StartRecord:
    """One start of the ascent: the objective at every step, the design it ended in, and what fresh draws say of it."""

    history: np.ndarray
    actions: np.ndarray
    score: Estimate


@dataclass(frozen=True)
class DesignResult:
    """The chosen batch of actions and everything worth knowing about how it was found.

    `actions` (D, A) are the engine's vectors, `labels` the same in the user's words. `score` is the objective on fresh
    draws at this design, in nats of information or units of the reward; None for designers that have none. `reason` says
    why this objective was taken.
    """

    method: str
    actions: np.ndarray
    labels: list[Any]
    contexts: np.ndarray
    score: Estimate | None
    starts: list[StartRecord]
    stop_reason: str
    seed: int | list[int]  # a number, or the data of a key
    seconds_design: float
    seconds_evaluation: float
    warnings: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    fingerprint: str = ""
    interrupted: bool = False
    reason: str = ""

    @property
    def information(self) -> Estimate | None:
        """A lower bound on I(m*; y) in nats; None where the design was not made, or not judged, by information."""
        return self.score if self.score is not None and self.score.unit == "nats" else None

    @property
    def history(self) -> np.ndarray:
        """The objective at every training step of the start that was kept."""
        kept = [start.history for start in self.starts if np.array_equal(start.actions, self.actions)]
        return kept[0] if kept else np.zeros(0)

    def to_frame(self) -> "pd.DataFrame":
        """One row per unit: its context columns, then its action (several columns where an action has several parts)."""
        import pandas as pd

        columns = {f"context_{i}": self.contexts[:, i] for i in range(self.contexts.shape[1])}
        return pd.DataFrame({**columns, **label_columns(self.labels)})

    def _repr_html_(self) -> str:
        facts: dict[str, Any] = {"units": f"{len(self.actions):,}"}
        if self.score is not None:
            facts["worth"] = f"{self.score} (a lower bound on information)" if self.information else str(self.score)
        facts |= {"why": self.reason} if self.reason else {}
        counts = Counter(self.labels) if all(isinstance(label, str) for label in self.labels) else {}
        facts |= {"actions": ", ".join(f"{name} {count:,}" for name, count in counts.items())} if counts else {}
        return card(f"Design by {self.method}", facts, self.to_frame(), self.warnings)

    def save(self, path: str | Path) -> Path:
        """Write `path`.json and `path`.npz, each whole or not at all, over nothing that `save` did not write. Returns
        the JSON's path."""
        path = Path(path).with_suffix(".json")
        for output in (path, path.with_suffix(".npz")):
            check_output(output)
        arrays = {"actions": self.actions, "contexts": self.contexts}
        for i, start in enumerate(self.starts):
            arrays[f"history{i}"], arrays[f"actions{i}"] = start.history, start.actions
        document = {
            "schema": SCHEMA,
            "cobed": __version__,
            "method": self.method,
            "seed": self.seed,
            "fingerprint": self.fingerprint,
            "labels": self.labels,
            "score": self.score,
            "starts": [start.score for start in self.starts],
            "reason": self.reason,
            "stop_reason": self.stop_reason,
            "interrupted": self.interrupted,
            "seconds_design": self.seconds_design,
            "seconds_evaluation": self.seconds_evaluation,
            "warnings": self.warnings,
            "settings": self.settings,
        }
        write_output(path.with_suffix(".npz"), lambda file: np.savez(file, **arrays))  # pyright: ignore[reportArgumentType]
        write_output(path, lambda file: file.write(json.dumps(document, indent=1).encode()))
        return path

    @classmethod
    def load(cls, path: str | Path) -> "DesignResult":
        """Read what `save` wrote. `StorageError` says what is wrong with a file that cannot be read."""
        path = Path(path).with_suffix(".json")
        try:
            document = json.loads(path.read_text())
            if document["schema"] > SCHEMA:
                raise StorageError(
                    f"{path} has schema {document['schema']}, written by cobed {document['cobed']}; "
                    f"this version reads up to {SCHEMA}. Upgrade cobed."
                )
            with np.load(path.with_suffix(".npz"), allow_pickle=False) as arrays:
                starts = [
                    StartRecord(arrays[f"history{i}"], arrays[f"actions{i}"], Estimate(*score))
                    for i, score in enumerate(document["starts"])
                ]
                score = document["score" if document["schema"] > 1 else "information"]
                return cls(
                    method=document["method"],
                    actions=arrays["actions"],
                    labels=[tuple(label) if isinstance(label, list) else label for label in document["labels"]],
                    contexts=arrays["contexts"],
                    score=None if score is None else Estimate(*score),
                    starts=starts,
                    stop_reason=document["stop_reason"],
                    seed=document["seed"],
                    seconds_design=document["seconds_design"],
                    seconds_evaluation=document["seconds_evaluation"],
                    warnings=document["warnings"],
                    settings=document["settings"],
                    fingerprint=document["fingerprint"],
                    interrupted=document.get("interrupted", False),
                    reason=document.get("reason", ""),
                )
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
            raise StorageError(f"{path} cannot be read as a design: {error}") from error


def fingerprint(problem: Problem, **settings: Any) -> dict[str, str]:
    """What a design depends on, by named parts: each field of the problem and of its model, each setting."""
    return parts_of(**{field.name: getattr(problem, field.name) for field in dataclasses.fields(problem)}, **settings)
