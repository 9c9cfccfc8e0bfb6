"""What a campaign is about: `campaign.toml`, read and checked before any work."""

import hashlib
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, SerializeAsAny, ValidationError, model_validator

from cobed.campaign.columns import Column, read_column
from cobed.campaign.columns.base import Name
from cobed.campaign.money import BudgetSpec, ValueSpec, check_money
from cobed.campaign.sections import (
    ActionSpec,
    ConstraintsSpec,
    DesignSpec,
    ModelSpec,
    OutcomeSpec,
    PriorSpec,
    SectionModel,
    UnitsSpec,
)
from cobed.campaign.toml import parse, problems
from cobed.errors import SpecError
from cobed.rules import AbstractRule, Forbid, kinds
from cobed.rules.base import known_actions


class CampaignSpec(SectionModel):
    """A whole campaign.toml."""

    name: Name = Field(description="What the campaign is called in its report.")
    seed: Annotated[int, Field(ge=0, lt=2**30, strict=True)] = Field(0, description="Same seed, same design.")
    units: UnitsSpec
    context: dict[Name, Annotated[SerializeAsAny[Column], BeforeValidator(read_column)]] = Field(
        min_length=1,
        description="What is known of a unit before an action is chosen: its columns, each with its kind. A missing cell is a fact "
        "of its own.",
    )
    action: ActionSpec
    outcome: OutcomeSpec
    model: ModelSpec = Field(default_factory=lambda: ModelSpec.model_validate({}))
    prior: PriorSpec = Field(default_factory=lambda: PriorSpec.model_validate({}))
    design: DesignSpec = Field(default_factory=lambda: DesignSpec.model_validate({}))
    constraints: ConstraintsSpec = Field(default_factory=lambda: ConstraintsSpec.model_validate({}))
    value: ValueSpec = Field(default_factory=lambda: ValueSpec.model_validate({}))
    budget: BudgetSpec = Field(default_factory=lambda: BudgetSpec.model_validate({}))

    @model_validator(mode="after")
    def _fits_together(self):
        used = self.columns
        twice = sorted({name for name in used if used.count(name) > 1})
        if twice:
            raise ValueError(f"the column {twice[0]!r} is used twice; id, contexts, action and outcome need their own")
        known_actions(self.constraints.cost, "cost", self)
        self._check_history()
        odd = [name for name, kind in kinds().items() if name in self._given_rules and not kind.for_numbers]
        if self.action.options is None and odd:
            raise ValueError(
                f"constraints.{odd[0]} is about options, and here numbers are chosen; their cost can be limited"
            )
        self._check_family()
        check_money(self)
        _ = self.rules
        return self

    @property
    def _given_rules(self) -> dict[str, Any]:
        """The values of the rules under [constraints], by their kind."""
        values = {name: getattr(self.constraints, name, None) for name in kinds()}
        return {name: value for name, value in values.items() if value not in (None, {}, ())}

    @property
    def rules(self) -> list[AbstractRule]:
        """The rules under [constraints], of every kind that is registered."""
        return [kinds()[name].parse(value, self) for name, value in self._given_rules.items()]

    @property
    def columns(self) -> list[str]:
        """Every column of a table that the spec names."""
        return [self.units.id, *self.context, *self.action.columns, self.outcome.column]

    @property
    def reward_words(self) -> str:
        """What decisions are told in: net money, or the outcome."""
        return f"net {self.value.currency or 'value'}" if self.value.is_money else self.outcome.column

    def stated(self) -> str:
        """What the spec says beyond the defaults, as JSON."""
        return self.model_dump_json(exclude_defaults=True)

    def without_hints(self) -> "CampaignSpec":
        """The spec without what only informs people: no stored row and no design depends on that."""
        action = self.action.model_copy(update={"in_use": ()})
        design = self.design.model_copy(update={"rounds": 1, "history_shares": {}})
        return self.model_copy(update={"action": action, "design": design})

    @property
    def max_units(self) -> int:
        """How many units a round can have. They are designed jointly: what that takes depends on the model."""
        model = self.model
        if model.program is None and model.family == "gp":
            return 500  # a matrix of all pairs of units in every step
        # A rule that only forbids has no limits, whatever the number of units.
        bound = set(self._given_rules) - {Forbid.name}
        by_gains = model.program is None and self.action.options is not None and self.design.about == "max-values"
        # Options of linear models enter by a sum over units. Others by a gradient or a critic that sees all units, and
        # rules that count by an integer program.
        return 200_000 if by_gains and not bound else 5_000

    def _check_history(self) -> None:
        shares, options = self.design.history_shares, self.action.options
        if shares and options is None:
            raise ValueError("design.history_shares is about options, and here numbers are chosen; leave it out")
        unknown = [name for name in shares if name not in (options or ())]
        if unknown:
            raise ValueError(
                f"design.history_shares names {unknown[0]!r}, which is no option; allowed: {', '.join(options or ())}"
            )

    def _check_family(self) -> None:
        model = self.model
        outcome, by_hand = self.outcome, model.family == "gp" or bool(self.prior.model_fields_set)
        if model.program is None and by_hand and outcome.law.has_scale and None in (outcome.typical, outcome.spread):
            raise ValueError(
                f"{outcome.law.name} outcomes need typical (what an average unit gives) and spread (its deviation) where "
                'family = "gp" or [prior] is given; without these, they are learned'
            )
        if outcome.law.parts and self.prior.model_fields_set:
            raise ValueError(
                f"{outcome.law.name} outcomes have two predictors, whose deviations are learned; [prior] gives those of one: "
                'leave it out, or use likelihood = "tweedie"'
            )
        if model.program is not None or model.family != "gp":
            stated = model.model_dump(exclude_defaults=True)
            given = [name for name in ("kernel", "lengths", "deviation", "fit") if name in stated]
            if given:
                raise ValueError(f'model.{given[0]} belongs to family = "gp", and this model is another')
            return
        if not self.outcome.law.gaussian:
            raise ValueError(
                f'model.family "gp" has normal outcomes only, and outcome.likelihood is {self.outcome.likelihood}; '
                'use family = "linear", or a program of your own'
            )
        if self.prior.model_dump(exclude_defaults=True):
            raise ValueError(
                '[prior] belongs to the linear family; family = "gp" has model.deviation and model.lengths'
            )
        allowed = [*self.context, *self.action.columns]
        unknown = [name for name in model.lengths if name not in allowed]
        if unknown:
            raise ValueError(f"model.lengths names {unknown[0]!r}; allowed: {', '.join(allowed)}")


def read_spec(path: str | Path) -> tuple[CampaignSpec, str]:
    """The spec in a file, and its text. `SpecError` says everything that is wrong with it."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise SpecError(f"{path} does not exist. `cobed init` writes one to fill in.") from error
    except UnicodeDecodeError as error:
        raise SpecError(f"{path} is not UTF-8 text: {error}. Save it as UTF-8.") from error
    return parse_spec(text, path.name), text


def parse_spec(text: str, name: str = "campaign.toml") -> CampaignSpec:
    """The spec written in `text`; `name` is what messages call it."""
    document = parse(text, name)
    try:
        return CampaignSpec.model_validate(document)
    except ValidationError as error:
        raise SpecError("\n".join(problems(error, CampaignSpec, text, name))) from error


def spec_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def changed_sections(old: CampaignSpec, new: CampaignSpec) -> list[str]:
    """The sections that data already stored depend on, and that differ."""
    sections = ["context", "action", "outcome"]
    old, new = old.without_hints(), new.without_hints()
    return ["units"] * (old.units.id != new.units.id) + [
        name for name in sections if getattr(old, name) != getattr(new, name)
    ]
