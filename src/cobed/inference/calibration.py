"""Simulation-based calibration: is a posterior right on average, for any model that can be simulated?

In each world psi ~ prior, outcomes ~ psi, and L draws of the posterior. If the posterior is right, the rank of psi among
its draws is uniform on 0..L for every scalar function of psi (Talts et al. 2018).
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.stats import chi2

from cobed.compilation import lean_jit
from cobed.data import Data
from cobed.errors import ProblemError
from cobed.inference.base import AbstractInference, AbstractSampler
from cobed.keys import Seed, as_key, key_came_first
from cobed.problem import Problem
from cobed.types import Array, Float, Key, Params

# Worlds computed at once.
BATCH_SIZE = 8


@dataclasses.dataclass(frozen=True)
class Calibration:
    """Ranks (W, P) in 0..L of each number in psi among L posterior draws, over W worlds; errors and deviations for figures.

    `p_values` (P,): of the chi-square test that the ranks are uniform. `errors` (W, P): psi minus posterior mean.
    `deviations` (W, P): posterior standard deviations.
    """

    ranks: np.ndarray
    num_draws: int
    p_values: np.ndarray
    errors: np.ndarray
    deviations: np.ndarray

    @property
    def p_value(self) -> float:
        """Of all numbers in psi together: the smallest, times their number (Bonferroni)."""
        return float(min(1.0, self.p_values.min() * self.p_values.size))


@key_came_first
def calibrate(
    problem: Problem,
    design: Any,
    sampler: AbstractInference,
    num_worlds: int = 500,
    num_draws: int = 99,
    num_bins: int = 20,
    *,
    seed: Seed,
) -> Calibration:
    """Ranks of psi among `num_draws` posterior draws in `num_worlds` worlds, with a `DesignResult` or actions (D, A).

    What does not run inside compiled code takes one world after another; the others some at once.
    """
    if (num_draws + 1) % num_bins or num_worlds < 5 * num_bins:
        raise ProblemError(
            f"num_draws + 1 = {num_draws + 1} ranks must fill num_bins = {num_bins} bins evenly, and num_worlds = "
            f"{num_worlds} must be at least 5 per bin. For instance num_draws=99, num_bins=20, num_worlds=500."
        )
    key = as_key(seed)
    played = Data(problem.contexts, problem.check_actions(design), np.zeros(problem.num_contexts))
    compiled = sampler.compiled()
    sampler.require_fit(problem.model, played)
    if compiled is None:
        each = [_rank_by_chains(k, problem, played, sampler, num_draws) for k in jr.split(key, num_worlds)]
        columns = [np.stack(column) for column in zip(*each, strict=True)]
    else:
        columns = _ranks(key, problem, played, compiled, num_worlds, num_draws)
    ranks, errors, deviations = (np.asarray(array) for array in columns)
    counts = np.stack([np.bincount(column * num_bins // (num_draws + 1), minlength=num_bins) for column in ranks.T])
    expected = num_worlds / num_bins
    p_values = chi2.sf(((counts - expected) ** 2 / expected).sum(1), num_bins - 1)
    return Calibration(ranks, num_draws, p_values, errors, deviations)


@lean_jit
def _ranks(
    key: Key[Array, ""],
    problem: Problem,
    design: Data,
    sampler: AbstractSampler,
    num_worlds: int,
    num_draws: int,
) -> tuple[Array, Array, Array]:
    def one(key: Key[Array, ""]) -> tuple[Array, Array, Array]:
        world_key, noise_key, infer_key, choice_key = jr.split(key, 4)
        world = problem.sample_world(world_key)
        outcomes = problem.sample_outcomes(noise_key, world, design.actions)
        draws = sampler.draw(infer_key, problem.model, design.with_outcomes(outcomes))
        return _rank(choice_key, world, draws.params, draws.log_weights, num_draws)

    return jax.lax.map(one, jr.split(key, num_worlds), batch_size=BATCH_SIZE)


def _rank_by_chains(key: Key[Array, ""], problem: Problem, design: Data, sampler: AbstractInference, num_draws: int):
    world_key, noise_key, infer_key, choice_key = jr.split(key, 4)
    world = problem.sample_world(world_key)
    data = design.with_outcomes(problem.sample_outcomes(noise_key, world, design.actions))
    posterior = sampler.posterior(infer_key, problem.model, data)
    return _rank(choice_key, world, posterior.params, posterior.log_weights, num_draws)


def _rank(key: Key[Array, ""], world: Params, params: Params, log_weights: Float[Array, " N"], num_draws: int):
    """Rank of the truth among `num_draws` of the draws, error of their mean, and their standard deviation."""
    flat, weights = jax.vmap(lambda p: ravel_pytree(p)[0])(params), jax.nn.softmax(log_weights)
    truth = ravel_pytree(world)[0]
    mean = weights @ flat
    # Independent choices: draws that come in mirrored pairs would have ranks too near the middle.
    chosen = flat[jr.categorical(key, log_weights, shape=(num_draws,))]
    # Numbers that can be exactly zero tie with their draws: any rank among those equal is as good as another.
    ties = jnp.sum(chosen == truth, axis=0)
    rank = jnp.sum(chosen < truth, axis=0) + jr.randint(jr.fold_in(key, 1), ties.shape, 0, ties + 1)
    return rank, truth - mean, jnp.sqrt(weights @ (flat - mean) ** 2)
