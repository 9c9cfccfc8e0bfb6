"""What an experiment gave: one row per unit, with its context, the action it got and the outcome that came back."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cobed.errors import ProblemError
from cobed.models.base import AbstractModel
from cobed.tables import read_numbers
from cobed.types import Array, Float

MISSING = "Drop the unit or correct the value; a missing outcome is not a zero."


class Data(eqx.Module):
    """The rows of an experiment. Checked when constructed: finite numbers, one row per unit, at least one row.

    >>> Data(contexts=[[0.0], [1.0]], actions=[[1, 0], [0, 1]], outcomes=[0.3, 0.7]).num_rows
    2
    """

    contexts: Float[Array, "D C"]
    actions: Float[Array, "D A"]
    outcomes: Float[Array, " D"]

    def __init__(self, contexts: Any, actions: Any, outcomes: Any):
        """`contexts` (D, C), `actions` (D, A) as the engine's vectors, `outcomes` (D,). A vector of the first two is one column."""
        tables = {
            "contexts": read_numbers(contexts, "contexts", 2, MISSING),
            "actions": read_numbers(actions, "actions", 2, MISSING),
            "outcomes": read_numbers(outcomes, "outcomes", 1, MISSING),
        }
        lengths = {name: len(table) for name, table in tables.items()}
        if len(set(lengths.values())) > 1:
            counts = ", ".join(f"{length} {name}" for name, length in lengths.items())
            raise ProblemError(
                f"The data have {counts}; one of each is expected per unit. "
                "Drop the units whose outcome has not come back, in all three."
            )
        if lengths["outcomes"] == 0:
            raise ProblemError(
                "The data have no rows; at least one outcome is needed to learn from. Run the experiment."
            )
        self.contexts, self.actions, self.outcomes = (
            jnp.asarray(table, dtype=jnp.float32) for table in tables.values()
        )

    @property
    def num_rows(self) -> int:
        return self.outcomes.shape[0]

    def with_outcomes(self, outcomes: Float[Array, " D"]) -> "Data":
        """The same units with other outcomes, unchecked: for simulated ones, inside compiled code."""
        return eqx.tree_at(lambda data: data.outcomes, self, outcomes)

    def with_actions(self, actions: Float[Array, "D A"]) -> "Data":
        """The same units with other actions, unchecked: for designs that are made inside compiled code."""
        return eqx.tree_at(lambda data: data.actions, self, actions)

    def rows(self, part: Any) -> "Data":
        """Some of the rows, unchecked."""
        return jax.tree.map(lambda column: column[part], self)

    def check_fits(self, model: AbstractModel) -> None:
        """Raise `ProblemError` where the rows are not contexts and actions of this model."""
        columns, space = self.contexts.shape[1], model.action_space
        if model.context_dim is not None and columns != model.context_dim:
            raise ProblemError(
                f"The data have {columns} context column(s) and the model expects {model.context_dim}. "
                "Give the columns the model was written for, in its order."
            )
        if self.actions.shape[1] != space.dim:
            raise ProblemError(
                f"The data have {self.actions.shape[1]} action column(s); an action of {space} has {space.dim}. "
                "Encode the actions with action_space.parse."
            )
        inside = np.asarray(jax.vmap(space.contains)(self.actions))
        if not inside.all():
            row = int(np.argmin(inside))
            raise ProblemError(
                f"actions, row {row}: {np.asarray(self.actions[row]).tolist()} is not in {space} "
                f"({int((~inside).sum())} such row(s) in all). Correct the action, or drop the row."
            )
