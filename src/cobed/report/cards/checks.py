"""The checks of the experiment: their verdicts as a table, then what is behind each that is not fine."""

from typing import ClassVar

import pandas as pd

from cobed.checks import checks
from cobed.report.cards.base import Card


class Checks(Card):
    """Verdicts in words, and the tables of those to look at."""

    name: ClassVar[str] = "checks"

    def heading(self, facts):
        return "Can these numbers be trusted?"

    def awaited(self, facts):
        return None if facts.campaign.encoding() is not None else "Nothing to check yet: no unit has been assigned."

    def add(self, page, facts):
        answers = facts.campaign.trust()
        page.text(
            "fine: nothing to do. look: understand it before decisions rest on it. stop: it spoils what rests on it. "
            "open: it could not be checked. `cobed trust TARGETS.csv` checks with the units of a policy.",
            note=True,
        )
        page.table(
            pd.DataFrame(
                {"check": [answer.name for answer in answers], "verdict": [answer.verdict for answer in answers]}
            )
        )
        asked = {check.name: check.asks for check in checks()}
        for answer in answers:
            page.text(f"{asked[answer.name]} {answer.verdict}. {answer.sentence}")
            if answer.verdict == "fine":
                continue
            page.text(answer.advice)
            if answer.table is not None:
                page.table(answer.table)
            if answer.figure is not None:
                page.figure(answer.figure)
