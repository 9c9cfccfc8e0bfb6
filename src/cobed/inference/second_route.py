"""The log-densities that a sampler went by, computed again for a few draws by a second route, and compared.

The first route is one program for thousands of draws at once. Where a compiler gets such a program wrong, neither effective
sizes nor Pareto k nor calibration notice. The second route takes one draw and at most `ROWS` rows at a time, compiled with few
optimisations, and adds up the rows in double precision on the host.

Two right routes differ by rounding. Where they differ by more than a sum of rows explains, how much that is gets measured: the
second one is run again with the result of every operation moved up or down by a unit in the last place, as any other order of the
operations might. Terms that cancel then show what they cost.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal

from cobed.compilation import FUSION_FLAG, quick_jit, version
from cobed.data import Data
from cobed.errors import CompilerError
from cobed.models.base import AbstractModel
from cobed.types import Array, Float, Params

# Of all draws so many evenly spaced, the last one included, and as many of the largest weight.
NUM_EACH = 16
ROWS = 256
# A difference of less changes no weight by more than a hundredth.
HARMLESS = 0.01
# Where one route gives a density and the other none, it matters for draws this close to the best, in nats.
RELEVANT = 100.0
EPSILON = float(np.finfo(np.float32).eps)
# Operations that hold others, and operations that only move numbers about.
CALLS = {"jit", "pjit", "checkpoint"}
EXACT = {
    "broadcast_in_dim", "reshape", "squeeze", "transpose", "slice", "dynamic_slice", "concatenate", "gather", "select_n",
    "neg", "abs", "max", "min", "sign", "stop_gradient", "copy", "rev", "pad", "reduce_max", "reduce_min", "sort",
}  # fmt: skip


class Witnesses(NamedTuple):
    """Draws, stacked K, and the log-densities that a sampler computed for them and used.

    `rounding` is what the sampler's own formula loses, beyond what is measured.
    """

    params: Params
    log_density: Any
    rounding: Any


def choose_witnesses(
    params: Params, log_density: Float[Array, " N"], log_weights: Float[Array, " N"] | None = None
) -> Witnesses:
    """Some evenly spaced draws and some of the largest weight. Pure; what nobody reads is not computed."""
    num_draws = log_density.shape[0]
    even = jnp.asarray(np.linspace(0, num_draws - 1, NUM_EACH).astype(int))
    _, largest = jax.lax.top_k(log_density if log_weights is None else log_weights, min(NUM_EACH, num_draws))
    chosen = jnp.concatenate([even, largest])
    return Witnesses(jax.tree.map(lambda leaf: leaf[chosen], params), log_density[chosen], jnp.zeros(chosen.shape))


def gaussian_witnesses(params: Params, residuals: Any, noise_std: float) -> Witnesses:
    """Some draws, evenly spaced, whose residuals y - E[y | psi], (N, D), a sampler believes to be these."""
    chosen = np.linspace(0, len(residuals) - 1, 2 * NUM_EACH).astype(int)
    standardised = np.asarray(residuals, np.float64)[chosen] / noise_std
    log_density = -0.5 * (standardised**2).sum(1) - residuals.shape[1] * np.log(noise_std * np.sqrt(2 * np.pi))
    return Witnesses(jax.tree.map(lambda leaf: leaf[chosen], params), log_density, np.zeros(len(chosen)))


def quadratic_witnesses(
    params: Params,
    flat: Float[Array, "N P"],
    pull: Float[Array, " P"],
    matrix: Float[Array, "P P"],
    residuals: Array,
    noise_std: float,
) -> Witnesses:
    """Some draws whose log-likelihood a sampler takes for c + w . pull - w . matrix w / 2, with these residuals (D,) at zero."""
    chosen = np.linspace(0, len(flat) - 1, 2 * NUM_EACH).astype(int)
    w, num_rows = flat[chosen], residuals.size
    constant = jnp.sum((residuals / noise_std) ** 2) / 2 + num_rows * jnp.log(noise_std * jnp.sqrt(2 * jnp.pi))
    log_density = w @ pull - jnp.sum(w * (w @ matrix), axis=1) / 2 - constant
    # Terms of any size that cancel, each a sum over the rows.
    terms = (
        jnp.abs(w) @ jnp.abs(pull) + jnp.sum(jnp.abs(w) * (jnp.abs(w) @ jnp.abs(matrix)), axis=1) + jnp.abs(constant)
    )
    rounding = 4 * EPSILON * num_rows**0.5 * terms
    return Witnesses(jax.tree.map(lambda leaf: leaf[chosen], params), log_density, rounding)


def join(*witnesses: Witnesses) -> Witnesses:
    """All of them together."""
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *witnesses)


def check_densities(
    name: str,
    model: AbstractModel,
    data: Data,
    witnesses: Witnesses,
    log_prior: Callable[[Any, Params], Float[Array, ""]] | None = None,
) -> None:
    """Raise `CompilerError` where the sampler's log-densities are not `log_prior(model, psi)` + log p(y | psi)."""
    first = np.asarray(witnesses.log_density, np.float64)
    second, allowed = second_route(model, data, witnesses.params, log_prior)
    allowed += HARMLESS + np.asarray(witnesses.rounding, np.float64)
    if not (wrong := _differ(first, second, allowed)).any():
        return
    other, _ = second_route(model, data, witnesses.params, log_prior, amount=EPSILON)
    with np.errstate(invalid="ignore"):
        moved = np.nan_to_num(np.abs(other - second), nan=0.0, posinf=0.0)
    # By luck one draw may be moved by less than the others.
    allowed += 8 * np.maximum(moved, np.median(moved))
    wrong = _differ(first, second, allowed)
    if not wrong.any():
        return
    worst = int(np.argmax(np.where(wrong, np.nan_to_num(np.abs(first - second), nan=np.inf, posinf=np.inf), -1.0)))
    raise CompilerError(
        f"The posterior by {name} is refused: for {int(wrong.sum())} of {len(wrong)} draws that were computed again, the "
        f"log-density is another one. Compiled for all draws at once it is {first[worst]:.6g}, for that draw alone, a few rows "
        f"at a time, {second[worst]:.6g}; rounding explains {allowed[worst]:.2g}. Either jaxlib {version} computes wrong numbers: "
        f"install another version, or set XLA_FLAGS={FUSION_FLAG} before Python starts. Or the model gives other values when many "
        "draws are computed at once: check its log_likelihood, mean_reward and log_prior under jax.vmap."
    )


def _differ(first: np.ndarray, second: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Which log-densities differ by more than is allowed; of those that one route gives alone, which are not negligible."""
    finite = np.isfinite([first, second])
    best = np.max(np.where(finite, [first, second], -np.inf))
    with np.errstate(invalid="ignore"):
        apart = np.abs(first - second) > allowed
    return np.where(finite.all(0), apart, finite.any(0) & (np.fmax(first, second) > best - RELEVANT))


def second_route(
    model: AbstractModel,
    data: Data,
    params: Params,
    log_prior: Callable[[Any, Params], Float[Array, ""]] | None = None,
    amount: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """log p(y | psi), plus the log-prior where one is given, of each draw; and what adding them up in another order may change.

    With an amount, the result of every operation is moved by that share.
    """
    num_rows = data.num_rows
    size = min(ROWS, num_rows)
    # The last chunk is filled up with copies of the first row, which do not count.
    rows = np.concatenate([np.arange(num_rows), np.zeros(-num_rows % size, int)]).reshape(-1, size)
    chunks = jax.tree.map(lambda table: jnp.asarray(np.asarray(table)[rows]), data)
    parts = _in_small_parts(log_prior, model, chunks, params, amount)
    priors, each = (np.asarray(part, np.float64) for part in parts)
    each = each.reshape(len(each), -1)[:, :num_rows]
    with np.errstate(invalid="ignore"):
        totals = priors + each.sum(1)
        sizes = np.abs(priors) + np.abs(each).sum(1)
    # A sum of n numbers loses about sqrt(n) roundings of its size.
    rounding = 4 * EPSILON * np.sqrt(num_rows) * np.where(np.isfinite(sizes), sizes, 0.0)
    return np.where(np.isnan(totals), -np.inf, totals), rounding


@quick_jit
def _in_small_parts(
    log_prior: Callable[[Any, Params], Array] | None, model: Any, chunks: Data, params: Params, amount: float | None
) -> tuple[Float[Array, " K"], Float[Array, "K chunks rows"]]:
    """Log-priors, and log-likelihoods of all rows, one draw and one chunk after the other."""
    run = _plainly if amount is None else partial(moved, amount)
    likelihoods = jax.vmap(model.likelihood(), in_axes=(None, 0, 0, 0))

    def draw(psi: Params):
        prior = jnp.zeros(()) if log_prior is None else run(partial(log_prior, model), psi)
        each = jax.lax.map(lambda rows: run(likelihoods, psi, rows.contexts, rows.actions, rows.outcomes), chunks)
        return prior, each

    return jax.lax.map(draw, params)


def _plainly(function: Callable[..., Array], *args: Any) -> Array:
    return function(*args)


def moved(amount: float, function: Callable[..., Array], *args: Any) -> Array:
    """The value of the function where the result of each of its operations is larger or smaller by the share `amount`."""
    closed = jax.make_jaxpr(function)(*args)
    (value,) = _run_moved(amount, closed.jaxpr, closed.consts, jax.tree.leaves(args))
    return value


def _run_moved(amount: float, jaxpr: Any, consts: Any, args: Any) -> list[Any]:
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True))

    def read(variable: Any) -> Any:
        return variable.val if isinstance(variable, Literal) else values[variable]

    for number, equation in enumerate(jaxpr.eqns):
        given = [read(variable) for variable in equation.invars]
        name, parameters = equation.primitive.name, equation.params
        inner = parameters.get("call_jaxpr", parameters.get("jaxpr") if name in CALLS else None)
        if inner is not None:
            results = _run_moved(amount, getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), given)
        else:
            results = equation.primitive.bind(*given, **parameters)
            results = results if equation.primitive.multiple_results else [results]
            if name not in EXACT:
                results = [_move(amount, number, result) for result in results]
        values.update(zip(equation.outvars, results, strict=True))
    return [read(variable) for variable in jaxpr.outvars]


def _move(amount: float, number: int, result: Array) -> Array:
    if not jnp.issubdtype(result.dtype, jnp.floating):
        return result
    # Signs that look random, from the place in the array and the number of the operation.
    positions = jax.lax.iota(jnp.uint32, result.size).reshape(result.shape)
    bits = ((positions + np.uint32(number)) * np.uint32(2654435761)) >> np.uint32(16)
    share = jnp.where(bits & 1, amount, -amount).astype(result.dtype)
    # Small whole numbers may be codes or masks; large ones are whole for want of places.
    code = (result == jnp.round(result)) & (jnp.abs(result) < 1000)
    return jnp.where(code, result, result * (1 + share))
