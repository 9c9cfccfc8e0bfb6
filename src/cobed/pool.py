"""Prior draws with their max-values. Neither depends on the design, so they can be drawn once and reused."""

import abc
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from cobed.compilation import lean_jit
from cobed.errors import BudgetError
from cobed.problem import Problem
from cobed.types import Array, Float, Key, Params

# Below this many reward evaluations a draw, a fresh draw costs less than the critic's work on it.
CHEAP_EVALUATIONS = 2_000
MAX_POOL_BYTES = 2**30

Draws = tuple[Params, Float[Array, "B T"]]


class AbstractSource(eqx.Module):
    """Where the training loop gets its batches of (psi, m*)."""

    # What stands in the place of m*, in the words of the user.
    about: ClassVar[str] = "max-values"

    @property
    def size(self) -> int | None:
        """How many draws are kept; None where all are new."""
        return None

    def unseen(self, key: Key[Array, ""], problem: Problem, num_draws: int) -> "AbstractSource":
        """A source of other draws, of which at least so many are asked for at once."""
        return self

    @abc.abstractmethod
    def batch(self, key: Key[Array, ""], size: int) -> Draws:
        """`size` draws of psi, stacked, with their m* of shape (size, T)."""


class FreshDraws(AbstractSource):
    """New draws every time: no memory, nothing to overfit."""

    problem: Problem

    def batch(self, key, size):
        params = jax.vmap(self.problem.model.sample_prior)(jr.split(key, size))
        return params, jax.vmap(lambda p: self.problem.best(p)[0])(params)


class ParameterDraws(AbstractSource):
    """New draws with psi itself, flat, in the place of m*: for the classical objective, information about all of psi."""

    about = "parameters"
    problem: Problem

    def batch(self, key, size):
        params = jax.vmap(self.problem.model.sample_prior)(jr.split(key, size))
        leaves = [leaf.reshape(size, -1).astype(jnp.float32) for leaf in jax.tree.leaves(params)]
        return params, jnp.concatenate(leaves, axis=1)


class Pool(AbstractSource):
    """Draws kept in memory. A batch is a window at a random place: the draws are independent, so no shuffle is needed."""

    params: Params
    max_values: Float[Array, "N T"]

    @property
    def size(self) -> int:
        return self.max_values.shape[0]

    def unseen(self, key, problem, num_draws):
        return draw_pool(key, problem, max(num_draws, self.size // 4))

    def batch(self, key, size):
        if size > self.size:
            raise BudgetError(
                f"A batch of {size:,} does not fit in the pool of {self.size:,} draws (a pool takes at most "
                f"{MAX_POOL_BYTES / 2**30:.0f} GiB). Use smaller batches or fewer targets."
            )
        start = jr.randint(key, (), 0, self.size - size + 1)
        return jax.tree.map(
            lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, start, size), (self.params, self.max_values)
        )


def draw_pool(
    key: Key[Array, ""], problem: Problem, size: int, *, chunk: int = 1024, max_bytes: int = MAX_POOL_BYTES
) -> Pool:
    """`size` draws with their max-values, computed `chunk` at a time so that a grid search fits in memory."""
    needed = size * bytes_per_draw(problem)
    if needed > max_bytes:
        raise BudgetError(
            f"A pool of {size:,} draws needs {needed / 2**30:.1f} GiB; {max_bytes / 2**30:.1f} GiB are allowed. "
            f"Draw at most {max_bytes // bytes_per_draw(problem):,}, or use fresh draws."
        )
    num_chunks = -(-size // chunk)
    fresh = FreshDraws(problem)
    draws = _draw_chunks(fresh, jr.split(key, num_chunks), chunk)
    return Pool(*jax.tree.map(lambda leaf: jax.lax.collapse(leaf, 0, 2)[:size], draws))


@lean_jit
def _draw_chunks(fresh: FreshDraws, keys: Key[Array, " N"], chunk: int) -> Draws:
    return jax.lax.map(lambda key: fresh.batch(key, chunk), keys)


def make_source(
    key: Key[Array, ""], problem: Problem, size: int, kind: Literal["auto", "fresh", "pool"] = "auto"
) -> FreshDraws | Pool:
    """Fresh draws where they are cheap, otherwise a pool of at most `size` draws within the memory allowed."""
    if kind not in ("auto", "fresh", "pool"):
        raise BudgetError(f"Unknown source of draws {kind!r}. Allowed: 'auto', 'fresh', 'pool'.")
    if kind == "fresh" or (kind == "auto" and is_cheap(problem)):
        return FreshDraws(problem)
    return draw_pool(key, problem, min(size, MAX_POOL_BYTES // bytes_per_draw(problem)))


def is_cheap(problem: Problem) -> bool:
    """Whether a draw with its m* costs less than the critic's work on it, so that it need not be kept."""
    return problem.optimum.num_evaluations(problem.model) * problem.num_targets <= CHEAP_EVALUATIONS


def bytes_per_draw(problem: Problem) -> int:
    """Memory of one (psi, m*) in a pool."""
    params = jax.eval_shape(problem.model.sample_prior, jr.key(0))
    leaves = [*jax.tree.leaves(params), jax.ShapeDtypeStruct((problem.num_targets,), jnp.float32)]
    return max(1, sum(leaf.size * leaf.dtype.itemsize for leaf in leaves))
