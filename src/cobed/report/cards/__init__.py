"""Cards of a campaign's report. `register` adds one; the page shows them in the order of `cards`."""

from cobed.report.cards.base import Card, Facts, cards, register
from cobed.report.cards.checks import Checks
from cobed.report.cards.deployed import Deployed
from cobed.report.cards.learned import Learned
from cobed.report.cards.outcomes import Outcomes
from cobed.report.cards.tried import Tried
from cobed.report.cards.valued import Valued
from cobed.report.cards.warnings import Warnings

for _card in (Warnings(), Tried(), Outcomes(), Learned(), Valued(), Deployed(), Checks()):
    register(_card)

__all__ = [
    "Card", "Checks", "Deployed", "Facts", "Learned", "Outcomes", "Tried", "Valued", "Warnings", "cards", "register",
]  # fmt: skip
