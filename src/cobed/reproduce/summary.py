"""From records to tables and sentences: means over seeds, differences on the same worlds, the printed values beside ours."""

import tomllib
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from cobed.metrics import paired_difference
from cobed.reproduce.experiment import Claim, Groups
from cobed.reproduce.study import Record

TITLES = {
    "cmv_eig": "CMV-EIG",
    "mse_m": "MSE(m*)",
    "mse_a": "MSE(A)",
    "hit_rate": "Hit rate",
    "regret": "Regret",
    "reward": "Reward",
}
OURS = ("CO-BED", "CO-BED (infonce)")


class Summary(NamedTuple):
    """A mean over seeds with its standard error."""

    mean: float
    standard_error: float

    def __str__(self) -> str:
        if not np.isfinite(self.standard_error) or self.standard_error == 0:
            return f"{self.mean:.4g}"
        # As many decimals as the error has meaning: two significant digits of it.
        decimals = int(np.clip(1 - np.floor(np.log10(self.standard_error)), 0, 6))
        return f"{self.mean:.{decimals}f} ± {self.standard_error:.{decimals}f}"


def published(name: str) -> dict[str, dict[str, tuple[float, float]]]:
    """Printed values by method and metric, each with its standard error."""
    text = (files("cobed.reproduce") / "published.toml").read_text()
    return tomllib.loads(text)[name]["methods"]


def by_method(records: Sequence[Record], **symbols: Any) -> dict[str, list[Record]]:
    """The records with these values of the symbols, grouped by method, in the order they were made. A record whose setting
    does not have a symbol belongs to all its values."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        if all(record.setting.get(symbol, value) == value for symbol, value in symbols.items()):
            groups.setdefault(record.method, []).append(record)
    return groups


def values_of(records: Sequence[Record], symbol: str) -> list[Any]:
    """The values the records have of a symbol, from small to large."""
    return sorted({record.setting[symbol] for record in records if symbol in record.setting})


def summarise(records: Sequence[Record], metric: str, protocol: str = "exact") -> Summary | None:
    """The metric of one method over its seeds; None where it was not measured or does not apply."""
    if metric == "cmv_eig":
        measured = [record for record in records if not np.isnan(record.cmv_eig)]
        return over_seeds([r.cmv_eig for r in measured], [r.cmv_eig_se for r in measured]) if measured else None
    scores = [record.score(protocol, metric) for record in records]
    return over_seeds(*_means_and_errors([score for score in scores if score is not None]))


def difference(
    records: Sequence[Record], others: Sequence[Record], metric: str, protocol: str = "exact"
) -> Summary | None:
    """The metric of one method minus that of another, world by world, over the seeds both have."""
    by_seed = {record.seed: record for record in others}
    gaps = []
    for record in records:
        pair = [r.score(protocol, metric) for r in (record, by_seed.get(record.seed)) if r is not None]
        if len(pair) == 2 and pair[0] is not None and pair[1] is not None:
            gaps.append(paired_difference(pair[0], pair[1]))
    return over_seeds(*_means_and_errors(gaps))


def _means_and_errors(scores: Sequence[Any]) -> tuple[list[float], list[float]]:
    # One number of a closed form says nothing of its error.
    return [s.mean for s in scores], [s.standard_error if s.num_worlds > 1 else float("nan") for s in scores]


def over_seeds(means: Sequence[float], errors: Sequence[float]) -> Summary | None:
    """Their mean; None where there is none. Its error: from the spread over seeds where there are at least 3, else from the
    errors of each."""
    count = len(means)
    if not count:
        return None
    if count >= 3:
        return Summary(float(np.mean(means)), float(np.std(means, ddof=1) / np.sqrt(count)))
    return Summary(float(np.mean(means)), float(np.sqrt(np.sum(np.square(errors))) / count))


def ratio(summary: Summary | None, other: Summary | None) -> str | None:
    """One mean as a share of another."""
    return None if summary is None or other is None or not other.mean > 0 else f"{summary.mean / other.mean:.3f}"


def comparison_table(
    groups: Groups, protocol: str, printed: dict[str, dict[str, tuple[float, float]]] | None = None
) -> pd.DataFrame:
    """One row per method: each metric with its error, the printed value beside it, and the paired regret above CO-BED's."""
    rows = []
    for method, records in groups.items():
        row: dict[str, str] = {"Method": method}
        for metric, title in TITLES.items():
            ours = summarise(records, metric, protocol)
            if ours is None:
                continue
            row[title] = str(ours)
            if printed is not None:
                value = printed.get(method, {}).get(metric)
                row[f"{title}, paper"] = "" if value is None else f"{value[0]:g} ± {value[1]:g}"
        gap = difference(records, groups.get("CO-BED", []), "regret", protocol)
        if gap is not None and method != "CO-BED":
            row["Regret above CO-BED's"] = str(gap)
        row["Seconds"] = f"{np.mean([record.seconds_design for record in records]):.1f}"
        rows.append(row)
    return pd.DataFrame(rows)


def table_over(
    records: Sequence[Record], symbol: str, cell: Callable[[Sequence[Record], Groups], object]
) -> pd.DataFrame:
    """One row per method, one column per value of the symbol; `cell(records, groups)` says what of a method's records to show
    beside those of all methods there."""
    rows = []
    for method in by_method(records):
        row = {"Method": method}
        for value in values_of(records, symbol):
            groups = by_method(records, **{symbol: value})
            shown = cell(groups[method], groups) if method in groups else None
            row[f"{symbol} = {value}"] = "" if shown is None else str(shown)
        rows.append(row)
    return pd.DataFrame(rows)


def metric_table(records: Sequence[Record], symbol: str, metric: str, protocol: str = "exact") -> pd.DataFrame:
    """The metric of each method, one column per value of the symbol."""
    return table_over(records, symbol, lambda of_method, groups: summarise(of_method, metric, protocol))


def difference_table(
    records: Sequence[Record], symbol: str, metric: str, other: str = "CO-BED", protocol: str = "exact"
) -> pd.DataFrame:
    """The metric of each method minus that of the method `other` on the same worlds, one column per value of the symbol."""

    def gap(of_method: Sequence[Record], groups: Groups) -> Summary | None:
        same = of_method[0].method == other
        return None if same else difference(of_method, groups.get(other, []), metric, protocol)

    return table_over(records, symbol, gap)


class Rival(NamedTuple):
    """The method of the lowest mean regret among some, and by how much it is above CO-BED's, world by world."""

    method: str
    regret: Summary
    excess: Summary

    @property
    def errors(self) -> float:
        """The excess in standard errors."""
        return self.excess.mean / self.excess.standard_error if self.excess.standard_error else float("inf")

    def __str__(self) -> str:
        errors = f" ({self.errors:+.1f} s.e.)" if np.isfinite(self.errors) else ""
        return f"{self.method} {self.regret}, above by {self.excess}{errors}"


def best_of(groups: Groups, methods: Sequence[str], protocol: str = "exact") -> Rival | None:
    """Of those methods that are there; None where there is none, or no CO-BED to compare with."""
    rivals = []
    for method in methods:
        records = groups.get(method, [])
        regret = summarise(records, "regret", protocol)
        excess = difference(records, groups.get("CO-BED", []), "regret", protocol)
        if regret is not None and excess is not None:
            rivals.append(Rival(method, regret, excess))
    return min(rivals, key=lambda rival: rival.excess.mean) if rivals else None


def best_other(groups: Groups, protocol: str = "exact") -> Rival | None:
    """The best of the methods that are not CO-BED's."""
    return best_of(groups, [method for method in groups if method not in OURS], protocol)


def findings(claims: Sequence[Claim], records: Sequence[Record]) -> list[str]:
    """For each setting and protocol the regret of CO-BED, that of the best other method and of InfoNCE, and whether the claims made
    there hold."""
    lines = []
    settings = [dict(pairs) for pairs in dict.fromkeys(tuple(record.setting.items()) for record in records)]
    for symbols in settings:
        groups = by_method([record for record in records if record.setting == symbols])
        where = ", ".join(f"{symbol} = {value}" for symbol, value in symbols.items()) or "all"
        for protocol in dict.fromkeys(name for group in groups.values() for record in group for name in record.worlds):
            ours, rival = summarise(groups.get("CO-BED", []), "regret", protocol), best_other(groups, protocol)
            if ours is None:
                continue
            lines.append(f"{where}, protocol {protocol}: regret of CO-BED {ours}")
            lines += [f"  best of the others: {rival}"] if rival is not None else []
            infonce = best_of(groups, OURS[1:], protocol)
            lines += [f"  by the paper's bound: {infonce}"] if infonce is not None else []
            for claim in claims:
                if rival is not None and claim.applies(symbols, protocol):
                    lines.append(f"  {claim.sentence}: {'yes' if claim.holds(groups, protocol) else 'NO'}")
    return lines
