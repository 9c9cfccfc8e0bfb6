"""What policies are worth by outcomes alone, beside what the model says."""

from typing import ClassVar

import pandas as pd

from cobed.campaign.evaluation import Evaluation
from cobed.campaign.summary import PROPENSITY, export_names
from cobed.errors import CampaignError
from cobed.report.cards.base import Card


class Valued(Card):
    """The policies that `cobed evaluate` judges, in plain words."""

    name: ClassVar[str] = "valued"

    def heading(self, facts):
        return "What the outcomes alone say of policies"

    def awaited(self, facts):
        if facts.data is None:
            return "No outcome has come back yet."
        back = facts.table[facts.spec.outcome.column].notna()
        if facts.table.loc[back, export_names(facts.spec)[PROPENSITY]].notna().any():
            return None
        return (
            "No outcome is of a unit whose action was random, so that all values here are the model's own. random_share = 0.1 "
            "under [design] lets the next round tell without the model."
        )

    def add(self, page, facts):
        try:
            found = facts.campaign.evaluate()
        except CampaignError as error:
            page.text(str(error))
            return
        page.text(
            f"The actions of {found.num_units:,} units were drawn by chance. What came back of them says what a policy is worth, "
            "whether or not the model is right. Each unit is decided for by what the others taught."
        )
        page.table(_table(found))
        page.text(
            "A range holds with 90%. Where the range of the outcomes lies apart from what the model says, trust the outcomes.",
            note=True,
        )
        for sentence in [*found.troubles, *found.notes]:
            page.text(sentence)


def _table(found: Evaluation) -> pd.DataFrame:
    rows = []
    for policy in found.policies:
        value, gain, model = policy.value, policy.gain, policy.model
        rows.append(
            {
                f"{found.unit} per unit": policy.name,
                "by outcomes": "cannot tell"
                if value.trouble
                else f"{value.mean:.4g} ({value.low:.4g} to {value.high:.4g})",
                f"gain over {found.reference}": (
                    "" if gain is None or gain.trouble else f"{gain.mean:.4g} ({gain.low:.4g} to {gain.high:.4g})"
                ),
                "units that got it by chance": f"{value.num_matched:,}",
                "the model says": "" if model is None else f"{model[0]:.4g} ({model[1]:.4g} to {model[2]:.4g})",
            }
        )
    return pd.DataFrame(rows)
