"""What changes the effect of an action: expected rewards by groups of units, from the draws of what is known."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from cobed.campaign.columns import Column
from cobed.campaign.encoding import Cells
from cobed.campaign.spec import CampaignSpec
from cobed.decide import mean_rewards
from cobed.models.base import AbstractModel
from cobed.types import Float, Params

# Rows whose contexts stand for all in averages over units; so many of them at once.
MAX_ROWS, ROWS_AT_ONCE = 1_000, 50
# Columns of more groups are told by the largest of these.
MAX_GROUPS = 6


@dataclasses.dataclass(frozen=True)
class ByGroup:
    """Draws of the average expected reward of every action, (J, N) by the name of each group of one column; and its units."""

    column: str
    rewards: Mapping[str, Float[np.ndarray, "J N"]]
    units: Mapping[str, int]

    def over(self, reference: int) -> dict[str, np.ndarray]:
        """The same minus the reward of one action in the same group and draws."""
        return {group: rewards - rewards[reference] for group, rewards in self.rewards.items()}

    def widest(self, reference: int) -> tuple[int, str, str, np.ndarray]:
        """The action whose gain over the reference changes most between two groups: its position, the group where it gains most,
        that where it gains least, and draws (N,) of the difference."""
        over = self.over(reference)
        means = np.stack([gains.mean(axis=1) for gains in over.values()])
        action = int(np.argmax(np.ptp(means, axis=0)))
        groups = list(over)
        most, least = groups[int(means[:, action].argmax())], groups[int(means[:, action].argmin())]
        return action, most, least, over[most][action] - over[least][action]


@dataclasses.dataclass(frozen=True)
class Effects:
    """Draws of expected rewards of the actions (J, A): `average` (J, N) over all units, and by the groups of each column.

    `perfect` is what the best action of each unit would earn on average, were psi known; `personal`, what it earns by what is
    known.
    """

    average: Float[np.ndarray, "J N"]
    columns: tuple[ByGroup, ...]
    perfect: float
    personal: float

    @property
    def best_single(self) -> int:
        """The position of the action that earns most on average."""
        return int(self.average.mean(axis=1).argmax())


def effects_of(
    spec: CampaignSpec, model: AbstractModel, draws: Params, candidates: np.ndarray, units: tuple[np.ndarray, Cells]
) -> Effects:
    """The effects among these candidates (J, A), for units with these contexts (U, C) and cells."""
    contexts, cells = units
    rows = np.linspace(0, len(contexts) - 1, min(MAX_ROWS, len(contexts))).round().astype(int)
    groups = [
        (column, name, members)
        for column, kind in spec.context.items()
        for name, members in _groups(kind, [cells[column][row] for row in rows])
    ]
    weights = np.stack([np.ones(len(rows)), *(members for *_, members in groups)]) / len(rows)
    sums, perfect, personal = 0.0, 0.0, 0.0
    for part in np.array_split(np.arange(len(rows)), -(-len(rows) // ROWS_AT_ONCE)):
        rewards = np.asarray(
            mean_rewards(model, draws, jnp.asarray(contexts[rows[part]]), jnp.asarray(candidates)), np.float64
        )
        sums = sums + np.einsum("gt,tjn->gjn", weights[:, part], rewards)
        perfect += float(rewards.max(axis=1).mean(axis=1).sum()) / len(rows)
        personal += float(rewards.mean(axis=2).max(axis=1).sum()) / len(rows)
    shares = weights.sum(axis=1)
    by_group = np.asarray(sums) / shares[:, None, None]
    columns = tuple(
        ByGroup(
            column,
            {name: by_group[1 + i] for i, (of, name, _) in enumerate(groups) if of == column},
            {name: int(members.sum()) for of, name, members in groups if of == column},
        )
        for column in spec.context
    )
    return Effects(by_group[0], columns, perfect, personal)


def _groups(kind: Column, cells: list[Any]) -> list[tuple[str, np.ndarray]]:
    """The largest groups of a column in the order of their names, with a 1 for each row that is in one."""
    known = np.array([cell is not None for cell in cells], bool)
    if not known.any():
        return []
    labels = np.full(len(cells), None, object)
    given = kind.groups([cell for cell in cells if cell is not None])
    labels[known] = [str(name) for name in given]
    # Groups of numbers have an order of their own.
    ordered = getattr(given, "categories", None)
    names = sorted(set(labels[known])) if ordered is None else [str(name) for name in ordered]
    counts = {name: int((labels == name).sum()) for name in names}
    largest = sorted(counts, key=lambda name: -counts[name])[:MAX_GROUPS]
    return [(name, (labels == name).astype(float)) for name in names if name in largest and counts[name]]
