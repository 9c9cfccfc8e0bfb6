"""Options that units and targets with some values of a context column must not get."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from cobed.rules.base import AbstractRule, known_actions, known_values

Name = Annotated[str, Field(min_length=1)]


class ForbidSpec(BaseModel):
    """[[constraints.forbid]]: an option that some units must not get."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    action: Name = Field(description="The option.", examples=['"<second>"'])
    column: Name = Field(
        description="A context column whose values have names: a categorical or binary one.", examples=['"segment"']
    )
    values: tuple[Name, ...] = Field(
        description="Units with these values do not get the option.", min_length=1, examples=['["..."]']
    )


Entries = tuple[ForbidSpec, ...]


@dataclasses.dataclass(frozen=True)
class Forbid(AbstractRule):
    """Options by context column and values; they hold in deployment too."""

    name = "forbid"
    describes = "Options that some units must not get."
    value_type = Entries

    entries: Entries
    columns: Mapping[str, Any]  # the kinds of the context columns, which know their values

    @classmethod
    def parse(cls, value, spec):
        for entry in value:
            _check(entry, spec)
        return cls(value, spec.context)

    def forbidden(self, cells, options):
        forbidden = np.zeros((len(next(iter(cells.values()))), len(options)), bool)
        for entry in self.entries:
            column = cells[entry.column]
            # What is missing may be one of the values: the option is not given there either.
            marked = np.array([cell is None for cell in column], bool)
            marked[~marked] = self.columns[entry.column].holds(
                [cell for cell in column if cell is not None], entry.values
            )
            forbidden[:, list(options).index(entry.action)] |= marked
        return forbidden


def _check(entry: ForbidSpec, spec: Any) -> None:
    known_actions({entry.action: None}, Forbid.name, spec)
    known_values("constraints.forbid", entry, spec)
