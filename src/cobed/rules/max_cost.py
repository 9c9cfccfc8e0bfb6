"""The whole batch costs at most so much."""

import dataclasses
from typing import Annotated

from pydantic import Field

from cobed.rules.base import AbstractRule, Limit

Amount = Annotated[float, Field(allow_inf_nan=False, strict=True, ge=-1e15, le=1e15)]


@dataclasses.dataclass(frozen=True)
class MaxCost(AbstractRule):
    """`MaxCost(200.0)`: all units of the batch together cost at most 200, by the costs of its actions."""

    name = "max_cost"
    describes = "The whole round costs at most this."
    value_type = Amount
    for_numbers = True

    most: float

    def limits(self, batch):
        return [Limit(f"a total cost of at most {self.most:g}", batch.costs, most=self.most)]
