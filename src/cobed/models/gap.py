"""Why outcomes have no gradient in the action that a design could follow, in words."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.compilation import quick_jit
from cobed.errors import ModelError
from cobed.models.base import AbstractModel
from cobed.models.gradient import LARGEST_MISFIT, NUM_AGAIN, SUSPICIOUS, Walks, misfit
from cobed.spaces import AbstractSpace
from cobed.types import Array, Bool, Float

# Draws of the prior and rows of contexts at which a model is looked at.
NUM_DRAWS, NUM_ROWS = 16, 8

T = TypeVar("T")


def find_gap(
    model: AbstractModel, rows: Float[Array, "R C"], walks: Walks, again: Callable[[int], Walks]
) -> str | None:
    """Why the gradient of outcomes in the action is not to be followed, in words; None where it is right."""
    slopes, outcomes = np.asarray(walks.slopes), np.asarray(walks.outcomes)
    if not np.isfinite(slopes).all():
        raise ModelError(
            f"The gradient of the outcome in the action is not finite: {share(slopes)}. Usual causes: sqrt, log, norm "
            "or a power at zero, or a `jnp.where` whose other branch is not finite. Keep both branches finite."
        )
    parts = model.action_space.pieces()
    names = ["the action"] if len(parts) == 1 else [f"part {i + 1} of the action" for i in range(len(parts))]
    flat = [
        (name, part, columns)
        for name, (part, columns) in zip(names, parts, strict=True)
        if not slopes[..., columns].any()
    ]
    for name, _, columns in flat:
        changes = np.zeros(model.action_space.dim, bool)
        changes[columns] = True
        if not attempt("The model", lambda changes=changes: _changes(model, rows, jnp.asarray(changes))):
            raise ModelError(
                f"The outcome does not change with {name}: outcomes and mean rewards are the same with another one, at "
                f"{NUM_DRAWS} draws of the prior and {NUM_ROWS} contexts. Use it, or leave it out of the action space."
            )
    if (outcomes == np.round(outcomes)).all():
        return "All of them are whole numbers, and no gradient passes through a binary outcome or a count."
    if flat:
        name, part, _ = flat[0]
        return f"Their gradient in {name} is zero, though they change with it. {_advice(part)}"
    if misfit([walks]) > SUSPICIOUS and (size := misfit([again(1 + n) for n in range(NUM_AGAIN)])) > LARGEST_MISFIT:
        return (
            "Their gradient in the action is not that of their distribution (a difference of "
            f"{size:.1f} standard errors, where {LARGEST_MISFIT:g} are allowed). Usual causes: `jnp.where` on a random number, "
            "rounding, stop_gradient."
        )
    return None


@quick_jit
def _changes(model: AbstractModel, rows: Float[Array, "R C"], entries: Bool[Array, " A"]) -> Bool[Array, ""]:
    """Whether outcomes or mean rewards change where only these entries of the action do, the noise as it was."""

    def differs(key):
        prior_key, outcome_key, *keys = jr.split(key, 4)
        first, second = (jax.vmap(model.action_space.sample)(jr.split(k, len(rows))) for k in keys)
        params = model.sample_prior(prior_key)

        def play(actions):
            rewards = jax.vmap(model.mean_reward, in_axes=(None, 0, 0))(params, rows, actions)
            return jnp.stack([rewards, model.sample_outcomes(outcome_key, params, rows, actions)])

        return jnp.any(play(first) != play(jnp.where(entries, second, first)))

    return jnp.any(jax.vmap(differs)(jr.split(jr.key(1), NUM_DRAWS)))


def _advice(part: AbstractSpace) -> str:
    drawn = "and draw the outcome as a smooth function of the mean and noise."
    if not part.continuous:
        return (
            "To have one, write the reward as a sum over the weights of the actions, jnp.sum(action * rewards), not with "
            f"argmax, indexing or ==, {drawn}"
        )
    return f"To have one, use the action without rounding, comparing or stop_gradient, {drawn}"


def attempt(what: str, run: Callable[[], T]) -> T:
    """The result of `run`; the model's own failure becomes a `ModelError` that keeps the original as its cause."""
    try:
        return run()
    except ModelError:
        raise
    except Exception as error:
        summary = str(error).strip().split("\n")[0]
        raise ModelError(
            f"{what} fails with {type(error).__name__}: {summary} "
            "It is compiled by JAX: use jax.numpy and jax.random, no `if` on values, no conversion to float or numpy."
        ) from error


def share(values: Any) -> str:
    """How much of an array is not finite, with the first such value."""
    array = np.asarray(values)
    bad = array[~np.isfinite(array)]
    return f"{bad.size} of {array.size} values, the first {bad[0]}"
