"""The units that a policy is for: which of their rows can be used, and what is to be said of them."""

import dataclasses

import numpy as np
import pandas as pd

from cobed.campaign.complaints import Complaints
from cobed.campaign.constraints import check_levels, no_option, permitted, permitted_at
from cobed.campaign.encoding import Cells, Encoding, read_cells
from cobed.campaign.gaps import Gaps, count_gaps
from cobed.campaign.money import check_budget, read_current
from cobed.campaign.scaling import far_columns
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.tables import Table


def complain(spec: CampaignSpec, encoding: Encoding, table: Table) -> Complaints:
    """All that keeps single rows from being deployed to."""
    complaints = Complaints(table)
    table.require([spec.units.id], "which names the units")
    table.check_ids(spec.units.id, complaints)
    cells = read_cells(spec, encoding, table, complaints, strict=False)
    check_levels(spec, encoding)
    read_current(spec, table, complaints)
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
    for name, values in (("row", [table.rows[row] for row in reasons]), ("reason", list(reasons.values()))):
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
    allowed: np.ndarray | None  # which options each may get, (T, K)
    gaps: Gaps
    warnings: list[str]


def read_targets(spec: CampaignSpec, encoding: Encoding, table: Table) -> ReadTargets:
    """Targets of a campaign with this encoding. Bad cells are told; missing ones and new levels are not bad."""
    complaints = Complaints(table)
    cells = read_cells(spec, encoding, table, complaints, strict=False)
    complaints.tell()
    allowed = permitted_at(spec, table, cells)
    check_budget(spec, cells, allowed)
    gaps = count_gaps(spec, encoding, cells, table.name)
    warnings = [*gaps.warnings, *far_columns(spec, encoding, table)]
    return ReadTargets(table, cells, encoding.knowing(spec, cells), allowed, gaps, warnings)
