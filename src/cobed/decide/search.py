"""The best action on average over draws of psi, searched for where it is not one of a few: for one context, callers vmap."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cobed.models.average import AverageReward
from cobed.models.base import AbstractModel, has_best_action
from cobed.optimum import AbstractOptimum, Best, Grid, choose_optimum
from cobed.spaces import Box
from cobed.types import Array, Bool, Float, Params, present


class HullReward(AbstractModel):
    """The same reward over the hull of the draws' own best actions, mapped onto the cube [-1, 1]^A.

    Where the reward of every draw falls away from its best action, their average has its maximum in that hull, which is
    narrow when the posterior is: a grid there is finer than one over the whole space, and follows it beyond its reach.
    """

    average: AverageReward
    action_space: Box
    context_dim: int | None = eqx.field(static=True)

    def __init__(self, average: AverageReward):
        self.average, self.context_dim = average, average.context_dim
        self.action_space = Box(np.full(average.action_space.dim, -1.0), 1.0)

    def sample_prior(self, key):
        params = self.average.sample_prior(key)
        return params, jnp.zeros(self.action_space.dim), jnp.ones(self.action_space.dim)

    def mean_reward(self, params, context, action):
        return self.average.mean_reward(params[0], context, self.action(params, action))

    def sample_outcome(self, key, params, context, action):
        return self.average.sample_outcome(key, params[0], context, self.action(params, action))

    def action(self, params: Params, unit: Float[Array, " A"]) -> Float[Array, " A"]:
        _, centre, reach = params
        return self.average.action_space.project(centre + reach * unit)

    def surround(self, params: Params, context: Float[Array, " C"]) -> Params:
        """The params of this model at one context: the draws, and the hull of their best actions there."""
        best = jax.vmap(lambda psi: present(self.average.model.best_action(psi, context)))(params[0])
        low, high = jnp.min(best, axis=0), jnp.max(best, axis=0)
        return params, (low + high) / 2, (high - low) / 2


class Chooser(eqx.Module):
    """The best action on average over weighted draws of psi, for one context. Callers vmap."""

    average: AverageReward
    optimum: AbstractOptimum
    hull: HullReward | None
    hull_optimum: Grid

    def __init__(
        self,
        model: AbstractModel,
        contexts: Float[Array, "T C"],
        num_draws: int,
        optimum: AbstractOptimum | None = None,
    ):
        """For posteriors of `num_draws` draws; `contexts` serve to probe for linearity in the action.

        `optimum` is the way to the best action of one draw. Where that is a grid, the average is searched on the same.
        """
        self.average = AverageReward(model, num_draws)
        closed_form = has_best_action(model, contexts)
        if isinstance(optimum, Grid) and not closed_form:
            self.optimum = optimum
        else:
            # The probe for linearity needs few draws.
            self.optimum = choose_optimum(AverageReward(model, 4), contexts)
        self.hull, self.hull_optimum = None, Grid(num_points=24, num_refinements=12)
        if isinstance(self.optimum, Grid) and closed_form and isinstance(model.action_space, Box):
            self.hull = HullReward(self.average)
            if model.action_space.dim == 1:
                # Only a guard against a second mode outside the hull: no need to refine it.
                self.optimum = Grid(num_points=48, num_refinements=0)

    def __call__(
        self,
        params: Params,
        weights: Float[Array, " N"],
        context: Float[Array, " C"],
        allowed: Bool[Array, " K"] | None = None,
    ) -> Best:
        """max_a E_post[E[y | a, c, psi]] and the action that has it."""
        value, action = self.optimum(self.average, (params, weights), context, allowed)
        if self.hull is None:
            return value, action
        around = self.hull.surround((params, weights), context)
        inner_value, unit = self.hull_optimum(self.hull, around, context)
        better = inner_value > value
        return jnp.where(better, inner_value, value), jnp.where(better, self.hull.action(around, unit), action)
