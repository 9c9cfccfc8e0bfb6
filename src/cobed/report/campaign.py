"""One page about a campaign, for everybody: what was tried on whom, what was learned, what to deploy where, how sure."""

from pathlib import Path

from cobed.campaign.campaign import Campaign
from cobed.report.cards import Facts, cards
from cobed.report.page import Page


def write_report(campaign: Campaign, path: str | Path) -> Path:
    """Write the page; it opens without a network."""
    facts = Facts(campaign)
    page, status = Page(campaign.spec.name), facts.status
    page.text(
        f"{len(facts.table)} unit(s) in {len(status.rounds)} round(s); {status.num_outcomes} outcome(s) of "
        f"{campaign.spec.outcome.column!r} have come back, {status.num_waiting} are awaited."
    )
    for card in cards():
        page.heading(card.heading(facts))
        awaited = card.awaited(facts)
        if awaited is not None:
            page.text(awaited)
        else:
            card.add(page, facts)
    return page.write(path)
