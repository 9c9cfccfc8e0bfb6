"""How a design is parametrised: one unconstrained vector per unit, made into an action by the space."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from cobed.allowed import Feasible
from cobed.errors import BudgetError
from cobed.spaces import AbstractSpace
from cobed.types import Array, Bool, Float, Key

# The logit of what is not allowed.
NEVER = -1e9


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


class FreeDesign(eqx.Module):
    """An unconstrained vector for each unit: squashed into a box, or the logits of a Gumbel-Softmax over what is allowed."""

    space: AbstractSpace
    raw: Float[Array, "D A"]
    feasible: Feasible | None = None

    @classmethod
    def initial(cls, key: Key[Array, ""], feasible: Feasible) -> "FreeDesign":
        raw = jax.vmap(feasible.space.initial_raw)(jr.split(key, len(feasible.fixed)))
        return cls(feasible.space, raw, _binding(feasible))

    @classmethod
    def at(cls, feasible: Feasible, actions: Float[Array, "D A"]) -> "FreeDesign":
        """The design that plays these actions."""
        return cls(feasible.space, jax.vmap(feasible.space.to_raw)(actions), _binding(feasible))

    def sample(self, key: Key[Array, ""], temperature: Float[Array, ""], hard: Bool[Array, ""]) -> Float[Array, "D A"]:
        """Differentiable actions of all units. One draw of Gumbel noise a call: the batch of worlds shares it."""
        keys = jr.split(key, self.raw.shape[0])
        relax = jax.vmap(self.space.relax, in_axes=(0, 0, None, None))
        return self._limited(relax(keys, self._allowed_raw(), temperature, hard))

    def harden(self) -> Float[Array, "D A"]:
        """The actions that will be played."""
        return self._limited(jax.vmap(self.space.harden)(self._allowed_raw()))

    def _allowed_raw(self) -> Float[Array, "D A"]:
        if self.feasible is None or self.feasible.mask is None:
            return self.raw
        return jnp.where(self.feasible.mask, self.raw, NEVER)

    def _limited(self, actions: Float[Array, "D A"]) -> Float[Array, "D A"]:
        if self.feasible is None or self.space.options is not None:
            return actions
        return self.feasible.drawn_back(actions)


def _binding(feasible: Feasible) -> Feasible | None:
    """What the design must obey, as arrays of JAX: they are part of what an ascent moves."""
    return jax.tree.map(jnp.asarray, feasible) if feasible.binds else None
