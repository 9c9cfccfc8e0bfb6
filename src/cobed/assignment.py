"""The allowed assignment of the largest total gain, exactly: one option for each unit, limits over all of them."""

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array, csr_array

from cobed.errors import ProblemError
from cobed.types import Bool, Float, Int

# (L, D, K) weights of L limits, the least and the most of each (L,).
Limits = tuple[Float[np.ndarray, "L D K"], Float[np.ndarray, " L"], Float[np.ndarray, " L"]]
# An assignment, and in how many units another one may differ from it.
Near = tuple[Int[np.ndarray, " D"], int]


def best_assignment(
    gains: Float[np.ndarray, "D K"], mask: Bool[np.ndarray, "D K"], limits: Limits, near: Near | None = None
) -> Int[np.ndarray, " D"] | None:
    """The allowed options of the largest total gain; None where there are none, or where the solver's time ran out.

    By a mixed-integer program where there are limits; else each unit is chosen for by itself.
    """
    # The solver's tolerances are absolute.
    costs = -gains / (np.ptp(gains) or 1.0)
    if not len(limits[0]):
        return _each_alone(costs, mask, near)
    num_units, num_options = gains.shape
    size = gains.size
    # Every unit gets one option.
    each = coo_array((np.ones(size), (np.repeat(np.arange(num_units), num_options), np.arange(size))))
    conditions = [LinearConstraint(csr_array(each), 1, 1)]
    for weights, least, most in zip(*limits, strict=True):
        conditions.append(LinearConstraint(weights.reshape(1, -1), least, most))
    if near is not None:
        kept = np.eye(num_options)[near[0]].reshape(1, -1)
        conditions.append(LinearConstraint(kept, num_units - near[1], np.inf))
    answer = milp(
        costs.ravel(),
        constraints=conditions,
        bounds=Bounds(np.zeros(size), mask.ravel().astype(float)),  # pyright: ignore[reportArgumentType]
        integrality=np.ones(size),
        # A step of a search need not be the best to the last digit.
        options={"time_limit": 60, "mip_rel_gap": 0 if near is None else 1e-3},
    )
    return None if answer.x is None else np.argmax(answer.x.reshape(gains.shape), axis=1)


def _each_alone(costs: np.ndarray, mask: np.ndarray, near: Near | None) -> np.ndarray | None:
    """The same where no unit minds what another gets."""
    if not mask.any(axis=1).all():
        return None
    cheapest = np.where(mask, costs, np.inf)
    best = np.argmin(cheapest, axis=1)
    if near is None:
        return best
    units = np.arange(len(costs))
    saving = cheapest[units, near[0]] - cheapest[units, best]
    worth = np.zeros(len(costs), bool)
    worth[np.argsort(-saving, kind="stable")[: near[1]]] = True
    return np.where(worth & (saving > 0), best, near[0])


def check_assignable(mask: Bool[np.ndarray, "D K"], limits: Limits, words: tuple[str, ...]) -> None:
    """`ProblemError` where no assignment is allowed, with the limits, in `words`, that could be loosened."""
    num_units = len(mask)
    for name, weights, least, most in zip(words, *limits, strict=True):
        low = np.where(mask, weights, np.inf).min(axis=1).sum()
        high = np.where(mask, weights, -np.inf).max(axis=1).sum()
        if low > most or high < least:
            raise ProblemError(
                f"No assignment has {name}: what each of the {num_units} units may get adds up to {low:g} at least and {high:g} at "
                "most. Loosen it, forbid less, or experiment on another number of units."
            )
    flat = np.zeros(mask.shape)
    if best_assignment(flat, mask, limits) is not None:
        return

    def without(position: int) -> Limits:
        weights, least, most = (np.delete(part, position, axis=0) for part in limits)
        return weights, least, most

    loosen = [name for i, name in enumerate(words) if best_assignment(flat, mask, without(i)) is not None]
    advice = f"Any one of these could be loosened: {'; '.join(loosen)}" if loosen else "Loosen more than one of them"
    raise ProblemError(
        f"No assignment of {num_units} units satisfies all rules at once: {'; '.join(words)}; forbidden and fixed actions "
        f"included. {advice}."
    )
