"""The assignment of a whole round made to satisfy its constraints exactly, with the fewest changes to the design."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import coo_array, csr_array

from cobed.campaign.encoding import Encoding
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.tables import Table
from cobed.errors import CampaignError, SpecError
from cobed.outcomes import YES

if TYPE_CHECKING:
    from cobed.policies import CostLimit


@dataclasses.dataclass(frozen=True)
class Forbids:
    """Which options an encoded context forbids: those with `marks` (J, C) @ context + `offsets` (J,) at 1 or more."""

    marks: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, spec: CampaignSpec, encoding: Encoding) -> "Forbids | None":
        """constraints.forbid; None where nothing is forbidden."""
        if not spec.constraints.forbid:
            return None
        starts = encoding.starts(spec)
        found = cls(
            np.zeros((len(spec.action.options or ()), len(encoding.names(spec))), np.float32),
            np.zeros(len(spec.action.options or ()), np.float32),
        )
        for rule in spec.constraints.forbid:
            option, start = (spec.action.options or ()).index(rule.action), starts[rule.column]
            if spec.context[rule.column].type == "binary":
                for yes in {value.lower() in YES for value in rule.values}:
                    found.marks[option, start] += 1 if yes else -1
                    found.offsets[option] += 0 if yes else 1
            else:
                levels = encoding.fitted[rule.column]
                problem = spec.context[rule.column].problem_of_values(rule.column, rule.values, levels)
                if problem is not None:
                    raise SpecError(f"constraints.forbid {problem}.")
                for level in set(rule.values) & set(levels):
                    found.marks[option, start + levels.index(level)] += 1
        return found

    def at(self, contexts: np.ndarray) -> np.ndarray:
        """Which options which units must not get, (D, J)."""
        return contexts @ self.marks.T + self.offsets > 0.5


def unknown_levels(spec: CampaignSpec, encoding: Encoding) -> list[str]:
    """A sentence for each forbidden level that no unit has."""
    said = [
        spec.context[rule.column].unused(rule.column, encoding.fitted.get(rule.column), rule.values)
        for rule in spec.constraints.forbid
    ]
    return [f"constraints.forbid {sentence}" for sentence in said if sentence is not None]


def forbidden_at(targets: Table, forbids: Forbids | None, contexts: np.ndarray) -> np.ndarray | None:
    """Which options which targets, encoded as `contexts`, must not get, (T, J). A target that may get none is an error."""
    forbidden = None if forbids is None else forbids.at(contexts)
    if forbidden is not None and forbidden.all(axis=1).any():
        place = int(np.argmax(forbidden.all(axis=1)))
        raise CampaignError(
            f"{targets.where(place)}: constraints.forbid leaves this unit no option at all. Allow one, or drop the row."
        )
    return forbidden


def repair_options(
    spec: CampaignSpec,
    wanted: np.ndarray,
    rewards: np.ndarray,
    forbidden: np.ndarray,
    pinned: np.ndarray,
    units: Sequence[str],
) -> np.ndarray:
    """The assignment nearest to `wanted` that satisfies everything: positions of options, one a unit.

    `wanted` (D,) is the design; `rewards` (D, J) decide between changes that are equally few; `forbidden` (D, J);
    `pinned` (D,) holds the option of units whose action is decided, -1 for the others. `CampaignError` says in words
    which constraints cannot be satisfied together.
    """
    num_units, num_options = forbidden.shape
    allowed = _allowed(forbidden, pinned)
    rules = _rules(spec, num_options)
    if not rules and allowed[np.arange(num_units), wanted].all():
        return wanted
    _check_each(spec, allowed, units)
    spread = np.ptp(rewards) or 1.0
    # All ties together weigh less than one change.
    ties = (rewards.max() - rewards) / spread / (2 * num_units)
    weights = 1.0 - np.eye(num_options)[wanted] + ties
    chosen = _solve(weights, allowed, rules)
    if chosen is None:
        raise CampaignError(_explain(weights, allowed, rules, num_units))
    return chosen


class RoundRule:
    """What a whole round of options must satisfy, as a search of designs asks for it (`designers.gains.Rule`).

    `forbidden` (D, J) and `pinned` (D,), -1 where nothing is decided, as in `repair_options`. The search sees the units
    in `free` (D,) alone; the others have their pinned option and count.
    """

    def __init__(self, spec: CampaignSpec, forbidden: np.ndarray, pinned: np.ndarray, free: np.ndarray):
        self.allowed = _allowed(forbidden, pinned)
        self.rules = _rules(spec, forbidden.shape[1])
        self.pinned, self.free = pinned, free

    @property
    def binds(self) -> bool:
        """Whether there is anything to satisfy among the units that are searched."""
        undecided = self.free & (self.pinned < 0)
        return bool(self.rules) or not self.allowed[undecided].all()

    def __call__(self, gains: np.ndarray, current: np.ndarray | None = None, num_changes: int = 0) -> np.ndarray:
        """The allowed options of the units in `free` of the largest total gain."""
        weights = np.zeros(self.allowed.shape)
        # The solver's tolerances are absolute.
        weights[self.free] = -gains / (np.ptp(gains) or 1.0)
        whole = self.pinned.copy()
        if current is not None:
            whole[self.free] = current
        chosen = _solve(weights, self.allowed, self.rules, None if current is None else (whole, num_changes))
        if chosen is None and current is None:
            raise CampaignError(_explain(weights, self.allowed, self.rules, len(weights)))
        # Where the solver's time ran out, nothing is changed.
        return whole[self.free] if chosen is None else chosen[self.free]


def round_rule(
    spec: CampaignSpec, forbidden: np.ndarray, actions: np.ndarray, fixed: np.ndarray, waiting: np.ndarray
) -> "RoundRule | CostLimit | None":
    """What a search over the `waiting` units (D,) must obey; those in `fixed` (D,) keep their `actions` (D, A)."""
    if spec.action.options is None:
        return _cost_limit(spec, actions, fixed, waiting)
    rule = RoundRule(spec, forbidden, np.where(fixed, np.argmax(actions, axis=1), -1), waiting)
    return rule if rule.binds else None


def _cost_limit(spec: CampaignSpec, actions: np.ndarray, fixed: np.ndarray, waiting: np.ndarray) -> "CostLimit | None":
    """What the `waiting` units (D,) may cost during a search; those in `fixed` (D,) cost what their `actions` (D, A) do."""
    from cobed.policies import CostLimit
    from cobed.spaces import Box

    rules, numbers = spec.constraints, spec.action.numbers or {}
    if rules.max_cost is None:
        return None
    space, costs = Box(*_bounds(spec)), _costs(spec, numbers)
    spent = float((actions[fixed] @ costs).sum())
    return CostLimit(space, np.where(fixed[waiting][:, None], 0.0, costs), rules.max_cost - spent)


def repair_numbers(spec: CampaignSpec, actions: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Numbers (D, A) changed least, in shares of their ranges, so that the whole round costs at most what is allowed."""
    rules, numbers = spec.constraints, spec.action.numbers or {}
    if rules.max_cost is None:
        return actions
    costs = _costs(spec, numbers)
    if float((actions @ costs).sum()) <= rules.max_cost:
        return actions
    low, high = _bounds(spec)
    # Changes down and up, each at least 0: minimise their sum.
    room_down, room_up = (np.where(free[:, None], room, 0.0).ravel() for room in (actions - low, high - actions))
    unit = np.tile(costs, len(actions))
    shares = np.tile(1 / (high - low), len(actions))
    # A hair less, so that rounding to six digits stays within.
    excess = float((actions @ costs).sum()) - (rules.max_cost - 1e-5 * float((np.abs(actions) @ np.abs(costs)).sum()))
    answer = linprog(
        np.concatenate([shares, shares]),
        A_ub=np.concatenate([-unit, unit])[None],
        b_ub=[-excess],
        bounds=np.stack([np.zeros(2 * unit.size), np.maximum(np.concatenate([room_down, room_up]), 0)], axis=1),
    )
    if answer.status != 0:
        least = float(np.where(costs > 0, low, high) @ costs) * len(actions)
        raise CampaignError(
            f"constraints.max_cost allows {rules.max_cost:g}, and the cheapest actions for {len(actions)} units cost "
            f"{least:g} (more where units are pinned). Raise it, or experiment on fewer units."
        )
    down, up = np.split(answer.x, 2)
    return actions + (up - down).reshape(actions.shape)


def _costs(spec: CampaignSpec, names: Iterable[str]) -> np.ndarray:
    """What a unit of each named option or number costs; nothing where the spec does not say."""
    return np.array([spec.constraints.cost.get(name, 0.0) for name in names])


def _bounds(spec: CampaignSpec) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and the highest value of each number."""
    numbers = (spec.action.numbers or {}).values()
    return np.array([bounds.low for bounds in numbers]), np.array([bounds.high for bounds in numbers])


Rule = tuple[str, np.ndarray, float, float]  # in words, weight of each option, least, most


def _rules(spec: CampaignSpec, num_options: int) -> list[Rule]:
    options, rules = list(spec.action.options or ()), spec.constraints
    found: list[Rule] = []
    for name, least in rules.at_least.items():
        found.append((f"at least {least} units of {name!r}", np.eye(num_options)[options.index(name)], least, np.inf))
    for name, most in rules.at_most.items():
        found.append((f"at most {most} units of {name!r}", np.eye(num_options)[options.index(name)], -np.inf, most))
    if rules.max_cost is not None:
        costs = _costs(spec, options)
        found.append((f"a total cost of at most {rules.max_cost:g}", costs, -np.inf, rules.max_cost))
    return found


def _allowed(forbidden: np.ndarray, pinned: np.ndarray) -> np.ndarray:
    """Which options each unit may get, (D, J). What the user pinned stands above rules about contexts."""
    allowed = ~forbidden
    allowed[pinned >= 0] = False
    allowed[np.flatnonzero(pinned >= 0), pinned[pinned >= 0]] = True
    return allowed


def _solve(
    weights: np.ndarray, allowed: np.ndarray, rules: list[Rule], near: tuple[np.ndarray, int] | None = None
) -> np.ndarray | None:
    """The cheapest assignment, by a mixed-integer program where there are rules; None where there is none.

    `near`: an assignment (D,) and in how many units the found one may differ from it.
    """
    if not rules:
        return _each_alone(weights, allowed, near)
    num_units, num_options = weights.shape
    size = weights.size
    # Every unit gets one option.
    each = coo_array((np.ones(size), (np.repeat(np.arange(num_units), num_options), np.arange(size))))
    limits = [LinearConstraint(csr_array(each), 1, 1)]
    for _, entries, least, most in rules:
        limits.append(LinearConstraint(np.tile(entries, num_units)[None], least, most))
    if near is not None:
        kept = np.eye(num_options)[near[0]].ravel()
        limits.append(LinearConstraint(kept[None], num_units - near[1], np.inf))
    answer = milp(
        weights.ravel(),
        constraints=limits,
        bounds=Bounds(np.zeros(size), allowed.ravel().astype(float)),  # pyright: ignore[reportArgumentType]
        integrality=np.ones(size),
        # A step of a search need not be the best to the last digit.
        options={"time_limit": 60, "mip_rel_gap": 0 if near is None else 1e-3},
    )
    return None if answer.x is None else np.argmax(answer.x.reshape(weights.shape), axis=1)


def _each_alone(weights: np.ndarray, allowed: np.ndarray, near: tuple[np.ndarray, int] | None) -> np.ndarray | None:
    """The same where no unit minds what another gets."""
    if not allowed.any(axis=1).all():
        return None
    cheapest = np.where(allowed, weights, np.inf)
    best = np.argmin(cheapest, axis=1)
    if near is None:
        return best
    units = np.arange(len(weights))
    saving = cheapest[units, near[0]] - cheapest[units, best]
    worth = np.zeros(len(weights), bool)
    worth[np.argsort(-saving, kind="stable")[: near[1]]] = True
    return np.where(worth & (saving > 0), best, near[0])


def _check_each(spec: CampaignSpec, allowed: np.ndarray, units: Sequence[str]) -> None:
    """Contradictions that can be told of one unit or one option alone."""
    options, rules, num_units = list(spec.action.options or ()), spec.constraints, len(allowed)
    stuck = np.flatnonzero(~allowed.any(axis=1))
    if len(stuck):
        raise CampaignError(
            f"Unit {units[stuck[0]]!r} may get no option at all: constraints.forbid and rejections exclude every one "
            f"({len(stuck)} such unit(s)). Allow one, or leave the unit out."
        )
    for name, least in rules.at_least.items():
        able = int(allowed[:, options.index(name)].sum())
        if least > able:
            raise CampaignError(
                f"constraints.at_least asks for {least} units of {name!r}, and {able} of the {num_units} units may get "
                "it. Lower it, forbid less, or experiment on more units."
            )


def _explain(weights: np.ndarray, allowed: np.ndarray, rules: list[Rule], num_units: int) -> str:
    """Which constraints to loosen: each one whose absence would make the others possible."""
    stuck = int(np.sum(~allowed.any(axis=1)))
    if stuck:
        return (
            f"{stuck} of {num_units} units may get no option at all: constraints.forbid and rejections exclude every one. "
            "Allow one, or leave these units out."
        )
    keys = [rule for i, rule in enumerate(rules) if _solve(weights, allowed, rules[:i] + rules[i + 1 :]) is not None]
    together = "; ".join(rule[0] for rule in rules)
    advice = (
        "Any one of these could be loosened: " + "; ".join(rule[0] for rule in keys)
        if keys
        else "More than one of them must be loosened"
    )
    return (
        f"No assignment of {num_units} units satisfies all constraints at once: {together}; forbidden and pinned actions "
        f"included. {advice}."
    )
