"""The tree of a given depth that earns most, by what every action is expected to earn for every unit.

Cells are put into bins: of numbers, quantiles; of names, the names. All that a tree of depth 2 asks of the rows are then sums of
gains over pairs of bins, so that the best of all such trees is found by adding up small tables, whatever the number of rows.
Deeper trees begin with those questions that a tree of depth 2 would begin with.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import LinearConstraint, milp

from cobed.allocation import allocate
from cobed.decide.tree import Columns, Leaf, Node, Question, Split, Tree
from cobed.errors import ProblemError
from cobed.rules.base import Limit
from cobed.types import Bool, Float, Int

# Numbers of more different values are cut at so many quantiles; columns of more names have the most frequent of them.
NUM_BINS, MAX_NAMES = 32, 50
# Rows that the questions of deeper trees are sought by, and how many first questions are followed to their end.
NUM_SEARCHED, NUM_FOLLOWED = 50_000, 12
# How often the price of a limit is halved on the way to the smallest one that keeps it.
NUM_HALVINGS = 8


class _Column(NamedTuple):
    """A column in bins: the bin of each row, and the questions one can ask, with the bins that answer yes to each."""

    bins: Int[np.ndarray, " T"]
    questions: list[Question]
    yes: Bool[np.ndarray, "Q B"]


class _Best(NamedTuple):
    """A tree, and what it gains in all."""

    gain: float
    node: Node


def grow_tree(
    columns: Columns,
    values: Float[np.ndarray, "T K"],
    actions: Sequence[str],
    depth: int = 2,
    limits: Sequence[Limit] = (),
    spellings: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
    worth: float = 1e-6,
) -> Tree:
    """The tree of at most `depth` questions in a row, by the expected reward of every action for every row.

    `columns` has the cells of each column by its name: numbers, where NaN is missing, or names, where None is. Up to depth 2 no
    tree that asks about the same bins earns more. A question that brings less than `worth`, as a share of what the best action for
    each row gains over the best for all, is not asked. Within `limits`, whose weights are by action (K,) or by row and action
    (T, K), the tree follows the price of each limit, and its actions are the best that keep all of them; `ProblemError` where none
    does.
    """
    if depth < 0 or not columns:
        raise ProblemError("A tree needs a depth of 0 or more, and at least one column to ask about.")
    values = np.asarray(values, np.float64)
    if not np.isfinite(values).all():
        raise ProblemError("A tree needs a finite expected reward of every action for every row.")
    gains = values - values.mean(axis=1, keepdims=True)
    binned = [column for name, cells in columns.items() if (column := _binned(name, cells)).questions]
    # Sums of the same gains in another order differ by rounding.
    least = worth * float(gains.max(axis=1).sum() - gains.sum(axis=0).max()) + 1e-12 * float(np.abs(gains).sum())
    search = functools.partial(_search, depth=depth, least=least)
    node = _within(columns, binned, gains, limits, search) if limits else search(binned, gains).node
    return Tree(_simplified(node), tuple(actions), spellings or {})


def _binned(name: str, cells: np.ndarray) -> _Column:
    if cells.dtype == object:
        return _names(name, cells)
    missing = np.isnan(cells)
    known = cells[~missing]
    different, counts = np.unique(known, return_counts=True)
    if len(different) > NUM_BINS:
        # The last of the values that belong to each bin but the last.
        wanted = np.arange(1, NUM_BINS) * len(known) / NUM_BINS
        ends = np.unique(np.searchsorted(np.cumsum(counts), wanted).clip(0, len(different) - 2))
    else:
        ends = np.arange(len(different) - 1)
    cuts = [_between(*different[end : end + 2]) for end in ends]
    num_bins = len(cuts) + 2  # the last one is of missing cells
    bins = np.where(missing, num_bins - 1, np.searchsorted(cuts, cells, side="left") if cuts else 0)
    questions = [Question(name, at_most=cut) for cut in cuts]
    yes = [np.arange(num_bins) <= place for place in range(len(cuts))]
    if missing.any():
        absent = np.arange(num_bins) == num_bins - 1
        questions = [dataclasses.replace(question, missing=said) for said in (False, True) for question in questions]
        yes += [mask | absent for mask in yes]
        if len(known):
            questions.append(Question(name, missing=True))
            yes.append(absent)
    return _Column(bins.astype(np.int32), questions, np.array(yes, bool).reshape(len(questions), num_bins))


def _between(low: float, high: float) -> float:
    """The number of fewest digits that is at least `low` and below `high`."""
    for digits in range(1, 17):
        for number in (float(f"{low:.{digits}g}"), float(f"{(low + high) / 2:.{digits}g}")):
            if low <= number < high:
                return number
    return float(low)


def _names(name: str, cells: np.ndarray) -> _Column:
    places, different = pd.factorize(cells, sort=True)
    absent = places < 0
    common = np.argsort(-np.bincount(places[~absent], minlength=len(different)), kind="stable")[:MAX_NAMES]
    # Bins: the common names, all others, missing cells.
    bin_of = np.full(len(different), len(common))
    bin_of[common] = np.arange(len(common))
    num_bins = len(common) + 2
    bins = np.full(len(cells), num_bins - 1)
    bins[~absent] = bin_of[places[~absent]]
    missing = False if absent.any() else None
    questions = [Question(name, names=(str(different[place]),), missing=missing) for place in common]
    yes = np.eye(num_bins, dtype=bool)[: len(common)]
    if absent.any() and len(different):
        questions.append(Question(name, missing=True))
        yes = np.concatenate([yes, np.eye(num_bins, dtype=bool)[-1:]])
    elif len(different) <= 2:
        # Of two names one is enough to ask about: yes, and not no.
        last = np.flatnonzero(common == len(different) - 1)[: len(different) - 1]
        questions, yes = [questions[place] for place in last], yes[last]
    return _Column(bins.astype(np.int32), questions, yes)


def _search(columns: list[_Column], gains: Float[np.ndarray, "T K"], depth: int, least: float) -> _Best:
    """The best tree for these rows whose questions each bring more than `least`."""
    total = gains.sum(axis=0)
    leaf = _Best(float(total.max()), Leaf(int(total.argmax())))
    if depth == 0 or not columns or len(gains) < 2:
        return leaf
    if depth <= 2:
        followed = _first_questions(columns, gains, depth, 1)
    else:
        some = _some(len(gains))
        reduced = [column._replace(bins=column.bins[some]) for column in columns]
        followed = _first_questions(reduced, gains[some], 2, NUM_FOLLOWED)
        if len(some) < len(gains):
            # The rows that stand for all say which question is first; the branches are sought among all of theirs.
            scores = [_split(reduced, gains[some], choice, depth, least).gain for choice in followed]
            followed = [followed[int(np.argmax(scores))]]
    if not followed:
        return leaf
    best = max((_split(columns, gains, choice, depth, least) for choice in followed), key=lambda found: found.gain)
    return best if best.gain > leaf.gain + least else leaf


def _some(num_rows: int) -> np.ndarray:
    return np.linspace(0, num_rows - 1, min(num_rows, NUM_SEARCHED)).round().astype(int)


def _split(columns: list[_Column], gains: np.ndarray, choice: tuple[int, int], depth: int, least: float) -> _Best:
    """The best tree that begins with one question: its column and its number there."""
    asked, number = columns[choice[0]], choice[1]
    answer = asked.yes[number][asked.bins]
    ends = [
        _search([column._replace(bins=column.bins[rows]) for column in columns], gains[rows], depth - 1, least)
        for rows in (np.flatnonzero(answer), np.flatnonzero(~answer))
    ]
    return _Best(ends[0].gain + ends[1].gain, Split(asked.questions[number], ends[0].node, ends[1].node))


def _first_questions(columns: list[_Column], gains: np.ndarray, depth: int, most: int) -> list[tuple[int, int]]:
    """The first questions of the trees of depth 1 or 2 that earn most, the best first; at most a third of them of one column.

    None of them has the same answer for all rows.
    """
    scores = _of_one(columns, gains) if depth == 1 else _of_pairs(columns, gains)
    order = sorted(((-score, i, q) for i, of in enumerate(scores) for q, score in enumerate(of)), key=lambda e: e[0])
    chosen: list[tuple[int, int]] = []
    answered = [column.yes @ np.bincount(column.bins, minlength=column.yes.shape[1]) for column in columns]
    for _, column, question in order:
        if not 0 < answered[column][question] < len(gains):
            continue
        if sum(column == other for other, _ in chosen) < max(1, most // 3) or len(columns) < 3:
            chosen.append((column, question))
        if len(chosen) == most:
            break
    return chosen


def _sums(column: _Column, gains: np.ndarray) -> Float[np.ndarray, "B K"]:
    """Gains summed by bin."""
    num_bins = column.yes.shape[1]
    return np.stack([np.bincount(column.bins, of, num_bins) for of in gains.T], axis=1)


def _of_one(columns: list[_Column], gains: np.ndarray) -> list[np.ndarray]:
    """What the best tree earns that asks each question alone, by column (Q,)."""
    total = gains.sum(axis=0)
    scores = []
    for column in columns:
        yes = column.yes @ _sums(column, gains)
        scores.append(yes.max(axis=1) + (total - yes).max(axis=1))
    return scores


def _of_pairs(columns: list[_Column], gains: np.ndarray) -> list[np.ndarray]:
    """What the best tree of depth 2 earns that begins with each question, by column (Q,)."""
    total = gains.sum(axis=0)
    sums = [column.yes @ _sums(column, gains) for column in columns]
    # Without a second question.
    yes, no = ([part.max(axis=1) for part in parts] for parts in (sums, [total - of for of in sums]))
    for i, first in enumerate(columns):
        for j, second in enumerate(columns[i:], i):
            table = _pair(first, second, gains)
            # Gains where both say yes, (Q, R, K).
            both = np.einsum("qb,bck,rc->qrk", first.yes, table, second.yes, optimize=True)
            of_first, of_second = sums[i][:, None], sums[j][None]
            only_first, only_second = of_first - both, of_second - both
            neither = total - of_first - only_second
            ends = [part.max(axis=2) for part in (both, only_first, only_second, neither)]
            yes[i] = np.maximum(yes[i], (ends[0] + ends[1]).max(axis=1))
            no[i] = np.maximum(no[i], (ends[2] + ends[3]).max(axis=1))
            yes[j] = np.maximum(yes[j], (ends[0] + ends[2]).max(axis=0))
            no[j] = np.maximum(no[j], (ends[1] + ends[3]).max(axis=0))
    return [a + b for a, b in zip(yes, no, strict=True)]


def _pair(first: _Column, second: _Column, gains: np.ndarray) -> Float[np.ndarray, "B C K"]:
    """Gains summed by the bins of two columns."""
    shape = first.yes.shape[1], second.yes.shape[1]
    places = first.bins * shape[1] + second.bins
    return np.stack([np.bincount(places, of, shape[0] * shape[1]).reshape(shape) for of in gains.T], axis=2)


def _simplified(node: Node) -> Node:
    """Without questions whose answers lead to the same."""
    if isinstance(node, Leaf):
        return node
    yes, no = _simplified(node.yes), _simplified(node.no)
    return yes if yes == no else Split(node.question, yes, no)


def _within(
    columns: Columns,
    binned: list[_Column],
    gains: np.ndarray,
    limits: Sequence[Limit],
    search: Callable[[list[_Column], np.ndarray], _Best],
) -> Node:
    """The best tree found whose actions keep the limits.

    At the price of a limit that the free choice of every unit pays, a tree may still take too much of it, because it cannot cut as
    finely; so the price rises until the tree keeps the limits by itself.
    """
    loosened = np.array(allocate(gains, None, limits).loosened)
    # What more of a limit is worth is a price where it is too much, and a reward where it is too little.
    uses = [np.broadcast_to(np.atleast_2d(limit.weights), gains.shape) for limit in limits]
    chosen = np.arange(len(gains)), gains.argmax(axis=1)
    above = np.array([use[chosen].sum() > limit.most for use, limit in zip(uses, limits, strict=True)])
    prices = np.where(above, loosened, -loosened)
    best: _Best | None = None
    low, high, factor = 0.0, np.inf, 1.0
    for _ in range(NUM_HALVINGS):
        charged = gains - sum(factor * price * use for price, use in zip(prices, uses, strict=True))
        node = search(binned, charged).node
        kept = _relabelled(node, columns, gains, uses, limits)
        if kept is not None and (best is None or kept.gain > best.gain):
            best = kept
        if _keeps(node, columns, uses, limits):
            high = factor
        else:
            low = factor
        factor = 2 * factor if np.isinf(high) else (low + high) / 2
    if best is None:
        words = "; ".join(limit.words for limit in limits)
        raise ProblemError(f"No tree of this depth keeps to all limits at once: {words}.")
    return best.node


def _leaf_sums(
    node: Node, columns: Columns, gains: np.ndarray, uses: Sequence[np.ndarray]
) -> tuple[Float[np.ndarray, "N K"], Float[np.ndarray, "L N K"]]:
    """By leaf and action: gains, and weights of each limit."""
    tree = Tree(node, ())
    places, num_leaves = tree.places(columns), len(tree.leaves())

    def summed(numbers: np.ndarray) -> np.ndarray:
        return np.stack([np.bincount(places, of, num_leaves) for of in numbers.T], axis=1)

    return summed(gains), np.stack([summed(use) for use in uses])


def _keeps(node: Node, columns: Columns, uses: Sequence[np.ndarray], limits: Sequence[Limit]) -> bool:
    tree = Tree(node, ())
    chosen = np.arange(len(uses[0])), tree.choose(columns)
    return all(
        limit.least - _slack(use) <= use[chosen].sum() <= limit.most + _slack(use)
        for use, limit in zip(uses, limits, strict=True)
    )


def _slack(use: np.ndarray) -> float:
    return 1e-9 * float(np.abs(use).sum())


def _relabelled(
    node: Node, columns: Columns, gains: np.ndarray, uses: Sequence[np.ndarray], limits: Sequence[Limit]
) -> _Best | None:
    """The tree with the actions of the largest gain that keep the limits; None where no actions do."""
    by_leaf, weights = _leaf_sums(node, columns, gains, uses)
    num_leaves, num_actions = by_leaf.shape
    one_each = np.kron(np.eye(num_leaves), np.ones(num_actions))
    answer = milp(
        -by_leaf.ravel(),
        constraints=[
            LinearConstraint(one_each, np.ones(num_leaves), np.ones(num_leaves)),  # pyright: ignore[reportArgumentType]
            LinearConstraint(
                weights.reshape(len(limits), -1),
                np.array([limit.least for limit in limits]),  # pyright: ignore[reportArgumentType]
                np.array([limit.most for limit in limits]),  # pyright: ignore[reportArgumentType]
            ),
        ],
        bounds=(0, 1),
        integrality=np.ones(by_leaf.size),
    )
    if answer.x is None:
        return None
    actions = answer.x.reshape(by_leaf.shape).argmax(axis=1)
    labelled = _labelled(node, iter(actions.tolist()))
    if not _keeps(labelled, columns, uses, limits):
        return None
    return _Best(float(by_leaf[np.arange(num_leaves), actions].sum()), labelled)


def _labelled(node: Node, actions: Iterator[int]) -> Node:
    """The same questions with these actions at the leaves, in their order."""
    if isinstance(node, Leaf):
        return Leaf(next(actions))
    yes = _labelled(node.yes, actions)
    return Split(node.question, yes, _labelled(node.no, actions))
