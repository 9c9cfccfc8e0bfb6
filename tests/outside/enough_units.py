"""A check that another package brings: whether every action that was tried has enough units."""

from typing import ClassVar

from cobed.checks import AbstractCheck, register

ENOUGH = 10


class EnoughUnits(AbstractCheck):
    """The smallest number of units with one action."""

    name: ClassVar[str] = "enough units"
    asks: ClassVar[str] = "Does every action that was tried have enough units?"

    def __call__(self, evidence):
        counts = [int(rows.sum()) for rows in evidence.actions.groups(evidence.units.got).values() if rows.any()]
        if not counts:
            return self.says("open", "No unit has been assigned yet.", "Design a round.")
        verdict = "fine" if min(counts) >= ENOUGH else "look"
        return self.says(verdict, f"The rarest action that was tried has {min(counts)} unit(s).", "Try it on more.")


register(EnoughUnits())
