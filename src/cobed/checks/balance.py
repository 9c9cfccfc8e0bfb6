"""Balance: whether units that got different actions were alike beforehand.

Where chance decided, the canonical correlations r between contexts X and actions A are those of independent variables. With both
centred within their rounds, Pillai's trace V = sum r^2 has nearly an F law (Pillai 1955). With p = rank X, q = rank A, s the
smaller of both, and v = N - rounds - q:

    m = (|p - q| - 1) / 2,  n = (v - p - 1) / 2,  F = (2n + s + 1) / (2m + s + 1)  V / (s - V)

with s (2m + s + 1) and s (2n + s + 1) degrees of freedom.
"""

from typing import ClassVar

import numpy as np
import pandas as pd
from scipy.stats import f as f_law

from cobed.checks.base import AbstractCheck
from cobed.checks.evidence import Evidence, encoded
from cobed.checks.words import amount, chance

# How often a balanced experiment is told to be looked at; and from when on chance alone is no explanation.
LEVEL, IMPOSSIBLE = 0.01, 1e-6
# Deviations between two groups from which on a column is named: what is usual for tables of balance.
LARGE = 0.25


class Balance(AbstractCheck):
    """A joint test where chance decided who got what; elsewhere only a table, because designs are unbalanced on purpose."""

    name: ClassVar[str] = "balance"
    asks: ClassVar[str] = "Were units that got different actions alike beforehand?"

    def __call__(self, evidence):
        units = evidence.units
        if len(units) == 0:
            return self.says("open", "No unit has been assigned yet.", "Design a round, or tell what was done before.")
        tested = units.could_get_all
        rows = tested if tested.any() else np.ones(len(units), bool)
        table = balance_table(evidence, rows)
        differ = f" {_largest(table)}"
        if not tested.any():
            return self.says(
                "fine",
                f"A design chose the actions, and designs are unbalanced on purpose, so nothing is tested.{differ}",
                "Do not compare plain averages by action: use what was learned, which takes the contexts into account.",
                table,
            )
        contexts, rounds = encoded(units.columns)[tested], units.rounds[tested]
        p = pillai_test(contexts, units.planned[tested], rounds)
        of = f"{int(tested.sum()):,} units whose action was left to chance"
        if np.isnan(p):
            return self.says(
                "open",
                f"Of {of} too few are there, or too much alike, to test whether contexts are balanced over actions.",
                "More units tell it.",
                table,
            )
        if p >= LEVEL:
            return self.says(
                "fine",
                f"Contexts are balanced over actions among {of}: chance gives such differences {chance(p)}.{differ}",
                "Nothing.",
                table,
            )
        return self.says(
            "stop" if p < IMPOSSIBLE else "look",
            f"Contexts are not balanced over actions among {of}: chance gives such differences {chance(p)} "
            f"(told below {LEVEL:.0%}).{differ}",
            _advice(bool(units.are_guessed[tested].any())),
            table,
        )


def _largest(table: pd.DataFrame) -> str:
    difference, name = float(table["largest difference"].tolist()[0]), table["context"].tolist()[0]
    strong = " (large)" if difference >= LARGE else ""
    return f"The largest difference is in {name}: {amount(difference)} deviations{strong}."


def _advice(is_history: bool) -> str:
    if is_history:
        return (
            "If history was not assigned at random, this is expected: do not read its plain averages as effects. If it was, find "
            "out who changed the assignment, or which units are missing."
        )
    return (
        "Find out who changed the assignment, or which units are missing, before anything is concluded from averages."
    )


def balance_table(evidence: Evidence, rows: np.ndarray) -> pd.DataFrame:
    """Of each encoded context column: its mean by action, and the largest standardised difference of two means, the largest first.

    Numbers are in the user's units; of levels, the mean is their share.
    """
    units = evidence.units
    groups = {name: mask[rows] for name, mask in evidence.actions.groups(units.planned).items()}
    groups = {name: mask for name, mask in groups.items() if mask.any()}
    records = []
    for column in units.columns:
        numbers = column.numbers[rows]
        for place, label in enumerate(column.labels):
            values = numbers[:, place]
            means = [float(values[mask].mean()) for mask in groups.values()]
            within = np.sqrt(np.mean([values[mask].var() for mask in groups.values()]))
            shown = means
            if column.is_number and place == 0:
                cells = np.array([np.nan if cell is None else float(cell) for cell in column.cells[rows]])
                shown = [
                    float(np.nanmean(cells[mask])) if (~np.isnan(cells[mask])).any() else np.nan
                    for mask in groups.values()
                ]
            # A column without any variation within the groups differs infinitely, or not at all.
            difference = np.ptp(means) / within if within > 1e-9 else (np.inf if np.ptp(means) > 1e-9 else 0.0)
            records.append(
                {
                    "context": label,
                    **dict(zip(groups, map(amount, shown), strict=True)),
                    "largest difference": difference,
                }
            )
    table = pd.DataFrame(records)
    return table.sort_values("largest difference", ascending=False, kind="stable", ignore_index=True)


def pillai_test(contexts: np.ndarray, actions: np.ndarray, strata: np.ndarray) -> float:
    """The probability of as much dependence of actions (N, A) on contexts (N, C) by chance alone, both centred within strata (N,).

    Not a number where one of them does not vary, or where there are too few rows.
    """
    _, places = np.unique(strata, return_inverse=True)
    x, a = (_orthonormal(_centred(part, places)) for part in (contexts, actions))
    p, q = x.shape[1], a.shape[1]
    within = len(places) - places.max() - 1 - q  # degrees of freedom that contexts have within actions
    if min(p, q) == 0 or within <= p:
        return float("nan")
    trace = float(np.sum((x.T @ a) ** 2))
    s, m, n = min(p, q), (abs(p - q) - 1) / 2, (within - p - 1) / 2
    ratio = (2 * n + s + 1) / (2 * m + s + 1) * trace / max(s - trace, 1e-12)
    return float(f_law.sf(ratio, s * (2 * m + s + 1), s * (2 * n + s + 1)))


def _centred(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Values (N, W) less the mean of their stratum."""
    counts = np.bincount(places)
    means = np.stack([np.bincount(places, column) / counts for column in values.T.astype(np.float64)], axis=1)
    return values - means[places]


def _orthonormal(values: np.ndarray) -> np.ndarray:
    """Columns that span the same, orthonormal, (N, rank)."""
    scale = np.sqrt((values**2).sum(axis=0))
    scaled = values[:, scale > 1e-6] / scale[scale > 1e-6]
    if scaled.shape[1] == 0:
        return scaled
    left, singular, _ = np.linalg.svd(scaled, full_matrices=False)
    return left[:, singular > 1e-6 * singular[0]]
