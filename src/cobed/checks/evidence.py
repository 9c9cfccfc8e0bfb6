"""What checks look at: units with their contexts, actions and outcomes, targets, and what a model predicts. Arrays and names."""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from cobed.checks.predictions import Predictions
from cobed.outcomes import AbstractLaw


@dataclasses.dataclass(frozen=True)
class Column:
    """One context column of N rows.

    `numbers` (N, W) are those the engine sees, `labels` what each of the W stands for; `cells` (N,) are as the user wrote them,
    None where one is missing; `groups` (N,) names the group (a level, a third of the numbers) that tables for people count it in.
    """

    name: str
    labels: tuple[str, ...]
    numbers: np.ndarray
    cells: np.ndarray
    groups: np.ndarray
    is_number: bool

    def part(self, rows: np.ndarray) -> "Column":
        """Some of the rows."""
        return dataclasses.replace(
            self, numbers=self.numbers[rows], cells=self.cells[rows], groups=self.groups[rows]
        )  # fmt: skip

    @property
    def values(self) -> np.ndarray:
        """The cells that are not missing: numbers, or names as people know them."""
        kept = np.array([cell is not None for cell in self.cells], bool)
        if self.is_number:
            return self.cells[kept].astype(float)
        return np.where(self.groups == "(new)", self.cells, self.groups)[kept]

    @property
    def group_names(self) -> list[str]:
        """The groups, those of numbers in the order of the numbers."""
        names = sorted({str(group) for group in self.groups})
        if not self.is_number:
            return names
        return sorted(names, key=lambda name: (name.startswith("("), self.numbers[self.groups == name, 0].mean()))


def encoded(columns: Sequence[Column]) -> np.ndarray:
    """The numbers of all columns side by side, (N, C)."""
    return np.concatenate([column.numbers for column in columns], axis=1).astype(np.float64)


@dataclasses.dataclass(frozen=True)
class Actions:
    """The actions there are. `low` and `high` (A,) bound those that are numbers; None where actions are named options."""

    names: tuple[str, ...]
    low: np.ndarray | None = None
    high: np.ndarray | None = None

    @property
    def are_named(self) -> bool:
        return self.low is None

    def groupings(self, vectors: np.ndarray) -> list[dict[str, np.ndarray]]:
        """Which of the vectors (N, A) are each option: masks (N,) by name. Of numbers, which lie in each third of its range, a
        dictionary for each number."""
        if self.low is None or self.high is None:
            return [{name: vectors[:, place] > 0.5 for place, name in enumerate(self.names)}]
        groupings = []
        for place, name in enumerate(self.names):
            bounds = np.linspace(self.low[place], self.high[place], 4)
            thirds = np.clip(np.searchsorted(bounds, vectors[:, place], side="right") - 1, 0, 2)
            words = [f"{name} {low:.4g} to {high:.4g}" for low, high in itertools.pairwise(bounds)]
            groupings.append({word: thirds == third for third, word in enumerate(words)})
        return groupings

    def groups(self, vectors: np.ndarray) -> dict[str, np.ndarray]:
        """All of them in one dictionary."""
        return {name: mask for grouping in self.groupings(vectors) for name, mask in grouping.items()}


@dataclasses.dataclass(frozen=True)
class Units:
    """All units of all rounds, history as round 0. A unit of two rounds is there twice.

    `planned` and `got` (N, A) are actions, the same where nothing came back yet or nothing else was said; `outcomes` (N,) are not a
    number where one is awaited. `at_random` (N,) are those whose action chance alone decided, and `propensities` (N, K) the
    probabilities with which it gave them each option (zeros for others; None for numbers); of history these are the shares seen,
    told by nobody (`are_guessed` (N,)).
    """

    ids: np.ndarray
    rounds: np.ndarray
    columns: tuple[Column, ...]
    planned: np.ndarray
    got: np.ndarray
    outcomes: np.ndarray
    at_random: np.ndarray
    are_guessed: np.ndarray
    propensities: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def is_back(self) -> np.ndarray:
        return ~np.isnan(self.outcomes)

    @property
    def could_get_all(self) -> np.ndarray:
        """Whose action chance alone decided among all there are, (N,)."""
        return self.at_random if self.propensities is None else self.at_random & (self.propensities > 0).all(axis=1)


@dataclasses.dataclass(frozen=True)
class Targets:
    """Where the policy is, or will be, deployed. `allowed` (T, A) are the options each may get; None where all may get all."""

    columns: tuple[Column, ...]
    allowed: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class Evidence:
    """All that checks look at. `targets` is None where none were given, `predictions` where no outcome has come back.

    `outcome` and `reward` are what people call an outcome and what it earns; `reference` is the position of the option of today,
    None where nobody said it.
    """

    units: Units
    actions: Actions
    law: AbstractLaw
    outcome: str
    reward: str
    targets: Targets | None = None
    predictions: Predictions | None = None
    reference: int | None = None
    seed: int = 0
