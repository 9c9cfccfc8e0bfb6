"""What is drawn in a panel: lines, points, bands, bars and maps of colours, from the traces of a plotly figure to SVG."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cobed.report.drawing.axes import Axis
from cobed.report.figures import COLOURS

DASHES = {"dash": "7 5", "dot": "2 4", "dashdot": "7 4 2 4"}
# Names of colours that must be seen on light and on dark ground.
PLAIN = {"grey": 0.6, "gray": 0.6, "lightgrey": 0.45, "black": 1.0}


class Canvas(NamedTuple):
    """A panel's axes and the rectangle between them, in pixels."""

    x: Axis
    y: Axis
    left: float
    top: float
    width: float
    height: float

    def across(self, value: Any) -> float:
        return self.left + self.width * self.x.place(value)

    def up(self, value: Any) -> float:
        return self.top + self.height * (1 - self.y.place(value))


def colour(given: Any, number: int = 0) -> str:
    """A colour that a style sheet can change where the ground is dark."""
    given = COLOURS[number % len(COLOURS)] if given is None else str(given)
    if given in COLOURS:
        return f"var(--c{COLOURS.index(given)})"
    return f"color-mix(in srgb, currentColor {PLAIN[given]:.0%}, transparent)" if given in PLAIN else given


def scatter(canvas: Canvas, trace: Any, number: int, scale: Any) -> list[str]:
    """A line, points, or the band that a line encloses; with error bars."""
    ink = colour(trace.line.color, number)
    mode, points = trace.mode or "lines+markers", _points(canvas, trace)
    if trace.fill == "toself":
        fill = colour(trace.fillcolor or trace.line.color, number)
        opacity = 1 if fill.startswith("rgba") else trace.opacity or 0.25
        return [f'<polygon points="{_joined(points)}" fill="{fill}" fill-opacity="{opacity:g}"/>']
    parts = []
    if "lines" in mode and len(points) > 1:
        dash = f' stroke-dasharray="{DASHES[trace.line.dash]}"' if trace.line.dash in DASHES else ""
        width = min(trace.line.width or 2, 3)
        parts.append(
            f'<polyline points="{_joined(points)}" fill="none" stroke="{ink}" stroke-width="{width:g}"{dash}/>'
        )
    parts += error_bars(canvas, trace, colour(trace.marker.color if "lines" not in mode else trace.line.color, number))
    if "markers" in mode:
        radius = (trace.marker.size or 7) / 2
        inks = _colours(trace, len(points), number, scale)
        opacity = trace.marker.opacity or 1
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{own}" fill-opacity="{opacity:g}"/>'
            for (x, y), own in zip(points, inks, strict=True)
        ]
    return parts


def _points(canvas: Canvas, trace: Any) -> list[tuple[float, float]]:
    pairs = zip(trace.x, trace.y, strict=True)
    return [(canvas.across(x), canvas.up(y)) for x, y in pairs if _is_there(x) and _is_there(y)]


def _is_there(value: Any) -> bool:
    return value is not None and (isinstance(value, str) or bool(np.isfinite(float(value))))


def _joined(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _colours(trace: Any, count: int, number: int, scale: Any) -> list[str]:
    """The colour of each point: of all, of each by name, or by a number on the scale of the figure."""
    given = trace.marker.color
    if given is None or isinstance(given, str):
        return [colour(given or trace.line.color, number)] * count
    if scale is not None and trace.marker.coloraxis:
        return [scale(float(value)) for value in given]
    return [colour(one, number) for one in given]


def error_bars(canvas: Canvas, trace: Any, ink: str) -> list[str]:
    """Lines from the lower end of an interval to its upper one, along each axis that has them."""
    parts = []
    for errors, values, others, along in (
        (trace.error_x, getattr(trace, "x", ()), trace.y, True),
        (trace.error_y, getattr(trace, "y", ()), trace.x, False),
    ):
        if errors.array is None:
            continue
        below = errors.array if errors.arrayminus is None else errors.arrayminus
        for value, other, more, less in zip(values, others, errors.array, below, strict=True):
            if not (_is_there(value) and np.isfinite([more, less]).all()):
                continue
            if along:
                ends = (canvas.across(value - less), canvas.up(other), canvas.across(value + more), canvas.up(other))
            else:
                ends = (canvas.across(other), canvas.up(value - less), canvas.across(other), canvas.up(value + more))
            x1, y1, x2, y2 = ends
            parts.append(
                f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{ink}" stroke-width="2"/>'
            )
    return parts


def bars(canvas: Canvas, traces: Sequence[tuple[int, Any]]) -> list[str]:
    """Bars of one or several traces side by side."""
    parts = []
    spacing = canvas.width / (canvas.x.high - canvas.x.low) if not canvas.x.is_log else 8.0
    thick = 0.8 * spacing / len(traces)
    zero = canvas.up(0)
    for place, (number, trace) in enumerate(traces):
        ink = colour(trace.marker.color, number)
        for x, y in zip(trace.x, trace.y, strict=True):
            if not _is_there(y):
                continue
            left = canvas.across(x) + (place - len(traces) / 2) * thick
            top, bottom = sorted((canvas.up(y), zero))
            parts.append(
                f'<rect x="{left + 0.5:.1f}" y="{top:.1f}" width="{max(thick - 1, 0.5):.1f}" height="{bottom - top:.1f}" '
                f'fill="{ink}"/>'
            )
    return parts


def cells(canvas: Canvas, trace: Any, scale: Any) -> list[str]:
    """A map of colours: a rectangle for each number of a matrix."""
    values = np.asarray(trace.z, float)
    num_rows, num_columns = values.shape
    width, height = canvas.width / num_columns, canvas.height / num_rows
    return [
        f'<rect x="{canvas.left + column * width:.1f}" y="{canvas.top + (num_rows - 1 - row) * height:.1f}" '
        f'width="{width + 0.3:.1f}" height="{height + 0.3:.1f}" fill="{scale(values[row, column])}"/>'
        for row in range(num_rows)
        for column in range(num_columns)
    ]


def shape(canvas: Canvas, of: Any) -> str:
    """A line or a rectangle across the whole panel, along one of its axes or both."""
    x0, x1 = (
        _end(value, "domain" in (of.xref or ""), canvas.left, canvas.width, canvas.across) for value in (of.x0, of.x1)
    )
    tops = canvas.top + canvas.height, -canvas.height
    y0, y1 = (_end(value, "domain" in (of.yref or ""), *tops, canvas.up) for value in (of.y0, of.y1))
    if of.type == "rect":
        fill, opacity = colour(of.fillcolor or "grey"), of.opacity or 0.25
        return (
            f'<rect x="{min(x0, x1):.1f}" y="{min(y0, y1):.1f}" width="{abs(x1 - x0):.1f}" height="{abs(y1 - y0):.1f}" '
            f'fill="{fill}" fill-opacity="{opacity:g}"/>'
        )
    dash = f' stroke-dasharray="{DASHES[of.line.dash]}"' if of.line.dash in DASHES else ""
    ink, width = colour(of.line.color or "black"), of.line.width or 1.5
    return (
        f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" stroke="{ink}" stroke-width="{width:g}"{dash}/>'
    )


def _end(value: Any, is_share: bool, start: float, length: float, place: Any) -> float:
    return start + float(value) * length if is_share else place(value)
