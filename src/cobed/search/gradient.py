"""Gradient ascent of objectives without a network, from many starts, the poor ones dropped early."""

import jax.random as jr
import numpy as np

from cobed.allowed import Feasible
from cobed.budget import Budget, make_optimiser
from cobed.objectives import AbstractObjective, Trainable
from cobed.policies import FreeDesign
from cobed.search.ascent import ascend
from cobed.search.ranking import scores
from cobed.search.session import Found, Session
from cobed.types import Array, Float, Key

# Of all starts, this share goes on after this share of the steps.
KEPT = 0.25
FIRST_SHARE = 0.25


def by_gradient(
    session: Session,
    key: Key[Array, ""],
    objective: AbstractObjective,
    designs: Float[Array, "S D A"],
    feasible: Feasible,
    budget: Budget,
) -> list[Found]:
    """Ascent from every design for a share of the steps, then from the best of them."""
    num_steps = budget.closed_form_steps
    score_key, *keys = jr.split(key, 3)
    first = max(1, round(FIRST_SHARE * num_steps))
    rounds = [(first, len(designs)), (num_steps - first, max(1, round(KEPT * len(designs))))]
    if len(designs) == 1 or first == num_steps:
        rounds = [(num_steps, len(designs))]
    session.expect(sum(steps * num_kept for steps, num_kept in rounds))
    climbs = [(FreeDesign.at(feasible, actions), np.zeros(0, np.float32)) for actions in designs]
    for number, (steps, num_kept) in enumerate(rounds):
        if len(climbs) > num_kept:
            ranks = scores(score_key, objective, [design.harden() for design, _ in climbs], budget)
            climbs = [climbs[i] for i in np.argsort(-ranks)[:num_kept]]
        for index, (design, history) in enumerate(climbs):
            try:
                result = ascend(
                    keys[number],
                    objective,
                    Trainable(design, None),
                    make_optimiser(budget, steps),
                    steps,
                    session.stage(f"round{number}-start{index}", f"start {index + 1} of {num_kept}: design", steps),
                )
            except KeyboardInterrupt:
                if number == index == 0:
                    raise
                session.interrupt(f"Interrupted in start {index + 1} of {num_kept}; the others are kept as they were.")
                break
            climbs[index] = result.trainable.design, np.concatenate([history, result.history])
            session.stop_reason, session.interrupted = result.stop_reason, result.interrupted
            if session.interrupted:
                break
        if session.interrupted:
            break
    return [Found(np.asarray(design.harden()), history) for design, history in climbs]
