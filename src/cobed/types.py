"""Array aliases used in every signature. Shapes stand in the annotations."""

from typing import Any, TypeVar

import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree, Shaped

# One draw of psi: any pytree of arrays, the model's own business.
Params = PyTree[Any]
T = TypeVar("T")

# Of JAX or of NumPy.
AnyArray = Array | np.ndarray

__all__ = ["AnyArray", "Array", "Bool", "Float", "Int", "Key", "Params", "PyTree", "Shaped", "present"]


def present(value: T | None) -> T:
    """What only some can give, of one that was asked before: never None."""
    assert value is not None
    return value
