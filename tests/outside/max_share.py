"""A kind of rule that another package brings: an action goes to a share of a batch at most."""

import dataclasses
import math
from collections.abc import Mapping

from cobed.rules import AbstractRule, Limit, register
from cobed.rules.base import known_actions


@dataclasses.dataclass(frozen=True)
class MaxShare(AbstractRule):
    """`max_share = { letter = 0.3 }`."""

    name = "max_share"
    describes = "Largest share of a batch, by option."
    value_type = dict[str, float]

    shares: Mapping[str, float]

    @classmethod
    def parse(cls, value, spec):
        known_actions(value, cls.name, spec)
        for action, share in value.items():
            if not 0 <= share <= 1:
                raise ValueError(f"constraints.{cls.name} is from 0 to 1, got {share:g} for {action!r}")
        return cls(value)

    def limits(self, batch):
        return [
            Limit(f"at most {share:.0%} get {name!r}", batch.weights(name), most=math.floor(share * batch.num_units))
            for name, share in self.shares.items()
        ]


register(MaxShare)
