"""What is allowed: which actions units and targets may get, which units are fixed, rules over the whole batch, costs."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import linprog

from cobed.assignment import Limits, best_assignment, check_assignable
from cobed.errors import ProblemError
from cobed.rules import AbstractRule, Batch
from cobed.spaces import AbstractSpace, Discrete
from cobed.tables import read_amounts
from cobed.types import AnyArray, Array, Bool, Float, Int


@dataclasses.dataclass(frozen=True)
class Allowed:
    """All that a batch and a policy must obey, beside the bounds of the action space. By default, nothing.

    `units` (D, K) and `targets` (T, K) mark the named actions that each unit and each target may get. `fixed` (D, A) holds the
    actions of units that are decided, and rows of NaN for the others; it stands above `units`. `rules` (`cobed.rules`) are
    about the whole batch, fixed units included. `costs` is what one of each action costs: (A,), or by name.

    >>> import cobed
    >>> cobed.Allowed(rules=[cobed.rules.AtMost({"mail": 10})], costs={"mail": 0.5}).costs
    {'mail': 0.5}
    """

    units: Any = None
    targets: Any = None
    fixed: Any = None
    rules: Sequence[AbstractRule] = ()
    costs: Mapping[str, float] | Any = None


class Feasible(eqx.Module):
    """The batches of actions that are allowed, in the engine's numbers: what a search moves among.

    `mask` (D, K): which named actions each unit may get, one where it is fixed; None where all may get all. `fixed` (D, A) are
    the actions of the units in `is_fixed` (D,). `weights` (L, D, A), `least` and `most` (L,) are limits over the batch. Numbers
    that break one are drawn back toward `anchor` (D, A), the batch that is farthest within them.
    """

    space: AbstractSpace
    mask: Bool[AnyArray, "D K"] | None
    is_fixed: Bool[AnyArray, " D"]
    fixed: Float[AnyArray, "D A"]
    weights: Float[AnyArray, "L D A"]
    least: Float[AnyArray, " L"]
    most: Float[AnyArray, " L"]
    words: tuple[str, ...] = eqx.field(static=True)
    anchor: Float[AnyArray, "D A"] | None = None

    @classmethod
    def build(cls, space: AbstractSpace, num_units: int, allowed: Allowed) -> "Feasible":
        """What the user allows; `ProblemError` where that is no batch at all."""
        fixed = _fixed(space, num_units, allowed.fixed)
        is_fixed = np.asarray(np.isfinite(fixed).all(axis=1))
        mask = None
        if space.options is not None and (is_fixed.any() or allowed.units is not None):
            mask = _mask(allowed.units, "units", num_units, space)
            mask[is_fixed] = fixed[is_fixed] > 0.5
        elif allowed.units is not None:
            raise ProblemError(f"Allowed.units marks named actions, and the actions are {space}. Use its bounds.")
        limits = _limits(space, num_units, allowed)
        weights = [np.broadcast_to(np.asarray(limit.weights, float), fixed.shape) for limit in limits]
        feasible = cls(
            space,
            mask,
            is_fixed,
            np.where(is_fixed[:, None], fixed, 0.0).astype(np.float32),
            np.stack(weights) if weights else np.zeros((0, *fixed.shape)),
            np.array([float(limit.least) for limit in limits]),
            np.array([float(limit.most) for limit in limits]),
            tuple(limit.words for limit in limits),
        )
        if limits and space.options is None:
            return dataclasses.replace(feasible, anchor=feasible._farthest_within())
        if limits:
            check_assignable(feasible._full_mask(), feasible._limits, feasible.words)
        return feasible

    @property
    def binds(self) -> bool:
        """Whether anything of what the space offers is excluded."""
        return self.mask is not None or self.is_limited or bool(self.is_fixed.any())

    @property
    def is_limited(self) -> bool:
        """Whether there are limits over the whole batch."""
        return len(self.words) > 0

    @property
    def _limits(self) -> Limits:
        return np.asarray(self.weights), np.asarray(self.least), np.asarray(self.most)

    def _full_mask(self) -> Bool[np.ndarray, "D K"]:
        return np.ones((len(self.fixed), self.space.dim), bool) if self.mask is None else np.asarray(self.mask)

    def options(
        self, gains: Float[np.ndarray, "D K"], current: Int[np.ndarray, " D"] | None = None, num_changes: int = 0
    ) -> Int[np.ndarray, " D"]:
        """The allowed named actions of the largest total gain: in at most `num_changes` units other than `current`, or any."""
        near = None if current is None else (current, num_changes)
        best = best_assignment(gains, self._full_mask(), self._limits, near)
        if best is None and current is None:
            raise ProblemError("No allowed assignment was found within a minute. Loosen a rule, or take fewer units.")
        return current if best is None else best  # pyright: ignore[reportReturnType]

    def nearest(self, actions: Any, rewards: Float[np.ndarray, "D K"] | None = None) -> Float[np.ndarray, "D A"]:
        """The allowed batch with the fewest changes to `actions`; of several, named actions of the largest `rewards`."""
        if not self.binds:
            return np.asarray(actions)
        if self.space.options is None:
            return self._nearest_numbers(
                np.where(self.is_fixed[:, None], self.fixed, np.asarray(actions)).astype(float)
            )
        gains = np.eye(self.space.dim)[np.argmax(np.asarray(actions), axis=1)]
        if rewards is not None:
            # All ties together weigh less than one change.
            gains += (rewards - rewards.max()) / (np.ptp(rewards) or 1.0) / (2 * len(gains))
        return np.eye(self.space.dim, dtype=np.float32)[self.options(gains)]

    def _nearest_numbers(self, actions: Float[np.ndarray, "D A"]) -> Float[np.ndarray, "D A"]:
        """Numbers changed least, in shares of their ranges, until all limits hold."""
        if not self.is_limited:
            return actions
        flat = self.weights.reshape(len(self.words), -1)
        totals = flat @ actions.ravel()
        # A hair less, so that rounding to six digits stays within.
        hair = 1e-5 * np.abs(flat) @ np.abs(actions).ravel()
        if ((totals <= self.most - hair) & (totals >= self.least + hair)).all():
            return actions
        low, high = _bounds(self.space)
        # Changes down and up, each at least 0: minimise their sum.
        rooms = [np.where(self.is_fixed[:, None], 0.0, room).ravel() for room in (actions - low, high - actions)]
        shares = np.tile(np.where(np.isfinite(high - low), 1 / (high - low), 1.0), len(actions))
        rows, ends = _one_sided(flat, self.least + hair - totals, self.most - hair - totals)
        answer = linprog(
            np.concatenate([shares, shares]),
            A_ub=np.concatenate([-rows, rows], axis=1),
            b_ub=ends,
            bounds=np.stack([np.zeros(2 * shares.size), np.maximum(np.concatenate(rooms), 0)], axis=1),
        )
        if answer.status != 0:
            # The hair is more than there is room for.
            return np.asarray(self.drawn_back(jnp.asarray(actions)), float)
        down, up = np.split(answer.x, 2)
        return actions + (up - down).reshape(actions.shape)

    def _farthest_within(self) -> Float[np.ndarray, "D A"]:
        """The batch whose nearest limit is farthest away; an error where none is within all of them."""
        low, high = (np.where(self.is_fixed[:, None], self.fixed, bound).ravel() for bound in _bounds(self.space))
        rows, ends = _one_sided(self.weights.reshape(len(self.words), -1), self.least, self.most)
        # Minimise by how much the worst limit is broken.
        answer = linprog(
            np.append(np.zeros(low.size), 1.0),
            A_ub=np.concatenate([rows, -np.ones((len(rows), 1))], axis=1),
            b_ub=ends,
            bounds=[*zip(low, high, strict=True), (None, None)],
        )
        if answer.status != 0 or answer.x[-1] > 1e-6 * (1 + np.abs(ends).max()):
            over = f"; at best one of them is broken by {answer.x[-1]:g}" if answer.status == 0 else ""
            raise ProblemError(
                f"No batch of these actions has {'; '.join(self.words)}, fixed units included{over}. Loosen a rule."
            )
        return answer.x[:-1].reshape(self.fixed.shape).astype(np.float32)

    def with_fixed(self, actions: Float[Array, "D A"]) -> Float[Array, "D A"]:
        """The same with fixed units as they are."""
        return jnp.where(jnp.asarray(self.is_fixed)[:, None], self.fixed, actions)

    def drawn_back(self, actions: Float[Array, "D A"]) -> Float[Array, "D A"]:
        """Numbers with fixed units as they are, and all others moved toward `anchor` by one share until all limits hold.

        Every batch that is allowed can be reached, and no other. Differentiable.
        """
        # Limits are part of a design that is trained, and the ascent moves all of a design that has a gradient.
        limits = jax.lax.stop_gradient(jax.tree.map(jnp.asarray, self))
        actions = limits.with_fixed(actions)
        if not self.is_limited:
            return actions
        anchor = limits.anchor
        start, total = (jnp.einsum("lda,da->l", limits.weights, numbers) for numbers in (anchor, actions))
        shares = []
        for broken, end in ((total > limits.most, limits.most), (total < limits.least, limits.least)):
            shares.append(jnp.where(broken, (end - start) / jnp.where(broken, total - start, 1.0), 1.0))
        share = jnp.clip(jnp.min(jnp.concatenate(shares)), 0.0, 1.0)
        # Numbers in no limit stay as they are.
        return jnp.where(jnp.any(limits.weights != 0, axis=0), anchor + share * (actions - anchor), actions)

    def among(self, candidates: Float[Array, "D J A"]) -> "Feasible":
        """What is allowed where each unit gets one of its candidates: their positions are the named actions."""
        rows = np.asarray(candidates, float)
        weights = np.einsum("lda,dja->ldj", self.weights, rows)
        # Rounding is no breach.
        slack = 1e-5 * np.abs(weights).max(axis=(1, 2), initial=0.0)
        nobody, nothing = np.zeros(len(rows), bool), np.zeros(rows.shape[:2], np.float32)
        limits = weights, self.least - slack, self.most + slack
        return Feasible(Discrete(rows.shape[1]), None, nobody, nothing, *limits, self.words)


def target_mask(space: AbstractSpace, num_targets: int, allowed: Allowed) -> Bool[np.ndarray, "T K"] | None:
    """Which named actions each target may get; None where all may get all."""
    if allowed.targets is None:
        return None
    if space.options is None:
        raise ProblemError(f"Allowed.targets marks named actions, and the actions are {space}. Use its bounds.")
    return _mask(allowed.targets, "targets", num_targets, space)


def _mask(values: Any, name: str, num_rows: int, space: AbstractSpace) -> Bool[np.ndarray, "N K"]:
    mask = np.ones((num_rows, space.dim), bool) if values is None else np.array(values, bool)
    if mask.shape != (num_rows, space.dim):
        raise ProblemError(
            f"Allowed.{name} has shape {mask.shape}; ({num_rows}, {space.dim}) is expected: a row for each of the {name}, and a "
            f"column for each of {', '.join(space.options or ())}."
        )
    stuck = np.flatnonzero(~mask.any(axis=1))
    if len(stuck):
        raise ProblemError(
            f"Row {stuck[0]} of Allowed.{name} allows no action at all ({len(stuck)} such row(s)). Allow one, or leave the row out."
        )
    return mask


def _limits(space: AbstractSpace, num_units: int, allowed: Allowed):
    costs = read_amounts(allowed.costs, space.entry_names, "Allowed.costs")
    limits = [limit for rule in allowed.rules for limit in rule.limits(Batch(space.entry_names, costs, num_units))]
    if limits and space.options is None and len(space.continuous) < space.dim:
        raise ProblemError(f"Rules over a batch are about named actions or numbers, and the actions are {space}.")
    return limits


def _fixed(space: AbstractSpace, num_units: int, values: Any) -> Float[np.ndarray, "D A"]:
    fixed = np.full((num_units, space.dim), np.nan) if values is None else np.asarray(values, float)
    if fixed.shape != (num_units, space.dim):
        raise ProblemError(
            f"Allowed.fixed has shape {fixed.shape}; ({num_units}, {space.dim}) is expected: the action of each unit, or NaN."
        )
    given = np.flatnonzero(np.isfinite(fixed).all(axis=1))
    inside = np.asarray(jax.vmap(space.contains)(jnp.asarray(fixed[given], jnp.float32))) if len(given) else np.ones(0)
    if not inside.all():
        row = given[int(np.argmin(inside))]
        raise ProblemError(
            f"Row {row} of Allowed.fixed is not a valid action: {fixed[row].tolist()} is not in {space}."
        )
    return fixed


def _bounds(space: AbstractSpace) -> tuple[Float[np.ndarray, " A"], Float[np.ndarray, " A"]]:
    """The lowest and the highest value of each number."""
    low, high = (np.asarray(space.project(jnp.full(space.dim, bound)), float) for bound in (-jnp.inf, jnp.inf))
    return low, high


def _one_sided(rows: Any, least: Any, most: Any) -> tuple[np.ndarray, np.ndarray]:
    """Limits of both sides as rows @ x <= ends, without those that are infinite."""
    both, ends = np.concatenate([rows, -rows]), np.concatenate([most, -least])
    return both[np.isfinite(ends)], ends[np.isfinite(ends)]
