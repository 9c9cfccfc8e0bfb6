"""Tables that lie far from the one that fixed how a numeric column is scaled."""

from collections.abc import Sequence

import numpy as np

from cobed.campaign import records as kept
from cobed.campaign.complaints import Complaints
from cobed.campaign.encoding import Encoding, encode_contexts, fit_encoding
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.store import Store
from cobed.campaign.tables import Table
from cobed.errors import CampaignError

# In deviations of the first table: how far a mean may be; of fewer rows than FEW, how far.
FAR_MEAN, FAR_FEW, FEW = 3.0, 6.0, 10
# How many times wider or narrower a column may be.
WIDER = 10.0
# A share of single cells so far out that they are of another kind.
FAR_CELL, FAR_SHARE = 6.0, 0.01


def far_columns(spec: CampaignSpec, encoding: Encoding, table: Table) -> list[str]:
    """A sentence for each numeric column whose values are not like those that fixed its scale."""
    said = []
    for name, (mean, deviation) in encoding.scales.items():
        if name not in spec.context or name not in table.frame.columns:
            continue
        values = table.numbers(name, Complaints(table))
        values = values[np.isfinite(values)]
        reason = _reason((values - mean) / deviation) if values.size else None
        if reason is not None:
            said.append(
                f"{table.name}, column {name!r}: {reason}. Here it goes from {values.min():.6g} to {values.max():.6g} (mean "
                f"{values.mean():.6g}, deviation {values.std():.3g}); the first table of the campaign had mean {mean:.6g} and "
                f"deviation {deviation:.3g}, by which the column is scaled. Is it in the same unit? While there are no "
                "outcomes, `cobed design --refit` scales by the new table."
            )
    return said


def far_tables(spec: CampaignSpec, encoding: Encoding, tables: Sequence[Table]) -> list[str]:
    """The same of several tables."""
    return [sentence for table in dict.fromkeys(tables) for sentence in far_columns(spec, encoding, table)]


def _reason(scaled: np.ndarray) -> str | None:
    few = len(scaled) < FEW
    if abs(scaled.mean()) > (FAR_FEW if few else FAR_MEAN):
        return "its values lie far from those the campaign began with"
    if not few and scaled.std() > WIDER:
        return f"its values vary {scaled.std():.0f} times as much as those the campaign began with"
    if not few and scaled.std() < 1 / WIDER:
        return "its values vary far less than those the campaign began with"
    share = float((np.abs(scaled) > FAR_CELL).mean())
    if not few and share >= FAR_SHARE:
        return f"{share:.0%} of its values lie far from those the campaign began with"
    return None


def constant_columns(spec: CampaignSpec, tables: list[Table]) -> list[str]:
    """A sentence for each numeric column that is constant in the tables that fix its scale."""
    said = []
    for name, column in spec.context.items():
        if column.type == "numeric":
            values = np.concatenate([table.numbers(name, Complaints(table)) for table in tables])
            values = values[np.isfinite(values)]
            if values.size and values.std() <= 1e-9 * abs(values.mean()):
                said.append(
                    f"{tables[0].name}, column {name!r} is {values[0]:g} in every row, so it is not known how much it varies: it "
                    "is not scaled. Begin with a table in which it varies, or leave it out of [context]."
                )
    return said


def refit(store: Store, spec: CampaignSpec, tables: list[Table]) -> None:
    """Scale by these tables from now on. The last round is to be designed anew; levels that were known stay known."""
    from cobed.campaign.observe import stored_encoding  # which imports this file

    encoding = fit_encoding(spec, tables)
    for table in tables:
        encode_contexts(spec, encoding, table)
    with store.transaction() as connection:
        rounds = kept.read_rounds(connection)
        num_outcomes = sum(r.num_outcomes for r in rounds)
        if num_outcomes:
            raise CampaignError(
                f"The scales cannot be fitted again: {num_outcomes:,} outcome(s) have come back, and priors and what was learned "
                "are in these scales. Withdraw the outcomes first, or begin a new campaign with another --store."
            )
        stored = stored_encoding(connection, spec)
        if stored is not None:
            old = stored.levels
            levels = {name: tuple(dict.fromkeys([*old.get(name, ()), *new])) for name, new in encoding.levels.items()}
            encoding = Encoding(encoding.scales, levels)
        kept.write_meta(connection, "encoding", encoding.to_json())
        if rounds and rounds[-1].id > 0:
            kept.write_round(connection, rounds[-1]._replace(summary={**rounds[-1].summary, "stale": True}), [])
