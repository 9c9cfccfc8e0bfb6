"""From a posterior to the action to take in each target context: the one of the largest posterior expected reward."""

import dataclasses
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cobed.compilation import lean_jit
from cobed.errors import ProblemError
from cobed.inference.base import Posterior
from cobed.models.average import AverageReward
from cobed.models.base import AbstractModel, HasBestAction, over_draws
from cobed.optimum import AbstractOptimum, Best, Grid, choose_optimum
from cobed.problem import Problem
from cobed.spaces import Box, label_columns
from cobed.types import Array, Float, Params

if TYPE_CHECKING:
    import pandas as pd

INTERVAL = 0.9
# A continuous action is never exactly the best; within this share of the best expected reward it is as good as.
NEARLY_BEST = 0.05


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
        best = jax.vmap(lambda psi: self.average.model.best_action(psi, context))(params[0])  # pyright: ignore[reportAttributeAccessIssue]
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
        if isinstance(optimum, Grid) and not isinstance(model, HasBestAction):
            self.optimum = optimum
        else:
            # The probe for linearity needs few draws.
            self.optimum = choose_optimum(AverageReward(model, 4), contexts)
        self.hull, self.hull_optimum = None, Grid(num_points=24, num_refinements=12)
        if isinstance(self.optimum, Grid) and isinstance(model, HasBestAction) and isinstance(model.action_space, Box):
            self.hull = HullReward(self.average)
            if model.action_space.dim == 1:
                # Only a guard against a second mode outside the hull: no need to refine it.
                self.optimum = Grid(num_points=48, num_refinements=0)

    def __call__(self, params: Params, weights: Float[Array, " N"], context: Float[Array, " C"]) -> Best:
        """max_a E_post[E[y | a, c, psi]] and the action that has it."""
        value, action = self.optimum(self.average, (params, weights), context)
        if self.hull is None:
            return value, action
        around = self.hull.surround((params, weights), context)
        inner_value, unit = self.hull_optimum(self.hull, around, context)
        better = inner_value > value
        return jnp.where(better, inner_value, value), jnp.where(better, self.hull.action(around, unit), action)


@dataclasses.dataclass(frozen=True)
class Policy:
    """What to do in each target context. Arrays have one row a target.

    `low` and `high` hold the mean reward of the action with probability 90%. `p_best` is the posterior probability that
    no action has a larger mean reward; with continuous actions, that none is better by more than `tolerance`.
    """

    targets: np.ndarray
    actions: np.ndarray
    labels: list[Any]
    expected: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p_best: np.ndarray
    tolerance: np.ndarray
    warnings: tuple[str, ...] = ()

    def to_frame(self) -> "pd.DataFrame":
        """One row a target: its context columns, the action, the expected reward, its interval, and P(best)."""
        import pandas as pd

        columns: dict[str, Any] = {f"context_{i}": self.targets[:, i] for i in range(self.targets.shape[1])}
        columns |= label_columns(self.labels)
        columns |= {"expected_reward": self.expected, "low": self.low, "high": self.high, "p_best": self.p_best}
        return pd.DataFrame(columns)


def deploy(posterior: Posterior, problem: Problem | AbstractModel, targets: Any = None) -> Policy:
    """The action of the largest posterior expected reward at each target (T, C), and how sure we are of it.

    `targets` may be left out where a `Problem` is given, which has its own.
    """
    if isinstance(problem, Problem):
        targets = problem.targets if targets is None else targets
        problem = Problem(problem.model, problem.contexts, targets, optimum=problem.optimum)
    elif targets is None:
        raise ProblemError("deploy(posterior, model) needs the targets to act in: pass targets of shape (T, C).")
    else:
        problem = Problem(problem, targets, targets)
    chooser = Chooser(problem.model, problem.targets, posterior.num_draws, problem.optimum)
    actions, rewards, best = jax.tree.map(np.asarray, _act(chooser, problem, posterior.params, posterior.weights))
    weights = np.asarray(posterior.weights, np.float64)
    expected = weights @ rewards.astype(np.float64)
    discrete = not problem.model.action_space.continuous
    # Discrete: only rounding. The best reward of every draw is computed apart from that of the action.
    tolerance = 1e-5 * np.abs(best).max(0) if discrete else NEARLY_BEST * np.abs(weights @ best)
    tails = (1 - INTERVAL) / 2
    low, high = (_quantiles(rewards, weights, q) for q in (tails, 1 - tails))
    return Policy(
        targets=np.asarray(problem.targets),
        actions=actions,
        labels=[problem.model.action_space.label(action) for action in actions],
        expected=expected,
        low=low,
        high=high,
        p_best=weights @ (best - rewards <= tolerance),
        tolerance=tolerance,
        warnings=posterior.warnings,
    )


@lean_jit
def _act(
    chooser: Chooser, problem: Problem, params: Params, weights: Float[Array, " N"]
) -> tuple[Float[Array, "T A"], Float[Array, "N T"], Float[Array, "N T"]]:
    """The actions, their reward under each draw, and each draw's own best reward."""

    def at(target: Float[Array, " C"]) -> tuple[Array, Array, Array]:
        _, action = chooser(params, weights, target)
        rewards = over_draws(problem.model, lambda psi: problem.model.mean_reward(psi, target, action), params)
        best = over_draws(problem.model, lambda psi: problem.optimum(problem.model, psi, target)[0], params)
        return action, rewards, best

    # One target after another: a grid over thousands of draws is large.
    actions, rewards, best = jax.lax.map(at, problem.targets)
    return actions, rewards.T, best.T


def _quantiles(values: np.ndarray, weights: np.ndarray, q: float) -> np.ndarray:
    """The q-quantile of each column of `values` (N, T) under the weights (N,)."""
    order = np.argsort(values, axis=0)
    heights = np.cumsum(weights[order], axis=0)
    rows = np.argmax(heights >= q * heights[-1], axis=0)
    return np.take_along_axis(values, np.take_along_axis(order, rows[None], axis=0), axis=0)[0]
