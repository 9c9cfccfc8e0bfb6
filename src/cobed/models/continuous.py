"""The paper's continuous example: a bump over the action whose place depends on the context, minus a cost."""

from typing import Literal

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.errors import ModelError
from cobed.models.base import AbstractGaussianModel
from cobed.spaces import Box

COST = 0.1
LOW, HIGH = 0.1, 1.1


class ContinuousExample(AbstractGaussianModel):
    """f = exp(-(a - g)^2 / h - 0.1 a^2), psi_i ~ U[0.1, 1.1].

    `printed`: g = psi0 + psi1 c + psi2 c^2, h = psi3, as in the paper's appendix. `released`: g = psi0 + psi1 c - psi2 c^2,
    h = psi3^2, as in the authors' code, which made the tables.
    """

    action_space: Box
    context_dim: int = eqx.field(static=True)
    noise_std: float = eqx.field(static=True)
    variant: str = eqx.field(static=True)

    def __init__(self, variant: Literal["released", "printed"] = "released", noise_std: float = 0.1):
        if variant not in ("released", "printed"):
            raise ModelError(f"Unknown variant {variant!r} of the continuous example. Allowed: 'released', 'printed'.")
        self.action_space = Box.real(1)
        self.context_dim = 1
        self.noise_std = noise_std
        self.variant = variant

    def sample_prior(self, key):
        return jr.uniform(key, (4,), minval=LOW, maxval=HIGH)

    def log_prior(self, params):
        # The box has volume 1.
        return jnp.where(jnp.all((params >= LOW) & (params <= HIGH)), 0.0, -jnp.inf)

    def prior_bounds(self):
        return jnp.full(4, LOW), jnp.full(4, HIGH)

    def mean_reward(self, params, context, action):
        centre, width = self._shape(params, context[0])
        a = action[0]
        return jnp.exp(-((a - centre) ** 2) / width - COST * a**2)

    def best_action(self, params, context):
        # d/da [(a - g)^2 / h + lambda a^2] = 0  =>  a = g / (1 + lambda h)
        centre, width = self._shape(params, context[0])
        return jnp.atleast_1d(centre / (1 + COST * width))

    def _shape(self, params, c):
        sign = -1.0 if self.variant == "released" else 1.0
        width = params[3] ** 2 if self.variant == "released" else params[3]
        return params[0] + params[1] * c + sign * params[2] * c**2, width


def contexts(num: int = 40) -> np.ndarray:
    """Experimental contexts of the paper, shape (num, 1)."""
    return np.linspace(-3.5, 3.5, num, dtype=np.float32)[:, None]


def targets(num: int = 40) -> np.ndarray:
    """The midpoints between `contexts(num)`, shape (num - 1, 1)."""
    grid = contexts(num)
    return (grid[1:] + grid[:-1]) / 2
