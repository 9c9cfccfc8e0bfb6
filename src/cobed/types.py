"""Array aliases used in every signature. Shapes stand in the annotations."""

from typing import Any

from jaxtyping import Array, Bool, Float, Int, Key, PyTree, Shaped

# One draw of psi: any pytree of arrays, the model's own business.
Params = PyTree[Any]

__all__ = ["Array", "Bool", "Float", "Int", "Key", "Params", "PyTree", "Shaped"]
