"""How hard the compiler should try."""

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax

# For what runs once, or a few times on little data: compiling takes a quarter of the time on a CPU.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
# For hot loops: measured as fast as the default level, and compiled in half the time. JAX may have been told to do less.
LEAN = {} if jax.config.read("jax_disable_most_optimizations") else {"xla_backend_optimization_level": 1}

F = TypeVar("F", bound=Callable[..., Any])


def quick_jit(function: F) -> F:
    """`eqx.filter_jit`, quick to compile."""
    return eqx.filter_jit(function, compiler_options=QUICK)  # pyright: ignore[reportCallIssue, reportReturnType]


def lean_jit(function: F) -> F:
    """`eqx.filter_jit` for what runs long: as fast as the default, and compiled sooner."""
    return eqx.filter_jit(function, compiler_options=LEAN)  # pyright: ignore[reportCallIssue, reportReturnType]
