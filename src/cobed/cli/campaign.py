"""The commands of a campaign: design, observe, withdraw, deploy, report, status, export. Thin: parse, call, print."""

import contextlib
import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cobed.cli.options import (
    DEFAULT,
    NoProgram,
    Place,
    Spec,
    check_outputs,
    open_campaign,
    output,
    read_given,
    rejected_beside,
    rules_beside,
)
from cobed.cli.voice import speaking, voice
from cobed.errors import CampaignError, StorageError

if TYPE_CHECKING:
    from cobed.campaign.campaign import Campaign

app = typer.Typer()

# The exit code where the work was done for a part of the rows.
BAD_ROWS = 3


@app.command()
@speaking
def design(
    units: Annotated[Path, typer.Argument(help="The units of the round, one row each.")],
    targets: Annotated[
        Path | None, typer.Option(help="Where the policy will be deployed. By default the units themselves.")
    ] = None,
    take: Annotated[
        int | None, typer.Option(help="Experiment on so many of the free rows, drawn at random by the spec's seed.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Take units too that have an outcome or wait for one.")
    ] = False,
    next_round: Annotated[
        bool, typer.Option("--next", help="Another round beside those in the field, before their outcomes are in.")
    ] = False,
    out: Annotated[
        Path, typer.Option(parser=output, help="Where to write the units with their actions: .csv, .xlsx or .parquet.")
    ] = Path("assignments.csv"),
    pin: Annotated[list[str] | None, typer.Option(help="UNIT=ACTION: decide it yourself, redesign the rest.")] = None,
    reject: Annotated[list[str] | None, typer.Option(help="UNIT: refuse its action, redesign the rest.")] = None,
    refit: Annotated[
        bool,
        typer.Option("--refit", help="Scale numeric columns by these tables, not by the first. Before any outcome."),
    ] = False,
    spec: Spec = DEFAULT,
    store: Place = None,
    no_program: NoProgram = False,
) -> None:
    """Choose the action to try on each unit. The same command again gives the same round, until outcomes are in."""
    from cobed.campaign.gaps import gap_sentences
    from cobed.campaign.in_use import how_well_known
    from cobed.campaign.pins import parse_pin
    from cobed.campaign.tables import write_table
    from cobed.campaign.words import promise_sentences

    if next_round and (pin or reject):
        raise CampaignError("--pin and --reject are about the last round, --next begins another. Give one of them.")
    check_outputs([out], spec, store, {"the table of units": units, "the table of targets": targets})
    rows = read_given(units)
    campaign = open_campaign(spec, store, create=True)
    # Before the work: with history the design would be another one.
    voice.warn(how_well_known(campaign.spec, campaign)[1])
    before = campaign.rounds()
    target_table = None if targets is None else read_given(targets)
    if refit:
        campaign.refit(rows, target_table)
    if pin:
        campaign.pin(dict(parse_pin(campaign.spec, text) for text in pin))
    if reject:
        campaign.reject(reject)
    with voice.working("design") as progress:
        frame = campaign.recommend(rows, target_table, take=take, again=again, new_round=next_round, progress=progress)
    last = campaign.rounds()[-1]
    write_table(frame, out)
    known = any((r.id, r.version) == (last.id, last.version) for r in before)
    what = "as designed before" if known else "designed anew" if last.version > 1 else "designed"
    voice.say(f"Round {last.id}, {what}: {len(frame):,} units in {out}.")
    voice.record(
        round=last.id, version=last.version, units=len(frame), assignments=str(out), reason=last.summary.get("reason")
    )
    if known and take is not None:
        voice.say("For other units before these outcomes are in, give the command with --next and another --out.")
    if campaign.spec.action.options is not None:
        counts = Counter(frame[campaign.spec.action.column])
        voice.say("Units by action: " + ", ".join(f"{name} {counts[name]}" for name in campaign.spec.action.options))
        voice.record(counts={name: counts[name] for name in campaign.spec.action.options})
    if by_chance := last.summary.get("by_chance", 0):
        voice.say(
            f"{by_chance:,} of them get theirs by chance: from their outcomes alone, cobed evaluate says what a policy is worth."
        )
    for sentence in promise_sentences(campaign.spec, last.summary):
        voice.say(sentence)
    for sentence in gap_sentences(last.summary, len(frame)):
        voice.say(sentence)
    voice.warn(last.summary.get("warnings", []))
    voice.say(f"Next: fill in the column {campaign.spec.outcome.column!r}, then: cobed observe {out}")


@app.command()
@speaking
def observe(
    outcomes: Annotated[Path, typer.Argument(help="A table with the id and the outcome; empty outcomes are skipped.")],
    round: Annotated[int | None, typer.Option(help="The round they belong to. By default each unit's last.")] = None,
    spec: Spec = DEFAULT,
    store: Place = None,
) -> None:
    """Take outcomes: partial, late, corrected and unplanned rows are normal; the same table twice changes nothing."""
    table = read_given(outcomes)
    campaign = open_campaign(spec, store, create=True)
    receipt = campaign.add_outcomes(table, round=round)
    voice.say(receipt)
    voice.warn(receipt.warnings)
    _say_counts(campaign)


@app.command()
@speaking
def deploy(
    targets: Annotated[Path, typer.Argument(help="The units to act on, one row each.")],
    out: Annotated[
        Path, typer.Option(parser=output, help="Where to write them with their actions: .csv, .xlsx or .parquet.")
    ] = Path("policy.csv"),
    rejected: Annotated[
        Path | None,
        typer.Option(
            parser=output,
            help="Where to write rows that cannot be used. By default rejected.csv, or NAME-rejected.csv.",
        ),
    ] = None,
    rules: Annotated[
        int | None,
        typer.Option(help="Decide by rules of so many questions in a row, 1 to 4; also as JSON and SQL beside --out."),
    ] = None,
    spec: Spec = DEFAULT,
    store: Place = None,
    no_program: NoProgram = False,
) -> None:
    """Choose the best action for each unit, by everything learned so far. Exit code 3: some rows could not be used."""
    from cobed.campaign.gaps import gap_sentences
    from cobed.campaign.money import money_sentences
    from cobed.campaign.readable import read_tree, rules_sentences
    from cobed.campaign.tables import write_table
    from cobed.campaign.words import policy_sentences
    from cobed.storage import remove_output, write_text

    rejected = rejected or rejected_beside(out)
    written = {kind: rules_beside(out, kind) for kind in ("json", "sql")}
    check_outputs([out, rejected], spec, store, {"the table of targets": targets})
    if rules is not None:
        check_outputs([*written.values()], spec, store, {"the table of targets": targets}, tables=False)
    campaign = open_campaign(spec, store)
    table, bad = campaign.split(read_given(targets))
    with voice.working("learn from the outcomes and decide"):
        frame = campaign.deploy(table, rules=rules)
    # First, so that a policy never stands beside the rejected rows of another.
    if len(bad):
        write_table(bad, rejected)
    else:
        remove_output(rejected)
    for path in written.values():
        # The rules of an earlier policy; a file of the user's own stays.
        with contextlib.suppress(StorageError):
            remove_output(path)
    write_table(frame, out)
    summary = campaign.deployed or {}
    if campaign.store.reading_only:
        voice.warn([f"{campaign.store.label} can be read but not written: this deployment is not recorded in it."])
    voice.say(f"{len(frame):,} units in {out}.")
    if "counts" in summary:
        voice.say("Units by action: " + ", ".join(f"{name} {count:,}" for name, count in summary["counts"].items()))
    for sentence in policy_sentences(campaign.spec, summary):
        voice.say(sentence)
    voice.record(policy=str(out), **{name: part for name, part in summary.items() if name not in ("where", "warnings")})
    for sentence in [*money_sentences(campaign.spec, summary), *gap_sentences(summary, len(frame))]:
        voice.say(sentence)
    for sentence in rules_sentences(campaign.spec, summary):
        voice.say(sentence)
    if rules is not None:
        tree = read_tree(summary)
        write_text(written["json"], json.dumps(tree.to_json(), indent=1) + "\n")
        write_text(written["sql"], f"{tree.sql()}\n")
        voice.say(f"The same rules for programs: {written['json']} and {written['sql']}.")
    voice.warn(summary["warnings"])
    if len(bad):
        cells = ", ".join(f"{name} {count:,}" for name, count in bad.attrs["cells"].items())
        row, reason = bad.iloc[0, -2:]
        voice.say(
            f"cobed: {len(bad):,} of {len(bad) + len(frame):,} rows could not be used and are in {rejected}, each with the "
            f"reason. Bad cells by column: {cells}. The first, row {row}: {reason}",
            file=sys.stderr,
        )
        raise typer.Exit(BAD_ROWS)


@app.command()
@speaking
def report(
    out: Annotated[
        Path | None,
        typer.Option(parser=output, help="Where to write the page. By default report.html, or .pdf, .md, .json."),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(help="html, pdf (printed by a Chromium on this machine), md or json. By default as --out ends."),
    ] = None,
    spec: Spec = DEFAULT,
    store: Place = None,
    no_program: NoProgram = False,
) -> None:
    """Write one page for everybody: what it brings, what to do for whom, how sure, what was tried and learned."""
    from cobed.report.campaign import write_report
    from cobed.report.page import FORMATS

    kind = format or ("html" if out is None else out.suffix.removeprefix("."))
    if kind not in FORMATS:
        if format is not None:
            raise CampaignError(f"There is no format {format!r}. Allowed: {', '.join(FORMATS)}.")
        kind = "html"
    out = out or Path(f"report.{kind}")
    check_outputs([out], spec, store, {}, tables=False)
    campaign = open_campaign(spec, store, reading=True)
    with voice.working("report"):
        written = write_report(campaign, out, kind).resolve()
    voice.record(page=str(written), format=kind)
    voice.say(f"Report: {written}")


@app.command()
@speaking
def withdraw(
    units: Annotated[list[str] | None, typer.Argument(help="Units whose outcome was a mistake.")] = None,
    round: Annotated[int | None, typer.Option(help="The round of these outcomes. By default each unit's last.")] = None,
    upload: Annotated[
        int | None, typer.Option(help="All of one upload: its number in `cobed status --uploads`.")
    ] = None,
    spec: Spec = DEFAULT,
    store: Place = None,
) -> None:
    """Take back outcomes: of single units, or all that one table brought. What was told stays in the history."""
    campaign = open_campaign(spec, store)
    voice.say(campaign.withdraw(units or [], round=round, upload=upload))
    _say_counts(campaign)


@app.command()
@speaking
def why(
    targets: Annotated[Path, typer.Argument(help="The table of targets: .csv, .xlsx or .parquet.")],
    units: Annotated[list[str], typer.Argument(help="Ids of the units to be told about.")],
    spec: Spec = DEFAULT,
    store: Place = None,
    no_program: NoProgram = False,
) -> None:
    """Say why single units get their action: which of their columns move that, and by how much."""
    from cobed.campaign.why import sentences

    campaign = open_campaign(spec, store, reading=True)
    for line in sentences(campaign.spec, campaign.why(read_given(targets), units)):
        voice.say(line)


@app.command()
@speaking
def status(
    uploads: Annotated[
        bool, typer.Option("--uploads", help="List the tables of outcomes and withdrawals too.")
    ] = False,
    spec: Spec = DEFAULT,
    store: Place = None,
) -> None:
    """Say where the campaign stands."""
    from cobed.campaign.database import readable_by_others
    from cobed.campaign.words import day

    campaign = open_campaign(spec, store, reading=True)
    status = campaign.status()
    voice.say(
        f"{status.name}: {status.num_outcomes} outcome(s), {status.num_waiting} awaited, {status.num_policies} deployment(s)."
    )
    if len(status.rounds):
        rounds = status.rounds
        voice.table("rounds", rounds.assign(created=[day(created) for created in rounds["created"]]), rounds)
    else:
        voice.say("No round yet.")
    voice.record(
        name=status.name, outcomes=status.num_outcomes, awaited=status.num_waiting, policies=status.num_policies
    )
    if exposed := readable_by_others(campaign.store.location):
        voice.warn([exposed])
    if uploads:
        table = campaign.uploads().fillna("")
        if len(table):
            voice.table("uploads", table)
        else:
            voice.say("No upload yet.")


@app.command()
@speaking
def export(
    out: Annotated[Path, typer.Option(parser=output, help="Where to write it: .csv, .xlsx or .parquet.")] = Path(
        "campaign.csv"
    ),
    spec: Spec = DEFAULT,
    store: Place = None,
) -> None:
    """Write everything as one table: each unit of each round, its context, its action and what came back."""
    from cobed.campaign.tables import write_table

    check_outputs([out], spec, store, {})
    frame = open_campaign(spec, store, reading=True).export()
    voice.say(f"{len(frame)} row(s) in {write_table(frame, out)}.")


def _say_counts(campaign: "Campaign") -> None:
    status = campaign.status()
    voice.say(f"{status.num_outcomes} outcome(s) in all, {status.num_waiting} awaited.")
    voice.record(outcomes=status.num_outcomes, awaited=status.num_waiting)
