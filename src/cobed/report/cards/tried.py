"""How many units of each round got which action."""

from collections import Counter
from typing import ClassVar

import pandas as pd
import plotly.graph_objects as go

from cobed.campaign.gaps import count_gaps, gap_sentences
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.summary import export_names
from cobed.campaign.words import day, unit_words
from cobed.report.cards.base import Card, Facts
from cobed.report.figures import COLOURS


class Tried(Card):
    """The rounds, and the actions of their units."""

    name: ClassVar[str] = "tried"

    def heading(self, facts):
        return "What was tried on whom"

    def awaited(self, facts):
        return None if len(facts.table) else "No unit has been assigned yet."

    def add(self, page, facts):
        page.table(rounds_table(facts))
        encoding = facts.campaign.encoding()
        if encoding is not None:
            gaps = count_gaps(facts.spec, encoding, facts.cells, "").summary()
            page.items(gap_sentences(gaps, len(facts.table)))
        page.figure(tried_figure(facts.spec, facts.table))


def rounds_table(facts: Facts) -> pd.DataFrame:
    """One row a round."""
    rounds = facts.status.rounds
    names = [
        what if what == "history" else f"{number} ({what})"
        for number, what in zip(rounds["round"], rounds["what"], strict=True)
    ]
    counts = {name: [f"{count:,}" for count in rounds[name]] for name in ("units", "outcomes", "waiting")}
    return pd.DataFrame(
        {"round": names, "when": [day(created) for created in rounds["created"]]}
        | {unit_words(facts.spec): counts["units"], "outcomes": counts["outcomes"], "awaited": counts["waiting"]}
    )


def tried_figure(spec: CampaignSpec, table: pd.DataFrame) -> go.Figure:
    """How many units of each round got each action."""
    figure = go.Figure()
    if spec.action.options is not None:
        counts = Counter(zip(table[export_names(spec)["round"]], table[spec.action.column], strict=True))
        for place, number in enumerate(sorted({int(number) for number, _ in counts})):
            name = "history" if number == 0 else f"round {number}"
            heights = [counts[number, option] for option in spec.action.options]
            figure.add_bar(x=list(spec.action.options), y=heights, name=name, marker_color=COLOURS[place % 8])
        figure.update_layout(barmode="group", yaxis_title=unit_words(spec), xaxis_type="category")
    else:
        numeric = [name for name, column in spec.context.items() if column.is_number]
        for place, column in enumerate(spec.action.columns):
            horizontal = table[numeric[0]] if numeric else table.index
            figure.add_scatter(
                x=horizontal, y=table[column], mode="markers", name=column, marker_color=COLOURS[place % 8]
            )
        figure.update_layout(xaxis_title=numeric[0] if numeric else "unit", yaxis_title="action")
    return figure.update_layout(title="Who got which action")
