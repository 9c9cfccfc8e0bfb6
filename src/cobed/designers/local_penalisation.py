"""Baselines of the paper's Gaussian process example: one-step scores of an action, kept apart by local penalties.

Each unit takes the action of the largest score; equal scores are decided by chance. With penalties, units choose one after
another, and the score of a point x = (context, action) is multiplied by 1 - k0(x, x') for every point x' already chosen.
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from cobed.compilation import lean_jit
from cobed.designers.baselines import UCB, AbstractBaseline
from cobed.designers.expected_max import expected_gain_affine
from cobed.errors import ProblemError
from cobed.models.kernels import RBF
from cobed.problem import Problem
from cobed.types import Array, Float, Key

# Numbers held at once while the upper envelopes of all actions of a context are computed.
MAX_ENVELOPE = 2**22
# Scores this near to the largest, as a share of it, are equal but for rounding.
EQUAL = 1e-5


class AbstractScored(AbstractBaseline):
    """Every unit takes the action of the largest score on a grid, or of all discrete actions."""

    num_points: eqx.AbstractVar[int | None]

    @abc.abstractmethod
    def scores(self, model: Any, contexts: Float[Array, "J C"], actions: Float[Array, "J A"]) -> Float[Array, " J"]:
        """How much is hoped for from each action, for one context repeated J times."""

    @property
    @abc.abstractmethod
    def penalty(self) -> RBF | None:
        """k0 of the penalties; None for none. The scores must then not be negative."""

    def actions(self, key, problem):
        model = require_moments(problem, self.name)
        return _play(key, self, problem, jnp.asarray(model.action_space.grid(self.num_points)))


class LEVI(AbstractScored):
    """Local expected value of improvement: by how much the best expected reward of the context itself will rise.

    LEVI(c, a) = E[max_a' mu(c, a') + s(a'; a) Z] - max_a' mu(c, a'),   s(a'; a) = k((c, a'), (c, a)) / sd(y | c, a)

    `num_points` on the grid over continuous actions (None: 128 on a line, more in more dimensions). `penalty_length` is
    the lengthscale of the penalties over contexts and actions alike.
    """

    penalised: bool = eqx.field(static=True, default=False)
    num_points: int | None = eqx.field(static=True, default=None)
    penalty_length: float = eqx.field(static=True, default=1 / 3)

    @property
    def name(self):
        return "LEVI+LP" if self.penalised else "LEVI"

    @property
    def penalty(self):
        return RBF(self.penalty_length) if self.penalised else None

    def scores(self, model, contexts, actions):
        means, cov = model.moments(contexts, actions)
        # Row a: the slopes of the posterior mean of every action in the standardised outcome of action a.
        slopes = cov / jnp.sqrt(jnp.maximum(jnp.diagonal(cov), 0.0) + model.noise_std**2)[:, None]
        at_once = max(1, MAX_ENVELOPE // len(means) ** 2)
        return jax.lax.map(lambda row: expected_gain_affine(means, row), slopes, batch_size=min(at_once, len(means)))


class ExactUCB(AbstractScored):
    """UCB_alpha by the moments of the mean reward themselves, where `baselines.UCB` has to estimate them."""

    alpha: float = eqx.field(static=True)
    num_points: int | None = eqx.field(static=True, default=None)

    @property
    def name(self):
        return UCB(self.alpha).name

    @property
    def penalty(self):
        return None

    def scores(self, model, contexts, actions):
        means, cov = model.moments(contexts, actions)
        return means + self.alpha * jnp.sqrt(jnp.maximum(jnp.diagonal(cov), 0.0))


class UCBLocalPenalisation(AbstractScored):
    """UCB+LP: mean plus alpha standard deviations of the mean reward, made positive by softplus, with penalties."""

    alpha: float = eqx.field(static=True, default=2.0)
    num_points: int | None = eqx.field(static=True, default=None)
    penalty_length: float = eqx.field(static=True, default=1 / 3)

    @property
    def name(self):
        return "UCB+LP"

    @property
    def penalty(self):
        return RBF(self.penalty_length)

    def scores(self, model, contexts, actions):
        return jax.nn.softplus(ExactUCB(alpha=self.alpha).scores(model, contexts, actions))


def has_moments(problem: Problem) -> bool:
    """Whether rewards and outcomes are jointly Gaussian, with moments that the model tells."""
    model, contexts = problem.model, problem.contexts
    actions = jax.ShapeDtypeStruct((len(contexts), problem.action_dim), jnp.float32)
    return model.gaussian_noise() is not None and jax.eval_shape(model.moments, contexts, actions) is not None


def require_moments(problem: Problem, name: str) -> Any:
    """The problem's model, where its rewards and outcomes are jointly Gaussian; otherwise `ProblemError`."""
    model = problem.model
    if not has_moments(problem):
        raise ProblemError(
            f"{name} computes with covariances of rewards, which {type(model).__name__} does not give. It needs a "
            "cobed.models.GaussianProcess, or a model with Gaussian noise and the methods `moments` and `covariance`."
        )
    return model


@lean_jit
def _play(
    key: Key[Array, ""], designer: AbstractScored, problem: Problem, candidates: Float[Array, "J A"]
) -> Float[Array, "D A"]:
    model: Any = problem.model
    num_units, penalty = problem.num_contexts, designer.penalty

    def choose(
        chosen: Float[Array, "D X"], unit: tuple[Array, Float[Array, " C"], Key[Array, ""]]
    ) -> tuple[Float[Array, "D X"], Float[Array, " A"]]:
        position, context, key = unit
        contexts = jnp.broadcast_to(context, (len(candidates), len(context)))
        scores = designer.scores(model, contexts, candidates)
        points = jnp.concatenate([contexts, candidates], axis=1)
        if penalty is not None:
            nearness = jnp.where(jnp.arange(num_units) < position, penalty.matrix(points, chosen), 0.0)
            scores = scores * jnp.prod(1 - nearness, axis=1)
        largest = jnp.max(scores)
        equal = scores >= largest - EQUAL * jnp.abs(largest)
        winner = jnp.argmax(jnp.where(equal, jr.uniform(key, scores.shape), -1.0))
        return chosen.at[position].set(points[winner]), candidates[winner]

    nothing = jnp.zeros((num_units, problem.contexts.shape[1] + candidates.shape[1]))
    units = (jnp.arange(num_units), problem.contexts, jr.split(key, num_units))
    return jax.lax.scan(choose, nothing, units)[1]
