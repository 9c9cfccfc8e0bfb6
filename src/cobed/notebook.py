"""Short cards that notebooks show in the place of a value: a title, facts, the first rows of a table. They compute nothing."""

import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

# Rows of a table that are shown.
MAX_ROWS = 8
# Colours are those of the notebook.
BOX = "border:1px solid rgba(128,128,128,.5);border-radius:8px;padding:.6em 1em;margin:.3em 0;max-width:48em;line-height:1.45"


def card(title: str, facts: Mapping[str, Any], table: "pd.DataFrame | None" = None, notes: Sequence[str] = ()) -> str:
    """A card as HTML: facts by their names, the first rows of a table, and sentences."""
    parts = [f"<b>{html.escape(title)}</b>"]
    told = "".join(f"<li>{html.escape(name)}: {html.escape(str(value))}</li>" for name, value in facts.items())
    parts.append(f'<ul style="margin:.3em 0;padding-left:1.2em">{told}</ul>' if told else "")
    if table is not None and len(table):
        parts.append(f'<div style="overflow-x:auto">{_rows(table)}</div>')
        if len(table) > MAX_ROWS:
            parts.append(f"<div><small>The first {MAX_ROWS} of {len(table):,} rows.</small></div>")
    parts += [f"<div>{html.escape(note)}</div>" for note in notes]
    return f'<div style="{BOX}">{"".join(parts)}</div>'


def _rows(table: "pd.DataFrame") -> str:
    head = "".join(f'<th scope="col">{html.escape(str(name))}</th>' for name in table.columns)
    rows = table.head(MAX_ROWS).itertuples(index=False, name=None)
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(_cell(value))}</td>' for value in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    """A number with four digits; anything else as it is."""
    try:
        return f"{value:,}" if float(value).is_integer() else f"{value:,.4g}"
    except (TypeError, ValueError, OverflowError):
        return str(value)
