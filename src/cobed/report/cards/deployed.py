"""The policy that was deployed last: what it is worth, and who gets what."""

from typing import Any, ClassVar

import pandas as pd

from cobed.campaign.database import DAMAGED
from cobed.campaign.gaps import gap_sentences
from cobed.campaign.money import money_sentences
from cobed.campaign.spec import CampaignSpec
from cobed.errors import StorageError
from cobed.report.cards.base import Card
from cobed.report.page import Page


class Deployed(Card):
    """The last policy, beside one action for all and actions at random."""

    name: ClassVar[str] = "deployed"

    def heading(self, facts):
        return "What to deploy where"

    def awaited(self, facts):
        if facts.campaign.policies():
            return None
        return "Nothing has been deployed yet: `cobed deploy TARGETS.csv`, then write this report again."

    def add(self, page, facts):
        try:
            _add_policy(page, facts.spec, facts.campaign.policies()[-1])
        except (KeyError, TypeError, ValueError) as error:
            raise StorageError(
                f"The stored summary of the last policy cannot be read ({error!r}). {DAMAGED} Or deploy again, which stores a "
                "new one."
            ) from error


def _add_policy(page: Page, spec: CampaignSpec, last: dict[str, Any]) -> None:
    page.text(f"For the {last['rows']:,} units of {last['name']}, chosen on {last['created'][:10]}:")
    kinds = {
        "value": "the policy",
        **({"over_current": "gain over what is done today"} if "over_current" in last else {}),
        "over_single": f"gain over {last['single']!r} for all",
        "over_random": "gain over random",
    }
    page.table(
        pd.DataFrame(
            {
                f"{spec.reward_words} per unit": list(kinds.values()),
                "expected": [f"{last[kind]['mean']:.4g}" for kind in kinds],
                "90% interval": [f"{last[kind]['low']:.4g} to {last[kind]['high']:.4g}" for kind in kinds],
            }
        )
    )
    for sentence in [*money_sentences(spec, last), *gap_sentences(last, last["rows"]), *last.get("warnings", [])]:
        page.text(sentence)
    page.text(f"The chosen action is the best one with probability {last['p_best']:.0%}, averaged over units.")
    share = (lambda value: f"{value:.0%}") if spec.action.options is not None else "{:.4g}".format
    page.table(
        pd.DataFrame(
            [
                {"column": row["column"], "units with": row["group"], "number": row["units"]}
                | {name: share(value) for name, value in row["shares"].items()}
                for row in last["where"]
            ]
        )
    )
