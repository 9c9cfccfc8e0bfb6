"""Where a campaign stands, and which kinds of units get which actions."""

import dataclasses
import itertools
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import pandas as pd

from cobed.campaign.spec import CampaignSpec


@dataclasses.dataclass(frozen=True)
class Status:
    """Where a campaign stands: one row a round, and what is known."""

    name: str
    rounds: pd.DataFrame
    num_outcomes: int
    num_waiting: int
    num_policies: int


def own_names(names: Iterable[str], taken: Collection[str]) -> dict[str, str]:
    """What cobed calls columns of its own: cobed_NAME where the user's columns have the name already."""
    return {name: f"cobed_{name}" if name in taken else name for name in names}


def export_names(spec: CampaignSpec) -> dict[str, str]:
    """The columns of an export beside the user's own."""
    taken = [spec.units.id, *spec.context, *spec.action.columns, spec.outcome.column]
    return own_names(("round", "state", "as_planned"), taken)


def where(spec: CampaignSpec, cells: dict[str, list[Any]], words: list[Any]) -> list[dict[str, Any]]:
    """One entry for each level of each context column, numeric ones in thirds: how many units, and what they get.

    `shares` are those of the options; with numbers to choose, their averages.
    """
    actions = pd.get_dummies(pd.Series(words), dtype=float) if spec.action.options is not None else pd.DataFrame(words)
    if spec.action.options is not None:
        actions = actions.reindex(columns=list(spec.action.options), fill_value=0.0)
    found = []
    for column, kind in spec.context.items():
        groups = (
            _thirds(np.array(cells[column], float)) if kind.type == "numeric" else _levels(cells[column], kind.type)
        )
        for group, rows in actions.groupby(groups, sort=True, observed=True):
            shares = {str(name): float(value) for name, value in rows.mean().items()}
            found.append({"column": column, "group": str(group), "units": len(rows), "shares": shares})
    return found


def _levels(values: list[Any], kind: str) -> np.ndarray:
    return np.array([("yes" if value else "no") if kind == "binary" else value for value in values], dtype=object)


def _thirds(values: np.ndarray) -> Any:
    bounds = np.unique(np.quantile(values, [0, 1 / 3, 2 / 3, 1]))
    if len(bounds) < 3:
        return np.full(len(values), f"{values.min():.4g} to {values.max():.4g}", dtype=object)
    labels = [f"{low:.4g} to {high:.4g}" for low, high in itertools.pairwise(bounds)]
    return pd.cut(values, bounds, include_lowest=True, labels=labels if len(set(labels)) == len(labels) else None)
