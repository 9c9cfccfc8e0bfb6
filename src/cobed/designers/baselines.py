"""The paper's baselines: each unit's action is chosen by itself, with no thought for what the batch teaches together."""

import abc
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.compilation import lean_jit
from cobed.designers.result import DesignResult, fingerprint
from cobed.errors import ProblemError
from cobed.identity import joined
from cobed.keys import Seed, as_key, plain_seed
from cobed.models.average import AverageReward
from cobed.optimum import AbstractOptimum, check_optimum, choose_optimum
from cobed.problem import Problem
from cobed.types import Array, Float, Key


class AbstractBaseline(eqx.Module):
    """A designer without training. Call it with a problem and a seed; same seed, same design."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """As the paper writes it."""

    @abc.abstractmethod
    def actions(self, key: Key[Array, ""], problem: Problem) -> Float[Array, "D A"]:
        """The design itself, before what is not allowed is taken out."""

    def allowed_actions(self, key: Key[Array, ""], problem: Problem) -> Float[Array, "D A"]:
        """The allowed design nearest to it."""
        actions = self.actions(key, problem)
        return jnp.asarray(problem.feasible.nearest(actions), jnp.float32) if problem.feasible.binds else actions

    def __call__(self, problem: Problem, *, seed: Seed) -> DesignResult:
        """The design as `cobed.design` returns its own; the information is not measured."""
        started = time.perf_counter()
        actions = np.asarray(self.allowed_actions(as_key(seed), problem))
        return DesignResult(
            method=self.name,
            actions=actions,
            labels=[problem.model.action_space.label(action) for action in actions],
            contexts=np.asarray(problem.contexts),
            score=None,
            starts=[],
            stop_reason="Nothing to train.",
            seed=plain_seed(seed),
            seconds_design=time.perf_counter() - started,
            seconds_evaluation=0.0,
            fingerprint=joined(fingerprint(problem, seed=seed, designer=self)),
        )


class RandomUniform(AbstractBaseline):
    """Any allowed action of the space, each as likely as the others (unbounded entries are standard normal)."""

    @property
    def name(self):
        return "Random"

    def actions(self, key, problem):
        space, feasible = problem.model.action_space, problem.feasible
        if feasible.binds and space.options is not None:
            likes = np.asarray(jr.uniform(key, (problem.num_contexts, space.dim)), np.float64)
            return jax.nn.one_hot(feasible.options(likes), space.dim)
        actions = jax.vmap(space.sample)(jr.split(key, problem.num_contexts))
        return feasible.drawn_back(actions) if feasible.binds else actions


class RandomNormal(AbstractBaseline):
    """Random_s: continuous actions from N(0, s), s the standard deviation, brought back into their bounds."""

    std: float = eqx.field(static=True)

    @property
    def name(self):
        return f"Random_{_short(self.std)}"

    def actions(self, key, problem):
        space = _continuous_space(problem, self.name)
        return jax.vmap(space.project)(self.std * jr.normal(key, (problem.num_contexts, space.dim)))


class RandomCorners(AbstractBaseline):
    """Random_p: each entry of a bounded action at its upper bound with probability p, else at its lower one."""

    share: float = eqx.field(static=True)

    @property
    def name(self):
        return f"Random_{_short(self.share)}"

    def actions(self, key, problem):
        space = _continuous_space(problem, self.name)
        up = jr.bernoulli(key, self.share, (problem.num_contexts, space.dim))
        corners = jax.vmap(space.project)(jnp.where(up, jnp.inf, -jnp.inf))
        if not bool(jnp.all(jnp.isfinite(corners))):
            raise ProblemError(f"{self.name} needs an action space with finite bounds, and got {space}.")
        return corners


class UCB(AbstractBaseline):
    """UCB_alpha: the action of the largest prior mean plus alpha prior standard deviations of the mean reward.

    Both are estimated from `num_draws` of the prior; an exact tie is decided by their Monte Carlo error.
    """

    alpha: float = eqx.field(static=True)
    num_draws: int = eqx.field(static=True, default=4096)
    optimum: AbstractOptimum | None = None

    @property
    def name(self):
        return f"UCB_{_short(self.alpha)}"

    def actions(self, key, problem):
        def upper_bound(num_draws):
            return AverageReward(problem.model, num_draws, self.alpha)

        # Whether the bound is linear in the action shows with few draws.
        units = problem.contexts, problem.feasible.mask
        optimum = self.optimum or choose_optimum(upper_bound(4), *units)
        check_optimum(optimum, upper_bound(4), *units)
        return _best_by_bound(key, problem, upper_bound(self.num_draws), optimum)


class Thompson(AbstractBaseline):
    """For each context an independent draw of the prior, and the best action in it.

    `optimum` says where that is looked for: the paper's continuous example has `Grid(500, 0)`, which stays within [-4, 4].
    """

    optimum: AbstractOptimum | None = None

    @property
    def name(self):
        return "Thompson"

    def actions(self, key, problem):
        units = problem.contexts, problem.feasible.mask
        optimum = self.optimum or choose_optimum(problem.model, *units)
        check_optimum(optimum, problem.model, *units)
        return _best_of_own_draw(key, problem, optimum)


@lean_jit
def _best_by_bound(key, problem: Problem, bound: AverageReward, optimum: AbstractOptimum) -> Float[Array, "D A"]:
    params = bound.sample_prior(key)
    # One context after another: a grid over thousands of draws is large.
    units = problem.contexts, problem.feasible.mask
    return jax.lax.map(lambda unit: optimum(bound, params, *unit)[1], units)


@lean_jit
def _best_of_own_draw(key, problem: Problem, optimum: AbstractOptimum) -> Float[Array, "D A"]:
    def one(key, unit):
        return optimum(problem.model, problem.model.sample_prior(key), *unit)[1]

    return jax.vmap(one)(jr.split(key, problem.num_contexts), (problem.contexts, problem.feasible.mask))


def _continuous_space(problem: Problem, name: str):
    space = problem.model.action_space
    if len(space.continuous) != space.dim:
        raise ProblemError(f"{name} needs continuous actions, and got {space}. RandomUniform() serves every space.")
    return space


def _short(number: float) -> str:
    """.2, 1, .667: as the paper prints them."""
    text = f"{number:.3g}"
    return text[1:] if text.startswith("0.") else text
