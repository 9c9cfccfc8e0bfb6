"""JAX, loaded when first used: what only reads tables and databases starts without it."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jax
    import jax.numpy as jnp
    import jax.random as jr
    import jax.scipy.special as jsp
else:

    class _Lazy:
        def __init__(self, name: str):
            self._name = name

        def __getattr__(self, name: str) -> Any:
            return getattr(importlib.import_module(self._name), name)

    jax, jnp, jr, jsp = map(_Lazy, ("jax", "jax.numpy", "jax.random", "jax.scipy.special"))

__all__ = ["jax", "jnp", "jr", "jsp"]
