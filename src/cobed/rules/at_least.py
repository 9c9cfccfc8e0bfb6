"""At least so many units get an option."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from cobed.rules.base import AbstractRule, Limit, known_actions

Counts = dict[Annotated[str, Field(min_length=1)], Annotated[int, Field(ge=0, strict=True)]]


@dataclasses.dataclass(frozen=True)
class AtLeast(AbstractRule):
    """`AtLeast({"mail": 20})`: at least 20 units of the batch get "mail"."""

    name = "at_least"
    describes = "Smallest number of units, by option."
    value_type = Counts

    counts: Mapping[str, int]

    @classmethod
    def parse(cls, value, spec):
        known_actions(value, cls.name, spec)
        return cls(value)

    def limits(self, batch):
        return [
            Limit(f"at least {least} units of {name!r}", batch.weights(name), least=least)
            for name, least in self.counts.items()
        ]
