"""How hard the compiler should try."""

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx

# For what runs once, or a few times on little data: compiling takes a quarter of the time on a CPU.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}

F = TypeVar("F", bound=Callable[..., Any])


def quick_jit(function: F) -> F:
    """`eqx.filter_jit`, quick to compile."""
    return eqx.filter_jit(function, compiler_options=QUICK)  # pyright: ignore[reportCallIssue, reportReturnType]
