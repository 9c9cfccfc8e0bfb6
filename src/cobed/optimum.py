"""Max-values: m(c, psi) = max_a E[y | a, c, psi] and the action that reaches it. The only argmax over actions.

Four ways, each for one psi and one context (callers vmap): the model's closed form, the linear program of a reward
linear in a bounded action, complete enumeration, and a grid with local refinement.
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.compilation import quick_jit
from cobed.errors import ProblemError
from cobed.models.base import AbstractModel, has_best_action
from cobed.spaces import AbstractSpace
from cobed.types import AnyArray, Array, Bool, Float, Params, present

Best = tuple[Float[Array, ""], Float[Array, " A"]]


class AbstractOptimum(eqx.Module):
    """A way to the best action of one context in one world."""

    @abc.abstractmethod
    def __call__(
        self,
        model: AbstractModel,
        params: Params,
        context: Float[Array, " C"],
        allowed: Bool[AnyArray, " K"] | None = None,
    ) -> Best:
        """The largest mean reward and an action that has it. `allowed` marks the named actions that count; None: all."""

    @abc.abstractmethod
    def num_evaluations(self, model: AbstractModel) -> int:
        """How many mean rewards one call computes: what it costs."""

    def candidates(self, space: AbstractSpace) -> Float[np.ndarray, "J A"] | None:
        """The actions it chooses among, where they can be listed; None where it searches."""
        return None

    def unfit(self, model: AbstractModel, contexts: Float[Array, "D C"]) -> str | None:
        """Why it is no way to the best actions of this model at these contexts; None where it is one."""
        return None


class ClosedForm(AbstractOptimum):
    """The model's own `best_action`."""

    def __call__(self, model, params, context, allowed=None):
        action = present(model.best_action(params, context))
        return model.mean_reward(params, context, action), action

    def num_evaluations(self, model):
        return 1

    def unfit(self, model, contexts):
        if has_best_action(model, contexts):
            return None
        return "optimum=ClosedForm() needs a model with a `best_action` method. Leave optimum=None to let cobed choose."


class LinearProgram(AbstractOptimum):
    """max_a g . a over a box: each entry goes to the bound its coefficient points to."""

    def __call__(self, model, params, context, allowed=None):
        def reward(action):
            return model.mean_reward(params, context, action)

        slopes = jax.grad(reward)(jnp.zeros(model.action_space.dim))
        # An infinite step along the slopes, back onto the box.
        action = model.action_space.project(jnp.where(slopes > 0, jnp.inf, -jnp.inf))
        return reward(action), action

    def num_evaluations(self, model):
        return 3

    def unfit(self, model, contexts):
        if model.action_space.bounds() is None:
            return "optimum=LinearProgram() needs a Box with finite bounds; the best action is at one of them."
        if not is_linear_in_action(model, contexts):
            return "optimum=LinearProgram() needs a reward linear in the action, and this one is curved. Use Grid()."
        return None


class Enumeration(AbstractOptimum):
    """Every discrete action."""

    def __call__(self, model, params, context, allowed=None):
        return _best_of(model, params, context, jnp.asarray(model.action_space.enumerate_discrete()), allowed)

    def num_evaluations(self, model):
        return len(model.action_space.enumerate_discrete())

    def candidates(self, space):
        return space.enumerate_discrete()

    def unfit(self, model, contexts):
        if model.action_space.continuous:
            return "optimum=Enumeration() needs discrete actions. Use Grid() for spaces with continuous entries."
        return None


class Grid(AbstractOptimum):
    """A grid over the continuous entries (for every discrete combination), its best point refined locally.

    `num_points` in all: evenly spaced on a line, a Sobol sequence in more dimensions. The refinement moves to the best of
    a + h e_i, a - h e_i and a step of length h up the gradient, halving h when none is better.
    """

    num_points: int = eqx.field(static=True, default=128)
    num_refinements: int = eqx.field(static=True, default=24)

    def __check_init__(self):
        if self.num_points < 2 or self.num_refinements < 0:
            raise ProblemError(f"A grid needs at least 2 points and no negative number of refinements, got {self!r}.")

    def __call__(self, model, params, context, allowed=None):
        space = model.action_space
        low, high = space.search_bounds()
        spacing = np.zeros(space.dim, np.float32)
        spacing[list(space.continuous)] = (high - low) / max(self.num_points ** (1 / low.size) - 1, 1)
        value, action = _best_of(model, params, context, jnp.asarray(space.grid(self.num_points)))
        moves = jnp.asarray(np.concatenate([np.diag(spacing), -np.diag(spacing)]))
        reach = float(np.linalg.norm(spacing))

        def refine(_, state):
            value, action, scale = state
            slope = jax.grad(lambda a: model.mean_reward(params, context, a))(action) * (spacing > 0)
            uphill = reach * slope / jnp.maximum(jnp.linalg.norm(slope), 1e-30)
            steps = scale * jnp.concatenate([moves, uphill[None]])
            trials = jax.vmap(lambda step: _project_continuous(space, action + step))(steps)
            new_value, new_action = _best_of(model, params, context, trials)
            better = new_value > value
            return (
                jnp.where(better, new_value, value),
                jnp.where(better, new_action, action),
                jnp.where(better, scale, scale / 2),
            )

        value, action, _ = jax.lax.fori_loop(0, self.num_refinements, refine, (value, action, jnp.asarray(0.5)))
        return value, action

    def num_evaluations(self, model):
        per_refinement = 2 * model.action_space.dim + 3
        return self.num_points * len(model.action_space.enumerate_discrete()) + self.num_refinements * per_refinement

    def candidates(self, space):
        return None if self.num_refinements else space.grid(self.num_points)

    def unfit(self, model, contexts):
        if not model.action_space.continuous:
            return "optimum=Grid() needs an action with continuous entries. Use Enumeration() for discrete actions."
        return None


def choose_optimum(
    model: AbstractModel, contexts: Float[Array, "D C"], allowed: Bool[AnyArray, "D K"] | None = None
) -> AbstractOptimum:
    """The cheapest way that is exact for this model at these contexts (the targets); a grid where none is."""
    space = model.action_space
    if allowed is None and has_best_action(model, contexts):
        return ClosedForm()
    if not space.continuous:
        return Enumeration()
    if LinearProgram().unfit(model, contexts) is None:
        return LinearProgram()
    return Grid(num_points=space.enough_points)


def check_optimum(
    optimum: AbstractOptimum, model: AbstractModel, contexts: Float[Array, "D C"], allowed: Any = None
) -> None:
    """Raise `ProblemError` where the way does not fit the action space or the model at these contexts."""
    if allowed is not None and optimum.candidates(model.action_space) is None:
        raise ProblemError(
            f"optimum={optimum!r} cannot choose among some of the actions. Leave it out, or use Enumeration()."
        )
    problem = optimum.unfit(model, contexts)
    if problem is not None:
        raise ProblemError(problem)


def is_linear_in_action(model: AbstractModel, contexts: Float[Array, "D C"], num_probes: int = 64) -> bool:
    """Whether r(a) = r(0) + g . a at random worlds, contexts all along the list, random actions and both far corners."""
    rows = contexts[np.linspace(0, contexts.shape[0] - 1, num_probes).round().astype(int)]
    return bool(jnp.all(_probe_linear(model, rows)))


@quick_jit
def _probe_linear(model: AbstractModel, rows: Float[Array, "N C"]) -> Bool[Array, "N 6"]:
    """Compiled once for each kind of model: every design that is evaluated asks."""
    space = model.action_space
    corners = [space.project(jnp.full(space.dim, bound)) for bound in (-jnp.inf, jnp.inf)]

    def gaps(key, context):
        prior_key, action_key = jr.split(key)
        params = model.sample_prior(prior_key)

        def reward(action):
            return model.mean_reward(params, context, action)

        at_zero, slopes = jax.value_and_grad(reward)(jnp.zeros(space.dim))
        actions = jnp.stack([*jax.vmap(space.sample)(jr.split(action_key, 4)), *corners])
        rewards = jax.vmap(reward)(actions)
        sizes = jnp.abs(rewards) + jnp.abs(at_zero) + jnp.abs(actions) @ jnp.abs(slopes)
        return jnp.abs(rewards - at_zero - actions @ slopes) <= 1e-4 * sizes + 1e-12

    return jax.vmap(gaps)(jr.split(jr.key(0), rows.shape[0]), rows)


def _best_of(
    model: AbstractModel,
    params: Params,
    context: Float[Array, " C"],
    actions: Float[Array, "N A"],
    allowed: Bool[AnyArray, " N"] | None = None,
) -> Best:
    rewards = jax.vmap(lambda action: model.mean_reward(params, context, action))(actions)
    # A reward that is not a number (0 log 0 at a bound, say) never wins.
    missing = jnp.isnan(rewards) if allowed is None else jnp.isnan(rewards) | ~allowed
    comparable = jnp.where(missing, -jnp.inf, rewards)
    # The largest by itself, not by its place: where only the value is used, no place is looked for, which takes longer.
    value = jnp.where(jnp.all(missing), jnp.nan, jnp.max(comparable))
    return value, actions[jnp.argmax(comparable)]


def _project_continuous(space: AbstractSpace, action: Float[Array, " A"]) -> Float[Array, " A"]:
    """Clip the continuous entries; the discrete ones are already one-hot and stay as they are."""
    entries = jnp.asarray(space.continuous)
    return action.at[entries].set(space.project(action)[entries])
