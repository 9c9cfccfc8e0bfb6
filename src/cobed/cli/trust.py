"""The command that says whether the numbers of a campaign can be trusted. Thin: parse, call, print."""

from pathlib import Path
from typing import Annotated

import typer

from cobed.cli.options import DEFAULT, NoProgram, Place, Spec, open_campaign, read_given
from cobed.cli.voice import speaking, voice

app = typer.Typer()

# Beside the check in a terminal: words, so that nothing hangs on colours.
COLOURS = {"fine": "green", "look": "yellow", "stop": "bold red", "open": "dim"}


@app.command()
@speaking
def trust(
    targets: Annotated[
        Path | None, typer.Argument(help="Where the policy is, or will be, deployed. Without it drift is not checked.")
    ] = None,
    details: Annotated[bool, typer.Option("--details", help="The table behind each verdict that is not fine.")] = False,
    spec: Spec = DEFAULT,
    store: Place = None,
    no_program: NoProgram = False,
) -> None:
    """Say what may be wrong with the experiment and what was learned: fine, look, stop, or open where it cannot be told."""
    table = None if targets is None else read_given(targets)
    found = open_campaign(spec, store, reading=True).trust(table)
    voice.record(checks=[check.to_json() for check in found])
    if voice.as_json or voice.quiet:
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    shown = Table("verdict", "check", "what was seen", "what to do", show_lines=True)
    for check in found:
        colour = COLOURS[check.verdict]
        shown.add_row(f"[{colour}]{check.verdict}[/]", *map(escape, (check.name, check.sentence, check.advice)))
    Console().print(shown)
    for check in found:
        if details and check.verdict != "fine" and check.table is not None:
            voice.say(f"\n{check.name}: {check.sentence}\n{check.table.to_string(index=False)}")
