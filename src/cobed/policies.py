"""How a design is parametrised: one unconstrained vector a unit, made into an action by the space."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.errors import BudgetError, ProblemError
from cobed.spaces import AbstractSpace, Box
from cobed.types import Array, Bool, Float, Key


class Temperature(eqx.Module):
    """The Gumbel-Softmax schedule: `initial` times `factor` at each of `num_stages` equal stages; hard at the end.

    The paper's discrete example is Temperature(2.0, 0.5, 5, hard_fraction=0.2): soft first. The default is hard from the
    first step: a mixture of two actions is an experiment nobody can run, and what it teaches misleads the last units.
    """

    initial: float = 1.0
    factor: float = 1.0
    num_stages: int = 1
    hard_fraction: float = 1.0

    def __check_init__(self):
        if not (self.initial > 0 and 0 < self.factor <= 1 and self.num_stages >= 1 and 0 <= self.hard_fraction <= 1):
            raise BudgetError(
                "A temperature schedule needs initial > 0, 0 < factor <= 1, num_stages >= 1 and "
                f"0 <= hard_fraction <= 1; got {self!r}."
            )

    def __call__(self, progress: Float[Array, ""]) -> tuple[Float[Array, ""], Bool[Array, ""]]:
        """Temperature, and whether to train hard, at `progress` in [0, 1)."""
        stage = jnp.floor(progress * self.num_stages)
        return self.initial * self.factor**stage, progress >= 1 - self.hard_fraction


class CostLimit(eqx.Module):
    """A whole batch of numbers costs at most `most`: `costs` (D, A) for each unit of each number.

    A batch that costs more is drawn back toward the cheapest one, all numbers by the same share, until it costs just that. So
    every batch that is allowed can be reached, and no other.
    """

    costs: Float[Array, "D A"]
    cheapest: Float[Array, "D A"]
    most: Float[Array, ""]

    def __init__(self, space: Box, costs: np.ndarray, most: float):
        least = np.where(costs > 0, space.low, space.high)
        if not np.isfinite(least[costs != 0]).all() or np.sum(np.where(costs == 0, 0.0, least * costs)) > most:
            raise ProblemError(f"No batch of these actions costs {most:g} or less.")
        # Numbers that cost nothing stay as they are.
        self.costs, self.cheapest = jnp.asarray(costs), jnp.asarray(np.where(costs == 0, 0.0, least))
        self.most = jnp.asarray(float(most))

    def cheapest_of(self, actions: Float[Array, "D J A"]) -> Float[Array, "D J A"]:
        """The same with every number that costs something at its cheapest."""
        return jnp.where(self.costs[:, None] == 0, actions, self.cheapest[:, None])

    def __call__(self, actions: Float[Array, "D A"]) -> Float[Array, "D A"]:
        # The limit is part of a design, and the ascent moves all of a design that has a gradient.
        costs, cheapest, most = jax.lax.stop_gradient((self.costs, self.cheapest, self.most))
        least, total = jnp.sum(costs * cheapest), jnp.sum(costs * actions)
        above = total > most
        share = jnp.where(above, (most - least) / jnp.where(above, total - least, 1.0), 1.0)
        return jnp.where(costs == 0, actions, cheapest + share * (actions - cheapest))


class FreeDesign(eqx.Module):
    """An unconstrained vector for each unit: squashed into a box, or the logits of a Gumbel-Softmax."""

    space: AbstractSpace
    raw: Float[Array, "D A"]
    limit: CostLimit | None = None

    @classmethod
    def initial(
        cls, key: Key[Array, ""], space: AbstractSpace, num_contexts: int, limit: CostLimit | None = None
    ) -> "FreeDesign":
        return cls(space, jax.vmap(space.initial_raw)(jr.split(key, num_contexts)), limit)

    @classmethod
    def at(cls, space: AbstractSpace, actions: Float[Array, "D A"], limit: CostLimit | None = None) -> "FreeDesign":
        """The design that plays these actions."""
        return cls(space, jax.vmap(space.to_raw)(actions), limit)

    def sample(self, key: Key[Array, ""], temperature: Float[Array, ""], hard: Bool[Array, ""]) -> Float[Array, "D A"]:
        """Differentiable actions of all units. One draw of Gumbel noise a call: the batch of worlds shares it."""
        keys = jr.split(key, self.raw.shape[0])
        return self._limited(jax.vmap(self.space.relax, in_axes=(0, 0, None, None))(keys, self.raw, temperature, hard))

    def harden(self) -> Float[Array, "D A"]:
        """The actions that will be played."""
        return self._limited(jax.vmap(self.space.harden)(self.raw))

    def _limited(self, actions: Float[Array, "D A"]) -> Float[Array, "D A"]:
        return actions if self.limit is None else self.limit(actions)
