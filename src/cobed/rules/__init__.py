"""Kinds of rules over a batch. `register` adds one, which campaign.toml then knows by its name."""

from cobed.rules.at_least import AtLeast
from cobed.rules.at_most import AtMost
from cobed.rules.base import AbstractRule, Batch, Limit, kinds, register
from cobed.rules.forbid import Forbid, ForbidSpec
from cobed.rules.max_cost import MaxCost

for _kind in (AtLeast, AtMost, MaxCost, Forbid):
    register(_kind)

__all__ = [
    "AbstractRule", "AtLeast", "AtMost", "Batch", "Forbid", "ForbidSpec", "Limit", "MaxCost", "kinds", "register",
]  # fmt: skip
