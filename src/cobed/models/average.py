"""The mean reward over uncertain worlds, as a model: what decisions and optimism are computed from."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from cobed.models.base import AbstractModel, over_draws
from cobed.spaces import AbstractSpace


class AverageReward(AbstractModel):
    """Another model under weighted draws of its psi: the params are the draws, stacked, and their weights.

    Its mean reward is E[f] + optimism * sd[f] with f = E[y | a, c, psi] over the draws, so the ways to the best action in
    `optimum` maximise that: for a decision (optimism 0), or an upper confidence bound.
    """

    model: AbstractModel
    action_space: AbstractSpace
    context_dim: int | None = eqx.field(static=True)
    num_draws: int = eqx.field(static=True)
    optimism: float = eqx.field(static=True)

    def __init__(self, model: AbstractModel, num_draws: int, optimism: float = 0.0):
        self.model, self.num_draws, self.optimism = model, num_draws, optimism
        self.action_space, self.context_dim = model.action_space, model.context_dim

    def sample_prior(self, key):
        draws = jax.vmap(self.model.sample_prior)(jr.split(key, self.num_draws))
        return draws, jnp.full(self.num_draws, 1 / self.num_draws)

    def mean_reward(self, params, context, action):
        draws, weights = params
        average = self.model.average_params(draws, weights) if self.optimism == 0.0 else None
        if average is not None:
            return self.model.mean_reward(average, context, action)
        rewards = over_draws(self.model, lambda psi: self.model.mean_reward(psi, context, action), draws)
        mean = weights @ rewards
        if self.optimism == 0.0:
            return mean
        return mean + self.optimism * jnp.sqrt(jnp.maximum(weights @ (rewards - mean) ** 2, 1e-30))

    def sample_outcome(self, key, params, context, action):
        draws, weights = params
        choice_key, outcome_key = jr.split(key)
        chosen = jr.categorical(choice_key, jnp.log(weights))
        return self.model.sample_outcome(outcome_key, jax.tree.map(lambda leaf: leaf[chosen], draws), context, action)
