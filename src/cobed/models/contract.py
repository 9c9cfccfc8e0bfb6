"""Does a model keep the contract of `base`? Asked once, when a problem is built, on a few draws of the prior.

The answer is deterministic: the keys are fixed. Shapes are checked without running anything; the numbers then come from
one compiled call. A model whose outcomes cannot be differentiated in the action keeps the contract; it is told apart, because
its designs are searched in another way (`cobed.models.gradient`).
"""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.compilation import quick_jit
from cobed.errors import ModelError
from cobed.models.base import AbstractModel, has_best_action, require_space
from cobed.models.gap import NUM_DRAWS, NUM_ROWS, attempt, find_gap, share
from cobed.models.gradient import FEW_NOISES, NUM_NOISES, Noise, Walks, along, draw_noise, find_ways, walk
from cobed.spaces import AbstractSpace
from cobed.types import Array, Bool, Float, Key, Params

NUM_ACTIONS = 64


class Probe(eqx.Module):
    """What a model did at N draws of the prior: on R contexts with B = 2 R actions, valid ones and mixtures of them.

    `walks` are outcomes and slopes on the way from one action to another on every second context, at K draws of the noise.
    """

    params: Params
    rewards: Float[Array, "N B"]
    walks: Walks
    params_of_rows: Params | None
    log_likelihoods: Float[Array, "N 4 W"] | None
    best_inside: Bool[Array, "N R"] | None
    best_shortfall: Float[Array, "N R"] | None


def check_model(model: AbstractModel, contexts: Float[Array | np.ndarray, "D C"]) -> str | None:
    """Raise `ModelError`, in words, where the model breaks the contract on these contexts.

    What is returned says why outcomes have no gradient in the action that could be followed; None where they have one.
    """
    model, rows = check_shapes(model, contexts)
    probe, again, failure = attempt("The model", lambda: _probe_all(model, rows))
    _check_params(probe.params)
    _check_independence(probe)
    _check_finite(probe.rewards, "mean_reward", "log, sqrt or a division outside their range")
    _check_finite(probe.walks.outcomes, "sample_outcomes", "a noise scale that overflows or is negative")
    gap = failure or find_gap(model, rows, probe.walks, again)
    if probe.log_likelihoods is not None:
        _check_finite(
            probe.log_likelihoods,
            "log_likelihood at outcomes of the model itself",
            "a noise scale of zero, or a density that does not cover its own draws",
        )
    _check_best_action(probe)
    return gap


def check_shapes(
    model: AbstractModel, contexts: Float[Array | np.ndarray, "D C"]
) -> tuple[AbstractModel, Float[Array, "R C"]]:
    """The part of the check that runs nothing. Returns the model for these contexts, and the rows that it is tried on."""
    _check_kind(model)
    contexts = jnp.asarray(contexts)
    _check_context_dim(model, contexts)
    model = model.for_contexts(contexts.shape[1])
    rows = contexts[np.linspace(0, contexts.shape[0] - 1, NUM_ROWS).round().astype(int)]
    _check_shapes(model, rows)
    return model, rows


def _probe_all(model: AbstractModel, rows: Float[Array, "R C"]) -> tuple[Probe, Callable[[int], Walks], str | None]:
    """The model at `NUM_DRAWS` draws of the prior, in one compiled call; walks with other noise, by its number; and why the
    model could not be differentiated, if so."""
    pool, *draws = _inputs(model.action_space, jr.key(0))
    # Noise that is added to the mean is the same for all actions.
    num_noises = NUM_NOISES if model.gaussian_noise() is None else FEW_NOISES

    def run(slopes: bool, number: int) -> Probe:
        return _probes(model, rows, pool, slopes, _noise(jr.key(number), num_noises), draws)

    try:
        return run(True, 0), lambda number: run(True, number).walks, None
    except Exception as error:  # a loop, a call of other code: whatever JAX has no derivative for
        if model.action_space.continuous:
            # The best of all numbers is searched with derivatives of the mean reward.
            raise
        probe = run(False, 0)
        summary = str(error).strip().split("\n")[0]
        reason = f"JAX cannot differentiate them in the action ({type(error).__name__}: {summary})."
        return probe, lambda number: probe.walks, reason


# Compiled once for each space, and for each number of draws: random numbers would be most of the compilation of each check.
@quick_jit
def _inputs(space: AbstractSpace, key: Key[Array, ""]) -> tuple[Array, Array, Array, Array]:
    """A pool of actions (J, A); for each draw a key of the prior, R actions of the pool and ways (R, A) to others of it."""
    keys = jr.split(key, NUM_DRAWS + NUM_ACTIONS)
    pool = jax.vmap(space.sample)(keys[NUM_DRAWS:])
    turns = (np.arange(NUM_DRAWS * 4 * NUM_ROWS) % NUM_ACTIONS).reshape(NUM_DRAWS, 4, NUM_ROWS)
    chosen = pool[turns]
    return pool, keys[:NUM_DRAWS], chosen[:, 0], jax.vmap(find_ways)(chosen[:, 0], chosen[:, 1:])


@quick_jit
def _noise(key: Key[Array, ""], num_noises: int) -> Noise:
    return draw_noise(key, NUM_DRAWS, num_noises, len(range(0, NUM_ROWS, 2)))


# The model is an argument, so that models that differ in their numbers alone, or are checked again, share the program.
@quick_jit
def _probes(
    model: AbstractModel,
    rows: Float[Array, "R C"],
    pool: Float[Array, "J A"],
    slopes: bool,
    noise: Noise,
    draws: Sequence[Array],
) -> Probe:
    return jax.vmap(lambda noise, *draw: _probe(model, rows, pool, slopes, noise, *draw))(noise, *draws)


def _probe(
    model: AbstractModel,
    rows: Float[Array, "R C"],
    pool: Float[Array, "J A"],
    slopes: bool,
    noise: Noise,
    *draw: Array,
) -> Probe:
    """One draw of the prior, played on all rows: once with valid actions and once between them."""
    prior_key, valid, ways = draw
    params = model.sample_prior(prior_key)
    some, first, on = rows[::2], valid[::2], ways[::2]
    walks = walk(lambda key, actions: model.sample_outcomes(key, params, some, actions), noise, first, on, slopes)
    # Between two actions: inside a box, and between the one-hot vectors as the ascent sees them.
    twice, actions = jnp.concatenate([rows, rows]), jnp.concatenate([valid, valid + 0.5 * ways])
    rewards = jax.vmap(model.mean_reward, in_axes=(None, 0, 0))(params, twice, actions)
    params_of_rows = model.sample_prior_of(prior_key, rows, valid)
    log_likelihoods = inside = shortfall = None
    if (log_likelihood := model.likelihood()) is not None:
        density = jax.vmap(jax.vmap(log_likelihood, in_axes=(None, 0, 0, 0)), in_axes=(None, None, 0, 0))
        log_likelihoods = density(params, some, along(first, on, noise.shares[0]), walks.outcomes[0])
    if has_best_action(model, rows):
        inside, shortfall = jax.vmap(lambda row: _judge_best_action(model, params, row, pool))(rows)
    return Probe(params, rewards, walks, params_of_rows, log_likelihoods, inside, shortfall)


def _judge_best_action(
    model: Any, params: Params, context: Float[Array, " C"], rivals: Float[Array, "J A"]
) -> tuple[Bool[Array, ""], Float[Array, ""]]:
    """Whether the closed-form best action is in the space, and by how much a random action beats it beyond rounding."""
    action = model.best_action(params, context)
    candidates = jnp.concatenate([action[None], rivals])
    rewards = jax.vmap(lambda candidate: model.mean_reward(params, context, candidate))(candidates)
    claimed, best = rewards[0], jnp.max(rewards[1:])
    tolerance = 1e-3 * (best - jnp.min(rewards[1:])) + 1e-5 * jnp.abs(best)
    return model.action_space.contains(action), best - claimed - tolerance


def _check_kind(model: Any) -> None:
    if isinstance(model, type):
        raise ModelError(
            f"The model is the class {model.__name__} itself, not a model. Call it: {model.__name__}(...)."
        )
    if not isinstance(model, AbstractModel):
        raise ModelError(
            f"The model is a {type(model).__name__}; a cobed.models.AbstractModel is expected. Subclass it, or use "
            "cobed.models.from_numpyro for a NumPyro program and cobed.models.from_simulator for a simulator."
        )
    require_space(model.action_space)


def _check_context_dim(model: AbstractModel, contexts: Array) -> None:
    if contexts.ndim != 2 or 0 in contexts.shape:
        raise ModelError(
            f"contexts have shape {contexts.shape}; at least one row and one column, (D, C), are expected."
        )
    if model.context_dim is not None and model.context_dim != contexts.shape[1]:
        raise ModelError(
            f"The contexts have {contexts.shape[1]} column(s) and the model expects {model.context_dim}. "
            "Give the columns the model was written for, or a model for these."
        )


def _check_shapes(model: AbstractModel, rows: Float[Array, "R C"]) -> None:
    """Every method once, abstractly: it must not fail, and give one float (an action, for best_action)."""
    key, context, num_rows = jr.key(0), rows[0], rows.shape[0]
    params = attempt("sample_prior(key)", lambda: jax.eval_shape(model.sample_prior, key))
    action = attempt("action_space.sample(key)", lambda: jax.eval_shape(model.action_space.sample, key))
    actions = jax.ShapeDtypeStruct((num_rows, *action.shape), action.dtype)
    _check_output(model.mean_reward, "mean_reward(params, context, action)", (params, context, action), ())
    _check_output(
        model.sample_outcome, "sample_outcome(key, params, context, action)", (key, params, context, action), ()
    )
    arguments = (key, params, rows, actions)
    _check_output(model.sample_outcomes, "sample_outcomes(key, params, contexts, actions)", arguments, (num_rows,))
    if (log_likelihood := model.likelihood()) is not None:
        arguments = (params, context, action, jax.ShapeDtypeStruct((), jnp.float32))
        _check_output(log_likelihood, "log_likelihood(params, context, action, outcome)", arguments, ())
    if has_best_action(model, rows):
        _check_output(model.best_action, "best_action(params, context)", (params, context), action.shape)


def _check_output(method: Callable[..., Any], call: str, arguments: tuple[Any, ...], expected: tuple[int, ...]) -> None:
    returned = attempt(call, lambda: jax.eval_shape(method, *arguments))
    if not isinstance(returned, jax.ShapeDtypeStruct):
        raise ModelError(f"{call} returns a {type(returned).__name__}; an array of shape {expected} is expected.")
    if returned.shape != expected:
        wanted = "a scalar, shape ()," if expected == () else f"shape {expected}"
        raise ModelError(
            f"{call} returns shape {returned.shape}; {wanted} is expected. "
            "Sum, index or stack it to that shape; callers batch over draws, contexts and actions with vmap."
        )
    if not jnp.issubdtype(returned.dtype, jnp.floating):
        raise ModelError(
            f"{call} returns {returned.dtype} values; floating-point numbers are expected. Convert them: value.astype(float)."
        )


def _check_params(params: Params) -> None:
    leaves = jax.tree_util.tree_leaves_with_path(params)
    for path, leaf in leaves:
        if jnp.issubdtype(leaf.dtype, jnp.inexact) and not np.isfinite(leaf).all():
            name = jax.tree_util.keystr(path) or "params"
            raise ModelError(
                f"sample_prior gives values that are not finite in {name}: {share(leaf)}. "
                "Check the scale of the prior; psi must be finite with probability one."
            )
    if all(_constant(leaf) for _, leaf in leaves):
        raise ModelError(
            f"sample_prior gives the same params for {NUM_DRAWS} different keys, so there is nothing to learn. Draw "
            "from `key` with jax.random; numbers from numpy are frozen when the model is compiled."
        )


def _check_independence(probe: Probe) -> None:
    """A program draws psi beside the contexts and actions; it must not look at them."""
    for name, draws in (probe.params_of_rows or {}).items():
        if not np.allclose(draws, probe.params[name], rtol=1e-4, atol=1e-6):
            raise ModelError(
                f"The prior of the latent site {name!r} depends on the contexts or the actions. psi must be the same "
                "for every experiment: let contexts and actions enter the mean of the outcome only."
            )


def _check_finite(values: Float[Array, "N B"], what: str, causes: str) -> None:
    if not np.isfinite(values).all():
        raise ModelError(
            f"{what} is not finite at draws of the prior and random actions: {share(values)}. Usual causes: {causes}."
        )


def _check_best_action(probe: Probe) -> None:
    if probe.best_inside is None or probe.best_shortfall is None:
        return
    outside = np.size(probe.best_inside) - int(np.sum(probe.best_inside))
    if outside:
        raise ModelError(
            f"best_action leaves the action space in {outside} of {np.size(probe.best_inside)} cases. "
            "Return a valid action, for instance action_space.project(action)."
        )
    shortfall = np.asarray(probe.best_shortfall)
    # Not `shortfall > 0`: a reward that is not finite at the best action must not pass.
    beaten = ~(shortfall <= 0)
    if beaten.any():
        raise ModelError(
            f"best_action is beaten by random actions in {int(beaten.sum())} of {beaten.size} cases, by up to "
            f"{float(np.max(shortfall)):.3g} in mean reward. Correct it, or remove it and let cobed search."
        )


def _constant(draws: Array) -> bool:
    # psi may hold a key, the seed of a random function.
    values = np.asarray(jr.key_data(draws) if jnp.issubdtype(draws.dtype, jax.dtypes.prng_key) else draws)
    return bool((values == values[:1]).all())
