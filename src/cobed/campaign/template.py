"""A campaign.toml to fill in, with a comment on every key; guessed from a table where there is one."""

from typing import Any

import numpy as np

from cobed.campaign.columns import kinds
from cobed.campaign.fields import fill
from cobed.campaign.tables import Complaints, Table
from cobed.campaign.toml import as_key
from cobed.errors import TableError
from cobed.outcomes import laws

# More different actions than this are numbers to choose.
MAX_OPTIONS = 20
# What is proposed where nothing is known.
OPTIONS = ["A", "B"]
OUTCOME = {"column": "outcome", "likelihood": "bernoulli", "typical": 0.5}


def template(name: str) -> str:
    """The template with made-up columns."""
    context = {"age": "numeric", "segment": "categorical", "returning": "binary"}
    return _fill(name, "id", context, {"column": "action", "options": OPTIONS}, OUTCOME)


def guess(name: str, table: Table, action: str | None = None, outcome: str | None = None) -> str:
    """The template with the columns of a table. `action` and `outcome` name its columns of them, where it is history."""
    for column in (action, outcome):
        if column is not None:
            table.require([column], "which you named")
    # A spec names columns by text.
    columns = [column for column in table.frame.columns if isinstance(column, str) and column not in (action, outcome)]
    if not columns:
        raise TableError(
            f"{table.name} has no columns besides {action!r} and {outcome!r}; an id and contexts are needed."
        )
    unique = [column for column in columns if table.text(column).is_unique]
    named = [column for column in unique if column.lower() == "id" or column.lower().endswith(("_id", "id"))]
    identity = (named or unique or columns)[0]
    context = {column: kind for column in columns if column != identity and (kind := _kind(table, column))}
    options = sorted({value for value in table.text(action) if value})[:MAX_OPTIONS] if action else OPTIONS
    if len(options) < 2:
        raise TableError(
            f"{table.name}, column {action!r} has the one value {options}; at least two actions are needed."
        )
    actions = {"column": action or "action", "options": options}
    return _fill(name, identity, context, actions, _outcome(table, outcome) if outcome else OUTCOME)


def _kind(table: Table, column: str) -> str | None:
    """What the cells of a column look like; None for free text."""
    known = table.part(np.flatnonzero(~table.missing(column)))
    return next((kind.name for kind in kinds() if len(known) and kind.suits(known, column)), None)


def _outcome(table: Table, column: str) -> dict[str, Any]:
    """The first law that suits the outcomes of a column, what an average unit gives, and the deviation where it has one."""
    complaints = Complaints(table)
    binary = _kind(table, column) == "binary"
    values = (table.binary if binary else table.numbers)(column, complaints, allow_missing=True)
    complaints.tell()
    values = values[np.isfinite(values)]
    if values.size == 0:
        raise TableError(f"{table.name}, column {column!r} holds no outcome to guess from. Leave --outcome out.")
    law = next(law for law in laws() if law.suits(values))
    spread = {"spread": _rounded(values.std()) or 1.0} if law.has_scale else {}
    return {"column": column, "likelihood": law.name, "typical": _rounded(law.typical_of(values)), **spread}


def _rounded(number: float) -> float:
    """Three digits of what is only guessed."""
    return float(f"{number:.3g}")


def _fill(name: str, identity: str, context: dict[str, str], action: dict[str, Any], outcome: dict[str, Any]) -> str:
    values = {
        "": {"name": name, "seed": 0},
        "[units]": {"id": identity},
        "[context]": context,
        "[action]": action,
        "[outcome]": outcome,
        "[design]": {"budget": "quick"},
    }
    first, second = map(as_key, action["options"][:2])
    return fill(values, {"column": as_key(next(iter(context), "age")), "first": first, "second": second})
