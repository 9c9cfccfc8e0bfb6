"""A kind of rule of another package: an option goes to at most a share of the units."""

import dataclasses

from cobed.rules import AbstractRule, Limit, register
from cobed.rules.base import known_actions


@dataclasses.dataclass(frozen=True)
class ShareAtMost(AbstractRule):
    """`ShareAtMost({"mail": 0.2})`: at most a fifth of the units of the batch get "mail"."""

    name = "share_at_most"
    describes = "Largest share of the units, by option."
    value_type = dict[str, float]

    shares: dict[str, float]

    @classmethod
    def parse(cls, value, spec):
        known_actions(value, cls.name, spec)
        return cls(value)

    def limits(self, batch):
        return [
            Limit(f"at most {share:.0%} of the units with {name!r}", batch.weights(name), most=share * batch.num_units)
            for name, share in self.shares.items()
        ]


register(ShareAtMost)
