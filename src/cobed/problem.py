"""A problem: a model, the contexts where we experiment, the targets where we will deploy, and what is allowed."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cobed.allowed import Allowed, Feasible, target_mask
from cobed.errors import ProblemError
from cobed.keys import Seed, as_key
from cobed.models.base import AbstractModel
from cobed.models.contract import check_model
from cobed.optimum import AbstractOptimum, check_optimum, choose_optimum
from cobed.tables import read_numbers
from cobed.types import Array, Bool, Float, Key, Params


class Problem(eqx.Module):
    """What to learn, from whom, for whom, and what may be done.

    >>> import cobed
    >>> from cobed.models import discrete
    >>> problem = cobed.Problem(cobed.models.DiscreteExample(), discrete.contexts(), -discrete.contexts())
    >>> problem.num_contexts, problem.num_targets
    (10, 10)
    """

    model: AbstractModel
    contexts: Float[Array, "D C"]
    targets: Float[Array, "T C"]
    optimum: AbstractOptimum
    # The batches of actions that a search moves among.
    feasible: Feasible
    # The named actions that each target may get; None where all may get all.
    target_mask: Bool[Array, "T K"] | None
    # Why outcomes have no gradient in the action that a design could follow; None where they have one.
    gradient_gap: str | None = eqx.field(static=True)

    def __init__(
        self,
        model: AbstractModel,
        contexts: Any,
        targets: Any,
        *,
        allowed: Allowed | None = None,
        optimum: AbstractOptimum | None = None,
    ):
        """`contexts` (D, C) and `targets` (T, C): arrays, lists or DataFrames of numbers, one row per unit; a vector is one column.

        `allowed` says which actions units and targets may get, which units are fixed, and what holds over the whole batch.
        `optimum` is the way to the max-values; chosen to fit the model where it is None.
        """
        self.contexts, self.targets = read_contexts(contexts, "contexts"), read_contexts(targets, "targets")
        names = [list(getattr(table, "columns", [])) for table in (contexts, targets)]
        if all(names) and names[0] != names[1]:
            raise ProblemError(
                f"contexts have the columns {names[0]} and targets {names[1]}. Give both the same columns in the same order, "
                "for example targets[contexts.columns]."
            )
        if self.contexts.shape[1] != self.targets.shape[1]:
            raise ProblemError(
                f"contexts have {self.contexts.shape[1]} column(s) and targets {self.targets.shape[1]}. "
                "Both must describe a unit by the same columns in the same order."
            )
        self.gradient_gap = check_model(model, jnp.concatenate([self.contexts, self.targets]))
        self.model = model = model.for_contexts(self.contexts.shape[1])
        allowed = allowed or Allowed()
        self.feasible = Feasible.build(model.action_space, self.num_contexts, allowed)
        mask = target_mask(model.action_space, self.num_targets, allowed)
        self.target_mask = None if mask is None else jnp.asarray(mask)
        self.optimum = optimum or choose_optimum(model, self.targets, mask)
        if optimum is not None:
            check_optimum(optimum, model, self.targets, mask)

    @property
    def num_contexts(self) -> int:
        return self.contexts.shape[0]

    @property
    def num_targets(self) -> int:
        return self.targets.shape[0]

    @property
    def action_dim(self) -> int:
        return self.model.action_space.dim

    def sample_world(self, seed: Seed) -> Params:
        """One drawn psi, to play the part of reality."""
        return self.model.sample_prior(as_key(seed))

    def sample_outcomes(self, key: Key[Array, ""], params: Params, actions: Float[Array, "D A"]) -> Float[Array, " D"]:
        """Outcomes of the design `actions` on the experimental contexts in the world `params`."""
        return self.model.sample_outcomes(key, params, self.contexts, actions)

    @property
    def places(self) -> tuple[Float[Array, "T C"], Bool[Array, "T K"] | None]:
        """The targets, and which named actions each may get: to `vmap` over, as an optimum takes them."""
        return self.targets, self.target_mask

    def best(self, params: Params) -> tuple[Float[Array, " T"], Float[Array, "T A"]]:
        """m*(psi) and the best allowed actions, at every target."""
        return jax.vmap(lambda target: self.optimum(self.model, params, *target))(self.places)

    def check_actions(self, design: Any) -> Float[Array, "D A"]:
        """A design, actions or what has them, as an array (D, A); `ProblemError` where it is none for this problem."""
        expected = (self.num_contexts, self.action_dim)
        try:
            array = np.asarray(getattr(design, "actions", design), dtype=np.float32)
        except (ValueError, TypeError) as error:
            raise ProblemError(
                f"A design is a table of numbers of shape {expected}, one row per unit (one-hot for named actions): {error}. "
                "`action_space.parse` turns names into rows."
            ) from error
        if array.shape != expected:
            raise ProblemError(
                f"A design for this problem has shape {expected} (contexts, action entries), got {array.shape}."
            )
        inside = np.asarray(jax.vmap(self.model.action_space.contains)(jnp.asarray(array)))
        if not inside.all():
            row = int(np.argmin(inside))
            raise ProblemError(
                f"Row {row} of the design is not a valid action: {array[row].tolist()} is not in {self.model.action_space}."
            )
        return jnp.asarray(array)


def choices_at(
    places: tuple[Float[Array, "T C"], Bool[Array, "T K"] | None], actions: Float[Array, "K A"]
) -> Float[Array, "T K A"]:
    """Of these actions, those that each target chooses among: its first allowed one stands for those that are not."""
    targets, allowed = places
    rows = jnp.broadcast_to(actions, (len(targets), *actions.shape))
    if allowed is None:
        return rows
    return jnp.where(allowed[:, :, None], rows, actions[jnp.argmax(allowed, axis=1)][:, None])


def read_contexts(values: Any, name: str) -> Float[Array, "N C"]:
    """A table of contexts or targets that a user gave: arrays, lists or DataFrames of numbers, one row for each."""
    table = read_numbers(values, name, ndim=2)
    if 0 in table.shape:
        raise ProblemError(
            f"{name} has {table.shape[0]} rows and {table.shape[1]} columns; at least one of each is needed."
        )
    return jnp.asarray(table, dtype=jnp.float32)
