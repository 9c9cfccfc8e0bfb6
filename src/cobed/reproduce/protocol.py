"""How designs are scored: `exact`, by `cobed.evaluate`, the one to trust, and `paper`, by the inference behind its tables.

The second as in the authors' code: importance sampling from the prior with few draws, each number of psi resampled by itself, which
drops the posterior's correlations; the continuous action deployed is the posterior mean of a*, and the discrete one is
taken from the prior.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.flatten_util import ravel_pytree

from cobed.compilation import lean_jit
from cobed.data import Data
from cobed.inference.base import data_log_likelihood, effective_size
from cobed.metrics import Scores, evaluate, scores_of_world
from cobed.models.average import AverageReward
from cobed.models.base import AbstractModel
from cobed.optimum import Enumeration
from cobed.problem import Problem
from cobed.types import Array, Key

if TYPE_CHECKING:
    from cobed.reproduce.experiment import Effort

METRICS = ("mse_m", "mse_a", "hit_rate", "regret", "reward")
# Decisions of a Gaussian process need two mirrored draws of its posterior, the mean of m* needs at least so many.
FEWEST_DRAWS = 16
NUM_PARTICLES = 10_000
NUM_RESAMPLED = 2_000

# By protocol and metric, world by world; one number where a closed form has averaged over the worlds.
Worlds = dict[str, dict[str, np.ndarray]]


class Keys(NamedTuple):
    """Of the worlds under either protocol. They depend on the seed alone, so that differences of methods are paired."""

    exact: Key[Array, ""]
    paper: Key[Array, ""]


def both_protocols(
    keys: Keys, problem: Problem, actions: np.ndarray, effort: "Effort", worlds: AbstractModel | None = None
) -> Worlds:
    """The scores of a design under the protocols that the effort has worlds for. `worlds` is where the worlds of `exact` are
    drawn from, if not from the problem's own model."""
    scores: Worlds = {}
    if effort.num_worlds:
        draws = {"num_draws": effort.num_draws, "worlds": worlds}
        scores["exact"] = per_world(evaluate(problem, actions, effort.num_worlds, seed=keys.exact, **draws))
        if effort.num_draws < FEWEST_DRAWS:
            del scores["exact"]["mse_m"]
    if effort.num_paper_worlds:
        scores["paper"] = per_world(paper_scores(keys.paper, problem, actions, effort.num_paper_worlds))
    return scores


def per_world(scores: Scores) -> dict[str, np.ndarray]:
    """The metrics that were measured, world by world."""
    measured = {metric: getattr(scores, metric, None) for metric in METRICS}
    return {metric: score.per_world for metric, score in measured.items() if score is not None}


def paper_scores(key: Key[Array, ""], problem: Problem, actions: Any, num_worlds: int) -> Scores:
    """The scores of the design `actions` (D, A) as the paper's tables have them. Same key, same worlds for every design."""
    design = Data(problem.contexts, problem.check_actions(actions), np.zeros(problem.num_contexts))
    values = {name: np.asarray(value) for name, value in _scores(key, problem, design, num_worlds).items()}
    diagnostics = {"ess": float(values.pop("ess").mean())}
    return Scores.of(problem.model.action_space, values, "importance, each number of psi by itself", diagnostics, ())


@lean_jit
def _scores(key: Key[Array, ""], problem: Problem, design: Data, num_worlds: int) -> dict[str, Array]:
    model = problem.model
    continuous = bool(model.action_space.continuous)
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
        deployed = own_actions.mean(axis=0) if continuous else prior_actions
        earned = jax.vmap(model.mean_reward, in_axes=(None, 0, 0))(world, problem.targets, deployed)
        estimate = values.mean(axis=0)
        scores = scores_of_world(model.action_space, problem.best(world), (earned, deployed), estimate, estimate)
        return {**scores, "ess": effective_size(log_weights)}

    if not continuous:
        # A tie between two actions in the prior mean is decided by the Monte Carlo error of the draws.
        params = prior.sample_prior(prior_key)
        prior_actions = jax.vmap(lambda target: Enumeration()(prior, params, target)[1])(problem.targets)
    return jax.lax.map(one, jr.split(key, num_worlds))
