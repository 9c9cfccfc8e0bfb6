"""The command that says what policies are worth by outcomes alone. Thin: parse, call, print."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cobed.cli.options import DEFAULT, NoProgram, Place, Spec, open_campaign, read_given
from cobed.cli.voice import speaking, voice

if TYPE_CHECKING:
    import pandas as pd

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
    voice.say(
        f"Policies by the outcomes of {found.num_units:,} units whose action was random, in {found.unit} per unit:"
    )
    if not voice.as_json:
        voice.table("policies", as_table(summary))
    voice.say(
        f"Ranges hold with 90%. 'gain' is over {found.reference}, from the same units. 'matched' units got by chance what the "
        "policy gives them. 'the model says' is its own word, right if the model is."
    )
    for sentence in [*found.troubles, *found.notes]:
        voice.say(sentence)
    voice.record(**summary)


def as_table(summary: dict[str, Any]) -> "pd.DataFrame":
    """The policies as people read them."""
    import pandas as pd

    # Columns share a name: each range stands behind its number.
    names = ["policy", "value", "90% range", "gain", "90% range", "matched", "the model says", "90% range"]
    rows = [
        [
            row["policy"],
            _number(row, "value"),
            _range(row, ""),
            _number(row, "gain"),
            _range(row, "gain_"),
            f"{row['matched']:,}",
            _number(row, "model"),
            _range(row, "model_"),
        ]
        for row in summary["policies"]
    ]
    return pd.DataFrame(rows, columns=names)


def _number(row: dict[str, Any], name: str) -> str:
    return "" if row[name] is None or math.isnan(row[name]) else f"{row[name]:.4g}"


def _range(row: dict[str, Any], prefix: str) -> str:
    low, high = _number(row, f"{prefix}low"), _number(row, f"{prefix}high")
    return f"{low} to {high}" if low else ""
