"""The units that a policy is for: which of their rows can be used, and the best action for each of them."""

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cobed.campaign.complaints import Complaints
from cobed.campaign.constraints import check_levels, no_option, permitted, permitted_at
from cobed.campaign.encoding import Encoding, action_columns, check_contexts, encode_contexts
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
    _, cells = check_contexts(spec, encoding, table, complaints)
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


def make_policy(
    spec: CampaignSpec, encoding: Encoding, known: "tuple[AbstractModel, Posterior]", table: Table
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The table with the best action for each row, its expected outcome and how sure that is; and what all that is worth."""
    import jax.random as jr

    from cobed.campaign.engine import POLICY_DRAWS, candidate_actions, policy_optimum
    from cobed.decide import compare, decide

    contexts, cells = encode_contexts(spec, encoding, table)
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
        "warnings": far_columns(spec, encoding, table),
    }
    if spec.action.options is not None:
        counts = Counter(words)
        summary["counts"] = {name: counts[name] for name in spec.action.options}
    summary["where"] = where(spec, cells, words)
    return table.with_columns(action_columns(spec, words) | numbers), summary
