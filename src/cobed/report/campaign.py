"""One page about a campaign, for everybody: what it brings, what to do for whom, how sure, what was tried and learned."""

from pathlib import Path

from cobed.campaign.campaign import Campaign
from cobed.campaign.records import now
from cobed.campaign.words import day
from cobed.report.cards import Facts, cards
from cobed.report.page import Page


def campaign_page(campaign: Campaign) -> Page:
    """The page, to be written in any format."""
    facts = Facts(campaign)
    page = Page(campaign.spec.name, f"Campaign report of {day(now())}")
    in_appendix = False
    for card in cards():
        if card.appendix and not in_appendix:
            page.begin_appendix()
            in_appendix = True
        page.heading(card.heading(facts))
        awaited = card.awaited(facts)
        if awaited is not None:
            page.text(awaited)
            continue
        if (finding := card.finding(facts)) is not None:
            page.verdict(finding.kind, finding.advice)
        card.add(page, facts)
    return page


def write_report(campaign: Campaign, path: str | Path, format: str = "html") -> Path:
    """Write the page: html opens without a network, pdf needs a Chromium on this machine, md and json have the same cards."""
    return campaign_page(campaign).write(path, format)
