"""What the commands of a campaign share: options, where a campaign is, tables to read, outputs to protect."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cobed.cli.voice import voice
from cobed.errors import StorageError
from cobed.storage import printable

if TYPE_CHECKING:
    from cobed.campaign.campaign import Campaign
    from cobed.campaign.spec import CampaignSpec
    from cobed.campaign.tables import Table

Spec = Annotated[Path, typer.Option("--spec", help="The campaign.toml.")]
Place = Annotated[
    str | None,
    typer.Option("--store", help="A SQLite file, or a database URL. By default campaign.db beside the spec."),
]
DEFAULT = Path("campaign.toml")


def _forbid_program(value: bool) -> bool:
    if value:
        os.environ["COBED_NO_PROGRAM"] = "1"
    return value


NoProgram = Annotated[
    bool,
    typer.Option(
        "--no-program", callback=_forbid_program, help="Refuse to run the code that [model] program of the spec names."
    ),
]


def output(text: str | Path) -> Path:
    """The name of an output as it was typed; an empty one is refused."""
    if not str(text):
        raise typer.BadParameter("the name is empty. Give the name of a file.")
    return Path(text)


def check_outputs(
    outputs: list[Path], spec: Path, store: str | None, inputs: Mapping[str, Path | None], *, tables: bool = True
) -> None:
    """Tell before the work what would go wrong after it: outputs that would take the place of something else."""
    from cobed.campaign.sheets import check_format, split_sheet
    from cobed.storage import check_output, store_files

    taken: dict[str, Path] = {"the spec": spec, **store_files(store or spec.parent / "campaign.db")}
    taken |= {what: split_sheet(path)[0] for what, path in inputs.items() if path is not None}
    for path in outputs:
        if tables:
            check_format(path)
        check_output(path, taken)
        taken[f"the other output, {path.name},"] = path


def far_warnings(spec: "CampaignSpec", campaign: "Campaign | None", tables: "list[Table]") -> list[str]:
    """What to say of tables that lie far from the first one of the campaign."""
    from cobed.campaign.scaling import far_columns

    encoding = None if campaign is None else campaign.encoding()
    return [] if encoding is None else far_columns(spec, encoding, *tables)


def rejected_beside(out: Path) -> Path:
    """Where the rejected rows go: rejected.csv beside policy.csv, NAME-rejected beside any other output."""
    if not out.name:
        return out  # a directory, which is told
    name, dot, ends = out.name.partition(".csv") if ".csv" in out.name else (out.stem, "", out.suffix)
    return out.with_name(("rejected" if name == "policy" else f"{name}-rejected") + dot + ends)


def rules_beside(out: Path, kind: str) -> Path:
    """Where the rules of a policy go: policy-rules.json beside policy.csv."""
    return out.with_name(f"{out.name.partition('.')[0] or out.name}-rules.{kind}")


def read_given(path: Path) -> "Table":
    """The table in a file; what the user should know of how it was read is said."""
    from cobed.campaign.tables import read_table

    table = read_table(path)
    for note in table.notes:
        voice.say(f"Note: {note}", file=sys.stderr)
    return table


def begun_campaign(spec: Path, store: str | None) -> "Campaign | None":
    """The campaign of a spec, for reading; None where it has not begun."""
    from cobed.campaign.store import holds_campaign

    begun = holds_campaign(spec.parent / "campaign.db" if store is None else store)
    return open_campaign(spec, store, reading=True) if begun else None


def open_campaign(spec: Path, store: str | None, *, create: bool = False, reading: bool = False) -> "Campaign":
    """The campaign of a spec, with the spec as it is now; begun where there is none and `create` allows it."""
    from cobed.campaign.campaign import Campaign
    from cobed.campaign.store import holds_campaign

    location = spec.parent / "campaign.db" if store is None else store
    if create and not holds_campaign(location):
        try:
            return Campaign.create(spec, location)
        except StorageError:
            # Another process may have begun it at the same time.
            if not holds_campaign(location):
                raise
    elif not holds_campaign(location):
        raise StorageError(
            f"There is no campaign in {printable(location)} yet. `cobed design` or `cobed observe` starts one."
        )
    return Campaign.open(location, spec, reading=reading)


def say_known(sentence: str | None, warnings: list[str]) -> None:
    """How well the options in use are known."""
    if sentence is not None:
        voice.say(sentence)
    voice.warn(warnings)
