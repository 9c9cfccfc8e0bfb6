"""Numbers between two bounds."""

import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.errors import SpaceError
from cobed.spaces.base import AbstractSpace


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
    names: tuple[str, ...] | None = eqx.field(static=True)

    def __init__(self, low: Any, high: Any, *, scale: float = 1.0, names: Sequence[str] | None = None):
        """`low`, `high`: numbers or vectors. `scale` is the typical size of an action along directions without two bounds.
        With `names`, one for each number, actions in the user's words are dictionaries."""
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
        self.names = None if names is None else tuple(names)
        if self.names is not None and len(set(self.names)) != self.dim:
            raise SpaceError(f"Box has {self.dim} number(s) and needs as many different names, got {list(self.names)}.")

    @property
    def entry_names(self):
        return self.names or super().entry_names

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

    def bounds(self):
        return (np.asarray(self.low, np.float32), np.asarray(self.high, np.float32)) if self.bounded else None

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

    def labels(self, actions, digits=None):
        rows = np.asarray(actions, np.float64)
        if digits is not None:
            # Rounding must not leave the box.
            rows = np.clip(np.char.mod(f"%.{digits}g", rows).astype(float), self.low, self.high)
        if self.names is not None:
            return [dict(zip(self.names, row, strict=True)) for row in rows.tolist()]
        return rows[:, 0].tolist() if self.dim == 1 else [tuple(row) for row in rows.tolist()]

    def parse_all(self, values):
        if not len(values):
            return np.zeros((0, self.dim), np.float32)
        try:
            rows = values if self.names is None else [[value[name] for name in self.names] for value in values]
            actions = np.asarray(rows, dtype=np.float32)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            for value in values if len(values) > 1 else ():
                self.parse_all([value])
            wanted = f"a number (or a list of {self.dim})" if self.names is None else f"numbers of {list(self.names)}"
            raise SpaceError(f"{values[0]!r} is not {wanted}.") from error
        actions = actions[:, None] if actions.ndim == 1 else actions
        inside = np.zeros(len(values), bool)
        if actions.shape == (len(values), self.dim):
            # As `contains`, on the host.
            low, high, has_low, has_high = self._bounds()
            size = np.where(has_low & has_high, high - low, np.maximum(self.scale, np.abs(actions)))
            inside = (np.abs(actions - np.clip(actions, self.low, self.high)) <= 1e-5 * size).all(axis=1)
        if not inside.all():
            raise SpaceError(
                f"{values[int(np.argmin(inside))]!r} is not in the box of {self.dim} number(s) between {list(self.low)} and "
                f"{list(self.high)}."
            )
        return actions

    def _bounds(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Bounds with zeros for the infinite ones, so that branches not taken stay finite, and which ones are finite."""
        has_low, has_high = np.isfinite(self.low), np.isfinite(self.high)
        return np.where(has_low, self.low, 0.0), np.where(has_high, self.high, 0.0), has_low, has_high
