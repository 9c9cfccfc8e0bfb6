"""The units that a policy is for: which of their rows can be used, and the best action for each of them."""

import dataclasses
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cobed.campaign.complaints import Complaints
from cobed.campaign.constraints import check_levels, no_option, permitted, permitted_at
from cobed.campaign.encoding import Cells, Encoding, action_columns, encode, read_cells
from cobed.campaign.gaps import Gaps, count_gaps
from cobed.campaign.scaling import far_columns
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.summary import own_names, where
from cobed.campaign.tables import Table

if TYPE_CHECKING:
    from cobed.inference.base import Posterior
    from cobed.models.base import AbstractModel


def policy_names(spec: CampaignSpec) -> dict[str, str]:
    """What a policy says of each target beside the action, and the column it stands in."""
    return own_names(["expected", "low", "high", "p_best"], spec.action.columns)


def complain(spec: CampaignSpec, encoding: Encoding, table: Table) -> Complaints:
    """All that keeps single rows from being deployed to."""
    complaints = Complaints(table)
    table.require([spec.units.id], "which names the units")
    table.check_ids(spec.units.id, complaints)
    cells = read_cells(spec, encoding, table, complaints, strict=False)
    check_levels(spec, encoding)
    mask = permitted(spec, cells)
    if mask is not None:
        column = spec.constraints.forbid[0].column if spec.constraints.forbid else next(iter(spec.context))
        stuck = np.asarray(~mask.any(axis=1))
        # What a row with a bad cell must not get is not known.
        stuck[list(complaints.by_row())] = False
        complaints.add_rows(stuck, column, lambda _: no_option(spec, cells))
    return complaints


def split_targets(
    spec: CampaignSpec, encoding: Encoding, table: Table
) -> tuple[Table | None, pd.DataFrame, Complaints]:
    """The rows that can be deployed to, None where there are none; the others as given, with their number and the reason."""
    complaints = complain(spec, encoding, table)
    reasons = complaints.by_row()
    bad = np.zeros(len(table), bool)
    bad[list(reasons)] = True
    rejected = table.part(np.flatnonzero(bad)).with_columns({})
    rejected.attrs["cells"] = complaints.by_column()
    for name, values in (("row", [table.rows[place] for place in reasons]), ("reason", list(reasons.values()))):
        while name in table.frame.columns:
            name = f"{name}_"
        rejected[name] = values
    return None if bad.all() else table.part(np.flatnonzero(~bad)), rejected, complaints


@dataclasses.dataclass(frozen=True)
class ReadTargets:
    """A table of targets as its cells are read, the encoding that knows all of them, and what to say of them."""

    table: Table
    cells: Cells
    encoding: Encoding
    gaps: Gaps
    warnings: list[str]


def read_targets(spec: CampaignSpec, encoding: Encoding, table: Table) -> ReadTargets:
    """Targets of a campaign with this encoding. Bad cells are told; missing ones and new levels are not bad."""
    complaints = Complaints(table)
    cells = read_cells(spec, encoding, table, complaints, strict=False)
    complaints.tell()
    gaps = count_gaps(spec, encoding, cells, table.name)
    warnings = [*gaps.warnings, *far_columns(spec, encoding, table)]
    return ReadTargets(table, cells, encoding.knowing(spec, cells), gaps, warnings)


def make_policy(
    spec: CampaignSpec, targets: ReadTargets, known: "tuple[AbstractModel, Posterior]"
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The table with the best action for each row, its expected outcome and how sure that is; and what all that is worth."""
    import jax.random as jr

    from cobed.campaign.engine import POLICY_DRAWS, candidate_actions, policy_optimum
    from cobed.decide import compare, decide

    table, cells, encoding = targets.table, targets.cells, targets.encoding
    contexts = encode(spec, encoding, cells)
    check_levels(spec, encoding)
    allowed = permitted_at(spec, table, cells)
    model, posterior = known
    draws = posterior.equal_draws(POLICY_DRAWS, jr.key(spec.seed))
    chosen = decide(model, policy_optimum(model.action_space), draws, contexts, allowed=allowed)
    compared = compare(model, draws, contexts, candidate_actions(model.action_space), chosen, allowed)
    words = spec.action.words(chosen.actions)
    # Single precision has six digits to show.
    numbers = {
        column: np.char.mod("%.6g", getattr(chosen, name)).astype(float) for name, column in policy_names(spec).items()
    }
    summary: dict[str, Any] = {
        "rows": len(table),
        "single": spec.action.words(compared.single[None])[0],
        **compared.summary(),
        "p_best": float(chosen.p_best.mean()),
        **targets.gaps.summary(),
        "warnings": [*targets.warnings, *posterior.warnings],
    }
    if spec.action.options is not None:
        counts = Counter(words)
        summary["counts"] = {name: counts[name] for name in spec.action.options}
    summary["where"] = where(spec, encoding, cells, words)
    return table.with_columns(action_columns(spec, words) | numbers), summary
