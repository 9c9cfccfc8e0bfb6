"""A campaign.toml to fill in, with a comment on every line; guessed from a table where there is one."""

import json
from typing import Any

import numpy as np

from cobed.campaign.columns import kinds
from cobed.campaign.columns.categorical import MAX_PROPOSED
from cobed.campaign.tables import Complaints, Table
from cobed.errors import TableError
from cobed.outcomes import laws

TEXT = """# What this campaign is about. `cobed check` says what is wrong with it before any work is done.
name = {name}
seed = 0                        # same seed, same design

[units]
id = {id}

# What is known of a unit before an action is chosen: {kinds}.
# Delete the columns that cannot matter; all others of your tables pass through untouched.
[context]
{context}

# What can be done to a unit. In the place of options, numbers can be chosen:
#   numbers = {{ price = {{ low = 5.0, high = 20.0 }} }}
[action]
column = {action}
options = {options}

# What comes back; larger is better. likelihood: {laws}.
[outcome]
column = {outcome}
likelihood = {likelihood}
typical = {typical}{spread}

# How outcomes depend on contexts and action: "linear" with their products, or, for normal outcomes, "gp", any smooth
# function. Lengths of the latter: over what distance outcomes stay alike, in deviations of a numeric column.
# [model]
# family = "gp"
# kernel = "matern"             # or "rbf", endlessly smooth
# lengths = {{ {column} = 2.0 }}    # sensible defaults for columns left out
# fit = true                    # by the marginal likelihood, once there are outcomes enough

# How large effects may be, as one standard deviation in units of the outcome. Sensible defaults where left out.
# [prior]
# baseline = ...                # of the average outcome around typical
# context = ...                 # of one deviation, or one level, of a context column
# action = ...                  # of an option
# interaction = ...             # of how an option's effect changes with a context column

[design]
budget = "quick"                # "smoke" to try it in seconds, "quick" for real work, "paper" for hours

# What the assignment of a whole round must satisfy. forbid also holds in deployment.
# [constraints]
# at_most = {{ {second} = 100 }}
# at_least = {{ {first} = 20 }}
# cost = {{ {second} = 1.5 }}
# max_cost = 200.0
# [[constraints.forbid]]
# action = {second}
# column = "a categorical or binary context column"
# values = ["..."]
"""


def template(name: str) -> str:
    """The template with made-up columns."""
    context = {"age": "numeric", "segment": "categorical", "returning": "binary"}
    return _fill(name, "id", context, "action", ["A", "B"], "outcome", ("bernoulli", 0.5, None))


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
    kinds = {column: kind for column in columns if column != identity and (kind := _kind(table, column))}
    options = sorted({value for value in table.text(action) if value})[:MAX_PROPOSED] if action else ["A", "B"]
    if len(options) < 2:
        raise TableError(
            f"{table.name}, column {action!r} has the one value {options}; at least two actions are needed."
        )
    likelihood = _likelihood(table, outcome) if outcome else ("bernoulli", 0.5, None)
    return _fill(name, identity, kinds, action or "action", options, outcome or "outcome", likelihood)


def _kind(table: Table, column: str) -> str | None:
    """What a column looks like; None for free text."""
    return next((kind.name for kind in kinds() if kind.suits(table, column)), None)


def _likelihood(table: Table, column: str) -> tuple[str, float, float | None]:
    """The first law that suits the outcomes of a column, what an average unit gives, and the deviation where it has one."""
    complaints = Complaints(table)
    binary = _kind(table, column) == "binary"
    values = (table.binary if binary else table.numbers)(column, complaints, allow_missing=True)
    complaints.tell()
    values = values[np.isfinite(values)]
    if values.size == 0:
        raise TableError(f"{table.name}, column {column!r} holds no outcome to guess from. Leave --outcome out.")
    law = next(law for law in laws() if law.suits(values))
    return law.name, law.typical_of(values), float(values.std()) or 1.0 if law.has_scale else None


def _fill(
    name: str,
    identity: str,
    context: dict[str, str],
    action: str,
    options: list[str],
    outcome: str,
    likelihood: tuple[str, float, float | None],
) -> str:
    kind, typical, spread = likelihood
    lines = [f"{_key(column)} = {_text(of)}" for column, of in context.items()]
    return TEXT.format(
        name=_text(name),
        id=_text(identity),
        context="\n".join(lines) or '# age = "numeric"',
        column=_key(next(iter(context), "age")),
        action=_text(action),
        options="[" + ", ".join(map(_text, options)) + "]",
        outcome=_text(outcome),
        likelihood=_text(kind),
        kinds=", ".join(f"{_text(kind.name)} ({kind.describes})" for kind in kinds()),
        laws=", ".join(f"{_text(law.name)} ({law.describes})" for law in laws()),
        typical=f"{_number(typical)}                   # what an average unit gives",
        spread=f"\nspread = {_number(spread)}                    # its standard deviation between units"
        if spread
        else "",
        first=_key(options[0]),
        second=_key(options[1]),
    )


def _number(value: float) -> str:
    text = f"{value:.3g}"
    return text if any(mark in text for mark in ".e") else f"{text}.0"


def _text(value: Any) -> str:
    # A JSON string is a TOML basic string; TOML asks for DEL to be escaped as well.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else _text(name)
