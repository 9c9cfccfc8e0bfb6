"""The exchange of single units: each in turn gets its best action, the others as they are."""

import time

import jax
import jax.numpy as jnp
import numpy as np

from cobed.allowed import Feasible
from cobed.budget import Budget
from cobed.compilation import lean_jit
from cobed.objectives import AbstractObjective, value_at
from cobed.search.session import Found, Session
from cobed.types import AnyArray, Array, Bool, Float, Key

# Sweeps of the exchange before it is stopped; it mostly ends by itself after three or four.
MAX_SWEEPS = 30


def exchange(
    session: Session,
    key: Key[Array, ""],
    objective: AbstractObjective,
    designs: Float[Array, "S D K"],
    feasible: Feasible,
    budget: Budget,
) -> list[Found]:
    """Give each unit in turn its best allowed action, the others as they are, until nothing changes; all designs side by side.

    The objective is estimated with the same draws throughout; the histories are its values after every sweep.
    """
    history: list[np.ndarray] = []
    session.expect(MAX_SWEEPS)
    report = session.report("exchange", MAX_SWEEPS)
    session.stop_reason = f"Stopped after {MAX_SWEEPS} sweeps of exchange."
    for sweep in range(1, MAX_SWEEPS + 1):
        started = time.perf_counter()
        try:
            changed, values = jax.block_until_ready(_sweep(key, objective, designs, feasible.mask))
        except KeyboardInterrupt:
            if sweep == 1:
                raise
            session.interrupt(f"Interrupted after {sweep - 1} sweeps of exchange.")
            break
        history.append(np.asarray(values))
        settled = bool(jnp.all(changed == designs))
        designs = changed
        report(sweep, float(history[-1].max()), time.perf_counter() - started, sweep == 1)
        if settled:
            session.stop_reason = f"No change of one action is better, after {sweep} sweeps."
            break
    return [Found(*pair) for pair in zip(np.asarray(designs), np.stack(history, axis=1), strict=True)]


@lean_jit
def _sweep(key, objective: AbstractObjective, designs: Float[Array, "S D K"], mask: Bool[AnyArray, "D K"] | None):
    num_units, num_actions = designs.shape[1:]

    def value(actions):
        return value_at(objective, actions, key)

    def visit(unit, carry):
        actions, _ = carry
        candidates = jax.vmap(lambda row: actions.at[unit].set(row))(jnp.eye(num_actions))
        # One after the other, also below: batched, XLA was seen to hang on two cores (docs/decisions.md).
        values = jax.lax.map(value, candidates)
        values = values if mask is None else jnp.where(mask[unit], values, -jnp.inf)
        now = jnp.argmax(actions[unit])
        # A tie keeps what there is, so that the exchange ends.
        winner = jnp.where(jnp.max(values) > values[now], jnp.argmax(values), now)
        return candidates[winner], values[winner]

    def one(actions):
        return jax.lax.fori_loop(0, num_units, visit, (actions, jnp.zeros(())))

    return jax.lax.map(one, designs)
