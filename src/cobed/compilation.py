"""How hard the compiler should try, whether its programs compute correctly, and when they are forgotten."""

import functools
import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxlib.version import __version__ as version

from cobed.errors import CompilerError

# Versions of jaxlib that were measured to compute correctly.
RIGHT = {"0.7.2", "0.8.2", "0.9.2", "0.10.0", "0.10.1"}
# Versions that fuse sums of products wrongly on a CPU: wrong numbers (jax issue 39103) or crashes (39257, 40412).
WRONG = {"0.10.2", "0.11.0"}
# With nothing behind the equals sign it switches that fusion off.
FUSION_FLAG = "--xla_cpu_experimental_ynn_fusion_type="

# Half of the time to compile on a CPU goes to fusion emitters, and programs were measured as fast without them. Versions
# that nobody tried may refuse the option.
NO_EMITTERS = {"xla_cpu_use_fusion_emitters": False} if version in RIGHT else {}
# For what runs once, or a few times on little data: the quickest to compile.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True, **NO_EMITTERS}
# For hot loops: measured as fast as the default level, and compiled much sooner. JAX may have been told to do less.
LEAN = {} if jax.config.read("jax_disable_most_optimizations") else {"xla_backend_optimization_level": 1, **NO_EMITTERS}

# A process may have so many memory maps on Linux. Every compiled program keeps about 15, and XLA crashes without more.
MAX_MAPS = Path("/proc/sys/vm/max_map_count")
# They are counted each time so many programs have been compiled, which takes about 2 ms.
PROGRAMS_PER_COUNT = 200

num_compiled = num_at_last_count = 0

F = TypeVar("F", bound=Callable[..., Any])


def quick_jit(function: F) -> F:
    """`eqx.filter_jit`, quick to compile."""
    return _jit(function, QUICK)


def lean_jit(function: F) -> F:
    """`eqx.filter_jit` for what runs long: as fast as the default, and compiled sooner."""
    return _jit(function, LEAN)


def _jit(function: F, options: dict[str, Any]) -> F:
    compiled = eqx.filter_jit(function, compiler_options=options)  # pyright: ignore[reportCallIssue]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        forget_programs_in_time()
        return compiled(*args, **kwargs)

    return call  # pyright: ignore[reportReturnType]


@functools.cache
def check_compiler() -> None:
    """Raise `CompilerError` where compiled programs give wrong numbers. Every model calls it when it is constructed.

    Free with a version that is known; otherwise a program is compiled once, which takes some 20 ms. A version known to be
    wrong is accepted where the faulty fusion is switched off and the program comes out right.
    """
    if version in RIGHT or jax.default_backend() != "cpu":
        return
    switched_off = FUSION_FLAG in os.environ.get("XLA_FLAGS", "").split()
    # Some of the wrong versions crash rather than compute: they are tried only with the fusion switched off.
    if (version in WRONG and not switched_off) or sum_of_products_error() > 1e-3:
        raise CompilerError(
            f"jaxlib {version} computes wrong numbers on a CPU, without an error (jax issue 39103), so cobed does not use it. "
            'Install another version: pip install "jax!=0.10.2,!=0.11.0" "jaxlib!=0.10.2,!=0.11.0". Or, to keep this one, set '
            f"the environment variable XLA_FLAGS={FUSION_FLAG} (nothing after the equals sign) before Python starts."
        )


def sum_of_products_error() -> float:
    """The largest error of the mean rewards of a linear model, compiled for more draws times rows than 32,768.

    That is where jaxlib 0.10.2 begins to fail: the smallest program known to be compiled wrongly.
    """
    rng = np.random.default_rng(0)
    draws, rows, offsets = (rng.normal(size=size).astype(np.float32) for size in ((3300, 2), (10, 2), (10,)))

    def rewards(draws):
        return jax.vmap(lambda psi: jax.vmap(lambda row, offset: jnp.sum(row * psi) + offset)(rows, offsets))(draws)

    # A model may be constructed while something else is traced, or where JAX was told not to compile.
    with jax.ensure_compile_time_eval(), jax.disable_jit(False):
        computed = np.asarray(jax.jit(rewards)(draws))
    return float(np.abs(computed - (draws.astype(np.float64) @ rows.T + offsets)).max())


def forget_programs_in_time() -> None:
    """Drop all compiled programs where they have used up half of the memory maps the process may have."""
    global num_at_last_count
    # Not in the middle of tracing another program, where every new array is a tracer.
    if num_compiled - num_at_last_count < PROGRAMS_PER_COUNT or isinstance(jnp.zeros(()), Tracer):
        return
    num_at_last_count = num_compiled
    maps = Path("/proc/self/maps")
    if maps.exists() and MAX_MAPS.exists() and maps.read_bytes().count(b"\n") > int(MAX_MAPS.read_text()) // 2:
        jax.clear_caches()
        gc.collect()


def _count_compilation(event: str, duration_secs: float, **kwargs: Any) -> None:
    global num_compiled
    num_compiled += event == "/jax/core/compile/backend_compile_duration"


jax.monitoring.register_event_duration_secs_listener(_count_compilation)
