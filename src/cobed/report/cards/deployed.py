"""What to do, and for whom: the rules, and the actions by groups of units."""

from typing import Any, ClassVar

import pandas as pd

from cobed.campaign.readable import read_tree
from cobed.campaign.words import day, number, unit_words
from cobed.report.cards.base import Card, Facts, needs_policy
from cobed.report.page import Page
from cobed.report.rules import Rules


class Deployed(Card):
    """The last policy as rules, and who gets what by it."""

    name: ClassVar[str] = "deployed"

    def heading(self, facts):
        return "What to do, and for whom"

    def awaited(self, facts):
        return needs_policy(facts)

    def add(self, page, facts):
        policy = facts.policy
        assert policy is not None
        words = unit_words(facts.spec)
        page.text(f"For the {policy['rows']:,} {words} of {policy['name']}, chosen on {day(policy['created'])}.")
        if policy.get("rules"):
            _add_rules(page, facts, policy)
        else:
            page.text("No short rules keep to the budget; the table of the policy has the action of each.", note=True)
        if "counts" in policy:
            counts = ", ".join(f"{name} {count:,}" for name, count in policy["counts"].items() if count)
            page.text(f"In all, by the policy as it was deployed: {counts}.")
        page.table(who_gets_what(facts, policy), "Who gets what, as shares of each group")


def _add_rules(page: Page, facts: Facts, policy: dict[str, Any]) -> None:
    rules, amounts, words = policy["rules"], facts.amounts, unit_words(facts.spec)
    tree, over = read_tree(policy), _over(rules["over"])
    page.text("The policy follows these rules:" if rules["deployed"] else "As rules that are close to the policy:")
    page.add(
        Rules(
            tree,
            [f"{leaf['units']:,} {words}, {amounts.signed(leaf['gain'])} {amounts.what}" for leaf in rules["leaves"]],
        )
    )
    page.items(tree.sentences())
    value, free = rules["value"], rules["free"]
    kept = f", so the rules keep {value / free:.0%} of it" if free > 0 and value >= 0 else ""
    page.text(
        f"By these rules: {amounts.signed(value)} {amounts.what} against {over}. The best action for each one: "
        f"{amounts.signed(free)}{kept}."
    )


def _over(text: str) -> str:
    return text if text == "today" else f"{text!r} for all"


def who_gets_what(facts: Facts, policy: dict[str, Any]) -> pd.DataFrame:
    """One row for each group of each column: shares of the options, or averages of the numbers."""
    is_share = facts.spec.action.options is not None

    def cell(value: float) -> str:
        return number(value) if not is_share else f"{value:.0%}" if value >= 0.005 else "\N{EN DASH}"

    words = unit_words(facts.spec)
    # What nobody gets needs no column.
    used = {name for row in policy["where"] for name, value in row["shares"].items() if value or not is_share}
    return pd.DataFrame(
        [
            {"who": f"{row['column']}: {row['group']}", words: f"{row['units']:,}"}
            | {name: cell(value) for name, value in row["shares"].items() if name in used}
            for row in policy["where"]
        ]
    )
