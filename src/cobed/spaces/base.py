"""Action spaces. Inside the engine an action is always a float vector of length `space.dim`.

`Discrete` actions are one-hot vectors, `Box` actions are numbers, a `Product` is its parts laid end to end. For the
gradient ascent a space is reached from an unconstrained vector of the same length: `relax` gives a differentiable
action, `harden` the action that will be played.
"""

import abc
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np
from scipy.stats import qmc

from cobed.types import Array, Bool, Float, Key


class AbstractSpace(eqx.Module):
    """Where actions live."""

    dim: eqx.AbstractVar[int]

    @abc.abstractmethod
    def sample(self, key: Key[Array, ""]) -> Float[Array, " A"]:
        """A random action: uniform where the space is bounded."""

    @abc.abstractmethod
    def project(self, action: Float[Array, " A"]) -> Float[Array, " A"]:
        """The nearest valid action."""

    @abc.abstractmethod
    def contains(self, action: Float[Array, " A"]) -> Bool[Array, ""]:
        """Whether the vector is a valid action, up to rounding."""

    @abc.abstractmethod
    def initial_raw(self, key: Key[Array, ""]) -> Float[Array, " A"]:
        """A random unconstrained vector to start the ascent from."""

    @abc.abstractmethod
    def relax(
        self, key: Key[Array, ""], raw: Float[Array, " A"], temperature: Float[Array, ""], hard: Bool[Array, ""]
    ) -> Float[Array, " A"]:
        """A differentiable action for the unconstrained vector. `hard` is straight-through: discrete forward, soft backward."""

    @abc.abstractmethod
    def harden(self, raw: Float[Array, " A"]) -> Float[Array, " A"]:
        """The action played for the unconstrained vector."""

    @abc.abstractmethod
    def to_raw(self, action: Float[Array, " A"]) -> Float[Array, " A"]:
        """An unconstrained vector that hardens to (nearly) this action, where the ascent can begin: never at a wall."""

    @abc.abstractmethod
    def enumerate_discrete(self) -> Float[np.ndarray, "J A"]:
        """Every combination of the discrete parts, one per row, zeros in the continuous entries. One row where there are none."""

    @abc.abstractmethod
    def discrete_weights(self, action: Float[Array, " A"]) -> Float[Array, " J"]:
        """How much of each row of `enumerate_discrete` a (relaxed) action holds; sums to one."""

    # The one way between actions and the user's words: a name, a number, a dictionary of named numbers, or a tuple of these.

    @abc.abstractmethod
    def labels(self, actions: Any, digits: int | None = None) -> list[Any]:
        """Actions (N, A) in the user's words; numbers with so many digits, or all they have."""

    @abc.abstractmethod
    def parse_all(self, values: Sequence[Any]) -> Float[np.ndarray, "N A"]:
        """The inverse of `labels`. Raises `SpaceError` for a value the space does not hold."""

    def label(self, action: Any) -> Any:
        """One action in the user's words."""
        return self.labels(np.asarray(action)[None])[0]

    def parse(self, value: Any) -> Float[np.ndarray, " A"]:
        """The inverse of `label`."""
        return self.parse_all([value])[0]

    @property
    @abc.abstractmethod
    def continuous(self) -> tuple[int, ...]:
        """Positions of the continuous entries in the action vector."""

    @property
    def options(self) -> tuple[str, ...] | None:
        """The names, where an action is one of some names and nothing else; None elsewhere."""
        return None

    @property
    def entry_names(self) -> tuple[str, ...]:
        """What the entries of an action are called: numbered, where the user gave no names."""
        return self.options or tuple(map(str, range(self.dim)))

    @abc.abstractmethod
    def search_bounds(self) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
        """Finite bounds of the continuous entries, to search between."""

    def pieces(self) -> "list[tuple[AbstractSpace, slice]]":
        """The spaces it is made of, each with its entries in the action vector; itself where it is of one piece."""
        return [(self, slice(None))]

    def bounds(self) -> tuple[Float[np.ndarray, " A"], Float[np.ndarray, " A"]] | None:
        """The lowest and the highest action, where all entries are numbers between finite bounds."""
        return None

    @property
    def enough_points(self) -> int:
        """So many points over the continuous entries come close enough to the best action."""
        return {1: 128, 2: 512}.get(len(self.continuous), 2048)

    def grid(self, num_points: int | None = None) -> Float[np.ndarray, "J A"]:
        """Actions to choose among: every discrete combination, each with at most `num_points` over the continuous entries.

        These are evenly spaced with the bounds among them, or a Sobol sequence where three along every entry would be too many.
        """
        combinations = self.enumerate_discrete()
        if not self.continuous:
            return combinations
        low, high = self.search_bounds()
        unit = _unit_grid(num_points or self.enough_points, low.size)
        points = np.zeros((len(unit), self.dim), np.float32)
        points[:, self.continuous] = low + (high - low) * unit
        return (combinations[:, None, :] + points[None, :, :]).reshape(-1, self.dim)


def _unit_grid(num_points: int, dim: int) -> Float[np.ndarray, "N D"]:
    """At most `num_points` in [0, 1]^D."""
    along = int(num_points ** (1 / dim) + 1e-9)
    if along < 3 and dim > 1:
        return qmc.Sobol(dim, scramble=False).random_base2(int(np.ceil(np.log2(num_points))))[:num_points]
    return np.stack(np.meshgrid(*[np.linspace(0, 1, along)] * dim, indexing="ij"), axis=-1).reshape(-1, dim)


def label_columns(labels: Sequence[Any]) -> dict[str, list[Any]]:
    """Labels of many actions as columns of a table: "action", or "action_0", "action_1", ... where they have several parts.

    Named numbers have a column each, called like them.
    """
    if isinstance(labels[0], dict):
        return {name: [label[name] for label in labels] for name in labels[0]}
    parts = [label if isinstance(label, tuple) else (label,) for label in labels]
    width = len(parts[0])
    names = ["action"] if width == 1 else [f"action_{i}" for i in range(width)]
    return {name: [part[i] for part in parts] for i, name in enumerate(names)}
