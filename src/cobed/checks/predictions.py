"""What a model predicts for rows whose outcome is known: with that outcome, drawn anew, and as if it had not been seen.

Leaving a row out takes no second fit: the draws of the posterior are weighed by 1 / p(y_i | psi), and the largest weights are
smoothed by a generalised Pareto law (`checks/psis.py`). Its shape k says whether that can be trusted. Where the draws are of
several models in shares that are no probabilities (stacking), each model is weighed by itself and the shares stay: one row hardly
moves them, but 1 / p would.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.checks.psis import smoothed_weights
from cobed.compilation import lean_jit
from cobed.data import Data
from cobed.decide import mean_rewards
from cobed.models.base import AbstractModel, over_draws
from cobed.types import Array, Float, Params

# Numbers in one block of rewards (draws by rows by actions).
BLOCK = 2**23
# Rows are left out together in so many parts where the model is learned anew.
NUM_PARTS = 3
# More rows than this are stood for by some of them.
MAX_ROWS = 10_000


# From data to a model and draws of its psi.
Learn = Callable[[Data], tuple[AbstractModel, Params]]


class RowWeights(NamedTuple):
    """Of each of n rows: the weights of the M draws without it (M, n), which sum to one, and their Pareto shape k (n,)."""

    weights: np.ndarray
    k: np.ndarray


class Predictions:
    """What M equally weighted draws of psi say of the rows of `data`, which are at the positions `rows` among all units.

    `targets` (T, C) are some contexts of those the policy is for, `chosen` (T, A) what it gives them. `family` (M,) says which of
    several stacked models each draw is of. `learn` gives the model and equally weighted draws for other data.
    """

    def __init__(
        self,
        model: AbstractModel,
        params: Params,
        data: Data,
        rows: np.ndarray,
        policy: tuple[np.ndarray, np.ndarray],
        seed: int,
        family: np.ndarray | None = None,
        learn: Learn | None = None,
    ):
        self.model, self.params, self.data, self.rows, self.seed = model, params, data, rows, seed
        self.targets, self.chosen = policy
        self.family, self.learn = family, learn
        self.outcomes = np.asarray(data.outcomes, np.float64)
        self.num_draws = jax.tree.leaves(params)[0].shape[0]

    @functools.cached_property
    def expected(self) -> np.ndarray:
        """E[y | a_i, c_i, psi] of every draw, (M, n)."""
        return np.asarray(_expected(self.model, self.params, self.data.contexts, self.data.actions))

    @functools.cached_property
    def replicated(self) -> np.ndarray:
        """One outcome drawn anew for every draw and row, (M, n)."""
        keys = jr.split(jr.key(self.seed), self.num_draws)
        return np.asarray(_replicated(self.model, keys, self.params, self.data))

    @functools.cached_property
    def log_densities(self) -> np.ndarray | None:
        """log p(y_i | psi) of every draw, (M, n); None where the model has no likelihood."""
        if self.model.likelihood() is None:
            return None
        return np.asarray(_log_densities(self.model, self.params, self.data))

    @functools.cached_property
    def left_out(self) -> RowWeights | None:
        """How the draws weigh where each row is left out; None where the model has no likelihood."""
        if self.log_densities is None:
            return None
        # A row that a draw makes impossible weighs very much, and stays finite.
        ratios = -np.maximum(self.log_densities.T.astype(np.float64), -1e6)
        weights, k = np.zeros(ratios.shape), np.full(len(ratios), -np.inf)
        family = np.zeros(self.num_draws, int) if self.family is None else self.family
        for each in np.unique(family):
            draws = np.flatnonzero(family == each)
            own, own_k = smoothed_weights(ratios[:, draws])
            weights[:, draws], k = own * len(draws) / self.num_draws, np.maximum(k, own_k)
        return RowWeights(weights.T, k)

    def without_row(self, values: np.ndarray) -> np.ndarray | None:
        """The average of values (M, n), or (M,), had each row not been seen: (n,)."""
        if self.left_out is None:
            return None
        weights = self.left_out.weights
        return values @ weights if values.ndim == 1 else np.einsum("mn,mn->n", values, weights)

    @functools.cached_property
    def observed_rewards(self) -> np.ndarray:
        """What the outcomes earned, the costs of their actions paid, (n,)."""
        return np.asarray(jax.vmap(self.model.terms)(self.data.actions).net(self.data.outcomes), np.float64)

    @functools.cached_property
    def policy_values(self) -> np.ndarray:
        """What the policy earns per target under every draw, (M,)."""
        return np.asarray(_rewards_of_pairs(self.model, self.params, self.targets, self.chosen)).mean(axis=1)

    def cross_fitted(self, candidates: np.ndarray, rows: np.ndarray) -> "CrossFitted":
        """What each of J actions earns at some of the rows, learned without any row of its own part.

        Not by weights: without its own outcome alone, a lucky row is predicted to be worse than the others of its kind, so that an
        order by such predictions is turned round where there is little to learn.
        """
        assert self.learn is not None
        num_parts, num_all = min(NUM_PARTS, len(rows)), len(self.outcomes)
        parts = np.random.default_rng(self.seed).permutation(len(rows)) % num_parts
        # As many rows for each part, so that programs are compiled once.
        num_learned = num_all - int(np.bincount(parts).max())
        blocks: list[np.ndarray] = []
        for part in range(num_parts):
            others = np.setdiff1d(np.arange(num_all), rows[parts == part])[:num_learned]
            model, params = self.learn(self.data.rows(others))
            blocks.append(rewards_at(model, params, np.asarray(self.data.contexts)[rows[parts == part]], candidates))
        drawn = np.empty((len(rows), *blocks[0].shape[1:]), np.float32)
        for part, block in enumerate(blocks):
            drawn[parts == part] = block
        return CrossFitted(drawn, parts)


class CrossFitted(NamedTuple):
    """Rewards of R rows, J actions and M draws (R, J, M), and the part that each row was left out with (R,)."""

    drawn: np.ndarray
    parts: np.ndarray


def rewards_at(model: AbstractModel, params: Params, contexts: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """What each of J actions earns at R contexts under M draws, (R, J, M)."""
    num_draws = jax.tree.leaves(params)[0].shape[0]
    size = min(max(1, BLOCK // (num_draws * len(candidates))), len(contexts))
    blocks = []
    for start in range(0, len(contexts), size):
        # One shape for all blocks, one compilation.
        rows = np.resize(np.arange(start, min(start + size, len(contexts))), size)
        block = np.asarray(_rewards(model, params, contexts[rows], candidates))
        blocks.append(block[: len(contexts) - start])
    return np.concatenate(blocks)


@lean_jit
def _expected(model: AbstractModel, params: Params, contexts: Array, actions: Array) -> Float[Array, "M n"]:
    rows = jax.vmap(model.mean_outcome, in_axes=(None, 0, 0))
    return over_draws(model, lambda psi: rows(psi, contexts, actions), params)


@lean_jit
def _replicated(model: AbstractModel, keys: Array, params: Params, data: Data) -> Float[Array, "M n"]:
    return jax.lax.map(
        lambda each: model.sample_outcomes(each[0], each[1], data.contexts, data.actions), (keys, params), batch_size=64
    )


@lean_jit
def _log_densities(model: AbstractModel, params: Params, data: Data) -> Float[Array, "M n"]:
    rows = jax.vmap(model.likelihood(), in_axes=(None, 0, 0, 0))  # pyright: ignore[reportArgumentType]
    return over_draws(model, lambda psi: rows(psi, data.contexts, data.actions, data.outcomes), params)


@lean_jit
def _rewards(model: AbstractModel, params: Params, contexts: Any, candidates: Any) -> Float[Array, "R J M"]:
    return mean_rewards(model, params, jnp.asarray(contexts), jnp.asarray(candidates))


@lean_jit
def _rewards_of_pairs(model: AbstractModel, params: Params, contexts: Any, actions: Any) -> Float[Array, "M T"]:
    rows = jax.vmap(model.mean_reward, in_axes=(None, 0, 0))
    return over_draws(model, lambda psi: rows(psi, jnp.asarray(contexts), jnp.asarray(actions)), params)
