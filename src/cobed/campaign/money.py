"""[value] and [budget] of a campaign.toml: what outcomes are worth, what actions cost, what is done today, what may be spent."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from cobed.campaign.columns.base import Name
from cobed.campaign.sections import Finite, Positive, SectionModel
from cobed.campaign.words import number
from cobed.rules import AtLeast, AtMost, Batch, Limit, MaxCost
from cobed.rules.at_least import Counts
from cobed.rules.base import known_values

if TYPE_CHECKING:
    from cobed.campaign.encoding import Cells
    from cobed.campaign.spec import CampaignSpec
    from cobed.campaign.tables import Complaints, Table

Share = Annotated[float, Field(allow_inf_nan=False, strict=True, ge=0, le=1)]


class CostSpec(SectionModel):
    """What one unit costs: an amount, a share of what its outcome is worth, or both."""

    amount: Finite = Field(0.0, description="An amount per unit.")
    share: Annotated[float, Field(allow_inf_nan=False, strict=True, ge=0, lt=1)] = Field(
        0.0, description="A share of what the outcome is worth, below 1."
    )


def _cost(value: Any) -> Any:
    return {"amount": value} if isinstance(value, int | float) else value


class ValueSpec(SectionModel):
    """[value]: what one outcome is worth, what an action costs, and what is done today. Everything is then told in money, net."""

    outcome: Positive = Field(1.0, description="What one unit of the outcome is worth.", examples=["1.0"])
    currency: Name | None = Field(None, description="The unit of money, for people.", examples=['"EUR"'])
    cost: dict[Name, Annotated[CostSpec, BeforeValidator(_cost)]] = Field(
        {},
        description="What an option costs per unit that gets it, when the policy is deployed: an amount, or a share of what the "
        "outcome is worth (a coupon of 20%: { share = 0.2 }). Of numbers, what one of it costs. Others cost 0.",
        examples=["{ <second> = 0.4 }"],
    )
    current: Name | dict[Name, Finite] | None = Field(
        None,
        description="What every unit gets today: an option, or numbers. Gains are told against it; without it, against the best "
        "single action.",
        examples=["<first_name>"],
    )
    current_column: Name | None = Field(
        None,
        description="In the place of current: the column of the targets that says which option each gets today.",
        examples=['"offer today"'],
    )

    @model_validator(mode="after")
    def _one_current(self):
        if self.current is not None and self.current_column is not None:
            raise ValueError(
                "give current or current_column, not both: one says what all units get, the other what each gets"
            )
        return self

    @property
    def is_money(self) -> bool:
        """Whether rewards are anything else than expected outcomes."""
        return self.outcome != 1 or bool(self.cost) or self.currency is not None

    def amounts(self, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
        """By action: the amounts, and the shares of the outcome, that one unit costs."""
        free = CostSpec.model_validate({})
        costs = [self.cost.get(name, free) for name in names]
        return np.array([cost.amount for cost in costs]), np.array([cost.share for cost in costs])


class GroupSpec(SectionModel):
    """[[budget.groups]]: the share of some units that must, or may, get an option."""

    action: Name = Field(description="The option.", examples=['"<second>"'])
    column: Name = Field(description="A context column whose values have names.", examples=['"segment"'])
    values: tuple[Name, ...] = Field(description="The units with these values.", min_length=1, examples=['["..."]'])
    at_least: Share | None = Field(None, description="At least this share of them gets the option.", examples=["0.3"])
    at_most: Share | None = Field(None, description="At most this share of them gets it.", examples=["0.5"])


class BudgetSpec(SectionModel):
    """[budget]: what a policy may spend when it is deployed. What an experiment may spend stands under [constraints]."""

    total: Finite | None = Field(
        None, description="All units together cost at most this, as [value] says and expects.", examples=["10000.0"]
    )
    at_most: Counts = Field({}, description=AtMost.describes, examples=["{ <second> = 2000 }"])
    at_least: Counts = Field({}, description=AtLeast.describes, examples=["{ <first> = 100 }"])
    groups: tuple[GroupSpec, ...] = Field((), description="Shares of groups.")

    @property
    def is_given(self) -> bool:
        return self.total is not None or bool(self.at_most or self.at_least or self.groups)


def check_money(spec: "CampaignSpec") -> None:
    """`ValueError` where [value] or [budget] does not fit the rest of the spec."""
    value, budget = spec.value, spec.budget
    actions = tuple(spec.action.options or spec.action.numbers or ())
    named = [("value.cost", value.cost), ("budget.at_most", budget.at_most), ("budget.at_least", budget.at_least)]
    named += [("budget.groups", {group.action: None}) for group in budget.groups]
    if spec.action.options is not None and value.current is not None:
        named.append(("value.current", {value.current if isinstance(value.current, str) else str(value.current): None}))
    for key, entries in named:
        for name in entries:
            if name not in actions:
                raise ValueError(f"{key} names {name!r}, which is no action; allowed: {', '.join(actions)}")
    if spec.action.options is None:
        _check_numbers(spec)
    if budget.total is not None and not value.cost:
        raise ValueError(
            "budget.total limits what actions cost, and [value] says of none what it costs: give value.cost"
        )
    for name, least in budget.at_least.items():
        if least > budget.at_most.get(name, least):
            raise ValueError(f"budget: at least {least} and at most {budget.at_most[name]} units of {name!r}")
    for group in budget.groups:
        _check_group(spec, group)


def _check_numbers(spec: "CampaignSpec") -> None:
    value, numbers = spec.value, spec.action.numbers or {}
    about_options = [name for name in ("at_most", "at_least", "groups") if getattr(spec.budget, name)]
    if about_options:
        raise ValueError(
            f"budget.{about_options[0]} is about options, and here numbers are chosen; budget.total limits what they cost"
        )
    if value.current_column is not None:
        raise ValueError(
            "value.current_column names options; where numbers are chosen, give current = { price = 10.0 }"
        )
    if value.current is None:
        return
    today = value.current if isinstance(value.current, dict) else {}
    if set(today) != set(numbers):
        raise ValueError(f"value.current needs a number for each of {', '.join(numbers)}, such as {{ price = 10.0 }}")
    for name, bounds in numbers.items():
        if not bounds.low <= today[name] <= bounds.high:
            raise ValueError(
                f"value.current: {name} is {today[name]:g}; allowed: from {bounds.low:g} to {bounds.high:g}"
            )


def _check_group(spec: "CampaignSpec", group: GroupSpec) -> None:
    known_values("budget.groups", group, spec)
    if group.at_least is None and group.at_most is None:
        raise ValueError(f"budget.groups: give at_least or at_most, the share that gets {group.action!r}")


def budget_limits(spec: "CampaignSpec", cells: "Cells", spent: np.ndarray | None) -> list[Limit]:
    """What [budget] says of targets with these cells. `spent` (K,), or (T, K), is what each action is expected to cost for each.

    Where that is None the total is left out, unless it follows from amounts alone; of numbers, from their bounds.
    """
    budget, names = spec.budget, tuple(spec.action.options or ())
    if not budget.is_given:
        return []
    num_rows = len(next(iter(cells.values())))
    amounts, shares = spec.value.amounts(names or tuple(spec.action.numbers or ()))
    if spec.action.numbers is not None:
        ends = np.array([[number.low, number.high] for number in spec.action.numbers.values()])
        # The cheapest and the dearest action.
        amounts = np.sort(amounts[:, None] * ends, axis=1).sum(axis=0)
    batch = Batch(names, amounts if spent is None else spent, num_rows)
    rules = [AtMost(budget.at_most), AtLeast(budget.at_least)]
    limits = [limit for rule in rules for limit in rule.limits(batch)]
    limits += [limit for group in budget.groups for limit in _group_limits(spec, group, cells, batch)]
    if budget.total is not None and (spent is not None or not shares.any()):
        limits += MaxCost(budget.total).limits(batch)
    return limits


def _group_limits(spec: "CampaignSpec", group: GroupSpec, cells: "Cells", batch: Batch) -> list[Limit]:
    column = cells[group.column]
    held = np.array([cell is not None for cell in column], bool)
    held[held] = spec.context[group.column].holds([cell for cell in column if cell is not None], group.values)
    weights = (held[:, None] * batch.weights(group.action)).astype(np.float32)
    size, who = int(held.sum()), f"the {int(held.sum()):,} units whose {group.column!r} is {' or '.join(group.values)}"
    limits = []
    if group.at_least is not None:
        least = math.ceil(group.at_least * size - 1e-9)
        words = f"at least {group.at_least:.4g} of {who} ({least:,}) with {group.action!r}"
        limits.append(Limit(words, weights, least=least))
    if group.at_most is not None:
        most = math.floor(group.at_most * size + 1e-9)
        words = f"at most {group.at_most:.4g} of {who} ({most:,}) with {group.action!r}"
        limits.append(Limit(words, weights, most=most))
    return limits


def check_budget(spec: "CampaignSpec", cells: "Cells", allowed: np.ndarray | None) -> None:
    """`ProblemError` where no policy for targets with these cells is within [budget], as far as it is known without outcomes."""
    from cobed.allocation import allocate, check_limits

    limits, num_rows = budget_limits(spec, cells, None), len(next(iter(cells.values())))
    check_limits(num_rows, allowed, limits)
    if len(limits) > 1:
        allocate(np.zeros((num_rows, len(spec.action.options or ())), np.float32), allowed, limits)


def read_current(spec: "CampaignSpec", table: "Table", complaints: "Complaints") -> np.ndarray | None:
    """The position of the option that each row gets today, by the column of the table; None where no column says it."""
    column, options = spec.value.current_column, spec.action.options
    if column is None or options is None:
        return None
    table.require([column], "value.current_column of campaign.toml")
    return table.one_of(column, options, complaints, "It says what the unit gets today.")


def money_sentences(spec: "CampaignSpec", summary: Mapping[str, Any]) -> list[str]:
    """What a budget left, in words."""
    unit, budget = spec.reward_words, summary.get("budget")
    if budget is None:
        return []
    lines = [
        f"Budget: {part['words']}; {number(part['used'])} used. {_loosened(part, unit)}" for part in budget["limits"]
    ]
    value, bound = budget["value"], budget["bound"]
    most = f"No policy within the budget is expected to bring more than {number(bound)} {unit} in all"
    gap = bound - value
    this = (
        "this one brings as much" if gap <= 1e-6 * abs(bound) else f"this one brings {number(value)}, {gap:.2g} below"
    )
    return [*lines, f"{most}; {this}."]


def _loosened(part: Mapping[str, Any], unit: str) -> str:
    if not part["more"]:
        return "More of it would bring nothing."
    return f"Loosened by one, it would bring {number(part['more'])} {unit} more."
