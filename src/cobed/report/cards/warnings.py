"""What a reader should be warned of."""

from typing import ClassVar

from cobed.campaign.summary import export_names
from cobed.report.cards.base import Card, Facts
from cobed.report.page import Finding


class Warnings(Card):
    """Warnings of designs, of the policy and of the posterior, and units that got something else than planned."""

    name: ClassVar[str] = "warnings"

    def heading(self, facts):
        return "Warnings" if _warnings(facts) else "Nothing to warn of"

    def finding(self, facts):
        return Finding("look", "Read these before you act.") if _warnings(facts) else Finding("fine")

    def add(self, page, facts):
        warnings = _warnings(facts)
        page.items(warnings)
        if not warnings:
            page.text("Tables, rounds and computations gave no reason to doubt.", note=True)


def _warnings(facts: Facts) -> list[str]:
    said = [warning for r in facts.campaign.rounds() for warning in r.summary.get("warnings", [])]
    table = facts.table
    num_others = sum(not planned for planned in table[export_names(facts.spec)["as_planned"]]) if len(table) else 0
    if num_others:
        said.append(f"{num_others} unit(s) got another action than planned. What is known rests on what they got.")
    if facts.policy is not None:
        said += facts.policy.get("warnings", [])
    if facts.data is not None:
        said += facts.known[1].warnings
    return list(dict.fromkeys(said))
