"""Where a campaign stands, and which kinds of units get which actions."""

import dataclasses
from collections.abc import Collection, Iterable
from typing import Any

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
    """One entry for each group of each context column (a level, a third of the numbers): how many units, and what they get.

    `shares` are those of the options; with numbers to choose, their averages.
    """
    actions = pd.get_dummies(pd.Series(words), dtype=float) if spec.action.options is not None else pd.DataFrame(words)
    if spec.action.options is not None:
        actions = actions.reindex(columns=list(spec.action.options), fill_value=0.0)
    found = []
    for column, kind in spec.context.items():
        for group, rows in actions.groupby(kind.groups(cells[column]), sort=True, observed=True):
            shares = {str(name): float(value) for name, value in rows.mean().items()}
            found.append({"column": column, "group": str(group), "units": len(rows), "shares": shares})
    return found
