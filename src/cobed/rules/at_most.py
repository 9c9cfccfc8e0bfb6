"""At most so many units get an option."""

import dataclasses
from collections.abc import Mapping

from cobed.rules.at_least import Counts
from cobed.rules.base import AbstractRule, Limit, known_actions


@dataclasses.dataclass(frozen=True)
class AtMost(AbstractRule):
    """`AtMost({"mail": 100})`: at most 100 units of the batch get "mail"."""

    name = "at_most"
    describes = "Largest number of units, by option."
    value_type = Counts

    counts: Mapping[str, int]

    @classmethod
    def parse(cls, value, spec):
        known_actions(value, cls.name, spec)
        for option, least in spec.constraints.at_least.items():
            if least > value.get(option, least):
                raise ValueError(f"constraints: at least {least} and at most {value[option]} units of {option!r}")
        return cls(value)

    def limits(self, batch):
        return [
            Limit(f"at most {most} units of {name!r}", batch.weights(name), most=most)
            for name, most in self.counts.items()
        ]
