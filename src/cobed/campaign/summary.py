"""Where a campaign stands, and which kinds of units get which actions."""

import dataclasses
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from cobed.campaign.chance import propensity
from cobed.campaign.database import DAMAGED
from cobed.campaign.encoding import UNFIT, Cells, Encoding, action_columns
from cobed.campaign.records import Planned, Round
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.words import day, policy_sentences
from cobed.errors import StorageError
from cobed.notebook import card

# The column of a table that holds the probability with which a unit got its action.
PROPENSITY = "propensity"


@dataclasses.dataclass(frozen=True)
class Status:
    """Where a campaign stands: one row a round, and what is known."""

    name: str
    rounds: pd.DataFrame
    num_outcomes: int
    num_waiting: int
    num_policies: int

    @classmethod
    def of(cls, name: str, rounds: Sequence[Round], num_policies: int) -> "Status":
        table = pd.DataFrame(
            {
                "round": [r.id for r in rounds],
                "what": ["history" if r.id == 0 else "designed" for r in rounds],
                "created": [r.created for r in rounds],
                "units": [r.num_units for r in rounds],
                "outcomes": [r.num_outcomes for r in rounds],
                "waiting": [r.num_waiting for r in rounds],
            }
        )
        num_outcomes, num_waiting = (sum(table[name].tolist()) for name in ("outcomes", "waiting"))
        return cls(name, table, num_outcomes, num_waiting, num_policies)


def propensity_of(spec: CampaignSpec, planned: Planned) -> float | None:
    """The probability with which a unit got its action, of numbers the density; None where that was not chance alone."""
    number, row, back = planned
    if back is not None and back.action != row.action:
        return None  # it got something else, and who knows why
    if number == 0 and row.chance is None:
        return spec.design.history_shares.get(row.action) if spec.design.history_shares else None
    return propensity(row.chance, row.action)


def campaign_card(spec: CampaignSpec, status: Status, label: str, policies: Sequence[dict[str, Any]]) -> str:
    """What a notebook shows of a campaign."""
    facts = {
        "outcomes": f"{status.num_outcomes:,}, and {status.num_waiting:,} awaited",
        "policies deployed": f"{status.num_policies:,}",
        "kept in": label,
    }
    rounds = status.rounds.assign(created=[day(created) for created in status.rounds["created"]])
    return card(f"Campaign {spec.name!r}", facts, rounds, policy_sentences(spec, policies[-1])[:1] if policies else [])


def own_names(names: Iterable[str], taken: Collection[str]) -> dict[str, str]:
    """What cobed calls columns of its own: cobed_NAME where the user's columns have the name already."""
    return {name: f"cobed_{name}" if name in taken else name for name in names}


def export_names(spec: CampaignSpec) -> dict[str, str]:
    """The columns of an export beside the user's own."""
    return own_names(("round", "state", "as_planned", PROPENSITY), spec.columns)


def export_table(spec: CampaignSpec, planned: Iterable[Planned], label: str) -> pd.DataFrame:
    """A row for each unit of each round; `label` is what messages call the store."""
    names = export_names(spec)
    records = []
    for number, row, back in planned:
        try:
            columns = {name: value[0] for name, value in action_columns(spec, [(back or row).action]).items()}
        except UNFIT as error:
            where = f"{label}: the action of unit {row.unit!r} of round {number}"
            raise StorageError(f"{where} does not fit campaign.toml. {DAMAGED}") from error
        records.append(
            {
                names["round"]: number,
                spec.units.id: row.unit,
                **{name: row.context.get(name) for name in spec.context},
                **columns,
                names["state"]: row.state,
                names["as_planned"]: back is None or back.action == row.action,
                names[PROPENSITY]: propensity_of(spec, Planned(number, row, back)),
                spec.outcome.column: back.value if back else None,
            }
        )
    return pd.DataFrame(records)


def where(spec: CampaignSpec, encoding: Encoding, cells: Cells, words: list[Any]) -> list[dict[str, Any]]:
    """One entry for each group of each context column (a level, a third of the numbers): how many units, and what they get.

    `shares` are those of the options; with numbers to choose, their averages.
    """
    actions = pd.get_dummies(pd.Series(words), dtype=float) if spec.action.options is not None else pd.DataFrame(words)
    if spec.action.options is not None:
        actions = actions.reindex(columns=list(spec.action.options), fill_value=0.0)
    tables = []
    for column, kind in spec.context.items():
        absent = encoding.absent(column, kind, cells[column])
        known = np.flatnonzero(~np.any(list(absent.values()), axis=0))
        grouped: list[tuple[Any, Any]] = []
        if len(known):
            groups = kind.groups([cells[column][row] for row in known])
            grouped += actions.iloc[known].groupby(groups, sort=True, observed=True)
        grouped += [(f"({fact})", actions[rows]) for fact, rows in absent.items() if rows.any()]
        for group, rows in grouped:
            shares = {str(name): float(value) for name, value in rows.mean().items()}
            tables.append({"column": column, "group": str(group), "units": len(rows), "shares": shares})
    return tables
