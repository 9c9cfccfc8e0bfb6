"""The value of an experiment: what the best decisions after it earn, E[ mean_j max_a E[reward | a, c*_j, data] ].

Where rewards and outcomes are jointly Gaussian the posterior mean reward is Gaussian before the experiment, with moments
that depend on the design alone, so the value needs neither critic nor posterior. Its difference to E[m*], which no design
changes, is minus the expected regret.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.scipy.stats import norm
from scipy.stats import norm as normal
from scipy.stats import qmc

from cobed.models.base import HasPosteriorMean
from cobed.objectives.base import AbstractObjective
from cobed.optimum import is_linear_in_action
from cobed.policies import Temperature
from cobed.problem import Problem
from cobed.spaces import Box
from cobed.types import Array, Float, Key

NUM_POINTS = 1024


class ExperimentValue(AbstractObjective):
    """The value of a design under a Gaussian belief, above that of the best decisions without the experiment.

    Three ways to E max_a of the posterior mean reward. Discrete actions: at each target the means of the actions are a
    Gaussian vector, averaged over fixed quasi-random points, so that near designs are compared on equal terms. Rewards
    linear in a bounded action: each entry by itself, in closed form. Otherwise draws of the whole posterior mean.
    """

    problem: Problem
    belief: HasPosteriorMean
    temperature: Temperature
    points: Float[Array, "N K"] | None
    entrywise: bool = eqx.field(static=True)
    num_draws: int = eqx.field(static=True)

    @classmethod
    def build(
        cls, problem: Problem, belief: HasPosteriorMean, temperature: Temperature, num_draws: int = NUM_POINTS
    ) -> "ExperimentValue":
        """`num_draws` quasi-random points, or draws a step."""
        space = problem.model.action_space
        points = None
        if not space.continuous:
            points = jnp.asarray(_normal_points(num_draws, len(space.enumerate_discrete())))
        entrywise = isinstance(space, Box) and space.bounded and is_linear_in_action(problem.model, problem.targets)
        return cls(problem, belief, temperature, points, entrywise, num_draws)

    @property
    def name(self):
        return "value"

    @property
    def unit(self):
        return "reward"

    def __call__(self, trainable, key, progress):
        design_key, draw_key = jr.split(key)
        return self.of(trainable.design.sample(design_key, *self.temperature(progress)), draw_key)

    def of(self, actions: Float[Array, "D A"], key: Key[Array, ""]) -> Float[Array, ""]:
        """The value of one design. The key decides the draws where draws are needed."""
        if self.entrywise:
            return self._of_entries(actions)
        if self.points is not None:
            return self._of_enumeration(actions)
        surprises = jr.normal(key, (self.num_draws // 2, self.problem.num_contexts))
        means = jax.vmap(lambda surprise: self._mean(actions, surprise))(jnp.concatenate([surprises, -surprises]))
        best = jax.vmap(lambda psi: self.problem.best(psi)[0])(means)
        return jnp.mean(best - self._now(actions)[None, :])

    def _mean(self, actions, surprise):
        return self.belief.posterior_mean(self.problem.contexts, actions, surprise)

    def _now(self, actions):
        """The best rewards without the experiment."""
        return self.problem.best(self._mean(actions, jnp.zeros(self.problem.num_contexts)))[0]

    def _moments(self, actions, function):
        """Mean and slopes in the surprise of a function of psi that is affine in the posterior mean reward."""

        def of(surprise):
            return function(self._mean(actions, surprise))

        centre = of(jnp.zeros(len(actions)))
        return centre, jax.vmap(of)(jnp.eye(len(actions))) - centre

    def _of_enumeration(self, actions):
        model, rows = self.problem.model, jnp.asarray(self.problem.model.action_space.enumerate_discrete())

        def rewards(psi):
            at = jax.vmap(model.mean_reward, in_axes=(None, None, 0))
            return jax.vmap(lambda target: at(psi, target, rows))(self.problem.targets)

        means, slopes = self._moments(actions, rewards)  # (T, K), (D, T, K)
        cov = jnp.einsum("dtk,dtl->tkl", slopes, slopes)
        scale = jnp.max(jnp.diagonal(cov, axis1=1, axis2=2), axis=1)[:, None, None] + 1e-12
        roots = jnp.linalg.cholesky(cov + 1e-6 * scale * jnp.eye(len(rows)))
        # Above the best mean of now: the differences between designs are small beside the rewards.
        above = (means - means.max(axis=1, keepdims=True))[None] + jnp.einsum("tkl,nl->ntk", roots, self.points)
        return jnp.mean(jnp.max(above, axis=-1))

    def _of_entries(self, actions):
        model = self.problem.model
        space = model.action_space
        low, high = (jnp.asarray(bound, jnp.float32) for bound in (space.low, space.high))  # pyright: ignore[reportAttributeAccessIssue]

        def slopes_in_action(psi):
            return jax.vmap(lambda target: jax.grad(lambda a: model.mean_reward(psi, target, a))(low))(
                self.problem.targets
            )

        means, slopes = self._moments(actions, slopes_in_action)  # (T, A), (D, T, A)
        std = jnp.sqrt(jnp.sum(slopes**2, axis=0) + 1e-12)
        # E max(0, N(m, s^2)) - max(0, m) for each entry, which moves over high - low.
        gains = means * norm.cdf(means / std) + std * norm.pdf(means / std) - jnp.maximum(means, 0.0)
        return jnp.mean(jnp.sum((high - low) * gains, axis=1))

    def initial_network(self, key):
        return None

    def resized(self, batch_size):
        return self


def _normal_points(num: int, dim: int) -> np.ndarray:
    """Quasi-random points of the standard normal, mirrored, so that their mean is zero."""
    uniform = qmc.Sobol(dim, rng=0).random(max(1, num // 2))
    half = normal.ppf(np.clip(uniform, 1e-7, 1 - 1e-7))
    return np.concatenate([half, -half]).astype(np.float32)
