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
from cobed.campaign.money import budget_limits, check_budget, read_current
from cobed.campaign.scaling import far_columns
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.summary import own_names, where
from cobed.campaign.tables import Table

if TYPE_CHECKING:
    from cobed.decide import Choices, Comparisons
    from cobed.inference.base import Posterior
    from cobed.models.base import AbstractModel


def policy_names(spec: CampaignSpec) -> dict[str, str]:
    """What a policy says of each target beside the action, and its column: of the chosen action, then of every option."""
    of_chosen = ["expected", "low", "high", "p_best", "gain", "gain_low", "gain_high"]
    each = ["expected", "gain", "gain_low", "gain_high", "p_best"]
    every = [f"{name}_{option}" for option in spec.action.options or () for name in each]
    return own_names([*of_chosen, *every], spec.action.columns)


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


def make_policy(
    spec: CampaignSpec, targets: ReadTargets, known: "tuple[AbstractModel, Posterior]"
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The table with the best action for each row within the budget, what every action is expected to earn and how sure that is;
    and what all that is worth."""
    import jax.random as jr

    from cobed.campaign.engine import POLICY_DRAWS, candidate_actions
    from cobed.decide import compare

    table, cells, encoding, allowed = targets.table, targets.cells, targets.encoding, targets.allowed
    contexts = encode(spec, encoding, cells)
    check_levels(spec, encoding)
    model, posterior = known
    draws = posterior.equal_draws(POLICY_DRAWS, jr.key(spec.seed))
    candidates = candidate_actions(model.action_space)
    choices, budget = _within_budget(spec, model, draws, cells, contexts, allowed)
    compared = compare(model, draws, contexts, candidates, choices, allowed, _current(spec, table))
    words = spec.action.words(choices.actions)
    single = spec.action.words(compared.single[None])[0]
    summary: dict[str, Any] = {
        "rows": len(table),
        "single": single,
        **compared.summary(),
        "p_best": float(choices.p_best.mean()),
        **budget,
        **targets.gaps.summary(),
        "warnings": [*targets.warnings, *posterior.warnings],
    }
    if spec.action.options is not None:
        counts = Counter(words)
        summary["counts"] = {name: counts[name] for name in spec.action.options}
    summary["where"] = where(spec, encoding, cells, words)
    names = policy_names(spec)
    numbers = {names[name]: _six_digits(values) for name, values in _columns(spec, choices, compared).items()}
    return table.with_columns(action_columns(spec, words) | numbers), summary


def _within_budget(
    spec: CampaignSpec,
    model: "AbstractModel",
    draws: Any,
    cells: Cells,
    contexts: np.ndarray,
    allowed: np.ndarray | None,
) -> "tuple[Choices, dict[str, Any]]":
    """The choices of the largest total value that [budget] allows, and how it was used; nothing where there is no budget."""
    import jax

    from cobed.allocation import allocate
    from cobed.campaign.engine import candidate_actions, policy_optimum
    from cobed.decide import decide, judge

    if not spec.budget.is_given:
        return decide(model, policy_optimum(model.action_space), draws, contexts, allowed=allowed), {}
    candidates = candidate_actions(model.action_space)
    values = judge(model, candidates, draws, contexts, allowed=allowed).values
    assert values is not None
    _, share, cost = (np.asarray(part) for part in jax.vmap(model.terms)(jax.numpy.asarray(candidates)))
    # net = worth (1 - share) E[y] - cost, so worth E[y] = (net + cost) / (1 - share); nothing is paid for less than no outcome.
    spent = share * np.maximum(values + cost, 0.0) / (1 - share) + cost if share.any() else cost
    limits = budget_limits(spec, cells, spent.astype(np.float32))
    allocation = allocate(values, allowed, limits)
    parts = [
        {"words": limit.words, "used": used, "more": more}
        for limit, used, more in zip(limits, allocation.used, allocation.loosened, strict=True)
    ]
    choices = judge(model, candidates, draws, contexts, allowed=allowed, chosen=allocation.chosen)
    return choices, {"budget": {"limits": parts, "value": allocation.value, "bound": allocation.bound}}


def _current(spec: CampaignSpec, table: Table) -> np.ndarray | None:
    """The actions of today, (A,) or (T, A); None where the spec does not say."""
    space = spec.action.space
    if spec.value.current is not None:
        return np.asarray(space.parse(spec.value.current))
    complaints = Complaints(table)
    places = read_current(spec, table, complaints)
    complaints.tell()
    return None if places is None else np.asarray(space.enumerate_discrete())[places]


def _columns(spec: CampaignSpec, choices: "Choices", compared: "Comparisons") -> dict[str, np.ndarray]:
    """What is told of each target, as `policy_names` names it."""
    columns = {name: getattr(choices, name) for name in ("expected", "low", "high", "p_best")}
    columns |= {"gain": compared.gains.expected, "gain_low": compared.gains.low, "gain_high": compared.gains.high}
    every, values = compared.every, choices.values
    if every is None or values is None:
        return columns
    parts = {
        "expected": values, "gain": every.expected, "gain_low": every.low, "gain_high": every.high, "p_best": every.p_best,
    }  # fmt: skip
    return columns | {
        f"{name}_{option}": np.asarray(part)[:, index]
        for index, option in enumerate(spec.action.options or ())
        for name, part in parts.items()
    }


def _six_digits(values: np.ndarray) -> np.ndarray:
    """Single precision has six digits to show."""
    numbers = np.asarray(values, np.float64)
    with np.errstate(divide="ignore"):
        places = np.where(numbers == 0, 0, 5 - np.floor(np.log10(np.abs(numbers)))).clip(-300, 300)
    # Whole powers of ten on either side, so that the result is the float nearest to its decimals.
    up, down = 10.0 ** np.maximum(places, 0), 10.0 ** np.maximum(-places, 0)
    return np.round(numbers / down * up) / up * down
