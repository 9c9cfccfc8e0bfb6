"""What commands say, in one place: sentences, warnings and tables for people, in colours where there is a terminal and plain where
there is none; with --quiet only what is wrong; with --json one document for programs."""

import contextlib
import functools
import inspect
import json
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TextIO

import typer

from cobed.errors import CobedError
from cobed.progress import ConsoleReporter, Progress, Reporter, format_seconds
from cobed.storage import printable

if TYPE_CHECKING:
    import pandas as pd

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document for programs instead of sentences.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but warnings and errors.")]

Parameters = ParamSpec("Parameters")


class Voice:
    """How the command that is running speaks. `document` is what it says as JSON."""

    def __init__(self):
        self.quiet = self.as_json = False
        self.document: dict[str, Any] = {}

    def begin(self, *, quiet: bool, as_json: bool) -> None:
        self.quiet, self.as_json = quiet, as_json
        self.document = {"sentences": [], "warnings": []}

    def say(self, text: object, file: TextIO | None = None) -> None:
        """Print a line; a URL that was given in the place of a file's name is shown without its password."""
        if file is not None:
            print(printable(text), file=file)
        elif self.as_json:
            self.document["sentences"].append(printable(text))
        elif not self.quiet:
            print(printable(text))

    def warn(self, warnings: "list[str] | tuple[str, ...]") -> None:
        for warning in warnings:
            if self.as_json:
                self.document["warnings"].append(printable(warning))
            else:
                _coloured("yellow", f"Warning: {printable(warning)}")

    def record(self, **facts: Any) -> None:
        """What programs are told beside the sentences."""
        if self.as_json:
            self.document |= facts

    def table(self, name: str, frame: "pd.DataFrame", raw: "pd.DataFrame | None" = None) -> None:
        """A table for people, and its rows for programs; those of `raw` where it has the same in other words."""
        if self.as_json:
            rows = frame if raw is None else raw
            self.document[name] = json.loads(rows.to_json(orient="records", date_format="iso") or "[]")
        elif not self.quiet:
            _print_table(frame)

    def finish(self) -> None:
        """Print the document, and speak to people again."""
        if self.as_json:
            print(json.dumps(self.document, indent=1, default=str))
        self.quiet = self.as_json = False

    @contextlib.contextmanager
    def working(self, what: str) -> Iterator[Reporter | None]:
        """While long work goes on: one line that tells its stage and the time left; plain lines where there is no terminal."""
        if self.quiet or self.as_json:
            yield None
        elif not sys.stderr.isatty():
            yield PlainReporter()
        else:
            from rich.console import Console

            with Console(stderr=True).status(f"{what}: compiling") as line:
                yield lambda progress: line.update(f"{what}: {told(progress)}")


class PlainReporter(ConsoleReporter):
    """Lines for a log, without what only researchers ask for."""

    def line(self, progress: Progress) -> str:
        return told(progress)


def told(progress: Progress) -> str:
    """Where the work stands: the stage, the share that is done, and the time left."""
    share = progress.step / max(progress.num_steps, 1)
    known = progress.seconds_left == progress.seconds_left
    left = f", about {format_seconds(progress.seconds_left)} left" if known and share < 1 else ""
    return f"{progress.stage} {share:.0%}{left}"


voice = Voice()


def speaking(command: Callable[Parameters, None]) -> Callable[Parameters, None]:
    """The command with --json and --quiet."""

    @functools.wraps(command)
    def run(*arguments: Any, as_json: bool = False, quiet: bool = False, **options: Any) -> None:
        voice.begin(quiet=quiet, as_json=as_json)
        try:
            command(*arguments, **options)
        except CobedError as error:
            voice.record(error=printable(error))
            raise
        finally:
            voice.finish()

    added = {"as_json": AsJson, "quiet": Quiet}
    signature = inspect.signature(command)
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        for name, kind in added.items()
    ]
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *more])  # pyright: ignore[reportAttributeAccessIssue]
    run.__annotations__ = command.__annotations__ | added
    return run


def _coloured(colour: str, text: str) -> None:
    if not sys.stdout.isatty():
        print(text)
        return
    from rich.console import Console

    Console().print(text, style=colour, markup=False, highlight=False, soft_wrap=True)


def _print_table(frame: "pd.DataFrame") -> None:
    if not sys.stdout.isatty():
        print(printable(frame.to_string(index=False)))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for place, name in enumerate(frame.columns):
        table.add_column(Text(printable(name)), justify="right" if place else "left", overflow="fold")
    for row in frame.itertuples(index=False, name=None):
        table.add_row(*(Text(printable(cell)) for cell in row))
    Console().print(table)
