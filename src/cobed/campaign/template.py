"""A campaign.toml to fill in, with a comment on every key; guessed from a table where there is one."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from cobed.campaign.columns import Binary, Numeric
from cobed.campaign.fields import fill
from cobed.campaign.propose import propose
from cobed.campaign.tables import Complaints, Table
from cobed.campaign.toml import as_key, as_toml
from cobed.errors import TableError
from cobed.outcomes import laws

# More different actions than this are numbers to choose.
MAX_OPTIONS = 20
# What is proposed where nothing is known.
OPTIONS, NEW_OPTION = ["A", "B"], "something new"
RANDOM_SHARE = 0.1
OUTCOME = {"column": "outcome", "likelihood": "bernoulli", "typical": 0.5}


class Situation(NamedTuple):
    """What makes designs pay: where the policy will be deployed, which options are done already, how many rounds there can be."""

    targets: Table | None = None
    in_use: Sequence[str] = ()
    rounds: int = 1


NOTHING_SAID = Situation()


def template(name: str, situation: Situation = NOTHING_SAID) -> str:
    """The template with made-up columns."""
    context = {"age": "numeric", "segment": "categorical", "returning": "binary"}
    return _fill(name, "id", context, _new_actions(situation.in_use), OUTCOME, situation.rounds)


def guess(
    name: str,
    table: Table,
    action: str | None = None,
    outcome: str | None = None,
    situation: Situation = NOTHING_SAID,
) -> str:
    """The template with the columns of a table. `action` and `outcome` name its columns of them, where it is history.

    What the targets do not have is no context. The options of a history are in use, where nothing else is said.
    """
    targets, in_use, rounds = situation
    used = [column for column in (action, outcome) if column is not None]
    table.require(used, "which you named")
    tables = [table] if targets is None else [table, targets]
    # A spec names columns by text.
    columns = [column for column in table.frame.columns if isinstance(column, str) and column not in used]
    if not columns:
        raise TableError(
            f"{table.name} has no columns besides {action!r} and {outcome!r}; an id and contexts are needed."
        )
    identity = _identity(tables, columns)
    proposed = propose(tables, [column for column in columns if column != identity], used)
    context = {column: found.kind for column, found in proposed.items() if found.kind is not None}
    notes = {column: found.why for column, found in proposed.items() if found.why}
    actions = _new_actions(in_use) if action is None else _actions(table, action)
    done = list(in_use) or (actions.get("options", []) if action and outcome else [])
    actions |= {"in_use": done} if done else {}
    results = _outcome(table, outcome) if outcome else OUTCOME
    return _fill(name, identity, context, actions, results, rounds, notes)


def _identity(tables: Sequence[Table], columns: Sequence[str]) -> str:
    """The column that names the units: a different value in every row, best with a name that says so."""
    shared = [column for column in columns if all(column in table.frame.columns for table in tables)]
    unique = [column for column in shared if all(table.text(column).is_unique for table in tables)]
    named = [column for column in unique if column.lower().endswith("id")]
    # Amounts of money may differ in every row too.
    text = [column for column in unique if not Numeric.suits(tables[0], column)]
    return (named or text or unique or shared or columns)[0]


def _new_actions(in_use: Sequence[str]) -> dict[str, Any]:
    """Those in use and one to be named, or made-up ones."""
    if not in_use:
        return {"column": "action", "options": OPTIONS}
    return {"column": "action", "options": [*in_use, NEW_OPTION], "in_use": list(in_use)}


def _actions(table: Table, column: str) -> dict[str, Any]:
    """The options of a column of past actions; the range, where they are numbers and many."""
    known = table.part(np.flatnonzero(~table.missing(column, ["none"])))
    options = sorted(set(known.text(column)))
    if len(options) < 2:
        raise TableError(
            f"{table.name}, column {column!r} has the one value {options}; at least two actions are needed."
        )
    if len(options) <= MAX_OPTIONS or not Numeric.suits(known, column):
        return {"column": column, "options": options[:MAX_OPTIONS]}
    numbers = known.numbers(column, Complaints(known))
    return {"numbers": {column: {"low": float(numbers.min()), "high": float(numbers.max())}}}


def _outcome(table: Table, column: str) -> dict[str, Any]:
    """The first law that suits the outcomes of a column, what an average unit gives, and the deviation where it has one."""
    complaints = Complaints(table)
    binary = Binary.suits(table.part(np.flatnonzero(~table.missing(column))), column)
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


def _fill(
    name: str,
    identity: str,
    context: dict[str, Any],
    action: dict[str, Any],
    outcome: dict[str, Any],
    rounds: int,
    notes: Mapping[str, str] = MappingProxyType({}),
) -> str:
    values = {
        "": {"name": name, "seed": 0},
        "[units]": {"id": identity},
        "[context]": context,
        "[action]": action,
        "[outcome]": outcome,
        "[design]": {"budget": "quick", "random_share": RANDOM_SHARE, **({"rounds": rounds} if rounds > 1 else {})},
    }
    options = action.get("options", OPTIONS)
    first, second = map(as_key, options[:2])
    names = {"column": as_key(next(iter(context), "age")), "first": first, "second": second}
    return fill(values, {**names, "first_name": as_toml(options[0])}, notes)
