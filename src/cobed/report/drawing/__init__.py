"""Plotly figures as small inline SVG: lines, points, bands, bars and maps of colours, without a script and without a network.

Plotly's own script is 4.8 MB. Its figures say everything that is needed to draw them, so cobed draws them itself: once for wide
screens and once for narrow ones, in colours that follow the page, with a text for those who do not see them.
"""

import html
import itertools
from collections.abc import Callable
from typing import Any

from cobed.errors import ModelError
from cobed.report.drawing.marks import colour
from cobed.report.drawing.panel import Panel, panels_of

# Widths that a figure of one panel is drawn in, and that of each panel where there are several.
WIDE, NARROW, ONE_OF_MANY = 680, 350, 330
# The least height of a panel.
HEIGHT = 240
KINDS = ("scatter", "bar", "heatmap")
# Of a trace with more points, the ends are told.
MAX_TOLD = 12


def draw(figure: Any, alt: str | None = None) -> str:
    """A plotly figure as HTML. `alt` is read out in the place of the picture; by default its traces are told.

    Plotly's types say too little of its figures, so they are taken as anything.
    """
    check_kinds(figure)
    panels, scale = panels_of(figure), _scale(figure)
    title, said = title_of(figure), html.escape(alt or describe(figure), quote=True)
    if len(panels) == 1:
        sizes = ((WIDE, "wide-only"), (NARROW, "narrow-only"))
        drawn = [_svg(panels[0], width, name, said, scale) for width, name in sizes]
    else:
        # The text is said once.
        drawn = [_svg(panel, ONE_OF_MANY, "", said if not place else "", scale) for place, panel in enumerate(panels)]
    caption = f"<figcaption>{html.escape(title)}</figcaption>" if title else ""
    many = " many" if len(panels) > 1 else ""
    return f'<figure>{caption}{_legend(figure)}{_scale_words(figure)}<div class="panels{many}">{"".join(drawn)}</div></figure>'


def check_kinds(figure: Any) -> None:
    """`ModelError` where a figure has what cannot be drawn."""
    for trace in figure.data:
        if trace.type not in KINDS:
            raise ModelError(
                f"A page draws the plotly traces {', '.join(KINDS)}, and this figure has {trace.type!r}. Draw it by these, or put "
                "the numbers into a table."
            )


def title_of(figure: Any) -> str:
    """What stands above a figure."""
    return figure.layout.title.text or ""


def _svg(panel: Panel, width: int, name: str, said: str, scale: Any) -> str:
    height = round(max(HEIGHT, 90 + panel.height_of_names))
    role = f'role="img" aria-label="{said}"' if said else 'aria-hidden="true"'
    kind = f' class="{name}"' if name else ""
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f"<svg{kind} {size} {role}>{panel.draw(width, height, scale)}</svg>"


def _legend(figure: Any) -> str:
    """The names of the traces beside their colours, where there is more than one."""
    entries: dict[str, str] = {}
    for number, trace in enumerate(figure.data):
        if trace.type == "heatmap" or trace.showlegend is False or not trace.name:
            continue
        given = trace.fillcolor if trace.type == "scatter" and trace.fill == "toself" else None
        if given is None:
            given = (
                trace.marker.color
                if trace.type == "bar" or "lines" not in (trace.mode or "lines")
                else trace.line.color
            )
        entries.setdefault(trace.name, colour(given if isinstance(given, str) else None, number))
    if len(entries) < 2:
        return ""
    items = "".join(
        f'<li><span style="background:{ink}"></span>{html.escape(name)}</li>' for name, ink in entries.items()
    )
    return f'<ul class="legend" aria-hidden="true">{items}</ul>'


def _scale(figure: Any) -> Callable[[float], str] | None:
    """The colour of a number, by the scale that the maps of a figure share."""
    axis = figure.layout.coloraxis
    if not axis.colorscale:
        return None
    low, high = _ends(figure)
    stops = [
        (place, [float(part) for part in text[text.index("(") + 1 : -1].split(",")]) for place, text in axis.colorscale
    ]

    def of(value: float) -> str:
        share = min(max((value - low) / ((high - low) or 1), 0.0), 1.0)
        for (start, first), (end, last) in itertools.pairwise(stops):
            if share <= end:
                part = (share - start) / ((end - start) or 1)
                mixed = [round(a + part * (b - a)) for a, b in zip(first, last, strict=True)]
                return f"rgb({mixed[0]},{mixed[1]},{mixed[2]})"
        return axis.colorscale[-1][1]

    return of


def _ends(figure: Any) -> tuple[float, float]:
    axis = figure.layout.coloraxis
    numbers = [float(value) for trace in figure.data if trace.type == "heatmap" for row in trace.z for value in row]
    low = min(numbers, default=0.0) if axis.cmin is None else axis.cmin
    return low, max(numbers, default=1.0) if axis.cmax is None else axis.cmax


def _scale_words(figure: Any) -> str:
    axis = figure.layout.coloraxis
    if not axis.colorscale:
        return ""
    low, high = _ends(figure)
    colours = ", ".join(text for _, text in axis.colorscale)
    what = html.escape(f"{axis.colorbar.title.text}: " if axis.colorbar.title.text else "")
    bar = f'<span class="ramp" style="background:linear-gradient(to right, {colours})"></span>'
    return f'<p class="scale">{what}{low:.3g} {bar} {high:.3g}</p>'


def describe(figure: Any) -> str:
    """The figure in words: its axes, and the numbers of each trace, or their ends where they are many."""
    layout = figure.layout
    parts = [layout.title.text] if layout.title.text else []
    parts += [f"{name}: {text}" for name, text in (
        ("horizontal", layout.xaxis.title.text), ("vertical", layout.yaxis.title.text)
    ) if text]  # fmt: skip
    for trace in figure.data:
        if trace.type == "heatmap":
            parts.append("a map of colours")
        elif not (trace.type == "scatter" and trace.fill == "toself"):
            parts.append(_told(trace))
    return "Figure. " + "; ".join(part for part in parts if part) + "."


def _told(trace: Any) -> str:
    points = list(zip(trace.x, trace.y, strict=True))
    if len(points) > MAX_TOLD:
        points = [points[0], points[-1]]
        return f"{trace.name or 'points'} from {_pair(*points[0])} to {_pair(*points[1])}"
    return (f"{trace.name}: " if trace.name else "") + ", ".join(_pair(*point) for point in points)


def _pair(x: Any, y: Any) -> str:
    return f"{_word(x)} {_word(y)}"


def _word(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else f"{float(value):,.4g}"
