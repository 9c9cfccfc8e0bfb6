"""How a design is parametrised: one unconstrained vector a unit, made into an action by the space."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from cobed.errors import BudgetError
from cobed.spaces import AbstractSpace
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


class FreeDesign(eqx.Module):
    """An unconstrained vector for each unit: squashed into a box, or the logits of a Gumbel-Softmax."""

    space: AbstractSpace
    raw: Float[Array, "D A"]

    @classmethod
    def initial(cls, key: Key[Array, ""], space: AbstractSpace, num_contexts: int) -> "FreeDesign":
        return cls(space, jax.vmap(space.initial_raw)(jr.split(key, num_contexts)))

    def sample(self, key: Key[Array, ""], temperature: Float[Array, ""], hard: Bool[Array, ""]) -> Float[Array, "D A"]:
        """Differentiable actions of all units. One draw of Gumbel noise a call: the batch of worlds shares it."""
        keys = jr.split(key, self.raw.shape[0])
        return jax.vmap(self.space.relax, in_axes=(0, 0, None, None))(keys, self.raw, temperature, hard)

    def harden(self) -> Float[Array, "D A"]:
        """The actions that will be played."""
        return jax.vmap(self.space.harden)(self.raw)
