"""An objective of another package: information about all of psi in a linear model, by the determinant of its precision."""

import jax
import jax.numpy as jnp

from cobed.models.base import AbstractModel
from cobed.objectives import AbstractKind, AbstractObjective, register
from cobed.problem import Problem


class DOptimality(AbstractObjective):
    problem: Problem

    @property
    def name(self):
        return "d-optimality"

    def __call__(self, trainable, key, progress):
        actions = trainable.design.harden()
        model: AbstractModel = self.problem.model
        form, moments = model.linear_form(), model.prior_moments()
        assert form is not None
        assert moments is not None
        rows = jax.vmap(form.features)(self.problem.contexts, actions)
        gram = rows.T @ rows / form.scale**2
        # I(psi; y) = 1/2 log det(I + cov gram)
        return 0.5 * jnp.linalg.slogdet(jnp.eye(len(gram)) + moments[1] @ gram)[1]

    def resized(self, batch_size):
        return self


class DOptimalityKind(AbstractKind):
    name = "d-optimality"
    needs = "to be asked for by name"

    def build(self, task):
        return DOptimality(task.problem)


register(DOptimalityKind())
