"""The checks of the experiment: what to look at, on the page; what each of them saw, in the appendix."""

from typing import ClassVar

from cobed.checks import checks
from cobed.report.cards.base import Card
from cobed.report.page import Finding

ADVICE = {
    "fine": "Nothing to do.",
    "look": "Understand what is listed before decisions rest on it.",
    "stop": "Decide nothing by these numbers before that is mended.",
}


class Checks(Card):
    """The verdicts, and what to do about those that are not fine."""

    name: ClassVar[str] = "checks"

    def heading(self, facts):
        return "Can these numbers be trusted?"

    def awaited(self, facts):
        return None if facts.campaign.encoding() is not None else "Nothing to check yet: no unit has been assigned."

    def finding(self, facts):
        if self.awaited(facts) is not None:
            return None
        verdicts = {answer.verdict for answer in facts.checks}
        worst = "stop" if "stop" in verdicts else "look" if "look" in verdicts else "fine"
        return Finding(worst, ADVICE[worst])

    def add(self, page, facts):
        for verdict in ("stop", "look"):
            page.items(
                [
                    f"{answer.name}: {answer.sentence} {answer.advice}"
                    for answer in facts.checks
                    if answer.verdict == verdict
                ]
            )
        for verdict, words in (("fine", "Fine"), ("open", "Could not be checked")):
            names = [answer.name for answer in facts.checks if answer.verdict == verdict]
            if names:
                page.text(f"{words}: {', '.join(names)}. What was seen stands in the appendix.")


class ChecksInDetail(Card):
    """What every check asked and saw, with the tables and figures of those to look at."""

    name: ClassVar[str] = "checks in detail"
    appendix: ClassVar[bool] = True

    def heading(self, facts):
        return "What the checks saw"

    def awaited(self, facts):
        return None if facts.campaign.encoding() is not None else "Nothing to check yet: no unit has been assigned."

    def add(self, page, facts):
        asked = {check.name: check.asks for check in checks()}
        for answer in facts.checks:
            page.text(f"{asked[answer.name]} {answer.verdict}. {answer.sentence}")
            if answer.verdict == "fine":
                continue
            page.text(answer.advice)
            if answer.table is not None:
                page.table(answer.table)
            if answer.figure is not None:
                page.figure(answer.figure)
