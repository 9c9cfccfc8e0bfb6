"""One panel of a figure: its axes, what is drawn between them, and the words around them."""

import dataclasses
import html
from collections.abc import Sequence
from typing import Any

from cobed.report.drawing import marks
from cobed.report.drawing.axes import Axis, make_axis
from cobed.report.drawing.marks import Canvas

# Pixels of one letter, of a line of text, and around a panel.
LETTER, LINE, MARGIN = 7.3, 18, 12
# What each name on a vertical axis needs, and the distance of points that stand beside each other there.
PER_NAME, BESIDE = 36, 11
# No name takes more than this share of the width.
MOST_FOR_NAMES = 0.42


@dataclasses.dataclass(frozen=True)
class Panel:
    """The traces on one pair of axes, each with its number in the figure, and the lines and words beside them."""

    title: str
    x: Axis
    y: Axis
    traces: tuple[tuple[int, Any], ...]
    shapes: tuple[Any, ...]
    notes: tuple[Any, ...]
    grouped: bool = False

    @property
    def height_of_names(self) -> float:
        """What the names on the vertical axis need, with the points of all traces beside each other where they are grouped."""
        return len(self.y.names) * max(PER_NAME, BESIDE * self.num_beside + 12)

    @property
    def num_beside(self) -> int:
        return len(self.traces) if self.grouped and self.y.names else 1

    def draw(self, width: int, height: int, scale: Any) -> str:
        """What stands inside the SVG."""
        most = MOST_FOR_NAMES * width
        names = [_cut(name, most) for _, name in self.y.ticks()]
        left = min(most, max([LETTER * len(name) for name in names], default=0) + 8)
        top = MARGIN + LINE * (bool(self.title) + bool(self.y.title))
        inner = width - left - MARGIN
        below, slanted = self._below(inner)
        canvas = Canvas(self.x, self.y, left, top, inner, height - top - below)
        parts = [self._horizontal_lines(canvas, names), self._words_below(canvas, slanted)]
        parts += [marks.shape(canvas, shape) for shape in self.shapes if shape.type == "rect"]
        standing = [(number, trace) for number, trace in self.traces if trace.type == "bar"]
        if standing:
            parts += marks.bars(canvas, standing)
        for place, (number, trace) in enumerate(self.traces):
            if trace.type == "heatmap":
                parts += marks.cells(canvas, trace, scale)
            elif trace.type == "scatter":
                beside = BESIDE * (place - (self.num_beside - 1) / 2) * (self.num_beside > 1)
                parts += marks.scatter(canvas._replace(top=canvas.top + beside), trace, number, scale)
        parts += [marks.shape(canvas, shape) for shape in self.shapes if shape.type != "rect"]
        parts += [self._note(canvas, note) for note in self.notes]
        return "".join([*parts, *self._titles(canvas, width, height)])

    def _below(self, inner: float) -> tuple[float, bool]:
        """The room below the panel, and whether the names there are slanted, because they do not fit beside each other."""
        texts = [text for _, text in self.x.ticks()]
        longest = max([LETTER * len(text) for text in texts], default=0)
        slanted = bool(self.x.names) and longest + 6 > inner / max(len(texts), 1)
        return (min(longest, 110) * 0.6 + 14 if slanted else LINE) + LINE * bool(self.x.title) + 6, slanted

    def _horizontal_lines(self, canvas: Canvas, names: Sequence[str]) -> str:
        parts = []
        for (value, _), name in zip(self.y.ticks(), names, strict=True):
            y = canvas.top + canvas.height * (1 - self.y.at(value))
            right = canvas.left + canvas.width
            parts.append(f'<line class="grid" x1="{canvas.left:.1f}" y1="{y:.1f}" x2="{right:.1f}" y2="{y:.1f}"/>')
            parts.append(_text(canvas.left - 6, y + 4, name, "end"))
        return "".join(parts)

    def _words_below(self, canvas: Canvas, slanted: bool) -> str:
        parts, bottom, used = [], canvas.top + canvas.height, -1e9
        for value, name in self.x.ticks():
            x = canvas.left + canvas.width * self.x.at(value)
            half = LETTER * len(name) / 2
            if slanted:
                turned = f'transform="rotate(-35 {x:.1f} {bottom + 14:.1f})"'
                parts.append(_text(x, bottom + 14, _cut(name, 110), "end", turned))
            elif x - half > used:
                # A tick whose number does not fit beside the one before has none.
                parts.append(_text(x, bottom + 16, name, "middle"))
                used = x + half + 4
            if not self.x.names:
                ends = f'x1="{x:.1f}" y1="{canvas.top:.1f}" x2="{x:.1f}" y2="{bottom:.1f}"'
                parts.append(f'<line class="grid" {ends}/>')
        return "".join(parts)

    def _titles(self, canvas: Canvas, width: int, height: int) -> list[str]:
        parts = [_text(0, LINE - 4, _cut(self.title, width), "start", 'class="name"')] if self.title else []
        if self.y.title:
            parts.append(_text(0, canvas.top - 8, _cut(self.y.title, width), "start", 'class="axis"'))
        if self.x.title:
            middle = canvas.left + canvas.width / 2
            half = LETTER * len(self.x.title) / 2
            # Kept within the picture where it is longer than the panel.
            parts.append(
                _text(max(min(middle, width - half), half), height - 4, self.x.title, "middle", 'class="axis"')
            )
        return parts

    def _note(self, canvas: Canvas, note: Any) -> str:
        across = (note.xref or "").endswith("domain")
        x = canvas.left + canvas.width * float(note.x) if across else canvas.across(note.x)
        y = canvas.up(note.y) if not (note.yref or "").endswith("domain") else canvas.top
        return _text(min(x, canvas.left + canvas.width), y - 5, note.text, "end" if across else "middle")


def _cut(text: str, room: float) -> str:
    most = max(int(room / LETTER) - 1, 3)
    return text if len(text) <= most else f"{text[: most - 1]}\N{HORIZONTAL ELLIPSIS}"


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{html.escape(text)}</text>'


def panels_of(figure: Any) -> list[Panel]:
    """The panels of a figure, in its order."""
    layout, names = figure.layout, list(dict.fromkeys((t.xaxis or "x", t.yaxis or "y") for t in figure.data))
    return [_panel(figure, layout, x, y, alone=len(names) == 1) for x, y in names]


def _panel(figure: Any, layout: Any, x: str, y: str, *, alone: bool) -> Panel:
    traces = tuple(
        (number, trace)
        for number, trace in enumerate(figure.data)
        if (trace.xaxis or "x", trace.yaxis or "y") == (x, y)
    )
    across, up = layout[f"xaxis{x[1:]}"], layout[f"yaxis{y[1:]}"]
    shapes = tuple(s for s in layout.shapes if (s.xref or x).split()[0] == x and (s.yref or y).split()[0] == y)
    words = [note for note in layout.annotations if note.text]
    notes = tuple(n for n in words if n.xref != "paper" and n.xref.split()[0] == x and n.yref.split()[0] == y)
    bars = any(trace.type == "bar" for _, trace in traces)
    horizontal = make_axis(across, _values(traces, "x", shapes), from_zero=False)
    vertical = make_axis(up, _values(traces, "y", shapes), from_zero=bars)
    if bars and not horizontal.names and not horizontal.is_log:
        # Half a bar lies beyond the first and the last.
        horizontal = dataclasses.replace(horizontal, low=horizontal.low - 0.4, high=horizontal.high + 0.4)
    for _, trace in traces:
        if trace.type == "heatmap":
            horizontal, vertical = _around(horizontal, trace.x), _around(vertical, trace.y)
    name = "" if alone else _title(words, across, up)
    return Panel(name, horizontal, vertical, traces, shapes, notes, layout.scattermode == "group")


def _around(axis: Axis, values: Any) -> Axis:
    """The axis of a map of colours: half a cell beyond the first and the last."""
    half = (float(values[-1]) - float(values[0])) / max(len(values) - 1, 1) / 2 or 0.5
    return dataclasses.replace(axis, low=float(values[0]) - half, high=float(values[-1]) + half)


def _title(words: Sequence[Any], across: Any, up: Any) -> str:
    """The words that stand above the middle of a panel, where plotly puts its name."""
    middle, top = sum(across.domain) / 2, up.domain[1]
    near = [n for n in words if n.xref == "paper" and abs(n.x - middle) < 1e-3 and abs(n.y - top) < 1e-3]
    return near[0].text if near else ""


def _values(traces: Sequence[tuple[int, Any]], which: str, shapes: Sequence[Any]) -> list[Any]:
    """All that an axis must have room for."""
    values: list[Any] = []
    for _, trace in traces:
        own = list(trace[which]) if trace[which] is not None else []
        values += own
        errors = trace[f"error_{which}"] if trace.type != "heatmap" else None
        if errors is not None and errors.array is not None and not any(isinstance(value, str) for value in own):
            below = errors.array if errors.arrayminus is None else errors.arrayminus
            values += [value + more for value, more in zip(own, errors.array, strict=True)]
            values += [value - less for value, less in zip(own, below, strict=True)]
    for shape in shapes:
        if "domain" not in (shape[f"{which}ref"] or ""):
            values += [shape[f"{which}0"], shape[f"{which}1"]]
    return values
