"""Kinds of context columns. `register` adds one; `kinds` lists them, `kind_named` finds one by its word in campaign.toml."""

from cobed.campaign.columns.base import Column, kind_named, kinds, read_column, register
from cobed.campaign.columns.binary import Binary
from cobed.campaign.columns.categorical import Categorical
from cobed.campaign.columns.numeric import Numeric

# `cobed init` asks the last one first: the widest stands first.
for _kind in (Categorical, Numeric, Binary):
    register(_kind)

__all__ = ["Binary", "Categorical", "Column", "Numeric", "kind_named", "kinds", "read_column", "register"]
