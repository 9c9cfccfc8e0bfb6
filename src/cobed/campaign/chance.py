"""Actions by chance: some units of a round get theirs from a draw whose probabilities are known exactly, and stored.

What such units tell is comparable whatever else is wrong: nothing about a unit moved its action. A draw is uniform over all that
the unit may get. Units are drawn for one after the other, in an order by chance; where the limits of the round no longer leave
everything to the next unit, it is not drawn for but designed. Whether that happens depends on earlier draws and never on its own,
so that the probabilities of all others stay as they are.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from cobed.campaign.spec import CampaignSpec
from cobed.rules import Limit

# Draws of actions use numbers of their own, beside those of the design with the same seed.
STREAM = 18
# Everything is drawn by this designer: it is the same experiment, with probabilities.
ALL_BY_CHANCE = "Random"


class Drawn(NamedTuple):
    """By unit, the action that chance gave it and how, as stored; and the units that a limit left without a draw."""

    units: Mapping[str, tuple[Any, dict[str, Any]]]
    lost: Sequence[str] = ()


NOTHING_DRAWN = Drawn({})


def propensity(chance: Mapping[str, Any] | None, action: Any) -> float | None:
    """The probability with which a unit got this action, of numbers the density; None where chance did not choose it."""
    if chance is None:
        return None
    return chance["among"].get(action) if "among" in chance else chance.get("density", chance.get("probability"))


def lost_sentences(drawn: Drawn) -> list[str]:
    """Which units a limit left without a draw."""
    if not drawn.lost:
        return []
    shown = ", ".join(map(repr, drawn.lost[:10])) + (", ..." if len(drawn.lost) > 10 else "")
    return [
        f"{len(drawn.lost)} unit(s) were to get an action by chance, and the limits of the round no longer left every option to "
        f"them: {shown}. Their actions are designed and count as not random."
    ]


def share_of(spec: CampaignSpec) -> float:
    """The share of the free units of a round that get an action by chance."""
    share = spec.design.random_share
    return 1.0 if share > 0 and spec.design.designer == ALL_BY_CHANCE else share


def draw(
    spec: CampaignSpec, units: Sequence[str], free: np.ndarray, mask: np.ndarray, room: "Room", seed: int
) -> Drawn:
    """Actions by chance for a share of the `free` units (D,). `mask` (D, K) has what each may get; of numbers it is not read."""
    if spec.action.options is not None:
        free = free & (mask.sum(axis=1) > 1)  # one option is no chance
    places = np.flatnonzero(free)
    share = share_of(spec)
    number = max(1, round(share * len(places))) if share > 0 and len(places) else 0
    rng = np.random.default_rng([seed, STREAM])
    made: dict[str, tuple[Any, dict[str, Any]]] = {}
    lost = []
    # Each unit's luck is drawn beforehand: what the limits do to one does not move that of another.
    order, lucks = rng.permutation(places)[:number].tolist(), rng.random((number, spec.action.space.dim))
    for place, luck in zip(map(int, order), lucks, strict=True):
        if not room.leaves_all(place):
            lost.append(units[place])
            continue
        vector, how = _one(spec, mask[place], luck)
        (action,) = spec.action.words(vector[None])
        room.fill(place, vector)
        made[units[place]] = action, {"share": number / len(places), **how}
    return Drawn(made, lost)


def _one(spec: CampaignSpec, mask: np.ndarray, luck: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
    """A uniform action of one unit, and its probabilities as stored."""
    if spec.action.options is not None:
        allowed = np.flatnonzero(mask)
        vector = np.eye(len(mask))[allowed[int(luck[0] * len(allowed))]]
        return vector, {"among": {spec.action.options[k]: 1 / len(allowed) for k in allowed}}
    low, high = np.array([[number.low, number.high] for number in (spec.action.numbers or {}).values()]).T
    return low + luck * (high - low), {"density": float(1 / np.prod(high - low))}


class Room:
    """What the limits of a round still leave, while its units are given actions one by one.

    Units with the same options and the same weights in every limit are counted together, so that the question "is there an
    assignment at all" has a few variables, however many units there are.
    """

    def __init__(self, spec: CampaignSpec, mask: np.ndarray, limits: Sequence[Limit], fixed: np.ndarray):
        """`mask` (D, K) as for `draw`; `fixed` (D, A) has the actions of decided units and NaN for the others."""
        shape = fixed.shape
        self.whole = spec.action.options is not None
        self.weights = np.array([np.broadcast_to(limit.weights, shape) for limit in limits]).reshape(
            len(limits), *shape
        )
        self.least, self.most = (
            np.array([getattr(limit, end) for limit in limits], float) for end in ("least", "most")
        )
        numbers = (spec.action.numbers or {}).values()
        ends = [(0.0, 1.0)] * shape[1] if self.whole else [(number.low, number.high) for number in numbers]
        self.low, self.high = np.array(ends).T
        self.mask = mask if self.whole else np.ones(shape, bool)
        kinds = np.concatenate([self.mask, self.weights.transpose(1, 0, 2).reshape(shape[0], -1)], axis=1)
        _, first, self.group = np.unique(kinds, axis=0, return_index=True, return_inverse=True)
        self.group = self.group.ravel()
        self.group_mask, self.group_weights = self.mask[first], self.weights[:, first]
        is_open = np.asarray(np.isnan(fixed).any(axis=1))
        self.counts = np.bincount(self.group[is_open], minlength=len(first))
        self.spent = np.einsum("lda,da->l", self.weights, np.where(is_open[:, None], 0.0, fixed))

    def leaves_all(self, place: int) -> bool:
        """Whether the round can be completed whatever this open unit gets of what it may get."""
        if not len(self.weights):
            return True
        if self.whole:
            corners = np.eye(len(self.low))[self.mask[place]]
        else:
            # What can be completed is convex: the corners speak for all between them.
            corners = np.array(list(itertools.product(*np.stack([self.low, self.high], axis=1))))
        return all(self._completes(place, corner) for corner in corners)

    def fill(self, place: int, vector: np.ndarray) -> None:
        """Give this open unit its action."""
        self.counts[self.group[place]] -= 1
        self.spent = self.spent + self.weights[:, place] @ vector

    def _completes(self, place: int, vector: np.ndarray) -> bool:
        counts = self.counts - np.equal(np.arange(len(self.counts)), self.group[place])
        spent = self.spent + self.weights[:, place] @ vector
        flat = self.group_weights.reshape(len(spent), -1)
        # Rounding is no breach.
        hair = 1e-6 * (1 + np.abs(spent))
        conditions = [LinearConstraint(flat, self.least - spent - hair, self.most - spent + hair)]
        if self.whole:
            each = np.kron(np.eye(len(counts)), np.ones(len(self.low)))
            conditions.append(LinearConstraint(each, counts.astype(float), counts.astype(float)))  # pyright: ignore[reportArgumentType]
        bounds = Bounds(
            (counts[:, None] * self.low * self.group_mask).ravel(),
            (counts[:, None] * self.high * self.group_mask).ravel(),
        )
        integrality = np.full(flat.shape[1], int(self.whole))
        return (
            milp(np.zeros(flat.shape[1]), constraints=conditions, bounds=bounds, integrality=integrality).x is not None
        )
