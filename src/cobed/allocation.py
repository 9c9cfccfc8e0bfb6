"""The best action for each of many rows under limits over all of them: at most so many units, so much money.

    maximise sum_t v[t, a_t]   so that   least_l <= sum_t w_l[t, a_t] <= most_l

A price on each limit makes the rows independent: row t takes the action of the largest v - sum_l price_l w_l, a threshold on its
gain. The prices of the linear program, in which rows may be split between actions, minimise a convex function of a few numbers;
each step to them is one pass over the rows. At those prices nearly every row has one best action. The few at a threshold are
decided together by an integer program, so that the limits hold exactly, and the linear program says how far from the best that
can be.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import coo_array, csr_array, vstack

from cobed.errors import ProblemError
from cobed.rules.base import Limit
from cobed.types import Bool, Float, Int

# Rows of one pass that are looked at together, and rows that stand for all when prices are first sought.
CHUNK, NUM_SAMPLE = 2**16, 4_096
# The prices are right where the bound is known to this share of the largest gain, on average over rows, or after so many passes.
TOLERANCE, MAX_PASSES = 1e-8, 100
# Prices, in gains per largest weight, are first sought up to this, and where they would be above the last no assignment is allowed.
FIRST_BOX, LAST_BOX = 2.0, 1e9
# Rows at a threshold that are decided together, for each limit, and in all; margins below are ties.
NUM_AT_THRESHOLD, MAX_AT_THRESHOLD, TIE = 64, 2_048, 1e-7
# More tied rows are decided by kind: alike within this share of the largest gain and weight.
ALIKE = 1e-6
# A choice this near to the bound, in largest gains of one row, is good enough; seconds for one integer program.
NEAR_ENOUGH, SECONDS = 1e-3, 5


@dataclasses.dataclass(frozen=True)
class Allocation:
    """`chosen` (T,) are the positions of the actions. `value` is their sum of values, and no allowed choice has more than `bound`.

    By limit: `used` is the sum of its weights, `loosened` what the bound would rise by if it were loosened by one.
    """

    chosen: Int[np.ndarray, " T"]
    value: float
    bound: float
    used: tuple[float, ...] = ()
    loosened: tuple[float, ...] = ()


class _Rows(NamedTuple):
    """Rows with their values, -infinity where an action is forbidden, and limits: all in units of the largest gain and weight."""

    values: Float[np.ndarray, "T J"]
    scale: float
    weights: tuple[Float[np.ndarray, "..."], ...]  # each (1, J), or (T, J)
    units: Float[np.ndarray, " L"]
    least: Float[np.ndarray, " L"]
    most: Float[np.ndarray, " L"]

    def part(self, rows: Int[np.ndarray, " N"] | slice) -> tuple[np.ndarray, np.ndarray]:
        """Values (N, J) below the best of each row, and weights (L, N, J)."""
        values = self.values[rows].astype(np.float64)
        gains = (values - values.max(axis=1, keepdims=True)) / self.scale
        parts = [np.broadcast_to(w if len(w) == 1 else w[rows], gains.shape) for w in self.weights]
        return gains, np.stack(parts) / self.units[:, None, None] if parts else np.zeros((0, *gains.shape))

    def chunks(self):
        return (slice(start, start + CHUNK) for start in range(0, len(self.values), CHUNK))

    def sample(self, rows: Int[np.ndarray, " N"]) -> "_Rows":
        weights = tuple(w if len(w) == 1 else w[rows] for w in self.weights)
        share = len(rows) / len(self.values)
        return self._replace(
            values=self.values[rows], weights=weights, least=self.least * share, most=self.most * share
        )

    def response(self, prices: Float[np.ndarray, " L"]) -> tuple[float, Float[np.ndarray, " L"]]:
        """Gains and weights of what the rows take at these prices, summed."""
        total, used = 0.0, np.zeros(len(prices))
        for rows in self.chunks():
            gains, weights = self.part(rows)
            chosen = np.argmax(gains - np.einsum("l,lnj->nj", prices, weights), axis=1)
            places = np.arange(len(chosen)), chosen
            total += gains[places].sum()
            used += weights[:, places[0], places[1]].sum(axis=1)
        return total, used

    def margins(self, prices: Float[np.ndarray, " L"]) -> tuple[np.ndarray, np.ndarray]:
        """What each row takes at these prices, and how much less its second best action is worth."""
        chosen, margins = [], []
        for rows in self.chunks():
            gains, weights = self.part(rows)
            reduced = gains - np.einsum("l,lnj->nj", prices, weights)
            best = np.argmax(reduced, axis=1)
            top = reduced[np.arange(len(best)), best]
            reduced[np.arange(len(best)), best] = -np.inf
            chosen.append(best)
            margins.append(top - reduced.max(axis=1))
        return np.concatenate(chosen), np.concatenate(margins)

    def ends(self, prices: Float[np.ndarray, " L"]) -> float:
        """What the limits add to the bound at these prices; an end that is infinite has none."""
        ends = np.where(prices > 0, self.most, self.least)
        return float(np.where(prices == 0, 0.0, ends) @ prices)


def allocate(
    values: Float[np.ndarray, "T J"], allowed: Bool[np.ndarray, "T J"] | None, limits: Sequence[Limit]
) -> Allocation:
    """The allowed choice of the largest total value; `weights` of limits are by action, (J,), or by row and action, (T, J)."""
    num_rows = len(values)
    if not limits:
        chosen = np.argmax(values if allowed is None else np.where(allowed, values, -np.inf), axis=1)
        value = float(values[np.arange(num_rows), chosen].sum(dtype=np.float64))
        return Allocation(chosen, value, value)
    check_limits(num_rows, allowed, limits)
    rows = _scaled(values, allowed, limits)
    prices = _prices(rows)
    chosen, bound, loosened = _decide_at_thresholds(rows, prices, [limit.words for limit in limits])
    places = np.arange(num_rows), chosen
    best = float(rows.values.max(axis=1).sum(dtype=np.float64))
    used = tuple(float(w[0, chosen].sum() if len(w) == 1 else w[places].sum(dtype=np.float64)) for w in rows.weights)
    value = float(values[places].sum(dtype=np.float64))
    return Allocation(chosen, value, max(best + rows.scale * bound, value), used, loosened)


def _scaled(values: np.ndarray, allowed: np.ndarray | None, limits: Sequence[Limit]) -> _Rows:
    masked = np.asarray(values, np.float32)
    scale = float((masked.max(axis=1) - masked.min(axis=1)).max()) or 1.0
    if allowed is not None:
        masked = np.where(allowed, masked, np.float32(-np.inf))
    weights = tuple(np.atleast_2d(np.asarray(limit.weights, float)) for limit in limits)
    units = np.array([np.abs(w).max() or 1.0 for w in weights])
    least, most = (np.array([getattr(limit, end) for limit in limits], float) for end in ("least", "most"))
    return _Rows(masked, scale, weights, units, least / units, most / units)


def _prices(rows: _Rows) -> Float[np.ndarray, " L"]:
    """First of some rows, then, from there, of all."""
    prices = np.zeros(len(rows.units))
    if len(rows.values) > 4 * NUM_SAMPLE:
        some = np.random.default_rng(0).choice(len(rows.values), NUM_SAMPLE, replace=False)
        prices = _descend(rows.sample(np.sort(some)), prices)
    return _descend(rows, prices)


def _descend(rows: _Rows, prices: Float[np.ndarray, " L"]) -> Float[np.ndarray, " L"]:
    """The prices of the smallest bound, by cutting planes: every response to prices bounds all others from below.

    The next prices lie between the best so far and those of the smallest bound that the responses leave possible.
    """
    num_rows, best, smallest = len(rows.values), prices, np.inf
    responses: list[tuple[float, np.ndarray]] = []
    for number in range(MAX_PASSES):
        gain, used = rows.response(prices)
        responses.append((gain / num_rows, used / num_rows))
        bound = (gain - used @ prices + rows.ends(prices)) / num_rows
        if bound < smallest:
            best, smallest = prices, bound
        target, lowest = _cheapest(rows, responses, num_rows)
        if smallest - lowest <= TOLERANCE:
            break
        # Every third step goes all the way, so that nothing is left out for ever.
        prices = target if number % 3 == 2 else (best + target) / 2
    return best


def _cheapest(rows: _Rows, responses: list[tuple[float, np.ndarray]], num_rows: int) -> tuple[np.ndarray, float]:
    """Prices (L,) of the smallest bound that these responses leave possible, and that bound."""
    num_limits = len(rows.units)
    gains, used = np.array([gain for gain, _ in responses]), np.stack([used for _, used in responses])
    # Prices of too much and of too little, each at least 0, then the mean gain.
    ends = np.concatenate([rows.most, -rows.least]) / num_rows
    costs = np.append(np.where(np.isfinite(ends), ends, 0.0), 1.0)
    table = np.column_stack([-used, used, -np.ones(len(used))])
    box = FIRST_BOX
    while True:
        bounds = [(0.0, box if np.isfinite(end) else 0.0) for end in ends]
        answer = linprog(
            costs, A_ub=table, b_ub=-gains, bounds=[*bounds, (None, None)],
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )  # fmt: skip
        if (answer.x[:-1] < 0.99 * box).all() or 8 * box > LAST_BOX:
            return answer.x[:num_limits] - answer.x[num_limits:-1], float(answer.fun)
        box *= 8


class _Kinds(NamedTuple):
    """Rows that are alike count together: gains (C, J), weights (L, C, J), how many of each (C,), and the kind of each row (N,)."""

    gains: np.ndarray
    weights: np.ndarray
    counts: np.ndarray
    kind: np.ndarray


def _decide_at_thresholds(
    rows: _Rows, prices: np.ndarray, words: Sequence[str]
) -> tuple[np.ndarray, float, tuple[float, ...]]:
    """What each row gets, the bound below the best of every row, and what loosening each limit by one would add to it."""
    chosen, margins = rows.margins(prices)
    order = np.argsort(margins, kind="stable")
    size = max(int(np.sum(margins <= TIE)), NUM_AT_THRESHOLD * (1 + len(prices)))
    while True:
        near = np.sort(order[:size])
        kinds = _kinds(rows, near)
        others = np.ones(len(chosen), bool)
        others[near] = False
        gain, used = _sums(rows, others, chosen)
        ends = rows.least - used, rows.most - used
        counts, split = _integer(kinds, *ends), _split(kinds, *ends)
        if counts is not None and split is not None:
            total, bound = split.gain, min(_bound(rows, p) for p in (prices, split.prices))
            reached = gain + float((counts * np.where(counts > 0, kinds.gains, 0.0)).sum())
            # Rows farther from their threshold than what is left to gain keep their action in every better choice.
            proven = size >= len(order) or bound - reached <= margins[order[size]]
            if proven or bound - reached <= NEAR_ENOUGH or 4 * size > MAX_AT_THRESHOLD:
                chosen[near] = _spread(kinds, counts)
                looser = [_split(kinds, ends[0] - step, ends[1] + step) for step in np.diag(1 / rows.units)]
                rises = (0.0 if more is None else max(more.gain - total, 0.0) * rows.scale for more in looser)
                return chosen, bound, tuple(rises)
        if size >= len(order):
            raise ProblemError(
                f"No choice for the {len(chosen):,} rows satisfies all limits at once: {'; '.join(words)}; forbidden actions "
                "included. Loosen one of them."
            )
        size = min(4 * size, len(order))


def _bound(rows: _Rows, prices: np.ndarray) -> float:
    gain, used = rows.response(prices)
    return gain - float(used @ prices) + rows.ends(prices)


def _sums(rows: _Rows, which: Bool[np.ndarray, " T"], chosen: np.ndarray) -> tuple[float, np.ndarray]:
    """Gains and weights of these rows, summed."""
    total, used = 0.0, np.zeros(len(rows.units))
    for part in rows.chunks():
        gains, weights = rows.part(part)
        places = np.flatnonzero(which[part]), chosen[part][which[part]]
        total += gains[places].sum()
        used += weights[:, places[0], places[1]].sum(axis=1)
    return total, used


def _kinds(rows: _Rows, near: np.ndarray) -> _Kinds:
    gains, weights = rows.part(near)
    if len(near) <= MAX_AT_THRESHOLD:
        return _Kinds(gains, weights, np.ones(len(near), int), np.arange(len(near)))
    table = np.concatenate([np.round(gains / ALIKE), *np.round(weights / ALIKE)], axis=1)
    _, first, kind, counts = np.unique(table, axis=0, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(kind.ravel(), kind="stable")
    # The largest weight of a kind: what is alike must not spend more than it is counted for.
    largest = np.maximum.reduceat(weights[:, order], np.cumsum(counts) - counts, axis=1)
    return _Kinds(gains[first], largest, counts, kind.ravel())


def _conditions(kinds: _Kinds) -> tuple[csr_array, csr_array]:
    """Rows of a linear program over (C J) counts: those of each kind add up, and the weights of each limit."""
    num_kinds, num_actions = kinds.gains.shape
    places = np.repeat(np.arange(num_kinds), num_actions), np.arange(kinds.gains.size)
    each = csr_array(coo_array((np.ones(kinds.gains.size), places)))
    return each, csr_array(kinds.weights.reshape(len(kinds.weights), -1))


def _most_counts(kinds: _Kinds) -> np.ndarray:
    return np.where(np.isfinite(kinds.gains), kinds.counts[:, None], 0).ravel().astype(float)


def _integer(kinds: _Kinds, least: np.ndarray, most: np.ndarray) -> np.ndarray | None:
    """How many of each kind get each action, (C, J), at the largest gain; None where no counts are allowed."""
    each, sums = _conditions(kinds)
    # The solver allows a millionth too much: where it took it, that is taken back.
    for hair in (0.0, 2e-6):
        answer = milp(
            -np.where(np.isfinite(kinds.gains), kinds.gains, 0.0).ravel(),
            constraints=[
                LinearConstraint(each, kinds.counts, kinds.counts),  # pyright: ignore[reportArgumentType]
                LinearConstraint(sums, least + hair, most - hair),  # pyright: ignore[reportArgumentType]
            ],
            bounds=Bounds(0, _most_counts(kinds)),  # pyright: ignore[reportArgumentType]
            integrality=np.ones(kinds.gains.size),
            options={"time_limit": SECONDS, "mip_rel_gap": 1e-6},
        )
        if answer.x is None:
            continue
        counts = np.round(answer.x)
        used, slack = sums @ counts, 1e-9 * (1 + abs(sums) @ counts)
        if ((used <= most + slack) & (used >= least - slack)).all():
            return counts.astype(int).reshape(kinds.gains.shape)
    return None


class _Split(NamedTuple):
    """The linear program, in which units may be split: its largest gain, and the prices of its limits (L,)."""

    gain: float
    prices: np.ndarray


def _split(kinds: _Kinds, least: np.ndarray, most: np.ndarray) -> _Split | None:
    each, sums = _conditions(kinds)
    above, below = np.flatnonzero(np.isfinite(most)), np.flatnonzero(np.isfinite(least))
    answer = linprog(
        -np.where(np.isfinite(kinds.gains), kinds.gains, 0.0).ravel(),
        A_ub=vstack([sums[above], -sums[below]]),
        b_ub=np.concatenate([most[above], -least[below]]),
        A_eq=each,
        b_eq=kinds.counts,
        bounds=np.column_stack([np.zeros(kinds.gains.size), _most_counts(kinds)]),
    )
    if answer.status != 0:
        return None
    marginals, prices = -answer.ineqlin.marginals, np.zeros(len(most))
    prices[above] += marginals[: len(above)]
    prices[below] -= marginals[len(above) :]
    return _Split(-float(answer.fun), prices)


def _spread(kinds: _Kinds, counts: np.ndarray) -> np.ndarray:
    """The action of each row, (N,): of rows alike, the first ones get the first action."""
    order = np.argsort(kinds.kind, kind="stable")
    chosen = np.empty(len(order), int)
    chosen[order] = np.repeat(np.tile(np.arange(counts.shape[1]), len(counts)), counts.ravel())
    return chosen


def check_limits(num_rows: int, allowed: Bool[np.ndarray, "T J"] | None, limits: Sequence[Limit]) -> None:
    """`ProblemError` where a limit can hold for no choice, with the numbers. Weights must be known, values need not."""
    for limit in limits:
        weights = np.atleast_2d(np.asarray(limit.weights, float))
        if allowed is None:
            low, high = (
                float(ends.sum()) * num_rows / len(ends) for ends in (weights.min(axis=1), weights.max(axis=1))
            )
        else:
            low = float(np.where(allowed, weights, np.inf).min(axis=1).sum())
            high = float(np.where(allowed, weights, -np.inf).max(axis=1).sum())
        # Sums of a million numbers are exact to about a billionth.
        slack = 1e-9 * max(abs(low), abs(high))
        if low > limit.most + slack or high < limit.least - slack:
            raise ProblemError(
                f"No choice has {limit.words}: what the {num_rows:,} rows may get adds up to {low:,.6g} at least and {high:,.6g} "
                "at most. Loosen it, forbid less, or take other rows."
            )
