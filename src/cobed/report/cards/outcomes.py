"""Plain averages of what came back."""

from typing import ClassVar

import numpy as np
import pandas as pd

from cobed.campaign.spec import CampaignSpec
from cobed.campaign.words import number
from cobed.report.cards.base import Card


class Outcomes(Card):
    """Averages of the outcomes by action."""

    name: ClassVar[str] = "outcomes"

    def heading(self, facts):
        return "Outcomes so far"

    def awaited(self, facts):
        return "No outcome has come back yet." if facts.data is None else None

    def add(self, page, facts):
        page.table(outcomes_by_action(facts.spec, facts.table))
        page.text(
            "Plain averages of what came back. Units were not assigned at random, so compare actions by what follows instead.",
            note=True,
        )


def outcomes_by_action(spec: CampaignSpec, table: pd.DataFrame) -> pd.DataFrame:
    """Average outcome, its standard error and the number of units, by option; of numbers, by thirds of the first one."""
    column = spec.action.columns[0]
    back = table[table[spec.outcome.column].notna()]
    values, groups = np.asarray(back[spec.outcome.column], float), np.asarray(back[column])
    names = list(spec.action.options or ())
    if spec.action.options is None:
        places = np.digitize(groups.astype(float), bounds := np.quantile(groups.astype(float), [1 / 3, 2 / 3]))
        names = [f"below {bounds[0]:.4g}", f"{bounds[0]:.4g} to {bounds[1]:.4g}", f"above {bounds[1]:.4g}"]
        groups = np.array(names, dtype=object)[places]
    rows = []
    for name in names:
        own = values[groups == name]
        average = _said(spec, own.mean()) if own.size else ""
        error = _said(spec, _standard_error(own), 2) if own.size > 1 else ""
        rows.append(
            {column: name, "units": f"{own.size:,}", f"average {spec.outcome.column}": average, "standard error": error}
        )
    return pd.DataFrame(rows)


def _said(spec: CampaignSpec, value: float, digits: int = 3) -> str:
    """An average with its unit: a share where outcomes are yes or no."""
    return f"{100 * value:.1f}%" if spec.outcome.law.words else number(float(f"{value:.{digits}g}"))


def _standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(values.size))
