"""Several spaces at once."""

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.errors import SpaceError
from cobed.spaces.base import AbstractSpace
from cobed.spaces.box import Box
from cobed.spaces.discrete import Discrete
from cobed.types import Array

# A product of more named combinations than this is not enumerated.
MAX_ENUMERATION = 100_000


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
        combinations = math.prod(len(part.enumerate_discrete()) for part in parts)
        if combinations > MAX_ENUMERATION:
            raise SpaceError(
                f"This product has {combinations:,} discrete combinations; at most {MAX_ENUMERATION:,} can be enumerated."
            )

    @property
    def continuous(self) -> tuple[int, ...]:
        starts = itertools.accumulate((part.dim for part in self.parts), initial=0)
        return tuple(start + i for start, part in zip(starts, self.parts, strict=False) for i in part.continuous)

    def pieces(self):
        stops = itertools.accumulate(part.dim for part in self.parts)
        return [(part, slice(stop - part.dim, stop)) for part, stop in zip(self.parts, stops, strict=True)]

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

    def search_bounds(self):
        low, high = zip(*(part.search_bounds() for part in self.parts), strict=True)
        return np.concatenate(low), np.concatenate(high)

    def labels(self, actions, digits=None):
        pieces = zip(self.parts, self._split(np.asarray(actions).T), strict=True)
        return list(zip(*(part.labels(piece.T, digits) for part, piece in pieces), strict=True))

    def parse_all(self, values):
        for value in values:
            if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != len(self.parts):
                raise SpaceError(
                    f"{value!r} is not a list of {len(self.parts)} values, one for each part of the action."
                )
        columns = zip(*values, strict=True) if len(values) else [()] * len(self.parts)
        return np.concatenate(
            [part.parse_all(column) for part, column in zip(self.parts, columns, strict=True)], axis=1
        )

    def _split(self, action: Any) -> list[Any]:
        stops = list(itertools.accumulate(part.dim for part in self.parts))
        return [action[stop - part.dim : stop] for part, stop in zip(self.parts, stops, strict=True)]

    def _each(self, function: Any, pieces: Any) -> Array:
        return jnp.concatenate([function(part, piece) for part, piece in zip(self.parts, pieces, strict=True)])
