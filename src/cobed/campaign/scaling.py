"""Tables that lie far from the one that fixed how a column is scaled."""

from collections.abc import Sequence

from cobed.campaign import records as kept
from cobed.campaign.encoding import Encoding, encode_contexts, fit_encoding
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.store import Store
from cobed.campaign.tables import Table
from cobed.errors import CampaignError


def far_columns(spec: CampaignSpec, encoding: Encoding, *tables: Table) -> list[str]:
    """A sentence for each column of a table whose cells are not like those that fixed its scale."""
    said = [
        column.far(name, encoding.fitted.get(name), table)
        for table in dict.fromkeys(tables)
        for name, column in spec.context.items()
        if name in table.frame.columns
    ]
    return [sentence for sentence in said if sentence is not None]


def constant_columns(spec: CampaignSpec, tables: Sequence[Table]) -> list[str]:
    """A sentence for each column that does not vary in the tables that fix its scale."""
    said = [column.unvarying(name, tables) for name, column in spec.context.items()]
    return [sentence for sentence in said if sentence is not None]


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
            fitted = {
                name: spec.context[name].refit(stored.fitted.get(name), new) for name, new in encoding.fitted.items()
            }
            encoding = Encoding(fitted, encoding.facts | stored.facts)
        kept.write_meta(connection, "encoding", encoding.to_json())
        if rounds and rounds[-1].id > 0:
            kept.write_round(connection, rounds[-1]._replace(summary={**rounds[-1].summary, "stale": True}), [])
