"""The making of a round: tables and what is known go in, assignments that are stored come out."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cobed.campaign import records as kept
from cobed.campaign.constraints import check_levels, permitted, permitted_at
from cobed.campaign.encoding import encode_contexts, first_or_grown, pick_targets, rows_of
from cobed.campaign.gaps import count_gaps
from cobed.campaign.records import Assignment
from cobed.campaign.scaling import constant_columns, far_columns
from cobed.campaign.selection import Selection, read_field
from cobed.campaign.tables import Table
from cobed.campaign.writer import RoundWriter

if TYPE_CHECKING:
    from cobed.campaign.campaign import Campaign
    from cobed.progress import Reporter


def make_round(
    campaign: "Campaign", chosen: Selection, targets: Table, units_hash: str, work: "tuple[Any, Reporter | None]"
) -> list[Assignment]:
    """Design a round and store it: a new one, or the last one anew. `work` is its budget, and who is told how far it is."""
    from cobed.campaign.rounds import RoundDesign, RoundUnits, Targets

    store = campaign.store
    store.require_writing()
    table, spec = chosen.table, campaign.spec
    tables = [table] if targets is table else [table, targets]
    stored = campaign.encoding()
    encoding = first_or_grown(spec, stored, tables)
    contexts, cells = encode_contexts(spec, encoding, table)
    check_levels(spec, encoding)
    target_contexts, target_cells = encode_contexts(spec, encoding, targets)
    deployable = permitted_at(spec, targets, target_cells)
    aimed = Targets(pick_targets(spec, target_contexts), None if deployable is None else pick_targets(spec, deployable))
    with store.reading() as connection:
        field = read_field(connection, spec, encoding, chosen.number, len(table))
        known = kept.outcomes_mark(connection)
    seed = spec.seed + 1_000 * chosen.number + chosen.version
    final = RoundWriter(store, spec, campaign.directory or Path.cwd(), chosen, encoding, units_hash, seed, known)
    unsaved = final.unsaved()
    if unsaved is not None:
        return final.write(*unsaved, None)

    def units(states: Mapping[str, Assignment], done: set[str]) -> RoundUnits:
        ids = table.ids(spec.units.id)
        rows = [states.get(unit, Assignment(unit, {}, None)) for unit in ids]
        rows = [row._replace(context=context) for row, context in zip(rows, rows_of(cells), strict=True)]
        return RoundUnits(rows, done, contexts, permitted(spec, cells), aimed, field)

    model, posterior = campaign.posterior(encoding)
    round = RoundDesign(spec, model, posterior, units(chosen.states, chosen.done), seed, *work)
    round = round.with_chance()
    actions, summary = round.design()
    scales = constant_columns(spec, tables) if stored is None else far_columns(spec, stored, *tables)
    left_out = [chosen.left_out] if chosen.left_out else []
    gaps = count_gaps(spec, stored or encoding, cells, table.name)
    summary |= gaps.summary()
    summary["warnings"] = [*left_out, *scales, *gaps.warnings, *summary["warnings"]]
    summary["take"] = chosen.take
    return final.write(
        round.assign(actions),
        summary,
        lambda states, done: dataclasses.replace(round, units=units(states, done)).assign(actions),
    )
