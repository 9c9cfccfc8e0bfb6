"""Designs by the gain of every action of every unit at once: many units change together, as many as it pays.

The objective's slope says what each change would add. The most promising changes are made together and kept if the
objective itself rose; otherwise half as many are tried. One evaluation a step whatever the number of units, where an
exchange of one unit after another needs one for each action of each unit. Every step is allowed: where there are limits over the
whole batch (counts, costs), it goes to the allowed design of the largest total gain.
"""

import time
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cobed.allowed import Feasible
from cobed.budget import Budget
from cobed.compilation import lean_jit
from cobed.errors import ProblemError
from cobed.objectives import AbstractObjective, HasGains, value_at
from cobed.search.session import Found, Session
from cobed.types import AnyArray, Array, Bool, Float, Int, Key

MAX_STEPS = 300
# A rise below this share of the value is rounding in single precision.
TOLERANCE = 1e-6


def exchange_together(
    session: Session,
    key: Key[Array, ""],
    objective: AbstractObjective,
    designs: Float[Array, "S D K"],
    feasible: Feasible,
    budget: Budget,
) -> list[Found]:
    """Every design climbed by its gains, those the objective knows or by trial; the histories are its values at every step."""
    gains = objective.with_gains() or ByTrial(objective, key)
    session.expect(len(designs))
    report = session.report("starts", len(designs))
    climbs: list[Climb] = []
    for number, design in enumerate(designs, start=1):
        started = time.perf_counter()
        try:
            climbs.append(jax.block_until_ready(climb(gains, np.asarray(design), feasible)))
        except KeyboardInterrupt:
            if not climbs:
                raise
            session.interrupt(f"Interrupted in start {number}; kept the best of those before.")
            break
        report(number, max(float(end.value) for end in climbs), time.perf_counter() - started, number == 1)
    best = max(climbs, key=lambda end: float(end.value))
    if not (np.isfinite(best.value) and np.isfinite(best.gains).all()):
        raise ProblemError("The value of the experiment is not a finite number: check the scale of contexts and prior.")
    if not session.interrupted:
        session.stop_reason = f"No change of actions by their gains is better, after {int(best.step)} steps."
    return [Found(np.asarray(end.design), np.asarray(end.history)[: int(end.step) + 1]) for end in climbs]


class ByTrial(eqx.Module):
    """Gains of an objective that does not know them: its value with every action of every unit tried in turn."""

    objective: AbstractObjective
    key: Key[Array, ""]

    def gains(self, shares: Float[Array, "D K"]) -> tuple[Float[Array, ""], Float[Array, "D K"]]:
        rows = jnp.eye(shares.shape[1])

        def value(actions):
            return value_at(self.objective, actions, self.key)

        def tried(unit):
            # One after the other: batched, XLA was seen to hang on two cores (docs/decisions.md).
            return jax.lax.map(lambda row: value(shares.at[unit].set(row)), rows)

        return value(shares), jax.lax.map(tried, jnp.arange(len(shares)))


class Climb(NamedTuple):
    """A design on its way: at most `size` units change at the next step; 0 when no change pays."""

    design: Float[Array, "D K"]
    value: Float[Array, ""]
    gains: Float[Array, "D K"]
    size: Int[Array, ""]
    step: Int[Array, ""]
    history: Float[Array, " S"]


def begin(objective: HasGains, design: Float[Array, "D K"]) -> Climb:
    value, gains = objective.gains(design)
    history = jnp.full(MAX_STEPS + 1, value)
    return Climb(design, value, gains, jnp.asarray(max(1, len(design) // 4)), jnp.asarray(0), history)


def advance(objective: HasGains, now: Climb, proposal: Int[Array, " D"]) -> Climb:
    """Make the proposed changes if the objective rises by them; otherwise half as many are to be tried."""
    design = jax.nn.one_hot(proposal, now.design.shape[1])
    num_changed = jnp.sum(jnp.any(design != now.design, axis=1))
    value, gains = objective.gains(design)
    better = value > now.value + TOLERANCE * jnp.abs(now.value)
    size = jnp.where(better, now.size, jnp.minimum(now.size, num_changed) // 2)
    design, value, gains = (
        jnp.where(better, new, old) for new, old in zip((design, value, gains), now[:3], strict=True)
    )
    step = now.step + 1
    # Later entries hold the last value.
    history = jnp.where(jnp.arange(MAX_STEPS + 1) >= step, value, now.history)
    return Climb(design, value, gains, jnp.where(step < MAX_STEPS, size, 0), step, history)


def climb_freely(objective: HasGains, design: Float[Array, "D K"], mask: Bool[AnyArray, "D K"] | None = None) -> Climb:
    """To a design that no change by gains improves, each unit free to get any action of its mask. For compiled code."""

    def step(now: Climb) -> Climb:
        gains = now.gains if mask is None else jnp.where(mask, now.gains, -jnp.inf)
        current, best = jnp.argmax(now.design, axis=1), jnp.argmax(gains, axis=1)
        rise = jnp.max(gains, axis=1) - jnp.sum(now.gains * now.design, axis=1)
        # The units with the largest rise, at most `size` of them.
        rank = jnp.argsort(jnp.argsort(-rise))
        return advance(objective, now, jnp.where((rise > 0) & (rank < now.size), best, current))

    return jax.lax.while_loop(lambda now: now.size > 0, step, begin(objective, design))


_climb_freely, _begin, _advance = lean_jit(climb_freely), lean_jit(begin), lean_jit(advance)


def climb(objective: HasGains, design: np.ndarray, feasible: Feasible) -> Climb:
    """From the allowed design nearest to `design` (D, K) to one that no allowed change by gains improves."""
    allowed = jnp.asarray(feasible.nearest(design), jnp.float32)
    if not feasible.is_limited:
        return _climb_freely(objective, allowed, feasible.mask)
    now = _begin(objective, allowed)
    while now.size > 0:
        current = np.argmax(np.asarray(now.design), axis=1)
        proposal = feasible.options(np.asarray(now.gains, np.float64), current, int(now.size))
        now = _advance(objective, now, jnp.asarray(proposal))
    return now
