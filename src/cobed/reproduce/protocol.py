"""The inference behind the paper's tables, kept to reproduce them; `cobed.evaluate` is the one to trust.

As in the authors' code: importance sampling from the prior with few draws, each number of psi resampled by itself, which
drops the posterior's correlations; the continuous action deployed is the posterior mean of a*, and the discrete one is
taken from the prior.
"""

from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.flatten_util import ravel_pytree

from cobed.compilation import lean_jit
from cobed.data import Data
from cobed.inference.base import data_log_likelihood, effective_size
from cobed.metrics import Score, Scores
from cobed.models.average import AverageReward
from cobed.optimum import Enumeration
from cobed.problem import Problem
from cobed.types import Array, Key

NUM_PARTICLES = 10_000
NUM_RESAMPLED = 2_000


def paper_scores(key: Key[Array, ""], problem: Problem, actions: Any, num_worlds: int) -> Scores:
    """The scores of the design `actions` (D, A) as the paper's tables have them. Same key, same worlds for every design."""
    design = Data(problem.contexts, problem.check_actions(actions), np.zeros(problem.num_contexts))
    values = {name: np.asarray(value) for name, value in _scores(key, problem, design, num_worlds).items()}
    continuous = bool(problem.model.action_space.continuous)
    return Scores(
        regret=Score(values["regret"]),
        mse_m=Score(values["mse_m"]),
        mse_m_plug_in=Score(values["mse_m"]),
        hit_rate=None if continuous else Score(values["hit"]),
        mse_a=Score(values["mse_a"]) if continuous else None,
        sampler="importance, each number of psi by itself",
        diagnostics={"ess": float(values["ess"].mean())},
        warnings=(),
    )


@lean_jit
def _scores(key: Key[Array, ""], problem: Problem, design: Data, num_worlds: int) -> dict[str, Array]:
    model = problem.model
    entries = jnp.asarray(model.action_space.continuous, dtype=int)
    prior_key, key = jr.split(key)
    prior = AverageReward(model, NUM_PARTICLES)

    def one(key):
        world_key, noise_key, particle_key, resample_key = jr.split(key, 4)
        world = problem.sample_world(world_key)
        outcomes = problem.sample_outcomes(noise_key, world, design.actions)
        data = design.with_outcomes(outcomes)
        particles = jax.vmap(model.sample_prior)(jr.split(particle_key, NUM_PARTICLES))
        log_weights = jax.vmap(lambda psi: data_log_likelihood(model, psi, data))(particles)
        flat = jax.vmap(lambda psi: ravel_pytree(psi)[0])(particles)
        heights = jnp.cumsum(jax.nn.softmax(log_weights))
        uniforms = jr.uniform(resample_key, (flat.shape[1], NUM_RESAMPLED)) * heights[-1]
        chosen = jnp.minimum(jnp.searchsorted(heights, uniforms), NUM_PARTICLES - 1)
        resampled = jnp.take_along_axis(flat.T, chosen, axis=1).T
        unravel = ravel_pytree(world)[1]
        values, own_actions = jax.vmap(lambda row: problem.best(unravel(row)))(resampled)
        deployed = own_actions.mean(axis=0) if entries.size else prior_actions
        best, best_actions = problem.best(world)
        earned = jax.vmap(model.mean_reward, in_axes=(None, 0, 0))(world, problem.targets, deployed)
        return {
            "regret": jnp.mean(best - earned),
            "mse_m": jnp.mean((values.mean(axis=0) - best) ** 2),
            "hit": jnp.mean(jnp.all(jnp.abs(deployed - best_actions) < 1e-6, axis=1)),
            "mse_a": jnp.mean(jnp.sum((deployed - best_actions)[:, entries] ** 2, axis=1)),
            "ess": effective_size(log_weights),
        }

    if not entries.size:
        # A tie between two actions in the prior mean is decided by the Monte Carlo error of the draws.
        params = prior.sample_prior(prior_key)
        prior_actions = jax.vmap(lambda target: Enumeration()(prior, params, target)[1])(problem.targets)
    return jax.lax.map(one, jr.split(key, num_worlds))
