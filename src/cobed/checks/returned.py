"""Sample-ratio mismatch: whether outcomes are missing more often for one action than for another, and who got something else.

Given how many units were planned for each action and how many came back, any of them would have come back equally often: Pearson's
chi-square over all rounds, or, where a count is small, its share among random tables with the same sums.
"""

from collections.abc import Iterable
from typing import ClassVar, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import chi2, random_table

from cobed.checks.base import AbstractCheck
from cobed.checks.evidence import Evidence
from cobed.checks.words import chance, listed, percent

# What is usual for alarms of sample ratios: so many experiments without a fault are stopped.
LEVEL = 0.001
# A share of units that got something else than planned which is worth a look.
MANY_OTHERS = 0.05
# Below this expected count chance is simulated by so many tables.
SMALL, NUM_TABLES = 5.0, 20_000


class Returned(AbstractCheck):
    """Which units came back, by what was planned for them."""

    name: ClassVar[str] = "returned"
    asks: ClassVar[str] = "Did outcomes come back alike for all actions, and did units get what was planned?"

    def __call__(self, evidence):
        units = evidence.units
        planned = units.rounds > 0
        if not (planned & units.is_back).any():
            return self.says(
                "open", "No outcome of a planned unit has come back yet.", "Tell what came back: `cobed observe`."
            )
        counts = count_returned(evidence)
        p = min(1.0, len(counts) * min(ratio_test(part.planned, part.back, evidence.seed) for part in counts))
        table = pd.concat([part.table() for part in counts], ignore_index=True)
        seen = f"{int((planned & units.is_back).sum()):,} of {int(planned.sum()):,} planned units have come back"
        others = np.any(units.planned != units.got, axis=1) & units.is_back & planned
        share = others.sum() / (planned & units.is_back).sum()
        got_other = (
            f" {int(others.sum()):,} of them got another action than planned ({percent(share)})."
            if others.any()
            else ""
        )
        if p < LEVEL:
            rates = [back / number for back, number in zip(table["came back"], table["planned"], strict=True) if number]
            return self.says(
                "stop",
                f"{seen}, from {percent(min(rates))} to {percent(max(rates))} by action: chance gives such differences "
                f"{chance(p)} (told below {LEVEL:.1%}).{got_other}",
                "Outcomes are missing for a reason that depends on the action. Find out which units are missing and why; gains of "
                "the actions cannot be compared before.",
                table,
            )
        if share > MANY_OTHERS:
            first = listed([str(name) for name in units.ids[others]])
            return self.says(
                "look",
                f"{seen}, alike for all actions.{got_other}",
                f"Ask why: who did not get what was planned may differ from the others. Among them: {first}.",
                table,
            )
        return self.says("fine", f"{seen}, alike for all actions.{got_other}", "Nothing.", table)


class Counts(NamedTuple):
    """Of each round and action, how many units were planned and how many came back, (R, K)."""

    names: list[str]
    planned: np.ndarray
    back: np.ndarray

    def table(self) -> pd.DataFrame:
        planned, back = self.planned.sum(axis=0), self.back.sum(axis=0)
        shares = [percent(b / n) if n else "" for n, b in zip(planned, back, strict=True)]
        return pd.DataFrame({"action": self.names, "planned": planned, "came back": back, "share": shares})


def count_returned(evidence: Evidence) -> list[Counts]:
    """By what was planned, which history was not; of several numbers to choose, one for each."""
    units = evidence.units
    rounds = [number for number in np.unique(units.rounds) if number > 0]

    def count(masks: Iterable[np.ndarray], kept: np.ndarray) -> np.ndarray:
        return np.array([[np.sum(mask & kept & (units.rounds == r)) for mask in masks] for r in rounds])

    return [
        Counts(list(groups), count(groups.values(), np.ones(len(units), bool)), count(groups.values(), units.is_back))
        for groups in evidence.actions.groupings(units.planned)
    ]


def ratio_test(planned: np.ndarray, back: np.ndarray, seed: int) -> float:
    """How probable differences between actions like these are by chance alone: counts (R, K) of R rounds. 1 where there is
    nothing to compare."""
    tables = [np.stack([b, n - b])[:, n > 0] for n, b in zip(planned, back, strict=True)]
    tables = [table for table in tables if table.shape[1] > 1 and (table.sum(axis=1) > 0).all()]
    if not tables:
        return 1.0
    observed = sum(_chi_square(table[None])[0] for table in tables)
    if min(_expected(table).min() for table in tables) >= SMALL:
        return float(chi2.sf(observed, sum(table.shape[1] - 1 for table in tables)))
    rng = np.random.default_rng(seed)
    drawn = np.zeros(NUM_TABLES)
    for table in tables:
        law = random_table(table.sum(axis=1), table.sum(axis=0))
        drawn += _chi_square(law.rvs(size=NUM_TABLES, random_state=rng))
    return float((1 + np.sum(drawn >= observed * (1 - 1e-9))) / (NUM_TABLES + 1))


def _expected(table: np.ndarray) -> np.ndarray:
    return np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()


def _chi_square(tables: np.ndarray) -> np.ndarray:
    """Pearson's statistic of tables (B, 2, K) with the same sums, (B,)."""
    expected = _expected(tables[0])
    return ((tables - expected) ** 2 / expected).sum(axis=(1, 2))
