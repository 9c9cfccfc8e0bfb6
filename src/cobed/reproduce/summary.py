"""From records to the paper's tables, with the printed values beside ours."""

import tomllib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from cobed.metrics import paired_difference
from cobed.reproduce.study import Record

TITLES = {"cmv_eig": "CMV-EIG", "mse_m": "MSE(m*)", "mse_a": "MSE(A)", "hit_rate": "Hit rate", "regret": "Regret"}


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


def summarise(records: Sequence[Record], metric: str, protocol: str = "exact") -> Summary | None:
    """The metric of one method over its seeds; None where it does not apply."""
    if metric == "cmv_eig":
        return over_seeds([record.cmv_eig for record in records], [record.cmv_eig_se for record in records])
    scores = [record.score(protocol, metric) for record in records]
    found = [score for score in scores if score is not None]
    return over_seeds([s.mean for s in found], [s.standard_error for s in found]) if found else None


def difference(records: Sequence[Record], others: Sequence[Record], metric: str, protocol: str) -> Summary | None:
    """The metric of one method minus that of another, world by world, over the seeds both have."""
    by_seed = {record.seed: record for record in others}
    gaps = []
    for record in records:
        if record.seed not in by_seed:
            continue
        own, other = record.score(protocol, metric), by_seed[record.seed].score(protocol, metric)
        if own is not None and other is not None:
            gaps.append(paired_difference(own, other))
    return over_seeds([g.mean for g in gaps], [g.standard_error for g in gaps]) if gaps else None


def over_seeds(means: Sequence[float], errors: Sequence[float]) -> Summary:
    """Their mean. Its error: from the spread over seeds where there are at least 3, else from the errors of each."""
    count = len(means)
    if count >= 3:
        return Summary(float(np.mean(means)), float(np.std(means, ddof=1) / np.sqrt(count)))
    return Summary(float(np.mean(means)), float(np.sqrt(np.sum(np.square(errors))) / count))


def by_method(records: Sequence[Record], **setting: Any) -> dict[str, list[Record]]:
    """The records of this setting, grouped by method, in the order they were made."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        if all(record.setting.get(symbol) == value for symbol, value in setting.items()):
            groups.setdefault(record.method, []).append(record)
    return groups


def comparison_table(
    groups: dict[str, list[Record]], protocol: str, printed: dict[str, dict[str, tuple[float, float]]] | None = None
) -> pd.DataFrame:
    """One row a method: each metric with its error, the printed value beside it, and the paired regret above CO-BED's."""
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
