"""The command that says what policies are worth by outcomes alone. Thin: parse, call, print."""

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from cobed.cli.options import DEFAULT, NoProgram, Place, Spec, open_campaign, read_given
from cobed.cli.voice import speaking, voice

app = typer.Typer()


@app.command()
@speaking
def evaluate(
    policies: Annotated[
        list[Path] | None, typer.Argument(help="Tables of units of the experiment and what a policy gives to each.")
    ] = None,
    round: Annotated[int | None, typer.Option(help="Judge by the random units of this round alone.")] = None,
    method: Annotated[str, typer.Option(help="doubly robust, or inverse propensity.")] = "doubly robust",
    weights: Annotated[str, typer.Option(help="Of units over rounds: pooled, propensity or variance.")] = "pooled",
    spec: Spec = DEFAULT,
    store: Place = None,
    no_program: NoProgram = False,
) -> None:
    """Say what policies are worth by the outcomes of units whose action was random, whether or not the model is right."""
    tables = [read_given(path) for path in policies or []]
    found = open_campaign(spec, store, reading=True).evaluate(*tables, round=round, method=method, weights=weights)
    summary = found.summary()
    voice.record(**summary)
    voice.say(
        f"Policies by the outcomes of {found.num_units:,} units whose action was random, in {found.unit} per unit:"
    )
    voice.say(as_text(summary))
    voice.say(
        f"Ranges hold with 90%. 'gain' is over {found.reference}, from the same units. 'matched' units got by chance what the "
        "policy gives them. 'the model says' is its own word, right if the model is."
    )
    for sentence in [*found.troubles, *found.notes]:
        voice.say(sentence)


def as_text(summary: dict[str, Any]) -> str:
    """The policies as lines of one width."""
    rows = [["policy", "value", "90% range", "gain", "90% range", "matched", "the model says", "90% range"]]
    for row in summary["policies"]:
        parts = [
            _number(row, "value"),
            _range(row, ""),
            _number(row, "gain"),
            _range(row, "gain_"),
            f"{row['matched']:,}",
        ]
        rows.append([row["policy"], *parts, _number(row, "model"), _range(row, "model_")])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if not column else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def _number(row: dict[str, Any], name: str) -> str:
    return "" if row[name] is None or math.isnan(row[name]) else f"{row[name]:.4g}"


def _range(row: dict[str, Any], prefix: str) -> str:
    low, high = _number(row, f"{prefix}low"), _number(row, f"{prefix}high")
    return f"{low} to {high}" if low else ""
