"""The sections of a campaign.toml: every key with what it means. Checks, the template and the documentation are made of these."""

import functools
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, create_model, field_validator, model_validator

from cobed.campaign.columns.base import Name
from cobed.campaign.parts import DEFAULTS, check_part
from cobed.errors import ModelError
from cobed.outcomes import AbstractLaw, law_named, laws
from cobed.rules import AtLeast, AtMost, Forbid, MaxCost, kinds
from cobed.rules.at_least import Counts
from cobed.rules.forbid import Entries

if TYPE_CHECKING:
    import numpy as np

    from cobed.spaces import AbstractSpace

# Squares of these fit into the single precision of the engine.
Finite = Annotated[float, Field(allow_inf_nan=False, strict=True, ge=-1e15, le=1e15)]
Positive = Annotated[float, Field(allow_inf_nan=False, strict=True, ge=1e-15, le=1e15)]


# So many rounds a plan compares at most.
MAX_ROUNDS = 10


class SectionModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class UnitsSpec(SectionModel):
    """[units]: who is in the experiment."""

    id: Name = Field(description="The column that names a unit. Ids are kept as text and must differ within a table.")
    exact_ids: Annotated[bool, Field(strict=True)] = Field(
        False, description="true: ids that differ in case, spaces or leading zeros alone are different units."
    )


class NumberSpec(SectionModel):
    """[action.numbers]: one number to choose, between two bounds."""

    low: Finite = Field(description="The smallest value allowed.")
    high: Finite = Field(description="The largest value allowed.")

    @model_validator(mode="after")
    def _ordered(self):
        if not self.low < self.high:
            raise ValueError(f"low must be below high, got {self.low:g} and {self.high:g}")
        return self


class ActionSpec(SectionModel):
    """[action]: what can be done to a unit: one of some named options, or one or several numbers."""

    column: Name = Field("action", description="The column for the chosen option, in tables that go out and come in.")
    options: tuple[Name, ...] | None = Field(None, description="Names of the options, at least two.")
    in_use: tuple[Name, ...] = Field(
        (),
        description="Options that are done already. A design pays most where their outcomes so far are told before it: "
        "check, plan and design say which have none.",
        examples=["[<first_name>]"],
    )
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
        unknown = [name for name in self.in_use if name not in (self.options or ())]
        if unknown:
            allowed = ", ".join(self.options or ()) or "none, where numbers are chosen"
            raise ValueError(f"in_use names {unknown[0]!r}, which is no option; allowed: {allowed}")
        return self

    @functools.cached_property
    def space(self) -> "AbstractSpace":
        """Where the actions live, which also translates between words and vectors."""
        from cobed.spaces import Box, Discrete  # which load JAX

        if self.options is not None:
            return Discrete(self.options)
        numbers = self.numbers or {}
        return Box([number.low for number in numbers.values()], [n.high for n in numbers.values()], names=list(numbers))

    def words(self, vectors: "np.ndarray") -> list[Any]:
        """The engine's vectors in the user's words: names, or dictionaries of numbers (six digits are shown and kept)."""
        return self.space.labels(vectors, digits=6)

    def label(self, word: Any) -> str:
        """An action in the user's words as one piece of text."""
        return word if self.options is not None else ", ".join(f"{name} {value:g}" for name, value in word.items())

    @property
    def columns(self) -> list[str]:
        """The columns that hold an action in a table."""
        return [self.column] if self.options is not None else list(self.numbers or {})


class OutcomeSpec(SectionModel):
    """[outcome]: what comes back of a unit. Larger is better."""

    column: Name = Field(description="The column of the outcome in tables that come back.")
    likelihood: str = Field(
        description="The law of the outcome: " + ", ".join(f"{law.name} ({law.describes})" for law in laws()) + "."
    )
    typical: Finite | None = Field(
        None,
        description="What you expect of an average unit, before any outcome. Outcomes say it from ten on. By default "
        + ", ".join(f"{law.default_typical:g} ({law.name})" for law in laws() if law.default_typical is not None)
        + ", 0 (others).",
    )
    spread: Positive | None = Field(
        None,
        description="Standard deviation of outcomes between units that get the same action, before any outcome. For "
        + ", ".join(law.name for law in laws() if law.has_scale)
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
        if not law.has_scale and self.spread is not None:
            raise ValueError(
                f"spread belongs to laws that have one; that of {law.name} outcomes follows from their mean"
            )
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


class PriorSpec(SectionModel):
    """[prior]: fixed by hand, how far coefficients may be from zero, as one standard deviation in units of the outcome.

    Without this section these deviations, and the noise, are learned from the outcomes. For binary outcomes and counts
    these are changes around `outcome.typical`.
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


class ModelSpec(SectionModel):
    """[model]: how outcomes depend on context and action."""

    family: Literal["auto", "linear", "gp"] = Field(
        "auto",
        description="linear: context, action and their products, through the link of the likelihood. auto: that, the same effect "
        "for all, curves of columns, and smooth surfaces, in the shares that predict outcomes best which they have not seen. gp: a "
        "Gaussian process, any smooth function of both; normal outcomes only.",
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
        DEFAULTS["sampler"],
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

    @field_validator("inference")
    @classmethod
    def _known_sampler(cls, value: str):
        return check_part("sampler", value)


class DesignSpec(SectionModel):
    """[design]: how a round is designed."""

    budget: Literal["smoke", "quick", "paper"] = Field("quick", description="smoke (to try), quick, or paper (hours).")
    designer: Name = Field(
        DEFAULTS["designer"],
        description="Who chooses the actions: CO-BED, or a simpler designer by its name, such as Random or Thompson.",
    )
    objective: Name = Field(
        DEFAULTS["objective"],
        description="What CO-BED climbs: auto, or an objective by its name, such as value or infonce.",
    )
    about: Literal["max-values", "parameters"] = Field(
        "max-values", description="max-values: what the best action earns (CO-BED). parameters: all coefficients."
    )
    rounds: Annotated[int, Field(ge=1, le=MAX_ROUNDS, strict=True)] = Field(
        1,
        description="How many rounds there can be, each designed from the outcomes before it. A plan compares up to so many.",
    )
    max_targets: Annotated[int, Field(ge=1, le=2000, strict=True)] = Field(
        100, description="So many of the target rows, drawn at random, stand for all while a round is designed."
    )
    random_share: Annotated[float, Field(allow_inf_nan=False, strict=True, ge=0, le=0.5)] = Field(
        0.0,
        description="This share of the units, at most 0.5, gets an action by chance, with probabilities that are stored. From "
        "their outcomes alone cobed evaluate says what a policy is worth, whether or not the model is right.",
    )
    history_shares: dict[Name, Annotated[float, Field(allow_inf_nan=False, strict=True, gt=0, le=1)]] = Field(
        {},
        description="The outcomes of units that no round planned are of actions given at random, each option to this share.",
        examples=["{ <first> = 0.5, <second> = 0.5 }"],
    )

    @field_validator("history_shares")
    @classmethod
    def _whole(cls, value: dict[str, float]):
        if value and abs(sum(value.values()) - 1) > 1e-6:
            raise ValueError(f"shares add up to 1, and these to {sum(value.values()):g}")
        return value

    @field_validator("designer", "objective")
    @classmethod
    def _known_part(cls, value: str, info: ValidationInfo):
        return check_part(info.field_name or "", value)


class ConstraintsSpec(SectionModel):
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
