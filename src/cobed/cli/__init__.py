"""The command line. Thin: parse, call, print. JAX is loaded by the commands that need it."""

import io
import sys
from pathlib import Path
from typing import Annotated

import typer
from typer.rich_utils import rich_format_error

from cobed import __version__
from cobed.cli import campaign, evaluate, prepare, trust
from cobed.cli.options import output
from cobed.errors import CobedError
from cobed.kept_programs import keep_programs
from cobed.storage import printable

# Of every mistake in a command line; typer does not export it.
UsageError: type[typer.BadParameter] = typer.BadParameter.__bases__[0]

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)


def _print_version(asked: bool) -> None:
    if asked:
        print(__version__)
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """cobed: which action to try on whom, before you know what works."""


@app.command()
def version() -> None:
    """Print the version."""
    print(__version__)


@app.command()
def demo(
    out: Annotated[
        Path, typer.Option(parser=output, help="The folder to leave it in; with a number where it exists.")
    ] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same customers and design.")] = 0,
    budget: Annotated[str, typer.Option(help="Of the design: smoke, quick or paper.")] = "quick",
) -> None:
    """Run a whole campaign on simulated customers: which offer for whom. Two rounds, a policy within a budget, a report."""
    from cobed.cli.demo import run

    run(out, seed, budget)


@app.command()
def reproduce(
    name: Annotated[
        str, typer.Argument(help="discrete, continuous, ablation, gp, bandit, causal, or one of another package.")
    ],
    budget: Annotated[
        str, typer.Option(help="smoke (does it run), quick (minutes) or paper (the published settings).")
    ] = "quick",
    seeds: Annotated[int | None, typer.Option(help="How many seeds, from 0. By default the budget's.")] = None,
    worlds: Annotated[
        int | None, typer.Option(help="How many worlds a design is scored on. By default the budget's.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(parser=output, help="Where to write. By default results/NAME-BUDGET.")
    ] = None,
) -> None:
    """Run one of the paper's experiments: results.json and a report. Stopped or killed, the same command goes on."""
    from cobed.progress import ConsoleReporter
    from cobed.reproduce import reproduce as run

    out = out or Path("results") / f"{name}-{budget}"
    try:
        report = run(name, out, budget=budget, num_seeds=seeds, num_worlds=worlds, progress=ConsoleReporter())
    except KeyboardInterrupt:
        sys.exit(f"cobed: stopped. What is done is kept in {out}; the same command goes on from there.")
    findings = out / "findings.txt"
    if findings.exists():
        print(findings.read_text())
    print(f"Results: {(out / 'results.json').resolve()}\nReport: {report.resolve()}")


app.add_typer(prepare.app)
app.add_typer(campaign.app)
app.add_typer(evaluate.app)
app.add_typer(trust.app)


def main() -> None:
    """Run the command line; errors a user can mend are printed as a sentence."""
    keep_programs()
    for stream in (sys.stdout, sys.stderr):
        # Names of files and cells may hold what a terminal cannot show. A notebook's own streams can show everything.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        sys.exit(app(standalone_mode=False))
    except UsageError as error:
        # What was typed comes back in the message, and so does a URL that was given where something else is expected.
        error.message = printable(error.message)
        rich_format_error(error)
        sys.exit(error.exit_code)
    except typer.Abort:
        sys.exit("cobed: stopped.")
    except (CobedError, OSError) as error:
        sys.exit("cobed: " + printable(error))
    except ModuleNotFoundError as error:
        if error.name not in ("pydantic", "pyarrow", "sqlalchemy"):
            raise
        sys.exit(f"cobed: campaigns need the package {error.name!r}: pip install 'cobed[campaign]'")
