"""The command line. Thin: parse, call, print. JAX is loaded by the commands that need it."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from cobed import __version__
from cobed.errors import CobedError

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def root() -> None:
    """cobed: which action to try on whom, before you know what works."""


@app.command()
def version() -> None:
    """Print the version."""
    print(__version__)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where to leave the design and its figure.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Same seed, same design.")] = 0,
    budget: Annotated[str, typer.Option(help="smoke, quick or paper.")] = "quick",
) -> None:
    """Design the paper's discrete example: four actions, two of them known to be poor, on ten units."""
    from cobed.cli.demo import run

    run(out, seed, budget)


def main() -> None:
    """Run the command line; errors a user can mend are printed as a sentence."""
    try:
        app()
    except CobedError as error:
        sys.exit(f"cobed: {error}")
    except OSError as error:
        sys.exit(f"cobed: {error}")
