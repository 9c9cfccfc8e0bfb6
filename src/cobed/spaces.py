"""Action spaces. Inside the engine an action is always a float vector of length `space.dim`.

`Discrete` actions are one-hot vectors, `Box` actions are numbers, a `Product` is its parts laid end to end. For the
gradient ascent a space is reached from an unconstrained vector of the same length: `relax` gives a differentiable
action, `harden` the action that will be played.
"""

import abc
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.errors import SpaceError
from cobed.types import Array, Bool, Float, Key

# A product of more named combinations than this is not enumerated.
MAX_ENUMERATION = 100_000


class AbstractSpace(eqx.Module):
    """Where actions live."""

    dim: eqx.AbstractVar[int]

    @abc.abstractmethod
    def sample(self, key: Key[Array, ""]) -> Float[Array, " A"]:
        """A random action: uniform where the space is bounded."""

    @abc.abstractmethod
    def project(self, action: Float[Array, " A"]) -> Float[Array, " A"]:
        """The nearest valid action."""

    @abc.abstractmethod
    def contains(self, action: Float[Array, " A"]) -> Bool[Array, ""]:
        """Whether the vector is a valid action, up to rounding."""

    @abc.abstractmethod
    def initial_raw(self, key: Key[Array, ""]) -> Float[Array, " A"]:
        """A random unconstrained vector to start the ascent from."""

    @abc.abstractmethod
    def relax(
        self, key: Key[Array, ""], raw: Float[Array, " A"], temperature: Float[Array, ""], hard: Bool[Array, ""]
    ) -> Float[Array, " A"]:
        """A differentiable action for the unconstrained vector. `hard` is straight-through: discrete forward, soft backward."""

    @abc.abstractmethod
    def harden(self, raw: Float[Array, " A"]) -> Float[Array, " A"]:
        """The action played for the unconstrained vector."""

    @abc.abstractmethod
    def to_raw(self, action: Float[Array, " A"]) -> Float[Array, " A"]:
        """An unconstrained vector that hardens to (nearly) this action, where the ascent can begin: never at a wall."""

    @abc.abstractmethod
    def enumerate_discrete(self) -> Float[np.ndarray, "J A"]:
        """Every combination of the discrete parts, one a row, zeros in the continuous entries. One row where there are none."""

    @abc.abstractmethod
    def discrete_weights(self, action: Float[Array, " A"]) -> Float[Array, " J"]:
        """How much of each row of `enumerate_discrete` a (relaxed) action holds; sums to one."""

    @abc.abstractmethod
    def label(self, action: Any) -> Any:
        """The action in the user's words: a name, a number, or a tuple of them."""

    @abc.abstractmethod
    def parse(self, value: Any) -> Float[np.ndarray, " A"]:
        """The inverse of `label`. Raises `SpaceError` for a value the space does not hold."""

    @property
    @abc.abstractmethod
    def continuous(self) -> tuple[int, ...]:
        """Positions of the continuous entries in the action vector."""


class Discrete(AbstractSpace):
    """A finite set of named actions, represented one-hot.

    >>> offers = Discrete(["none", "5%", "10%"])
    >>> offers.dim, offers.label([0, 1, 0])
    (3, '5%')
    """

    names: tuple[str, ...] = eqx.field(static=True)
    dim: int = eqx.field(static=True)

    def __init__(self, names: Sequence[str] | int):
        """`names` of the actions, or their number (they are then called "1", "2", ...)."""
        if isinstance(names, str):
            raise SpaceError(
                f"Discrete takes a list of action names, not the single string {names!r}. Write Discrete([{names!r}, ...])."
            )
        if isinstance(names, int | np.integer):
            names = [str(i + 1) for i in range(int(names))]
        if not isinstance(names, Iterable):
            raise SpaceError(f"Discrete takes a list of action names, or their number, not {names!r}.")
        names = tuple(str(name) for name in names)
        if len(names) < 2:
            raise SpaceError(
                f"A discrete space needs at least 2 actions, got {len(names)}: with one there is nothing to choose."
            )
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise SpaceError(f"Action names must differ; {repeated} appear more than once.")
        self.names = names
        self.dim = len(names)

    @property
    def continuous(self) -> tuple[int, ...]:
        return ()

    def sample(self, key):
        return jax.nn.one_hot(jr.randint(key, (), 0, self.dim), self.dim)

    def project(self, action):
        return jax.nn.one_hot(jnp.argmax(action), self.dim)

    def contains(self, action):
        return jnp.all(jnp.abs(action - self.project(action)) < 1e-6)

    def initial_raw(self, key):
        # Nearly uniform: a confident start would keep the units that happened to begin on poor actions there.
        return 0.1 * jr.normal(key, (self.dim,))

    def relax(self, key, raw, temperature, hard):
        # Gumbel-Softmax: softmax((log alpha + g) / tau), g ~ Gumbel(0, 1)
        soft = jax.nn.softmax((raw + jr.gumbel(key, raw.shape)) / temperature)
        straight_through = soft + jax.lax.stop_gradient(self.project(soft) - soft)
        return jnp.where(hard, straight_through, soft)

    def harden(self, raw):
        return self.project(raw)

    def to_raw(self, action):
        # The other actions keep a chance.
        return 2.0 * self.project(action)

    def enumerate_discrete(self):
        return np.eye(self.dim, dtype=np.float32)

    def discrete_weights(self, action):
        return action

    def label(self, action):
        return self.names[int(np.argmax(np.asarray(action)))]

    def parse(self, value):
        if str(value) not in self.names:
            raise SpaceError(f"{value!r} is not an action. Allowed: {', '.join(self.names)}.")
        return np.eye(self.dim, dtype=np.float32)[self.names.index(str(value))]


class Box(AbstractSpace):
    """Real-valued actions between `low` and `high`, either of which may be infinite.

    >>> Box(0.0, [1.0, 5.0]).dim
    2
    >>> Box.real(dim=1, scale=2.0).low
    (-inf,)
    """

    low: tuple[float, ...] = eqx.field(static=True)
    high: tuple[float, ...] = eqx.field(static=True)
    scale: float = eqx.field(static=True)
    dim: int = eqx.field(static=True)

    def __init__(self, low: Any, high: Any, *, scale: float = 1.0):
        """`low`, `high`: numbers or vectors. `scale` is the typical size of an action along directions without two bounds."""
        try:
            lows, highs = np.broadcast_arrays(
                np.atleast_1d(np.asarray(low, float)), np.atleast_1d(np.asarray(high, float))
            )
        except (ValueError, TypeError) as error:
            raise SpaceError(
                f"Box bounds must be numbers or vectors of one length, got low={low!r}, high={high!r}."
            ) from error
        if lows.ndim != 1 or lows.size == 0:
            raise SpaceError(
                f"Box bounds must be numbers or vectors with at least one entry, got low={low!r}, high={high!r}."
            )
        if not (lows < highs).all():
            raise SpaceError(f"Box needs low < high in every entry, got low={lows.tolist()}, high={highs.tolist()}.")
        if not isinstance(scale, int | float) or not (math.isfinite(scale) and scale > 0):
            raise SpaceError(f"Box scale must be a positive number, got {scale!r}.")
        self.low, self.high = tuple(lows.tolist()), tuple(highs.tolist())
        self.scale = float(scale)
        self.dim = len(self.low)

    @classmethod
    def real(cls, dim: int = 1, *, scale: float = 1.0) -> "Box":
        """All of R^dim."""
        return cls(np.full(dim, -np.inf), np.full(dim, np.inf), scale=scale)

    @property
    def continuous(self) -> tuple[int, ...]:
        return tuple(range(self.dim))

    @property
    def bounded(self) -> bool:
        return bool(np.isfinite(self.low).all() and np.isfinite(self.high).all())

    def search_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Finite bounds for a grid: the box itself, or four scales around what is finite of it."""
        low, high, has_low, has_high = self._bounds()
        reach = 4 * self.scale
        return (
            np.where(has_low, low, np.where(has_high, high - 2 * reach, -reach)),
            np.where(has_high, high, np.where(has_low, low + 2 * reach, reach)),
        )

    def sample(self, key):
        low, high, has_low, has_high = self._bounds()
        uniform_key, normal_key = jr.split(key)
        uniform = low + jr.uniform(uniform_key, (self.dim,)) * (high - low)
        normal = self.scale * jr.normal(normal_key, (self.dim,))
        one_sided = jnp.where(has_low, low + jnp.abs(normal), high - jnp.abs(normal))
        return jnp.where(has_low & has_high, uniform, jnp.where(has_low | has_high, one_sided, normal))

    def project(self, action):
        return jnp.clip(action, jnp.array(self.low), jnp.array(self.high))

    def contains(self, action):
        low, high, has_low, has_high = self._bounds()
        size = jnp.where(has_low & has_high, high - low, jnp.maximum(self.scale, jnp.abs(action)))
        return jnp.all(jnp.abs(action - self.project(action)) <= 1e-5 * size)

    def initial_raw(self, key):
        _, _, has_low, has_high = self._bounds()
        uniform_key, normal_key = jr.split(key)
        # 0.8 keeps the first actions off the walls, where the gradient through tanh vanishes.
        uniform = jnp.arctanh(jr.uniform(uniform_key, (self.dim,), minval=-0.8, maxval=0.8))
        return jnp.where(has_low & has_high, uniform, 0.5 * jr.normal(normal_key, (self.dim,)))

    def relax(self, key, raw, temperature, hard):
        return self.harden(raw)

    def harden(self, raw):
        low, high, has_low, has_high = self._bounds()
        squashed = (low + high) / 2 + (high - low) / 2 * jnp.tanh(raw)
        above, below = low + self.scale * jax.nn.softplus(raw), high - self.scale * jax.nn.softplus(-raw)
        one_sided = jnp.where(has_low, above, below)
        action = jnp.where(has_low & has_high, squashed, jnp.where(has_low | has_high, one_sided, self.scale * raw))
        # Rounding can put a squashed action one ulp outside.
        return self.project(action)

    def to_raw(self, action):
        low, high, has_low, has_high = self._bounds()
        both, one = has_low & has_high, has_low ^ has_high
        inside = jnp.clip((2 * action - low - high) / np.where(both, high - low, 1.0), -0.95, 0.95)
        # softplus(raw) = distance from the one bound, in scales.
        distance = jnp.maximum(jnp.where(has_low, action - low, high - action) / self.scale, 0.05)
        away = jnp.log(jnp.expm1(jnp.where(one, distance, 1.0)))
        one_sided = jnp.where(has_low, away, -away)
        return jnp.where(both, jnp.arctanh(inside), jnp.where(one, one_sided, action / self.scale))

    def enumerate_discrete(self):
        return np.zeros((1, self.dim), dtype=np.float32)

    def discrete_weights(self, action):
        return jnp.ones(1)

    def label(self, action):
        values = [float(value) for value in np.asarray(action)]
        return values[0] if self.dim == 1 else tuple(values)

    def parse(self, value):
        try:
            action = np.atleast_1d(np.asarray(value, dtype=np.float32))
        except (ValueError, TypeError) as error:
            raise SpaceError(f"{value!r} is not a number (or a list of {self.dim}).") from error
        if action.shape != (self.dim,) or not bool(self.contains(jnp.asarray(action))):
            raise SpaceError(
                f"{value!r} is not in the box of {self.dim} number(s) between {list(self.low)} and {list(self.high)}."
            )
        return action

    def _bounds(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Bounds with zeros for the infinite ones, so that branches not taken stay finite, and which ones are finite."""
        has_low, has_high = np.isfinite(self.low), np.isfinite(self.high)
        return np.where(has_low, self.low, 0.0), np.where(has_high, self.high, 0.0), has_low, has_high


class Product(AbstractSpace):
    """Several spaces at once: which offer, and how large.

    >>> space = Product([Discrete(["mail", "phone"]), Box(0.0, 1.0)])
    >>> space.label([0, 1, 0.25])
    ('phone', 0.25)
    """

    parts: tuple[AbstractSpace, ...]
    dim: int = eqx.field(static=True)

    def __init__(self, parts: Sequence[AbstractSpace]):
        parts = tuple(parts) if isinstance(parts, Iterable) else ()
        if not parts or not all(isinstance(part, Discrete | Box) for part in parts):
            raise SpaceError("Product takes a non-empty list of Discrete and Box spaces; flatten nested products.")
        self.parts = parts
        self.dim = sum(part.dim for part in parts)
        combinations = math.prod(part.dim for part in parts if isinstance(part, Discrete))
        if combinations > MAX_ENUMERATION:
            raise SpaceError(
                f"This product has {combinations:,} discrete combinations; at most {MAX_ENUMERATION:,} can be enumerated."
            )

    @property
    def continuous(self) -> tuple[int, ...]:
        starts = itertools.accumulate((part.dim for part in self.parts), initial=0)
        return tuple(start + i for start, part in zip(starts, self.parts, strict=False) for i in part.continuous)

    def sample(self, key):
        return self._each(lambda part, k: part.sample(k), jr.split(key, len(self.parts)))

    def project(self, action):
        return self._each(lambda part, a: part.project(a), self._split(action))

    def contains(self, action):
        return jnp.all(jnp.stack([part.contains(a) for part, a in zip(self.parts, self._split(action), strict=True)]))

    def initial_raw(self, key):
        return self._each(lambda part, k: part.initial_raw(k), jr.split(key, len(self.parts)))

    def relax(self, key, raw, temperature, hard):
        keys = jr.split(key, len(self.parts))
        pieces = zip(self.parts, keys, self._split(raw), strict=True)
        return jnp.concatenate([part.relax(k, r, temperature, hard) for part, k, r in pieces])

    def harden(self, raw):
        return self._each(lambda part, r: part.harden(r), self._split(raw))

    def to_raw(self, action):
        return self._each(lambda part, a: part.to_raw(a), self._split(action))

    def enumerate_discrete(self):
        rows = itertools.product(*(part.enumerate_discrete() for part in self.parts))
        return np.stack([np.concatenate(row) for row in rows])

    def discrete_weights(self, action):
        weights = jnp.ones(1)
        for part, piece in zip(self.parts, self._split(action), strict=True):
            weights = jnp.outer(weights, part.discrete_weights(piece)).ravel()
        return weights

    def label(self, action):
        return tuple(part.label(a) for part, a in zip(self.parts, self._split(np.asarray(action)), strict=True))

    def parse(self, value):
        if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != len(self.parts):
            raise SpaceError(f"{value!r} is not a list of {len(self.parts)} values, one for each part of the action.")
        return np.concatenate([part.parse(v) for part, v in zip(self.parts, value, strict=True)])

    def _split(self, action: Any) -> list[Any]:
        stops = list(itertools.accumulate(part.dim for part in self.parts))
        return [action[stop - part.dim : stop] for part, stop in zip(self.parts, stops, strict=True)]

    def _each(self, function: Any, pieces: Any) -> Array:
        return jnp.concatenate([function(part, piece) for part, piece in zip(self.parts, pieces, strict=True)])


def label_columns(labels: Sequence[Any]) -> dict[str, list[Any]]:
    """Labels of many actions as columns of a table: "action", or "action_0", "action_1", ... where they have several parts."""
    parts = [label if isinstance(label, tuple) else (label,) for label in labels]
    width = len(parts[0])
    names = ["action"] if width == 1 else [f"action_{i}" for i in range(width)]
    return {name: [part[i] for part in parts] for i, name in enumerate(names)}
