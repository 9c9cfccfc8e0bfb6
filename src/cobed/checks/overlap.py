"""Overlap: whether there is anybody like a target among the units that got an action.

A target is far where its Mahalanobis distance from the middle of the units that got the action is larger than that of every one
of them (Cook's hull of the regressors). One unit more, one deviation away in every direction, keeps the covariance of few units
from being singular; a level that none of them has is far.

    S = ((X - m)' (X - m) + I) / (n + 1),   d^2(x) = (x - m)' S^-1 (x - m)
"""

from typing import ClassVar

import numpy as np
import pandas as pd

from cobed.checks.base import AbstractCheck
from cobed.checks.evidence import Column, encoded
from cobed.checks.words import listed, percent

# The share of targets from which on somebody should know of it.
MANY = 0.05
# So many groups of targets are told.
MAX_TOLD = 12
# Distances are rounded in single precision.
ROUNDING = 1e-6


class Overlap(AbstractCheck):
    """For each action, the share of the targets whose context is far from every unit that got it."""

    name: ClassVar[str] = "overlap"
    asks: ClassVar[str] = "Is there anybody like the targets among the units that got each action?"

    def __call__(self, evidence):
        units, targets = evidence.units, evidence.targets
        if len(units) == 0:
            return self.says("open", "No unit has been assigned yet.", "Design a round, or tell what was done before.")
        tried = units.is_back if units.is_back.any() else np.ones(len(units), bool)
        columns = units.columns if targets is None else targets.columns
        who = "units" if targets is None else "targets"
        contexts, where = encoded(units.columns), encoded(columns)
        allowed = None if targets is None else targets.allowed
        far: dict[str, np.ndarray] = {}
        untried: list[str] = []
        for place, (name, got) in enumerate(evidence.actions.groups(units.got).items()):
            if not (got & tried).any():
                untried.append(name)
                continue
            far[name] = far_from(contexts[got & tried], where)
            if allowed is not None:
                far[name] &= allowed[:, place]
        if not far:
            return self.says("open", "No unit has got any action yet.", "Design a round.")
        shares = {name: rows.mean() for name, rows in far.items()}
        worst = max(shares, key=lambda name: shares[name])
        seen = (
            f"{percent(shares[worst])} of the {who} lie further from the middle of the units that got {worst!r} than any of "
            f"these{', the most of any action' if len(far) > 1 else ''}."
            if shares[worst] > 0
            else f"All {who} have units like them among those that got each action that was tried."
        )
        nobody = f" Nobody got {listed([repr(name) for name in untried])} yet." if untried else ""
        table = _by_group(columns, far)
        if not untried and shares[worst] < MANY:
            return self.says("fine", seen, "Nothing.", table)
        remedy = [
            f"What is said of {listed([repr(name) for name in untried])} rests on the prior alone: try it in a round, or forbid it."
        ] * bool(untried)
        if shares[worst] >= MANY:
            remedy.append(
                "There the model goes on beyond what was tried, with wider intervals. Put such units into the next round, or keep "
                "to the action of today for them."
            )
        return self.says("look", seen + nobody, " ".join(remedy), table)


def far_from(tried: np.ndarray, contexts: np.ndarray) -> np.ndarray:
    """Which contexts (T, C) lie further from the middle of those tried (N, C) than any of these, (T,)."""
    middle = tried.mean(axis=0)
    away = tried - middle
    root = np.linalg.cholesky((away.T @ away + np.eye(tried.shape[1])) / (len(tried) + 1))
    inverse = np.linalg.inv(root).T
    own, others = (np.sum(((part - middle) @ inverse) ** 2, axis=1) for part in (tried, contexts))
    return others > own.max() * (1 + ROUNDING) + ROUNDING


def _by_group(columns: tuple[Column, ...], far: dict[str, np.ndarray]) -> pd.DataFrame:
    """The share of far ones for each action: of all, and of the groups where it is largest."""
    everybody = np.ones(len(next(iter(far.values()))), bool)
    rows = [("all", "", everybody)]
    rows += [(column.name, group, column.groups == group) for column in columns for group in column.group_names]
    shares = [{name: mask[members].mean() for name, mask in far.items()} for *_, members in rows]
    order = sorted(range(1, len(rows)), key=lambda place: -max(shares[place].values()))
    told = [0, *[place for place in order[:MAX_TOLD] if max(shares[place].values()) > 0]]
    return pd.DataFrame(
        {
            "column": rows[place][0],
            "with": rows[place][1],
            "number": int(rows[place][2].sum()),
            **{f"far from {name}": percent(share) for name, share in shares[place].items()},
        }
        for place in told
    )
