"""What a page is made of: paragraphs, lists, tables, figures and pictures of rules. Each can be read as HTML, Markdown and JSON."""

import dataclasses
import html
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import plotly.graph_objects as go

from cobed.report import drawing

if TYPE_CHECKING:
    import pandas as pd


class Block(Protocol):
    """One part of a page, in every format."""

    def html(self) -> str: ...

    def markdown(self) -> str: ...

    def json(self) -> dict[str, Any]: ...


@dataclasses.dataclass(frozen=True)
class Text:
    """A paragraph; a note is smaller, a lead larger."""

    text: str
    kind: str = ""

    def html(self) -> str:
        kind = f' class="{self.kind}"' if self.kind else ""
        return f"<p{kind}>{html.escape(self.text)}</p>"

    def markdown(self) -> str:
        return f"**{_plain(self.text)}**" if self.kind == "lead" else _plain(self.text)

    def json(self) -> dict[str, Any]:
        return {"text": self.text} | ({"kind": self.kind} if self.kind else {})


@dataclasses.dataclass(frozen=True)
class Listing:
    """Sentences, one below the other."""

    items: tuple[str, ...]

    def html(self) -> str:
        return f"<ul>{''.join(f'<li>{html.escape(item)}</li>' for item in self.items)}</ul>"

    def markdown(self) -> str:
        return "\n".join(f"- {_plain(item)}" for item in self.items)

    def json(self) -> dict[str, Any]:
        return {"list": list(self.items)}


@dataclasses.dataclass(frozen=True)
class Terms:
    """Words and what they mean."""

    meanings: dict[str, str]

    def html(self) -> str:
        entries = (f"<dt>{html.escape(word)}</dt><dd>{html.escape(text)}</dd>" for word, text in self.meanings.items())
        return f"<dl>{''.join(entries)}</dl>"

    def markdown(self) -> str:
        return "\n".join(f"- **{_plain(word)}**: {_plain(text)}" for word, text in self.meanings.items())

    def json(self) -> dict[str, Any]:
        return {"terms": self.meanings}


@dataclasses.dataclass(frozen=True)
class Table:
    """A table whose first column says what each row is about. Cells are shown as they are, empty where there is none."""

    frame: "pd.DataFrame"
    caption: str = ""

    MISSING: ClassVar[str] = ""

    def _rows(self) -> list[list[str]]:
        cells = self.frame.astype(object).where(self.frame.notna(), self.MISSING)
        return [[str(cell) for cell in row] for row in cells.itertuples(index=False, name=None)]

    def _columns(self) -> list[str]:
        return [str(name) for name in self.frame.columns]

    def html(self) -> str:
        names = self._columns()
        label = html.escape(self.caption or f"Table: {', '.join(names)}", quote=True)
        caption = f"<caption>{html.escape(self.caption)}</caption>" if self.caption else ""
        head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in names)
        body = "".join(
            f'<tr><th scope="row">{html.escape(first)}</th>{"".join(f"<td>{html.escape(cell)}</td>" for cell in others)}</tr>'
            for first, *others in self._rows()
        )
        # A wide table is moved by the keyboard too.
        table = f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f'<div class="wide" role="group" aria-label="{label}" tabindex="0">{table}</div>'

    def markdown(self) -> str:
        lines = [self._columns(), ["---"] * len(self._columns()), *self._rows()]
        table = "\n".join("| " + " | ".join(_plain(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)
        return f"{_plain(self.caption)}\n\n{table}" if self.caption else table

    def json(self) -> dict[str, Any]:
        return {"table": {"caption": self.caption, "columns": self._columns(), "rows": self._rows()}}


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure, and the words that stand for it where it is not seen."""

    figure: go.Figure
    alt: str | None = None

    def html(self) -> str:
        return drawing.draw(self.figure, self.alt)

    def markdown(self) -> str:
        return f"*{_plain(self.alt or drawing.describe(self.figure))}*"

    def json(self) -> dict[str, Any]:
        return {"figure": {"title": drawing.title_of(self.figure), "text": self.alt or drawing.describe(self.figure)}}


def _plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return "".join(f"\\{letter}" if letter in "\\`*_<>[]#" else letter for letter in text).replace("\n", " ")
