"""What a table would bring to a campaign, and everything that is wrong with it. Needs no JAX."""

from cobed.campaign.encoding import encode_contexts, fit_encoding, read_actions, read_outcomes
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.tables import Complaints, Table


def check_table(spec: CampaignSpec, table: Table) -> str:
    """What the table holds, in a sentence; `TableError` where it cannot be used."""
    table.ids(spec.units.id)
    present = [column for column in spec.context if column in table.frame.columns]
    has_outcomes = spec.outcome.column in table.frame.columns
    if not present and not has_outcomes:
        table.require([*spec.context], "and neither the other context columns nor the outcome of campaign.toml")
    told = [f"{len(table):,} rows"]
    # A table of outcomes alone is matched to its round by the ids.
    if len(present) == len(spec.context) or not has_outcomes:
        encode_contexts(spec, fit_encoding(spec, [table]), table)
        told.append(f"{len(spec.context)} context column(s)")
    complaints = Complaints(table)
    if has_outcomes:
        values = read_outcomes(spec, table, complaints)
        told.append(f"{int((values == values).sum()):,} outcomes")
    if all(column in table.frame.columns for column in spec.action.columns):
        actions = read_actions(spec, table, complaints)
        told.append(f"{sum(action is not None for action in actions):,} actions")
    complaints.tell()
    passing = len(table.frame.columns) - 1 - len(present) - has_outcomes
    passing -= sum(column in table.frame.columns for column in spec.action.columns)
    told.append(f"{passing} other column(s), which pass through")
    return "fine. " + ", ".join(told) + "."
