"""What a spec allows: options by context, rules over a round, decided units. Searches and decisions take it as an `Allowed`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cobed.campaign.encoding import Encoding
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.tables import Table
from cobed.errors import CampaignError, SpecError
from cobed.rules import Batch, Limit


def forbidding(spec: CampaignSpec, cells: Mapping[str, Sequence[Any]]) -> dict[str, np.ndarray]:
    """By rule, which options units and targets with these context columns must not get, (N, K); rules that forbid none left out."""
    masks = {rule.name: rule.forbidden(cells, spec.action.options or ()) for rule in spec.rules}
    return {name: mask for name, mask in masks.items() if mask is not None}


def permitted(spec: CampaignSpec, cells: Mapping[str, Sequence[Any]]) -> np.ndarray | None:
    """Which options they may get, (N, K); None where all may get all."""
    masks = forbidding(spec, cells)
    return ~np.any(list(masks.values()), axis=0) if masks else None


def permitted_at(spec: CampaignSpec, targets: Table, cells: Mapping[str, Sequence[Any]]) -> np.ndarray | None:
    """The same of targets. One that may get none is an error."""
    mask = permitted(spec, cells)
    if mask is not None and not mask.any(axis=1).all():
        row = int(np.argmin(mask.any(axis=1)))
        raise CampaignError(f"{targets.where(row)}: {no_option(spec, cells)} Allow one, or drop the row.")
    return mask


def no_option(spec: CampaignSpec, cells: Mapping[str, Sequence[Any]]) -> str:
    """A sentence about a unit that may get nothing."""
    names = " and ".join(f"constraints.{name}" for name in forbidding(spec, cells))
    return f"{names} leaves this unit no option at all."


def check_levels(spec: CampaignSpec, encoding: Encoding) -> None:
    """`SpecError` where a rule names a value that is nearly one of those the first tables have."""
    for entry in spec.constraints.forbid:
        column, fitted = spec.context[entry.column], encoding.fitted.get(entry.column)
        problem = column.problem_of_values(entry.column, entry.values, fitted)
        if problem is not None:
            raise SpecError(f"constraints.forbid {problem}.")


def unknown_levels(spec: CampaignSpec, encoding: Encoding) -> list[str]:
    """A sentence for each forbidden level that no unit has."""
    said = [
        spec.context[rule.column].unused(rule.column, encoding.fitted.get(rule.column), rule.values)
        for rule in spec.constraints.forbid
    ]
    return [f"constraints.forbid {sentence}" for sentence in said if sentence is not None]


def limits_of(spec: CampaignSpec, num_units: int) -> list[Limit]:
    """What the rules of the spec say about a round of so many units together."""
    names = tuple(spec.action.options or spec.action.numbers or ())
    costs = np.array([spec.constraints.cost.get(name, 0.0) for name in names])
    return [limit for rule in spec.rules for limit in rule.limits(Batch(names, costs, num_units))]


def check_each(mask: np.ndarray | None, units: Sequence[str]) -> None:
    """`CampaignError` where a unit may get nothing, by its name."""
    stuck = np.flatnonzero(~mask.any(axis=1)) if mask is not None else []
    if len(stuck):
        raise CampaignError(
            f"Unit {units[stuck[0]]!r} may get no option at all: its context and rejections exclude every one "
            f"({len(stuck)} such unit(s)). Allow one, or leave the unit out."
        )
