"""How well the options that are done already are known: what makes a design pay. Needs no JAX."""

import math
from typing import TYPE_CHECKING

from cobed.campaign import records as kept
from cobed.campaign.spec import CampaignSpec

if TYPE_CHECKING:
    from cobed.campaign.campaign import Campaign

# From so many outcomes on, the interval of their average is told.
ENOUGH_FOR_INTERVAL = 10
# Deviations of a normal number within which 90% of it lie.
INTERVAL = 1.645


def how_well_known(spec: CampaignSpec, campaign: "Campaign | None") -> tuple[str | None, list[str]]:
    """A sentence with the number of outcomes of each option in use, and warnings about those that have none."""
    if not spec.action.in_use:
        return None, []
    stored = {} if campaign is None else campaign.store.read(kept.outcomes_by_action)
    said = [_told(spec, name, *stored[name]) for name in spec.action.in_use if name in stored]
    unknown = [repr(name) for name in spec.action.in_use if name not in stored]
    sentence = f"In use: {'; '.join(said)}." if said else None
    if not unknown:
        return sentence, []
    columns = [spec.units.id, *spec.context, *spec.action.columns, spec.outcome.column]
    return sentence, [
        f"{' and '.join(unknown)} {'is' if len(unknown) == 1 else 'are'} in use, and no outcome is stored. Tell what came of "
        "it before the round is designed: cobed observe history.csv. A design then spends fewer units on what is known, which is "
        f"where designs pay. Columns of the table: {', '.join(columns)}."
    ]


def _told(spec: CampaignSpec, name: str, number: int, mean: float, deviation: float) -> str:
    said = f"{name}, {number:,} outcome(s), {spec.outcome.column} {mean:.3g} on average"
    if number < ENOUGH_FOR_INTERVAL:
        return said
    reach = INTERVAL * deviation / math.sqrt(number)
    return f"{said} (90% interval {mean - reach:.3g} to {mean + reach:.3g})"
