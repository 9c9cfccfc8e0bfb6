"""One self-contained HTML page of text, tables and interactive figures: opens without a network."""

import html
from pathlib import Path
from typing import TYPE_CHECKING

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from cobed.storage import write_output

if TYPE_CHECKING:
    import pandas as pd

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 2em auto; padding: 0 1em; color: #222; }
table { border-collapse: collapse; margin: 1em 0; font-variant-numeric: tabular-nums; }
th, td { padding: .25em .8em; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.wide { overflow-x: auto; }
.note { color: #555; }
@media (max-width: 600px) {
  body { margin: 1em auto; }
  table { font-size: .85em; }
  th, td { padding: .25em .4em; }
  th, td:first-child { white-space: normal; }
}
"""


class Page:
    """Blocks of a page, in order; `write` puts them into one file.

    >>> page = Page("Spring campaign")
    >>> page.heading("What was tried")
    >>> page.text("Offers on 300 customers.")
    """

    def __init__(self, title: str):
        self.title = title
        self._blocks: list[str] = [f"<h1>{html.escape(title)}</h1>"]

    def heading(self, text: str) -> None:
        self._blocks.append(f"<h2>{html.escape(text)}</h2>")

    def text(self, text: str, *, note: bool = False) -> None:
        kind = ' class="note"' if note else ""
        self._blocks.append(f"<p{kind}>{html.escape(text)}</p>")

    def table(self, frame: "pd.DataFrame") -> None:
        """The frame without its index; cells are shown as they are."""
        self._blocks.append(f'<div class="wide">{frame.to_html(index=False, border=0, na_rep="", escape=True)}</div>')

    def figure(self, figure: go.Figure) -> None:
        self._blocks.append(figure.to_html(full_html=False, include_plotlyjs=False))

    def write(self, path: str | Path) -> Path:
        """The page with its own copy of plotly.js, whole or not at all."""
        document = (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
            f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{html.escape(self.title)}</title>'
            f"<style>{STYLE}</style><script>{get_plotlyjs()}</script></head><body>{''.join(self._blocks)}</body></html>"
        )
        return write_output(path, lambda file: file.write(document.encode("utf-8", "replace")))
