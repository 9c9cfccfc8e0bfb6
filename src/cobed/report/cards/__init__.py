"""Cards of a campaign's report. `register` adds one; the page shows them in the order of `cards`."""

from cobed.report.cards.base import Card, Facts, cards, register
from cobed.report.cards.checks import Checks, ChecksInDetail
from cobed.report.cards.deployed import Deployed
from cobed.report.cards.gains import Gains
from cobed.report.cards.glossary import Glossary
from cobed.report.cards.headline import Headline
from cobed.report.cards.learned import Learned
from cobed.report.cards.outcomes import Outcomes
from cobed.report.cards.sure import Sure
from cobed.report.cards.technical import Technical
from cobed.report.cards.tried import Tried
from cobed.report.cards.valued import Valued
from cobed.report.cards.warnings import Warnings
from cobed.report.page import Finding

for _card in (
    Headline(),
    Deployed(),
    Gains(),
    Valued(),
    Sure(),
    Tried(),
    Outcomes(),
    Learned(),
    Checks(),
    Warnings(),
    Technical(),
    ChecksInDetail(),
    Glossary(),
):
    register(_card)

__all__ = [
    "Card",
    "Checks",
    "ChecksInDetail",
    "Deployed",
    "Facts",
    "Finding",
    "Gains",
    "Glossary",
    "Headline",
    "Learned",
    "Outcomes",
    "Sure",
    "Technical",
    "Tried",
    "Valued",
    "Warnings",
    "cards",
    "register",
]
