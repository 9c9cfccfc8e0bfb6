"""How many units of each round got which action."""

from collections import Counter
from typing import ClassVar

import pandas as pd
import plotly.graph_objects as go

from cobed.campaign.gaps import count_gaps, gap_sentences
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.summary import export_names
from cobed.report.cards.base import Card
from cobed.report.figures import COLOURS


class Tried(Card):
    """The rounds, and the actions of their units."""

    name: ClassVar[str] = "tried"

    def heading(self, facts):
        return "What was tried on whom"

    def awaited(self, facts):
        return None if len(facts.table) else "No unit has been assigned yet."

    def add(self, page, facts):
        rounds = facts.status.rounds
        page.table(rounds.assign(created=rounds["created"].str.slice(0, 10)))
        encoding, table = facts.campaign.encoding(), facts.table
        if encoding is not None:
            cells = {
                name: table[name].astype(object).where(table[name].notna(), None).tolist()
                for name in facts.spec.context
            }
            for sentence in gap_sentences(count_gaps(facts.spec, encoding, cells, "").summary(), len(table)):
                page.text(sentence)
        page.figure(tried_figure(facts.spec, facts.table))


def tried_figure(spec: CampaignSpec, table: pd.DataFrame) -> go.Figure:
    """How many units of each round got each action."""
    figure = go.Figure()
    if spec.action.options is not None:
        counts = Counter(zip(table[export_names(spec)["round"]], table[spec.action.column], strict=True))
        for place, number in enumerate(sorted({int(number) for number, _ in counts})):
            name = "history" if number == 0 else f"round {number}"
            heights = [counts[number, option] for option in spec.action.options]
            figure.add_bar(x=list(spec.action.options), y=heights, name=name, marker_color=COLOURS[place % 8])
        figure.update_layout(barmode="group", yaxis_title="units", xaxis_type="category")
    else:
        numeric = [name for name, column in spec.context.items() if column.is_number]
        for place, column in enumerate(spec.action.columns):
            horizontal = table[numeric[0]] if numeric else table.index
            figure.add_scatter(
                x=horizontal, y=table[column], mode="markers", name=column, marker_color=COLOURS[place % 8]
            )
        figure.update_layout(xaxis_title=numeric[0] if numeric else "unit", yaxis_title="action")
    # The legend stands above: beside the bars it would take half of a narrow screen.
    legend = {"orientation": "h", "y": 1.02, "yanchor": "bottom"}
    return figure.update_layout(template="plotly_white", height=380, margin={"t": 60, "l": 0, "r": 20}, legend=legend)
