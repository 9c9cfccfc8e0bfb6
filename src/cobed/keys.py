"""One rule for randomness at the public edge: `seed=` is a whole number or a JAX key. Inside, a key comes first."""

import functools
import operator
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.errors import ProblemError
from cobed.types import Array, Key

Seed = int | Key[Array, ""]
F = TypeVar("F", bound=Callable[..., Any])
# What jax.random takes for a seed without wrapping it around.
MAX_SEED = 2**63


def as_key(seed: Seed) -> Key[Array, ""]:
    """The key of a seed; a key is its own. `ProblemError` for anything else."""
    if is_key(seed):
        return seed  # pyright: ignore[reportReturnType]
    try:
        number = operator.index(seed)  # pyright: ignore[reportArgumentType]
    except TypeError as error:
        raise ProblemError(
            f"seed must be a whole number or a JAX key such as jax.random.key(0), got {seed!r}."
        ) from error
    if not -MAX_SEED <= number < MAX_SEED:
        raise ProblemError(f"seed must be a whole number of at most 63 bits, got {number}.")
    return jr.key(number)


def is_key(value: Any) -> bool:
    """Whether this is one JAX key of the new kind, `jax.random.key(0)`."""
    return isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key) and value.ndim == 0


def plain_seed(seed: Seed) -> int | list[int]:
    """A seed as JSON can hold it: the number, or the data of a key."""
    return np.asarray(jr.key_data(seed)).tolist() if is_key(seed) else operator.index(seed)  # pyright: ignore[reportArgumentType]


def key_came_first(function: F) -> F:
    """Let calls in the form of 0.1.0, `function(key, ...)`, go on working: the key becomes `seed=`, with a warning."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if args and is_key(args[0]):
            name = function.__name__
            warnings.warn(
                f"cobed.{name}(key, ...) is now cobed.{name}(..., seed=key).", DeprecationWarning, stacklevel=2
            )
            return function(*args[1:], seed=args[0], **kwargs)
        return function(*args, **kwargs)

    return call  # pyright: ignore[reportReturnType]
