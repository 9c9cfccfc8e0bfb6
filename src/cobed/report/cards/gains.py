"""What the policy is expected to bring, against what is done today, the best single action and actions at random."""

from typing import Any, ClassVar

import pandas as pd
import plotly.graph_objects as go

from cobed.campaign.gaps import gap_sentences
from cobed.campaign.money import money_sentences
from cobed.campaign.words import action_words, forbidden, unit_words
from cobed.report.cards.base import Card, Facts, needs_policy
from cobed.report.figures import COLOURS


class Gains(Card):
    """The last policy beside simpler ones."""

    name: ClassVar[str] = "gains"

    def heading(self, facts):
        return "What it brings"

    def awaited(self, facts):
        return needs_policy(facts)

    def add(self, page, facts):
        policy, amounts = facts.policy, facts.amounts
        assert policy is not None
        names = comparisons(policy)
        page.figure(gains_figure(facts, policy))
        rows = [
            ("the policy itself", policy["value"]),
            *((f"gain over {name}", policy[key]) for key, name in names.items()),
        ]
        page.table(
            pd.DataFrame(
                {
                    amounts.what: [name for name, _ in rows],
                    "expected": [amounts.expected(part) for _, part in rows],
                    "90% interval": [amounts.span(part) for _, part in rows],
                }
            )
        )
        if said := forbidden(policy):
            page.text(
                f"{action_words(policy['single'])} for all is the best single action by itself{said}, so it is no alternative: "
                "the policy has to stay within the budget."
            )
        page.items([*money_sentences(facts.spec, policy), *gap_sentences(policy, policy["rows"])])
        page.text(
            f"These are expectations of the model for the {policy['rows']:,} {unit_words(facts.spec)}, from what has come back so "
            "far; where the model is wrong, so are they.",
            note=True,
        )


def comparisons(policy: dict[str, Any]) -> dict[str, str]:
    """What the policy is compared with: in words, by the key of its summary."""
    names = {
        "over_current": "today",
        "over_single": f"{action_words(policy['single'])} for all",
        "over_random": "actions at random",
    }
    return {key: name for key, name in names.items() if key in policy}


def gains_figure(facts: Facts, policy: dict[str, Any]) -> go.Figure:
    """The gains as dots with 90% intervals; a line at no gain."""
    names, factor = comparisons(policy), facts.amounts.factor
    parts = [{end: factor * value for end, value in policy[key].items()} for key in names]
    figure = go.Figure()
    figure.add_scatter(
        x=[part["mean"] for part in parts], y=list(names.values()), mode="markers",
        marker={"size": 12, "color": COLOURS[0]},
        error_x={
            "type": "data", "symmetric": False, "array": [part["high"] - part["mean"] for part in parts],
            "arrayminus": [part["mean"] - part["low"] for part in parts],
        },
    )  # fmt: skip
    figure.add_vline(x=0, line={"color": "grey", "dash": "dash"})
    figure.update_yaxes(type="category", autorange="reversed").update_xaxes(title=facts.amounts.what)
    return figure.update_layout(title="Expected gain over simpler policies, with 90% intervals")
