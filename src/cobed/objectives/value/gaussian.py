"""The value of an experiment: what the best decisions after it earn, E[ mean_j max_a E[reward | a, c*_j, data] ].

Where rewards and outcomes are jointly Gaussian the posterior mean reward is Gaussian before the experiment, with moments
that depend on the design alone, so the value needs neither critic nor posterior. Its difference to E[m*], which no design
changes, is minus the expected regret.
"""

import dataclasses
from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.scipy.stats import norm
from scipy.stats import norm as normal
from scipy.stats import qmc

from cobed.linalg import lower_root
from cobed.models.base import AbstractModel
from cobed.models.gaussian import AffineUpdate, unraveller
from cobed.objectives.base import AbstractObjective, action_rewards, largest
from cobed.optimum import is_linear_in_action
from cobed.policies import Temperature
from cobed.problem import Problem
from cobed.types import Array, Float, Params, present

NUM_POINTS, NUM_DRAWS = 1024, 64


class ExperimentValue(AbstractObjective):
    """The value of a design under a Gaussian belief, above that of the best decisions without the experiment.

    Three ways to E max_a of the posterior mean reward. Discrete actions: at each target the means of the actions are a
    Gaussian vector, averaged over fixed quasi-random points, so that near designs are compared on equal terms. Rewards
    linear in a bounded action: each entry by itself, in closed form, at some of the targets a step. Otherwise draws of the
    whole posterior mean.

    `functionals` are what psi is asked at each target, where beliefs are about a flat psi: the reward of every discrete
    action, or the slope of the reward in every entry of the action.
    """

    problem: Problem
    update: AffineUpdate | AbstractModel
    temperature: Temperature
    points: Float[Array, "N K"] | None
    functionals: tuple[Float[Array, "T K"], Float[Array, "T K P"]] | None
    entrywise: bool = eqx.field(static=True)
    num_draws: int = eqx.field(static=True)
    targets_per_step: int = eqx.field(static=True, default=32)

    @classmethod
    def build(
        cls, problem: Problem, update: AffineUpdate | None, temperature: Temperature, num_draws: int = NUM_DRAWS
    ) -> "ExperimentValue":
        """By an update, or where it is None by the model's own posterior mean; `num_draws` of it a step, where draws are needed."""
        space = problem.model.action_space
        points = None
        if not space.continuous:
            points = jnp.asarray(normal_points(NUM_POINTS, len(space.enumerate_discrete())))
        entrywise = space.bounds() is not None and is_linear_in_action(problem.model, problem.targets)
        functionals = None
        if update is not None and (entrywise or points is not None):
            ask = _entry_slopes if entrywise else action_rewards
            unravel = unraveller(problem.model)

            def answers(flat: Float[Array, " P"]) -> Float[Array, "T K"]:
                return ask(problem, unravel(flat))

            functionals = answers(update.mean), jax.jacfwd(answers)(update.mean)
        return cls(problem, update or problem.model, temperature, points, functionals, entrywise, num_draws)

    @property
    def name(self):
        return "value"

    @property
    def unit(self):
        return "reward"

    def __call__(self, trainable, key, progress):
        design_key, draw_key = jr.split(key)
        actions = trainable.design.sample(design_key, *self.temperature(progress))
        if self.points is not None:
            return _value_of_choices(*self._moments(actions, action_rewards), self.points)
        if self.entrywise:
            return self._of_entries(actions, draw_key)
        surprises = jr.normal(key, (self.num_draws // 2, self.problem.num_contexts))

        def best(surprise):
            # One function of the surprise: what does not depend on it is computed once for all draws. The best reward
            # changes with psi as if the best action stayed (envelope theorem), so the search needs no gradient.
            psi = self._mean(actions, surprise)
            decisions = self.problem.best(jax.lax.stop_gradient(psi))[1]
            return jax.vmap(self.problem.model.mean_reward, in_axes=(None, 0, 0))(psi, self.problem.targets, decisions)

        now = best(jnp.zeros(self.problem.num_contexts))
        return jnp.mean(jax.vmap(best)(jnp.concatenate([surprises, -surprises])) - now)

    def _mean(self, actions, surprise):
        return self.update.posterior_mean(self.problem.contexts, actions, surprise)

    def _gains(self, actions) -> Float[Array, "D P"]:
        # There are functionals only where there is an update.
        return cast(AffineUpdate, self.update).gains(self.problem.contexts, actions)

    def _moments(self, actions, ask) -> tuple[Float[Array, "T K"], Float[Array, "D T K"]]:
        """Means of what is asked at the targets, and how they move with each entry of the surprise."""
        if self.functionals is not None:
            means, rows = self.functionals
            return means, jnp.einsum("dp,tkp->dtk", self._gains(actions), rows)

        def of(surprise):
            return ask(self.problem, self._mean(actions, surprise))

        means = of(jnp.zeros(len(actions)))
        return means, jax.vmap(of)(jnp.eye(len(actions))) - means

    def _of_entries(self, actions, key):
        low, high = present(self.problem.model.action_space.bounds())
        reach = jnp.asarray(high - low)
        if self.functionals is not None:
            gains = self._gains(actions)
            means, rows = self.functionals
            if self.targets_per_step < len(means):
                seen = jr.choice(key, len(means), (self.targets_per_step,), replace=False)
                means, rows = means[seen], rows[seen]
            variances = jnp.einsum("tkp,tkp->tk", rows @ (gains.T @ gains), rows)
        else:
            means, moves = self._moments(actions, _entry_slopes)
            variances = jnp.sum(moves**2, axis=0)
        std = jnp.sqrt(jnp.maximum(variances, 0.0) + 1e-12)
        # E max(0, N(m, s^2)) - max(0, m) for each entry, which moves over its reach.
        gains = means * norm.cdf(means / std) + std * norm.pdf(means / std) - jnp.maximum(means, 0.0)
        return jnp.mean(jnp.sum(reach * gains, axis=1))

    def resized(self, batch_size):
        return dataclasses.replace(self, targets_per_step=self.problem.num_targets, num_draws=batch_size)


def _entry_slopes(problem: Problem, psi: Params) -> Float[Array, "T A"]:
    """How the mean reward moves with every entry of the action, at every target; linear, so anywhere in the space."""
    middle = problem.model.action_space.harden(jnp.zeros(problem.action_dim))
    slope = jax.grad(problem.model.mean_reward, argnums=2)
    return jax.vmap(lambda target: slope(psi, target, middle))(problem.targets)


def _value_of_choices(
    means: Float[Array, "T K"], moves: Float[Array, "D T K"], points: Float[Array, "N K"]
) -> Float[Array, ""]:
    """E max_k of Gaussian vectors, above the largest mean, averaged over the targets."""
    cov = jnp.einsum("dtk,dtl->tkl", moves, moves)
    scales = jnp.max(jnp.diagonal(cov, axis1=1, axis2=2), axis=1) + 1e-12
    roots = jax.vmap(lower_root)(cov, 1e-6 * scales)
    # Above the best mean of now: the differences between designs are small beside the rewards.
    above = (means - means.max(axis=1, keepdims=True))[None] + jnp.einsum("tkl,nl->ntk", roots, points)
    return jnp.mean(largest(above))


def normal_points(num: int, dim: int) -> np.ndarray:
    """Quasi-random points of the standard normal, mirrored, so that their mean is zero."""
    uniform = qmc.Sobol(dim, rng=0).random(max(1, num // 2))
    half = normal.ppf(np.clip(uniform, 1e-7, 1 - 1e-7))
    return np.concatenate([half, -half]).astype(np.float32)
