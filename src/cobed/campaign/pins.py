"""What the user decides about single units of the last round: actions given by hand, actions refused."""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from cobed.campaign import records as kept
from cobed.campaign.encoding import read_actions
from cobed.campaign.ids import likely_id
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.store import Store
from cobed.campaign.tables import Complaints, read_table
from cobed.errors import CampaignError


def mark_units(store: Store, spec: CampaignSpec, pins: Mapping[str, Any], rejected: Iterable[str]) -> None:
    """Store pins and rejections, and that the round is to be designed anew."""
    actions = {str(unit): _parse_action(spec, action) for unit, action in pins.items()}
    refused = [str(unit) for unit in rejected]
    with store.transaction() as connection:
        rounds = [r for r in kept.read_rounds(connection) if r.id > 0]
        if not rounds:
            raise CampaignError("There is no round yet whose assignments could be pinned or rejected. Design one.")
        last = rounds[-1]
        planned = {entry.row.unit: entry for entry in kept.read_units(connection, [*actions, *refused], last.id)}
        for unit in [*actions, *refused]:
            if unit not in planned:
                likely = likely_id(unit, {row.unit for row in kept.read_assignments(connection, last.id)})
                raise CampaignError(f"Unit {unit!r} is not in round {last.id}, the last one.{likely}")
            if planned[unit].outcome is not None:
                raise CampaignError(f"Unit {unit!r} has an outcome already; what it got cannot be changed.")
        changed = [
            planned[unit].row._replace(action=action, state="pinned", chance=None) for unit, action in actions.items()
        ]
        for unit in dict.fromkeys(refused):
            row = planned[unit].row
            refusals = tuple(dict.fromkeys([*row.rejected, row.action]))
            changed.append(row._replace(state="planned", rejected=refusals, chance=None))
        kept.write_round(connection, last._replace(summary={**last.summary, "stale": True}), changed)


def parse_pin(spec: CampaignSpec, text: str) -> tuple[str, Any]:
    """The unit and the action of UNIT=ACTION; of several numbers, UNIT=NUMBER,NUMBER in the order of the spec."""
    unit, equals, action = text.partition("=")
    columns, values = spec.action.columns, action.split(",")
    if not equals or (spec.action.options is None and len(values) != len(columns)):
        wanted = "ACTION" if spec.action.options is not None else ",".join(columns).upper()
        raise CampaignError(f"--pin {text!r} is not of the form UNIT={wanted}.")
    return unit, action if spec.action.options is not None else dict(zip(columns, values, strict=True))


def _parse_action(spec: CampaignSpec, value: Any) -> Any:
    columns = spec.action.columns
    frame = pd.DataFrame({name: [value.get(name) if isinstance(value, Mapping) else value] for name in columns})
    table = read_table(frame, "pinned actions")
    complaints = Complaints(table)
    (action,) = read_actions(spec, table, complaints)
    complaints.tell()
    if action is None:
        raise CampaignError("A pinned action must not be empty.")
    return action
