"""The commands before a campaign begins: init, check, plan. Thin: parse, call, print."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from cobed.cli.options import (
    DEFAULT,
    NoProgram,
    Place,
    Spec,
    begun_campaign,
    check_outputs,
    far_warnings,
    output,
    read_given,
    say_known,
)
from cobed.cli.voice import speaking, voice
from cobed.errors import CampaignError, CobedError

app = typer.Typer()


@app.command()
def init(
    spec: Annotated[Path, typer.Argument(help="Where to write it.")] = DEFAULT,
    table: Annotated[Path | None, typer.Option("--from", help="A table whose columns to start from.")] = None,
    action: Annotated[str | None, typer.Option(help="Its column of past actions, if it has one.")] = None,
    outcome: Annotated[str | None, typer.Option(help="Its column of past outcomes, if it has one.")] = None,
    targets: Annotated[
        Path | None,
        typer.Option(help="Where the policy will be deployed: what this table does not have is no context."),
    ] = None,
    in_use: Annotated[
        list[str] | None,
        typer.Option(help="An option that is done already; again for more. By default those of --action."),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, max=10, help="How many rounds there can be, each designed from those before.")
    ] = None,
) -> None:
    """Write a commented campaign.toml to fill in. In a terminal it asks for what makes designs pay, where that is not given."""
    from cobed.campaign.spec import parse_spec
    from cobed.campaign.template import Situation, guess, template
    from cobed.storage import check_output, write_output

    if spec.exists():
        raise CampaignError(f"{spec} exists already and is not written over. Give another name, or remove it.")
    check_output(spec)
    if table is None and (action or outcome or targets):
        raise CampaignError("--action, --outcome and --targets go with a table. Give it with --from.")
    if in_terminal():
        targets, in_use, rounds = _ask(table, action, targets, in_use, rounds)
    name = spec.resolve().parent.name or "campaign"
    situation = Situation(None if targets is None else read_given(targets), in_use or (), rounds or 1)
    text = template(name, situation) if table is None else guess(name, read_given(table), action, outcome, situation)
    if table is not None:
        try:
            read = parse_spec(text, spec.name)
            voice.say(f"{len(read.context)} context column(s). Why others are left out is told in {spec}.")
        except CobedError as error:
            voice.say(f"To be corrected by hand:\n{error}\n")
    write_output(spec, lambda file: file.write(text.encode()))
    voice.say(f"Wrote {spec}. Edit it, then: cobed check --spec {spec} YOUR_TABLE.csv")


def in_terminal() -> bool:
    """Whether somebody is there to answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _ask(
    table: Path | None, action: str | None, targets: Path | None, in_use: list[str] | None, rounds: int | None
) -> tuple[Path | None, list[str] | None, int | None]:
    """What was not given and makes designs pay. Every answer may be left empty."""

    def answer(question: str) -> str:
        return str(typer.prompt(question, default="", show_default=False)).strip()

    voice.say("Three short questions at most; press Enter where you do not know.")
    if table is not None and targets is None:
        targets = (
            Path(text) if (text := answer("A table of those who will get the policy (empty: the same units)")) else None
        )
    if in_use is None and action is None:
        said = answer("Options that are done already, with commas between them (empty: none)")
        in_use = [name.strip() for name in said.split(",") if name.strip()]
    if rounds is None:
        rounds = typer.prompt("How many rounds can there be, each designed from those before", default=1, type=int)
    return targets, in_use, rounds


@app.command()
@speaking
def check(
    tables: Annotated[
        list[Path] | None, typer.Argument(help="Tables to check too: units, targets or outcomes.")
    ] = None,
    spec: Spec = DEFAULT,
    store: Place = None,
) -> None:
    """Say what is wrong with the spec and with tables, alone and together, before any work is done. Changes nothing."""
    from cobed.campaign.check import check_tables
    from cobed.campaign.in_use import how_well_known
    from cobed.campaign.spec import read_spec
    from cobed.campaign.tables import MISSING

    read, _ = read_spec(spec)
    actions = ", ".join(read.action.options or read.action.numbers or ())
    voice.say(
        f"{spec.name}: fine. {len(read.context)} context column(s); actions: {actions}; {read.outcome.likelihood} outcome."
    )
    begun = begun_campaign(spec, store)
    if tables:
        voice.say(f"These cells mean missing: (empty){', '.join(MISSING)}. A level or an option of that name wins.")
    voice.record(context=list(read.context), actions=actions.split(", "), likelihood=read.outcome.likelihood)
    for finding in check_tables(read, [read_given(path) for path in tables or []], begun):
        voice.say(f"{finding.table}: {finding.sentence}")
        voice.warn(finding.warnings)
    say_known(*how_well_known(read, begun))


@app.command()
@speaking
def plan(
    units: Annotated[Path, typer.Argument(help="Units that could be in the experiment, one row each.")],
    targets: Annotated[
        Path | None, typer.Option(help="Where the policy will be deployed. By default the units themselves.")
    ] = None,
    size: Annotated[
        list[int] | None, typer.Option(help="A number of units; again for more. By default all rows, a half, ...")
    ] = None,
    rounds: Annotated[
        list[int] | None, typer.Option(help="A number of rounds; again for more. By default 1 to [design] rounds.")
    ] = None,
    worlds: Annotated[int, typer.Option(help="So many simulated worlds: more are slower and less noisy.")] = 500,
    budget: Annotated[
        str | None, typer.Option(help="Of each design: smoke, quick or paper. By default the spec's.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same numbers. By default the spec's.")] = None,
    out: Annotated[
        Path, typer.Option(parser=output, help="Where to write the page; its numbers go beside it as .json.")
    ] = Path("plan.html"),
    spec: Spec = DEFAULT,
    store: Place = None,
    no_program: NoProgram = False,
) -> None:
    """Say whether designing pays, with how many units and rounds. Stopped, the same command goes on."""
    from cobed.campaign.in_use import how_well_known
    from cobed.campaign.plan import PlanSettings, make_plan, start_from
    from cobed.campaign.spec import read_spec
    from cobed.report.plan import plan_table, write_plan

    kept = out.with_suffix(".json") if out.name else out
    check_outputs(
        [kept, out], spec, store, {"the table of units": units, "the table of targets": targets}, tables=False
    )
    read, _ = read_spec(spec)
    rows = read_given(units)
    target_table = rows if targets is None else read_given(targets)
    begun = begun_campaign(spec, store)
    known = start_from(read, begun, [rows] if targets is None else [rows, target_table], spec.resolve().parent)
    try:
        settings = PlanSettings(size, worlds, seed, budget, kept, rounds)
        with voice.working("plan") as progress:
            made = make_plan(known, rows, target_table, settings, progress)
    except KeyboardInterrupt:
        sys.exit(f"cobed: stopped. The sizes that are done are kept in {kept}; the same command goes on from there.")
    verdict = made.verdict
    voice.say(
        f"Regret is what a target loses, in {read.reward_words!r}, because the policy after an experiment is not the best one:"
    )
    voice.table("sizes", plan_table(made))
    voice.say("\n".join([*made.sentences(), "", *verdict.sentences, ""]))
    voice.record(verdict=verdict.kind, units=verdict.units, rounds=verdict.rounds)
    say_known(*how_well_known(read, begun))
    voice.warn([*far_warnings(read, begun, [rows, target_table]), *made.warnings])
    written = write_plan(read, made, out).resolve()
    voice.record(page=str(written))
    voice.say(f"Plan: {written}")
