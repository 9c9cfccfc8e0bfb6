"""The best action for each target, within the budget, freely or as rules that people can read; and what all that is worth."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cobed.campaign.complaints import Complaints
from cobed.campaign.constraints import check_levels
from cobed.campaign.encoding import Cells, action_columns, encode
from cobed.campaign.money import budget_limits, read_current
from cobed.campaign.readable import DEPTH, NUM_VALUES, columns_of, readable_tree, summary_of
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.summary import own_names, where
from cobed.campaign.tables import Table
from cobed.campaign.targets import ReadTargets
from cobed.errors import CampaignError

if TYPE_CHECKING:
    from cobed.decide import Choices, Comparisons
    from cobed.inference.base import Posterior
    from cobed.models.base import AbstractModel
    from cobed.rules.base import Limit


def policy_names(spec: CampaignSpec) -> dict[str, str]:
    """What a policy says of each target beside the action, and its column: of the chosen action, then of every option."""
    of_chosen = ["expected", "low", "high", "p_best", "gain", "gain_low", "gain_high"]
    each = ["expected", "gain", "gain_low", "gain_high", "p_best"]
    every = [f"{name}_{option}" for option in spec.action.options or () for name in each]
    return own_names([*of_chosen, *every], spec.action.columns)


@dataclasses.dataclass(frozen=True)
class _Deciding:
    """What every choice for the targets rests on: draws of psi, encoded contexts, allowed options, and what is done today."""

    spec: CampaignSpec
    model: "AbstractModel"
    draws: Any
    contexts: np.ndarray
    allowed: np.ndarray | None
    current: np.ndarray | None

    def judge(self, candidates: np.ndarray, chosen: np.ndarray | None = None) -> "Choices":
        """The best of these candidates (J, A) for each target, or the `chosen` ones (T,)."""
        from cobed.decide import judge

        return judge(self.model, candidates, self.draws, self.contexts, allowed=self.allowed, chosen=chosen)

    def compare(self, candidates: np.ndarray, choices: "Choices") -> "Comparisons":
        from cobed.decide import compare

        return compare(self.model, self.draws, self.contexts, candidates, choices, self.allowed, self.current)


def make_policy(
    spec: CampaignSpec, targets: ReadTargets, known: "tuple[AbstractModel, Posterior]", depth: int | None = None
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The table with the best action for each row within the budget, what every action is expected to earn and how sure that is;
    and what all that is worth. With `depth` the actions follow rules of so many questions in a row."""
    import jax.random as jr

    from cobed.campaign.engine import POLICY_DRAWS, candidate_actions

    table, cells, encoding = targets.table, targets.cells, targets.encoding
    contexts = encode(spec, encoding, cells)
    check_levels(spec, encoding)
    model, posterior = known
    draws = posterior.equal_draws(POLICY_DRAWS, jr.key(spec.seed))
    deciding = _Deciding(spec, model, draws, contexts, targets.allowed, _current(spec, table))
    candidates = candidate_actions(model.action_space)
    choices, limits, budget = _within_budget(deciding, cells, candidates)
    compared = deciding.compare(candidates, choices)
    rules, kept, chosen = _rules(deciding, cells, (candidates, choices, compared), limits, depth)
    if depth is not None:
        listed = candidates[kept]
        choices = deciding.judge(listed, chosen)
        compared = deciding.compare(listed, choices)
        budget = _spent(budget, limits, kept[chosen], choices)
    if budget:
        within = _keeps(limits, candidates if depth is None else candidates[kept], compared.single, len(table))
        budget = {"budget": budget["budget"] | {"single_allowed": within}}
    words = spec.action.words(choices.actions)
    single = spec.action.words(compared.single[None])[0]
    summary: dict[str, Any] = {
        "rows": len(table),
        "single": single,
        **compared.summary(),
        "p_best": float(choices.p_best.mean()),
        **budget,
        **rules,
        **targets.gaps.summary(),
        "warnings": [*targets.warnings, *posterior.warnings],
    }
    if spec.action.options is not None:
        counts = Counter(words)
        summary["counts"] = {name: counts[name] for name in spec.action.options}
    summary["where"] = where(spec, encoding, cells, words)
    names = policy_names(spec)
    numbers = {names[name]: _six_digits(values) for name, values in _columns(spec, choices, compared).items()}
    return table.with_columns(action_columns(spec, words) | numbers), summary


def _within_budget(
    deciding: _Deciding, cells: Cells, candidates: np.ndarray
) -> "tuple[Choices, Sequence[Limit], dict[str, Any]]":
    """The choices of the largest total value that [budget] allows, its limits, and how it was used; none where there is none."""
    import jax

    from cobed.allocation import allocate
    from cobed.campaign.engine import policy_optimum
    from cobed.decide import decide

    spec, model, allowed = deciding.spec, deciding.model, deciding.allowed
    if not spec.budget.is_given:
        optimum = policy_optimum(model.action_space)
        return decide(model, optimum, deciding.draws, deciding.contexts, allowed=allowed), (), {}
    values = deciding.judge(candidates).values
    assert values is not None
    _, share, cost = (np.asarray(part) for part in jax.vmap(model.terms)(jax.numpy.asarray(candidates)))
    # net = worth (1 - share) E[y] - cost, so worth E[y] = (net + cost) / (1 - share); nothing is paid for less than no outcome.
    spent = share * np.maximum(values + cost, 0.0) / (1 - share) + cost if share.any() else cost
    limits = budget_limits(spec, cells, spent.astype(np.float32))
    allocation = allocate(values, allowed, limits)
    parts = [
        {"words": limit.words, "used": used, "more": more}
        for limit, used, more in zip(limits, allocation.used, allocation.loosened, strict=True)
    ]
    choices = deciding.judge(candidates, allocation.chosen)
    return choices, limits, {"budget": {"limits": parts, "value": allocation.value, "bound": allocation.bound}}


def _keeps(limits: "Sequence[Limit]", candidates: np.ndarray, action: np.ndarray, num_rows: int) -> bool:
    """Whether one of the candidates (J, A) is within the limits where all rows get it."""
    place = int(np.flatnonzero((candidates == action).all(axis=1))[0])
    uses = [np.broadcast_to(limit.weights, (num_rows, len(candidates)))[:, place].sum() for limit in limits]
    return all(limit.least <= use <= limit.most for limit, use in zip(limits, uses, strict=True))


def _spent(budget: dict[str, Any], limits: "Sequence[Limit]", chosen: np.ndarray, choices: "Choices") -> dict[str, Any]:
    """What is told of [budget] where the choice for each target (T,) is not the best within it."""
    if not budget:
        return {}
    rows, spent = np.arange(len(chosen)), budget["budget"]
    uses = [np.broadcast_to(limit.weights, (len(chosen), np.shape(limit.weights)[-1])) for limit in limits]
    parts = [
        part | {"used": float(use[rows, chosen].sum(dtype=np.float64))}
        for part, use in zip(spent["limits"], uses, strict=True)
    ]
    return {"budget": spent | {"limits": parts, "value": float(choices.expected.sum(dtype=np.float64))}}


def _rules(
    deciding: _Deciding,
    cells: Cells,
    free: "tuple[np.ndarray, Choices, Comparisons]",
    limits: "Sequence[Limit]",
    depth: int | None,
) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    """The policy as a tree: its summary, the positions (J,) of the candidates its leaves choose among, and the choice among these
    for each target (T,).

    `free` is the policy without questions. What nobody asked for may be missing: a budget can be too tight for it.
    """
    spec, allowed = deciding.spec, deciding.allowed
    candidates, choices, compared = free
    kept = _few(candidates) if spec.action.options is None else np.arange(len(candidates))
    listed = candidates[kept]
    if compared.every is not None and len(kept) == len(candidates):
        gains, earned = compared.every.expected, compared.gains.expected
        over = (
            "today" if deciding.current is not None else spec.action.label(spec.action.words(compared.single[None])[0])
        )
    else:
        values = deciding.judge(listed).values
        assert values is not None
        best = values.sum(axis=0, dtype=np.float64).argmax()
        gains, earned = values - values[:, [best]], choices.expected - values[:, best]
        over = spec.action.label(spec.action.words(listed[[best]])[0])
    if allowed is not None:
        # Whoever may not get what the rules say gets what is best otherwise.
        gains = np.where(allowed, gains, earned[:, None])
    columns, labels = columns_of(spec, cells), [spec.action.label(word) for word in spec.action.words(listed)]
    try:
        some = [dataclasses.replace(limit, weights=_as_deployed(limit, kept, allowed, choices)) for limit in limits]
        tree = readable_tree(spec, columns, gains, labels, DEPTH if depth is None else depth, some)
    except CampaignError:
        if depth is not None:
            raise
        return {}, kept, np.zeros(len(gains), int)
    chosen, rows = tree.choose(columns), np.arange(len(gains))
    if allowed is not None:
        assert choices.chosen is not None
        chosen = np.where(allowed[rows, chosen], chosen, choices.chosen)
    rules = summary_of(tree, columns, gains, earned) | {"over": over, "deployed": depth is not None}
    return {"rules": rules}, kept, chosen


def _as_deployed(limit: "Limit", kept: np.ndarray, allowed: np.ndarray | None, choices: "Choices") -> np.ndarray:
    """What counts for a limit where rules say these candidates: of units that may not get one, what they get instead."""
    weights = np.asarray(limit.weights)
    if allowed is None:
        return weights[..., kept]
    weights, rows = np.broadcast_to(weights, allowed.shape), np.arange(len(allowed))
    return np.where(allowed, weights, weights[rows, choices.chosen][:, None])


def _few(candidates: np.ndarray) -> np.ndarray:
    """The places of about `NUM_VALUES` of the candidates (J, A), evenly spaced in each number."""
    each = max(2, int(NUM_VALUES ** (1 / candidates.shape[1])))
    kept = np.ones(len(candidates), bool)
    for numbers in candidates.T:
        different = np.unique(numbers)
        places = np.linspace(0, len(different) - 1, min(each, len(different))).round().astype(int)
        kept &= np.isin(numbers, different[places])
    return np.flatnonzero(kept)


def _current(spec: CampaignSpec, table: Table) -> np.ndarray | None:
    """The actions of today, (A,) or (T, A); None where the spec does not say."""
    space = spec.action.space
    if spec.value.current is not None:
        return np.asarray(space.parse(spec.value.current))
    complaints = Complaints(table)
    places = read_current(spec, table, complaints)
    complaints.tell()
    return None if places is None else np.asarray(space.enumerate_discrete())[places]


def _columns(spec: CampaignSpec, choices: "Choices", compared: "Comparisons") -> dict[str, np.ndarray]:
    """What is told of each target, as `policy_names` names it."""
    columns = {name: getattr(choices, name) for name in ("expected", "low", "high", "p_best")}
    columns |= {"gain": compared.gains.expected, "gain_low": compared.gains.low, "gain_high": compared.gains.high}
    every, values = compared.every, choices.values
    if every is None or values is None:
        return columns
    parts = {
        "expected": values, "gain": every.expected, "gain_low": every.low, "gain_high": every.high, "p_best": every.p_best,
    }  # fmt: skip
    return columns | {
        f"{name}_{option}": np.asarray(part)[:, index]
        for index, option in enumerate(spec.action.options or ())
        for name, part in parts.items()
    }


def _six_digits(values: np.ndarray) -> np.ndarray:
    """Single precision has six digits to show."""
    numbers = np.asarray(values, np.float64)
    with np.errstate(divide="ignore"):
        places = np.where(numbers == 0, 0, 5 - np.floor(np.log10(np.abs(numbers)))).clip(-300, 300)
    # Whole powers of ten on either side, so that the result is the float nearest to its decimals.
    up, down = 10.0 ** np.maximum(places, 0), 10.0 ** np.maximum(-places, 0)
    return np.round(numbers / down * up) / up * down
