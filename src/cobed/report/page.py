"""A page of cards: title, text, tables, figures and verdicts. One self-contained file that opens without a network, or Markdown,
JSON and PDF of the same cards."""

import dataclasses
import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import jinja2
import plotly.graph_objects as go

from cobed.report.blocks import Block, Figure, Listing, Table, Terms, Text
from cobed.report.drawing import check_kinds
from cobed.report.printing import print_page
from cobed.storage import write_output, write_text

if TYPE_CHECKING:
    import pandas as pd

FORMATS = ("html", "pdf", "md", "json")
Kind = Literal["fine", "look", "stop"]


@dataclasses.dataclass(frozen=True)
class Finding:
    """What a check came to, and what to do."""

    kind: Kind
    advice: str = ""


@dataclasses.dataclass
class Section:
    """A card: what stands under one heading."""

    title: str
    blocks: list[Block] = dataclasses.field(default_factory=list)
    finding: Finding | None = None

    def json(self) -> dict[str, Any]:
        finding = {} if self.finding is None else {"verdict": self.finding.kind, "advice": self.finding.advice}
        return {"title": self.title, **finding, "blocks": [block.json() for block in self.blocks]}

    def markdown(self, level: int) -> str:
        heading = [f"{'#' * level} {self.title}"] if self.title else []
        said = [] if self.finding is None else [f"**{self.finding.kind.capitalize()}.** {self.finding.advice}".rstrip()]
        return "\n\n".join([*heading, *said, *(block.markdown() for block in self.blocks)])


class Page:
    """Cards of a page, in order; `write` puts them into one file.

    >>> page = Page("Spring campaign")
    >>> page.heading("What was tried")
    >>> page.text("Offers on 300 customers.")
    """

    def __init__(self, title: str, subtitle: str = ""):
        self.title, self.subtitle = title, subtitle
        self._main: list[Section] = []
        self._appendix: list[Section] = []
        self._sections = self._main

    def heading(self, text: str) -> None:
        """Begin a card."""
        self._sections.append(Section(text))

    def begin_appendix(self) -> None:
        """Cards from here on are for those who want to look behind."""
        self._sections = self._appendix

    def verdict(self, kind: Kind, advice: str = "") -> None:
        """Say beside the heading of the card what it came to: fine, look or stop; and what to do."""
        self._section().finding = Finding(kind, advice)

    def text(self, text: str, *, note: bool = False) -> None:
        self.add(Text(text, "note" if note else ""))

    def lead(self, text: str) -> None:
        """The sentence of the page."""
        self.add(Text(text, "lead"))

    def items(self, items: Sequence[str]) -> None:
        """A list; nothing where it is empty."""
        if items:
            self.add(Listing(tuple(items)))

    def terms(self, meanings: dict[str, str]) -> None:
        self.add(Terms(meanings))

    def table(self, frame: "pd.DataFrame", caption: str = "") -> None:
        """The frame without its index; cells are shown as they are."""
        self.add(Table(frame, caption))

    def figure(self, figure: go.Figure, alt: str | None = None) -> None:
        """A plotly figure of lines, points, bars or maps of colours; `alt` says the same in words."""
        check_kinds(figure)
        self.add(Figure(figure, alt))

    def add(self, block: Block) -> None:
        self._section().blocks.append(block)

    def _section(self) -> Section:
        if not self._sections:
            self.heading("")
        return self._sections[-1]

    def html(self) -> str:
        return _template().render(
            title=self.title, subtitle=self.subtitle, sections=self._main, appendix=self._appendix, style=_style()
        )

    def markdown(self) -> str:
        parts = [f"# {self.title}", self.subtitle, *(section.markdown(2) for section in self._main)]
        if self._appendix:
            parts += ["## Appendix", *(section.markdown(3) for section in self._appendix)]
        return "\n\n".join(part for part in parts if part) + "\n"

    def json(self) -> str:
        document = {
            "title": self.title,
            "subtitle": self.subtitle,
            "cards": [section.json() for section in self._main],
            "appendix": [section.json() for section in self._appendix],
        }
        return json.dumps(document, indent=1, ensure_ascii=False) + "\n"

    def write(self, path: str | Path, format: str = "html") -> Path:
        """The page as one file, whole or not at all."""
        match format:
            case "pdf":
                printed = print_page(self.html())
                return write_output(path, lambda file: file.write(printed))
            case "md":
                return write_text(path, self.markdown())
            case "json":
                return write_text(path, self.json())
        return write_text(path, self.html())


@functools.cache
def _template() -> jinja2.Template:
    folder = Path(__file__).parent / "templates"
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(folder), autoescape=True, trim_blocks=True)
    return environment.get_template("page.html.j2")


@functools.cache
def _style() -> str:
    return (Path(__file__).parent / "templates" / "page.css").read_text(encoding="utf-8")
