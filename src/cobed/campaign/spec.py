"""What a campaign is about: `campaign.toml`, read and checked before any work. Every field is documented here."""

import functools
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializeAsAny,
    ValidationError,
    create_model,
    field_validator,
    model_validator,
)

from cobed.campaign.columns import Column, read_column
from cobed.campaign.columns.base import Name
from cobed.campaign.toml import parse, problems
from cobed.errors import ModelError, SpecError
from cobed.outcomes import AbstractLaw, law_named, laws
from cobed.rules import AbstractRule, AtLeast, AtMost, Forbid, MaxCost, kinds
from cobed.rules.at_least import Counts
from cobed.rules.base import known_actions
from cobed.rules.forbid import Entries

if TYPE_CHECKING:
    from cobed.spaces import AbstractSpace

# Squares of these fit into the single precision of the engine.
Finite = Annotated[float, Field(allow_inf_nan=False, strict=True, ge=-1e15, le=1e15)]
Positive = Annotated[float, Field(allow_inf_nan=False, strict=True, ge=1e-15, le=1e15)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class UnitsSpec(_Section):
    """[units]: who is in the experiment."""

    id: Name = Field(description="The column that names a unit. Ids are kept as text and must differ within a table.")
    exact_ids: Annotated[bool, Field(strict=True)] = Field(
        False, description="true: ids that differ in case, spaces or leading zeros alone are different units."
    )


class NumberSpec(_Section):
    """[action.numbers]: one number to choose, between two bounds."""

    low: Finite = Field(description="The smallest value allowed.")
    high: Finite = Field(description="The largest value allowed.")

    @model_validator(mode="after")
    def _ordered(self):
        if not self.low < self.high:
            raise ValueError(f"low must be below high, got {self.low:g} and {self.high:g}")
        return self


class ActionSpec(_Section):
    """[action]: what can be done to a unit: one of some named options, or one or several numbers."""

    column: Name = Field("action", description="The column for the chosen option, in tables that go out and come in.")
    options: tuple[Name, ...] | None = Field(None, description="Names of the options, at least two.")
    numbers: dict[Name, NumberSpec] | None = Field(
        None,
        description="In the place of options: numbers to choose, each with low and high, and its own column, called like it.",
        examples=["{ price = { low = 5.0, high = 20.0 } }"],
    )

    @model_validator(mode="after")
    def _one_kind(self):
        if (self.options is None) == (self.numbers is None):
            raise ValueError('give either options = ["...", "..."] or numbers = { price = { low = 0, high = 10 } }')
        if self.options is not None and (len(self.options) < 2 or len(set(self.options)) < len(self.options)):
            raise ValueError(f"options need at least 2 different names, got {list(self.options)}")
        if self.numbers is not None and not self.numbers:
            raise ValueError("numbers needs at least one number to choose")
        return self

    @functools.cached_property
    def space(self) -> "AbstractSpace":
        """Where the actions live, which also translates between words and vectors."""
        from cobed.spaces import Box, Discrete  # which load JAX

        if self.options is not None:
            return Discrete(self.options)
        numbers = self.numbers or {}
        return Box([number.low for number in numbers.values()], [n.high for n in numbers.values()], names=list(numbers))

    @property
    def columns(self) -> list[str]:
        """The columns that hold an action in a table."""
        return [self.column] if self.options is not None else list(self.numbers or {})


class OutcomeSpec(_Section):
    """[outcome]: what comes back of a unit. Larger is better."""

    column: Name = Field(description="The column of the outcome in tables that come back.")
    likelihood: str = Field(
        description="The law of the outcome: " + ", ".join(f"{law.name} ({law.describes})" for law in laws()) + "."
    )
    typical: Finite | None = Field(
        None,
        description="What you expect of an average unit. By default "
        + ", ".join(f"{law.default_typical:g} ({law.name})" for law in laws() if law.default_typical is not None)
        + "; needed for others.",
    )
    spread: Positive | None = Field(
        None,
        description="Standard deviation of outcomes between units that get the same action. For "
        + " and ".join(law.name for law in laws() if law.has_scale)
        + " outcomes only.",
        examples=["1.0"],
    )

    @field_validator("likelihood")
    @classmethod
    def _known(cls, value: str):
        try:
            return law_named(value).name
        except ModelError as error:
            raise ValueError(str(error).rstrip(".")) from error

    @model_validator(mode="after")
    def _in_range(self):
        law = self.law
        if law.has_scale and (self.typical is None or self.spread is None):
            raise ValueError(
                f"{law.name} outcomes need typical (what an average unit gives) and spread (its deviation)"
            )
        if not law.has_scale and self.spread is not None:
            raise ValueError(f"spread belongs to normal outcomes; that of {law.name} ones follows from their mean")
        problem = law.problem_of_typical(self.center)
        if problem is not None:
            raise ValueError(problem)
        return self

    @property
    def law(self) -> AbstractLaw:
        return law_named(self.likelihood)

    @property
    def center(self) -> float:
        return self.typical if self.typical is not None else self.law.default_typical or 0.0


class PriorSpec(_Section):
    """[prior]: how far coefficients may be from zero, as one standard deviation in units of the outcome.

    For binary outcomes and counts these are changes around `outcome.typical`.
    """

    baseline: Positive | None = Field(None, description="Of the average outcome around typical.", examples=["1.0"])
    context: Positive | None = Field(
        None, description="Of the effect of one deviation, or one level, of a context column.", examples=["0.5"]
    )
    action: Positive | None = Field(
        None, description="Of the effect of an option, or of a number from its middle to a bound.", examples=["0.5"]
    )
    interaction: Positive | None = Field(
        None, description="Of how much an action's effect changes with a context column.", examples=["0.25"]
    )


class ModelSpec(_Section):
    """[model]: how outcomes depend on context and action."""

    family: Literal["linear", "gp"] = Field(
        "linear",
        description="linear: context, action and their products, through the link of the likelihood. gp: a Gaussian "
        "process, any smooth function of both; normal outcomes only.",
    )
    program: str | None = Field(
        None,
        description="A NumPyro program 'module:function' in the place of the family, called with (contexts, actions) as "
        "encoded by the campaign.",
        examples=['"module:function"'],
    )
    kernel: Literal["matern", "rbf"] = Field(
        "matern", description="gp: matern (twice differentiable) or rbf (endlessly smooth)."
    )
    lengths: dict[Name, Positive] = Field(
        {},
        description="gp: by context column, number, or the action's column, over what distance outcomes stay alike: in "
        "deviations of a numeric column, halves of a number's range; two levels, or options, are 1.4 apart.",
        examples=["{ <column> = 2.0 }"],
    )
    deviation: Positive | None = Field(
        None,
        description="gp: how far expected outcomes may be from typical, one standard deviation. By default spread.",
        examples=["1.0"],
    )
    inference: Name = Field(
        "auto",
        description="How outcomes teach: auto, or a sampler by its name, such as laplace or nuts. gp: always exact.",
    )
    fit: Annotated[bool, Field(strict=True)] = Field(
        False, description="gp: take the lengths, deviation and noise that make the outcomes so far likeliest."
    )

    @field_validator("program")
    @classmethod
    def _module_and_function(cls, value: str | None):
        if value is not None and not all(
            part.replace(".", "_").isidentifier() for part in (value + ":").split(":")[:2]
        ):
            raise ValueError(f"a program is written 'module:function', got {value!r}")
        return value


DEFAULT_DESIGNER = "CO-BED"


class DesignSpec(_Section):
    """[design]: how a round is designed."""

    budget: Literal["smoke", "quick", "paper"] = Field("quick", description="smoke (to try), quick, or paper (hours).")
    designer: Name = Field(
        DEFAULT_DESIGNER,
        description="Who chooses the actions: CO-BED, or a simpler designer by its name, such as Random or Thompson.",
    )
    objective: Name = Field(
        "auto", description="What CO-BED climbs: auto, or an objective by its name, such as value or infonce."
    )
    about: Literal["max-values", "parameters"] = Field(
        "max-values", description="max-values: what the best action earns (CO-BED). parameters: all coefficients."
    )
    max_targets: Annotated[int, Field(ge=1, le=2000, strict=True)] = Field(
        100, description="So many of the target rows, drawn at random, stand for all while a round is designed."
    )


class ConstraintsSpec(_Section):
    """[constraints]: what the assignment of a whole round must satisfy. forbid also holds in deployment."""

    model_config = ConfigDict(extra="allow", frozen=True)

    at_least: Counts = Field({}, description=AtLeast.describes, examples=["{ <first> = 20 }"])
    at_most: Counts = Field({}, description=AtMost.describes, examples=["{ <second> = 100 }"])
    cost: dict[Name, Finite] = Field(
        {},
        description="Cost of one unit, by option; by number, cost of one of it. Others cost 0.",
        examples=["{ <second> = 1.5 }"],
    )
    max_cost: Finite | None = Field(None, description=MaxCost.describes, examples=["200.0"])
    forbid: Entries = Field((), description=Forbid.describes)

    @model_validator(mode="after")
    def _other_kinds(self):
        """Rules of kinds that other packages registered are read as their kinds say; there are no other keys."""
        given: dict[str, Any] = self.model_extra or {}
        fields: Any = {name: (kind.value_type, ...) for name, kind in kinds().items() if name in given}
        section = create_model("ConstraintsSpec", __config__=ConfigDict(extra="forbid"), **fields)
        given.update(dict(section.model_validate(given)))
        return self


class CampaignSpec(_Section):
    """A whole campaign.toml."""

    name: Name = Field(description="What the campaign is called in its report.")
    seed: Annotated[int, Field(ge=0, lt=2**30, strict=True)] = Field(0, description="Same seed, same design.")
    units: UnitsSpec
    context: dict[Name, Annotated[SerializeAsAny[Column], BeforeValidator(read_column)]] = Field(
        min_length=1, description="What is known of a unit before an action is chosen: its columns, each with its kind."
    )
    action: ActionSpec
    outcome: OutcomeSpec
    model: ModelSpec = Field(default_factory=lambda: ModelSpec.model_validate({}))
    prior: PriorSpec = Field(default_factory=lambda: PriorSpec.model_validate({}))
    design: DesignSpec = Field(default_factory=lambda: DesignSpec.model_validate({}))
    constraints: ConstraintsSpec = Field(default_factory=lambda: ConstraintsSpec.model_validate({}))

    @model_validator(mode="after")
    def _fits_together(self):
        used = self.columns
        twice = sorted({name for name in used if used.count(name) > 1})
        if twice:
            raise ValueError(f"the column {twice[0]!r} is used twice; id, contexts, action and outcome need their own")
        known_actions(self.constraints.cost, "cost", self)
        odd = [name for name, kind in kinds().items() if name in self._given_rules and not kind.for_numbers]
        if self.action.options is None and odd:
            raise ValueError(
                f"constraints.{odd[0]} is about options, and here numbers are chosen; their cost can be limited"
            )
        self._check_family()
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

    def stated(self) -> str:
        """What the spec says beyond the defaults, as JSON."""
        return self.model_dump_json(exclude_defaults=True)

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

    def _check_family(self) -> None:
        model = self.model
        if model.program is not None or model.family == "linear":
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
    return ["units"] * (old.units.id != new.units.id) + [
        name for name in sections if getattr(old, name) != getattr(new, name)
    ]
