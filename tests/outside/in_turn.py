"""A designer that another package brings: the options in turn."""

import equinox as eqx
import jax
import jax.numpy as jnp

from cobed.designers.baselines import AbstractBaseline
from cobed.designers.known import register
from cobed.errors import ProblemError


class InTurn(AbstractBaseline):
    first: int = eqx.field(static=True, default=0)

    @property
    def name(self):
        return "in turn"

    def actions(self, key, problem):
        space = problem.model.action_space
        if space.continuous:
            raise ProblemError(f"{self.name} needs options, and got {space}.")
        num_options = space.dim
        return jax.nn.one_hot((self.first + jnp.arange(problem.num_contexts)) % num_options, num_options)


register(InTurn())
