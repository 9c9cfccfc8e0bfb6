"""What was learned, in the units of decisions: what each action is expected to earn, and for whom it earns more."""

from typing import ClassVar

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from cobed.report.cards.base import Card, Facts, needs_outcomes
from cobed.report.figures import COLOURS

TAILS = [0.05, 0.5, 0.95]
# So many columns are drawn, and so many are told in a sentence each.
MAX_DRAWN, MAX_TOLD = 4, 6


class Learned(Card):
    """Effects of the actions, and what changes them, with intervals."""

    name: ClassVar[str] = "learned"

    def heading(self, facts):
        return "What was learned"

    def awaited(self, facts):
        return needs_outcomes(facts)

    def add(self, page, facts):
        page.figure(effects_figure(facts))
        if facts.spec.action.options is None:
            page.items(best_numbers(facts))
            return
        page.text(f"What changes the effect of an action, against {reference_label(facts)!r} for the same units:")
        page.items(changes(facts))
        page.figure(groups_figure(facts))


def reference(facts: Facts) -> int:
    """The position of the action that effects are told against: what is done today, or what earns most on average."""
    current, options = facts.spec.value.current, facts.spec.action.options
    return options.index(current) if options is not None and isinstance(current, str) else facts.effects.best_single


def reference_label(facts: Facts) -> str:
    return str(facts.actions[reference(facts)])


def effects_figure(facts: Facts) -> go.Figure:
    """The expected reward of each action for the average unit of the experiment, with its 90% interval."""
    spec, amounts, average = facts.spec, facts.amounts, facts.effects.average
    figure = go.Figure(
        layout={"title": "What each action earns, for the average unit of the experiment, with 90% intervals"}
    )
    if spec.action.options is not None:
        low, middle, high = amounts.factor * np.quantile(average, TAILS, axis=1)
        figure.add_scatter(
            x=middle, y=list(spec.action.options), mode="markers", marker={"size": 12, "color": COLOURS[0]},
            error_x={"type": "data", "symmetric": False, "array": high - middle, "arrayminus": middle - low},
        )  # fmt: skip
        return figure.update_yaxes(type="category", autorange="reversed").update_xaxes(title=f"expected {amounts.what}")
    # Along each number by itself would hide their products; the first one, averaged over the others, is shown.
    numbers = np.array([next(iter(action.values())) for action in facts.actions])
    line = np.unique(numbers)
    along = np.stack([average[numbers == value].mean(axis=0) for value in line])
    low, middle, high = amounts.factor * np.quantile(along, TAILS, axis=1)
    figure.add_scatter(
        x=np.concatenate([line, line[::-1]]), y=np.concatenate([low, high[::-1]]), fill="toself", line_width=0,
        fillcolor=COLOURS[0], name="90% interval", hoverinfo="skip",
    )  # fmt: skip
    figure.add_scatter(x=line, y=middle, mode="lines", name="expected", line_color=COLOURS[0])
    return figure.update_xaxes(title=spec.action.columns[0]).update_yaxes(title=f"expected {amounts.what}")


def changes(facts: Facts) -> list[str]:
    """For each column the largest change of an action's effect between two groups, the largest first."""
    amounts, found = facts.amounts, []
    for column in facts.effects.columns:
        if len(column.rewards) < 2:
            continue
        action, most, least, draws = column.widest(reference(facts))
        low, _, high = np.quantile(draws, TAILS)
        told = {"mean": float(draws.mean()), "low": float(low), "high": float(high)}
        unsure = "" if low > 0 else "; this may be chance"
        sentence = (
            f"{column.column}: {str(facts.actions[action])!r} earns {amounts.more(told)} where it is {most} than where it is "
            f"{least}, {amounts.interval(told)}{unsure}."
        )
        found.append((told["mean"], sentence))
    return [sentence for _, sentence in sorted(found, key=lambda pair: -pair[0])[:MAX_TOLD]]


def groups_figure(facts: Facts) -> go.Figure:
    """By groups of the columns that matter most: the gain of each action over the reference, with 90% intervals."""
    base = reference(facts)
    columns = [column for column in facts.effects.columns if len(column.rewards) > 1]
    columns = sorted(columns, key=lambda column: -float(column.widest(base)[3].mean()))[:MAX_DRAWN]
    figure = make_subplots(rows=max(len(columns), 1), cols=1, subplot_titles=[column.column for column in columns])
    for row, column in enumerate(columns, 1):
        over = column.over(base)
        for action, name in enumerate(facts.actions):
            if action == base:
                continue
            draws = facts.amounts.factor * np.stack([gains[action] for gains in over.values()])
            low, middle, high = np.quantile(draws, TAILS, axis=1)
            figure.add_scatter(
                x=middle, y=list(over), mode="markers", name=str(name), marker={"size": 9, "color": COLOURS[action % 8]},
                error_x={"type": "data", "symmetric": False, "array": high - middle, "arrayminus": middle - low},
                showlegend=row == 1, row=row, col=1,
            )  # fmt: skip
        figure.add_vline(x=0, line={"color": "grey", "dash": "dash"}, row=row, col=1)  # pyright: ignore[reportArgumentType]
        figure.update_yaxes(type="category", autorange="reversed", row=row, col=1)
        figure.update_xaxes(title=facts.amounts.what, row=row, col=1)
    title = f"Gain over {reference_label(facts)} in groups of units, with 90% intervals"
    return figure.update_layout(title=title, scattermode="group")


def best_numbers(facts: Facts) -> list[str]:
    """For each column, the numbers that are best in each of its groups."""
    said = []
    for column in facts.effects.columns:
        best = {group: facts.actions[int(rewards.mean(axis=1).argmax())] for group, rewards in column.rewards.items()}
        parts = [
            f"{group}: {', '.join(f'{name} {value:.3g}' for name, value in action.items())}"
            for group, action in best.items()
        ]
        if len(parts) > 1:
            said.append(f"The best numbers by {column.column}: {'; '.join(parts)}.")
    return said
