"""Designs beside each other, on the same draws."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from cobed.budget import Budget
from cobed.compilation import quick_jit
from cobed.objectives import AbstractObjective, value_at
from cobed.types import Array, Float, Key


def scores(key: Key[Array, ""], objective: AbstractObjective, designs: Any, budget: Budget) -> np.ndarray:
    """The objective of each hardened design (S, D, A), on the same fresh draws."""
    large = objective.resized(budget.settle_batch_size)
    return np.array([float(_score(key, large, jnp.asarray(actions))) for actions in designs])


# Compiled once for one design: rankings of any number of designs and the final measurement are few calls of it.
@quick_jit
def _score(key: Key[Array, ""], objective: AbstractObjective, actions: Float[Array, "D A"]) -> Float[Array, ""]:
    return value_at(objective, actions, key)
