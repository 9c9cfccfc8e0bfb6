"""The report of a campaign, at every stage of it."""

import importlib
import sys
from pathlib import Path

import pandas as pd
import pytest

from cobed.campaign import records as kept
from cobed.campaign.campaign import Campaign
from cobed.errors import StorageError
from cobed.report.campaign import write_report
from cobed.report.cards import Facts, base, cards
from cobed.report.cards.outcomes import outcomes_by_action

SPEC = """name = "spring <b>"
[units]
id = "customer"
[context]
recency = "numeric"
new = "binary"
[action]
{action}
[outcome]
column = "amount"
likelihood = "normal"
typical = 50
spread = 10
"""
HISTORY = pd.DataFrame(
    {
        "customer": [f"c{i}" for i in range(12)],
        "recency": range(12),
        "new": [0, 1] * 6,
        "action": ["none", "none", "mail"] * 4,
        "price": [1.0, 2.0, 3.0] * 4,
        "amount": [40.0, 50.0, 60.0] * 4,
    }
)


def begin(tmp_path, action):
    (tmp_path / "campaign.toml").write_text(SPEC.format(action=action))
    return Campaign.create(tmp_path / "campaign.toml")


@pytest.mark.parametrize(
    ("action", "effect"),
    [
        ('options = ["none", "mail"]', "action=mail by recency"),
        ("numbers = { price = { low = 0, high = 5 } }", "price squared"),
    ],
)
def test_the_page_tells_what_was_tried_learned_and_deployed(tmp_path, action, effect):
    campaign = begin(tmp_path, action)
    empty = write_report(campaign, tmp_path / "empty.html").read_text()
    assert "No unit has been assigned yet" in empty
    assert "spring &lt;b&gt;" in empty
    assert "No outcome has come back yet" in empty
    campaign.add_outcomes(HISTORY)
    before = write_report(campaign, tmp_path / "before.html").read_text()
    assert "Nothing has been deployed yet" in before
    assert effect in before
    assert "What each action earns, for the average unit of the experiment" in before
    campaign.deploy(HISTORY[["customer", "recency", "new"]])
    page = write_report(campaign, tmp_path / "report.html").read_text()
    for text in (
        "gain over actions at random",
        "the best one for its unit with probability",
        "12 outcome(s) of",
        "Nothing to warn of",
    ):
        assert text in page
    assert 'src="http' not in page
    with campaign.store.transaction() as connection:
        kept.write_policy(connection, kept.now(), "by another program", {"rows": 3})
    with pytest.raises(StorageError, match="summary of the last policy cannot be read"):
        write_report(campaign, tmp_path / "report.html")
    campaign.close()


def test_outcomes_are_averaged_by_action(tmp_path):
    campaign = begin(tmp_path, 'options = ["none", "mail"]')
    campaign.add_outcomes(HISTORY)
    table = outcomes_by_action(campaign.spec, campaign.export())
    assert table["action"].tolist() == ["none", "mail"]
    assert table["units"].tolist() == ["8", "4"]
    # 40 and 50 four times each: deviation sqrt(200 / 7), by the root of 8.
    assert table["average amount"].tolist() == ["45", "60"]
    assert table["standard error"].tolist() == ["1.9", "0"]
    campaign.close()


def test_every_card_has_a_heading_and_tells_what_it_waits_for_in_a_sentence(tmp_path):
    campaign = begin(tmp_path, 'options = ["none", "mail"]')
    for _ in range(2):
        facts = Facts(campaign)
        for card in cards():
            assert card.heading(facts).strip()
            awaited = card.awaited(facts)
            assert awaited is None or awaited.endswith("."), card.name
        campaign.add_outcomes(HISTORY)
    assert len({card.name for card in cards()}) == len(cards())
    campaign.close()


def test_a_card_of_another_package_comes_after_those_of_the_page(tmp_path, monkeypatch):
    monkeypatch.setattr(base._CARDS, "_parts", dict(base._CARDS._parts))
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "outside")
    monkeypatch.delitem(sys.modules, "longest_wait", raising=False)
    importlib.import_module("longest_wait")
    assert [card.name for card in cards()] == [
        "headline",
        "deployed",
        "gains",
        "valued",
        "sure",
        "tried",
        "outcomes",
        "learned",
        "checks",
        "warnings",
        "longest wait",
        "technical",
        "checks in detail",
        "glossary",
    ]
    campaign = begin(tmp_path, 'options = ["none", "mail"]')
    page = write_report(campaign, tmp_path / "report.html").read_text()
    assert page.index("What to do, and for whom") < page.index("Who is still awaited") < page.index("No round yet.")
    assert page.index("No round yet.") < page.index("Appendix")
    campaign.close()
