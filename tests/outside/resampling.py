"""A sampler of another package: draws of the prior, resampled by the likelihood."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from cobed.inference import AbstractSampler, Draws, register
from cobed.inference.base import data_log_likelihood, needs_likelihood


class Resampling(AbstractSampler):
    num_draws: int = eqx.field(static=True, default=1000)

    @property
    def name(self):
        return "resampling"

    def unfit(self, model, data):
        return needs_likelihood(model)

    def draw(self, key, model, data):
        prior_key, choice_key = jr.split(key)
        params = jax.vmap(model.sample_prior)(jr.split(prior_key, 20 * self.num_draws))
        log_weights = jax.vmap(lambda psi: data_log_likelihood(model, psi, data))(params)
        chosen = jr.categorical(choice_key, log_weights, shape=(self.num_draws,))
        return Draws(jax.tree.map(lambda leaf: leaf[chosen], params), jnp.zeros(self.num_draws), {})

    def judge(self, diagnostics):
        return ()


register(Resampling())
