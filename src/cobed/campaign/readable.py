"""A policy that people can read: rules about the columns of the targets, what they earn, and what they lose."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cobed.campaign.encoding import Cells
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.words import Amounts, unit_words
from cobed.errors import CampaignError, ProblemError

if TYPE_CHECKING:
    from cobed.decide import Tree
    from cobed.decide.tree import Columns
    from cobed.rules.base import Limit

# Questions in a row: where nobody asked for a number, and at most. A longer rule is not read.
DEPTH, MAX_DEPTH = 2, 4
# Rules choose among so many numbers.
NUM_VALUES = 21
# A question that brings less than this share of what a personal policy gains is not worth the reading.
WORTH_ASKING = 0.005


def columns_of(spec: CampaignSpec, cells: Cells) -> "Columns":
    """The context columns as rules ask about them: numbers, or the names that people call their groups by."""
    columns: dict[str, np.ndarray] = {}
    for name, kind in spec.context.items():
        known = np.array([cell is not None for cell in cells[name]], bool)
        some = [cell for cell in cells[name] if cell is not None]
        if kind.is_number:
            columns[name] = np.full(len(known), np.nan)
            columns[name][known] = some
        else:
            columns[name] = np.full(len(known), None, object)
            columns[name][known] = np.asarray(kind.groups(some), object) if some else []
    return columns


def readable_tree(
    spec: CampaignSpec,
    columns: "Columns",
    gains: np.ndarray,
    actions: Sequence[str],
    depth: int,
    limits: "Sequence[Limit]" = (),
) -> "Tree":
    """The rules of at most `depth` questions in a row that gain most (T, K) within the limits."""
    from cobed.decide import grow_tree

    if not 1 <= depth <= MAX_DEPTH:
        raise CampaignError(f"Rules have 1 to {MAX_DEPTH} questions in a row, got {depth}.")
    spellings = {name: kind.spellings for name, kind in spec.context.items() if kind.spellings}
    try:
        return grow_tree(columns, gains, actions, depth, limits, spellings, WORTH_ASKING)
    except ProblemError as error:
        raise CampaignError(f"{error} Ask for more questions, loosen [budget], or deploy without --rules.") from error


def summary_of(tree: "Tree", columns: "Columns", gains: np.ndarray, earned: np.ndarray) -> dict[str, Any]:
    """The tree, and what it gains per unit: in each leaf, in all, and beside what is `earned` (T,) by the best for each unit."""
    places, chosen = tree.places(columns), tree.choose(columns)
    got = gains[np.arange(len(gains)), chosen]
    leaves = [
        {
            "units": int((places == place).sum()),
            "gain": float(got[places == place].mean() if (places == place).any() else 0),
        }
        for place in range(len(tree.leaves()))
    ]
    return {"tree": tree.to_json(), "leaves": leaves, "value": float(got.mean()), "free": float(earned.mean())}


def read_tree(summary: Mapping[str, Any]) -> "Tree":
    """The rules in the summary of a policy."""
    from cobed.decide import Tree

    return Tree.from_json(summary["rules"]["tree"])


def rules_sentences(spec: CampaignSpec, summary: Mapping[str, Any]) -> list[str]:
    """The rules in words, with what they earn; nothing where a policy has none."""
    rules = summary.get("rules")
    if rules is None:
        return []
    tree, amounts, words = read_tree(summary), Amounts(spec), unit_words(spec)
    over = rules["over"] if rules["over"] == "today" else f"{rules['over']!r} for all"
    leaves = [
        f"  {sentence} {leaf['units']:,} {words}, {amounts.signed(leaf['gain'])} {amounts.what} against {over}."
        for sentence, leaf in zip(tree.sentences(), rules["leaves"], strict=True)
    ]
    value, free = rules["value"], rules["free"]
    kept = f", of which this is {value / free:.0%}" if free > 0 and value >= 0 else ""
    what = "The policy follows these rules" if rules["deployed"] else "As rules, in short"
    end = (
        f"By these rules: {amounts.signed(value)} {amounts.what} against {over}; by the best action for each one "
        f"{amounts.signed(free)}{kept}."
    )
    return [f"{what}:", *leaves, end]
