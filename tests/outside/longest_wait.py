"""A card of the report that another package brings: the rounds that still wait for outcomes."""

from typing import ClassVar

from cobed.report.cards import Card, register


class LongestWait(Card):
    """Rounds without all their outcomes, with the day they were designed."""

    name: ClassVar[str] = "longest wait"

    def heading(self, facts):
        return "Who is still awaited"

    def awaited(self, facts):
        return None if len(facts.status.rounds) else "No round yet."

    def add(self, page, facts):
        page.text(f"{facts.status.num_waiting} unit(s) of {facts.spec.outcome.column!r}.")
        page.table(facts.status.rounds[["round", "created", "waiting"]])


register(LongestWait())
