"""The commands of a campaign: init, check, plan, design, observe, deploy, report, status, export. Thin: parse, call, print."""

import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cobed.errors import CampaignError, CobedError, StorageError

if TYPE_CHECKING:
    from cobed.campaign.campaign import Campaign

app = typer.Typer()

Spec = Annotated[Path, typer.Option("--spec", help="The campaign.toml.")]
Place = Annotated[
    str | None,
    typer.Option("--store", help="A SQLite file, or a database URL. By default campaign.db beside the spec."),
]
DEFAULT = Path("campaign.toml")


def output(text: str | Path) -> Path:
    """The name of an output as it was typed; an empty one is refused."""
    if not str(text):
        raise typer.BadParameter("the name is empty. Give the name of a file.")
    return Path(text)


def _check_outputs(
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


@app.command()
def init(
    spec: Annotated[Path, typer.Argument(help="Where to write it.")] = DEFAULT,
    table: Annotated[Path | None, typer.Option("--from", help="A table whose columns to start from.")] = None,
    action: Annotated[str | None, typer.Option(help="Its column of past actions, if it has one.")] = None,
    outcome: Annotated[str | None, typer.Option(help="Its column of past outcomes, if it has one.")] = None,
) -> None:
    """Write a commented campaign.toml to fill in."""
    from cobed.campaign.spec import parse_spec
    from cobed.campaign.tables import read_table
    from cobed.campaign.template import guess, template
    from cobed.storage import check_output, write_output

    if spec.exists():
        raise CampaignError(f"{spec} exists already and is not written over. Give another name, or remove it.")
    check_output(spec)
    if table is None and (action or outcome):
        raise CampaignError("--action and --outcome name columns of a table. Give it with --from.")
    name = spec.resolve().parent.name or "campaign"
    text = template(name) if table is None else guess(name, read_table(table), action, outcome)
    if table is not None:
        try:
            parse_spec(text, spec.name)
        except CobedError as error:
            print(f"To be corrected by hand:\n{error}\n")
    write_output(spec, lambda file: file.write(text.encode()))
    print(f"Wrote {spec}. Edit it, then: cobed check --spec {spec} YOUR_TABLE.csv")


@app.command()
def check(
    tables: Annotated[
        list[Path] | None, typer.Argument(help="Tables to check too: units, targets or outcomes.")
    ] = None,
    spec: Spec = DEFAULT,
) -> None:
    """Say what is wrong with the spec and with tables, before any work is done."""
    from cobed.campaign.check import check_table
    from cobed.campaign.spec import read_spec
    from cobed.campaign.tables import read_table

    read, _ = read_spec(spec)
    actions = ", ".join(read.action.options or read.action.numbers or ())
    print(
        f"{spec.name}: fine. {len(read.context)} context column(s); actions: {actions}; {read.outcome.likelihood} outcome."
    )
    for path in tables or []:
        print(f"{path.name}: {check_table(read, read_table(path))}")


@app.command()
def plan(
    units: Annotated[Path, typer.Argument(help="Units that could be in the experiment, one row each.")],
    targets: Annotated[
        Path | None, typer.Option(help="Where the policy will be deployed. By default the units themselves.")
    ] = None,
    size: Annotated[
        list[int] | None, typer.Option(help="A number of units; again for more. By default all rows, a half, ...")
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
) -> None:
    """Say how much an experiment of each size would teach, designed and at random. Stopped, the same command goes on."""
    from cobed.campaign.plan import make_plan, start_from
    from cobed.campaign.spec import read_spec
    from cobed.campaign.store import holds_campaign
    from cobed.campaign.tables import read_table
    from cobed.progress import ConsoleReporter
    from cobed.report.plan import plan_table, write_plan

    kept = out.with_suffix(".json") if out.name else out
    _check_outputs(
        [kept, out], spec, store, {"the table of units": units, "the table of targets": targets}, tables=False
    )
    read, _ = read_spec(spec)
    rows = read_table(units)
    aims = rows if targets is None else read_table(targets)
    begun = _open(spec, store, reading=True) if holds_campaign(_place(spec, store)) else None
    known = start_from(read, begun, [rows] if targets is None else [rows, aims], spec.resolve().parent)
    try:
        found = make_plan(
            read, known, rows, aims, size, worlds, seed=read.seed if seed is None else seed, budget=budget, kept=kept,
            progress=ConsoleReporter(),
        )  # fmt: skip
    except KeyboardInterrupt:
        sys.exit(f"cobed: stopped. The sizes that are done are kept in {kept}; the same command goes on from there.")
    print(plan_table(found).to_string(index=False))
    print("\n".join(found.sentences()))
    if any(read.constraints.model_dump().values()):
        print("The constraints of the spec are left out of account.")
    _warn(found.warnings)
    print(f"Plan: {write_plan(read, found, out).resolve()}")


@app.command()
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
    out: Annotated[
        Path, typer.Option(parser=output, help="Where to write the units with their actions: .csv, .xlsx or .parquet.")
    ] = Path("assignments.csv"),
    pin: Annotated[list[str] | None, typer.Option(help="UNIT=ACTION: decide it yourself, redesign the rest.")] = None,
    reject: Annotated[list[str] | None, typer.Option(help="UNIT: refuse its action, redesign the rest.")] = None,
    spec: Spec = DEFAULT,
    store: Place = None,
) -> None:
    """Choose the action to try on each unit. The same command again gives the same round, until outcomes are in."""
    from cobed.campaign.tables import read_table, write_table
    from cobed.progress import ConsoleReporter

    _check_outputs([out], spec, store, {"the table of units": units, "the table of targets": targets})
    rows = read_table(units)
    campaign = _open(spec, store, create=True)
    before = campaign.rounds()
    if pin:
        campaign.pin(dict(_pair(text, campaign) for text in pin))
    if reject:
        campaign.reject(reject)
    frame = campaign.recommend(rows, targets, take=take, again=again, progress=ConsoleReporter())
    last = campaign.rounds()[-1]
    write_table(frame, out)
    known = any((r.id, r.version) == (last.id, last.version) for r in before)
    what = "as designed before" if known else "designed anew" if last.version > 1 else "designed"
    print(f"Round {last.id}, {what}: {len(frame)} units in {out}.")
    if campaign.spec.action.options is not None:
        counts = Counter(frame[campaign.spec.action.column])
        print("Units by action: " + ", ".join(f"{name} {counts[name]}" for name in campaign.spec.action.options))
    value, error, unit = last.summary.get("score") or (0.0, 0.0, "")
    if value > 0:
        amount = f"{value:.3g} ± {error:.2g}" if error else f"{value:.3g}"
        promise = (
            f"tell at least {amount} nats about the best rewards"
            if unit == "nats"
            else f"let the policy earn {amount} more {campaign.spec.outcome.column} a target than now"
        )
        field = last.summary.get("field", 0)
        others = f", with those of {field:,} unit(s) that other rounds still wait for," if field else ""
        print(f"The outcomes{others} should {promise}. {last.summary['reason']}")
    _warn(last.summary.get("warnings", []))
    print(f"Next: fill in the column {campaign.spec.outcome.column!r}, then: cobed observe {out}")


@app.command()
def observe(
    outcomes: Annotated[Path, typer.Argument(help="A table with the id and the outcome; empty outcomes are skipped.")],
    round: Annotated[int | None, typer.Option(help="The round they belong to. By default each unit's last.")] = None,
    spec: Spec = DEFAULT,
    store: Place = None,
) -> None:
    """Take outcomes: partial, late, corrected and unplanned rows are normal; the same table twice changes nothing."""
    campaign = _open(spec, store, create=True)
    print(campaign.add_outcomes(outcomes, round=round))
    status = campaign.status()
    print(f"{status.num_outcomes} outcome(s) in all, {status.num_waiting} awaited.")


@app.command()
def deploy(
    targets: Annotated[Path, typer.Argument(help="The units to act on, one row each.")],
    out: Annotated[
        Path, typer.Option(parser=output, help="Where to write them with their actions: .csv, .xlsx or .parquet.")
    ] = Path("policy.csv"),
    spec: Spec = DEFAULT,
    store: Place = None,
) -> None:
    """Choose the best action for each unit, by everything learned so far."""
    from cobed.campaign.tables import write_table

    _check_outputs([out], spec, store, {"the table of targets": targets})
    campaign = _open(spec, store)
    frame = campaign.deploy(targets)
    write_table(frame, out)
    _, posterior = campaign.posterior()
    summary = campaign.deployed or {}
    if campaign.store.reading_only:
        _warn([f"{campaign.store.label} can be read but not written: this deployment is not recorded in it."])
    print(f"{len(frame):,} units in {out}.")
    if "counts" in summary:
        print("Units by action: " + ", ".join(f"{name} {count:,}" for name, count in summary["counts"].items()))
    column = campaign.spec.outcome.column
    print(f"Expected {column} a unit: {_interval(summary['value'])} (90% interval).")
    print(f"Gain over {summary['single']!r} for all: {_interval(summary['over_single'])}.")
    print(f"Gain over actions at random: {_interval(summary['over_random'])}.")
    print(f"The action is the best one with probability {summary['p_best']:.0%}, averaged over units.")
    _warn(posterior.warnings)


@app.command()
def report(
    out: Annotated[Path, typer.Option(parser=output, help="Where to write the page.")] = Path("report.html"),
    spec: Spec = DEFAULT,
    store: Place = None,
) -> None:
    """Write one page for everybody: what was tried, what was learned, what to deploy where, how sure."""
    from cobed.report.campaign import write_report

    _check_outputs([out], spec, store, {}, tables=False)
    print(f"Report: {write_report(_open(spec, store, reading=True), out).resolve()}")


@app.command()
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
    campaign = _open(spec, store)
    print(campaign.withdraw(units or [], round=round, upload=upload))
    status = campaign.status()
    print(f"{status.num_outcomes} outcome(s) in all, {status.num_waiting} awaited.")


@app.command()
def status(
    uploads: Annotated[
        bool, typer.Option("--uploads", help="List the tables of outcomes and withdrawals too.")
    ] = False,
    spec: Spec = DEFAULT,
    store: Place = None,
) -> None:
    """Say where the campaign stands."""
    from cobed.campaign.database import readable_by_others

    campaign = _open(spec, store, reading=True)
    found = campaign.status()
    print(
        f"{found.name}: {found.num_outcomes} outcome(s), {found.num_waiting} awaited, {found.num_policies} deployment(s)."
    )
    print(found.rounds.to_string(index=False) if len(found.rounds) else "No round yet.")
    if exposed := readable_by_others(campaign.store.location):
        _warn([exposed])
    if uploads:
        table = campaign.uploads().fillna("")
        print(table.to_string(index=False) if len(table) else "No upload yet.")


@app.command()
def export(
    out: Annotated[Path, typer.Option(parser=output, help="Where to write it: .csv, .xlsx or .parquet.")] = Path(
        "campaign.csv"
    ),
    spec: Spec = DEFAULT,
    store: Place = None,
) -> None:
    """Write everything as one table: each unit of each round, its context, its action and what came back."""
    from cobed.campaign.tables import write_table

    _check_outputs([out], spec, store, {})
    frame = _open(spec, store, reading=True).export()
    print(f"{len(frame)} row(s) in {write_table(frame, out)}.")


def _place(spec: Path, store: str | None) -> str | Path:
    return spec.parent / "campaign.db" if store is None else store


def _open(spec: Path, store: str | None, *, create: bool = False, reading: bool = False) -> "Campaign":
    """The campaign of a spec, with the spec as it is now; begun where there is none and `create` allows it."""
    from cobed.campaign.campaign import Campaign
    from cobed.campaign.database import printable
    from cobed.campaign.store import holds_campaign

    place = _place(spec, store)
    if create and not holds_campaign(place):
        try:
            return Campaign.create(spec, place)
        except StorageError:
            # Another process may have begun it at the same time.
            if not holds_campaign(place):
                raise
    elif not holds_campaign(place):
        raise StorageError(
            f"There is no campaign in {printable(place)} yet. `cobed design` or `cobed observe` starts one."
        )
    return Campaign.open(place, spec, reading=reading)


def _pair(text: str, campaign: "Campaign") -> tuple[str, object]:
    unit, equals, action = text.partition("=")
    columns = campaign.spec.action.columns
    values = action.split(",")
    if not equals or (campaign.spec.action.options is None and len(values) != len(columns)):
        wanted = "UNIT=ACTION" if campaign.spec.action.options is not None else "UNIT=" + ",".join(columns).upper()
        raise CampaignError(f"--pin {text!r} is not of the form {wanted}.")
    return unit, action if campaign.spec.action.options is not None else dict(zip(columns, values, strict=True))


def _interval(found: dict[str, float]) -> str:
    return f"{found['mean']:.4g}, between {found['low']:.4g} and {found['high']:.4g}"


def _warn(warnings: "list[str] | tuple[str, ...]") -> None:
    for warning in warnings:
        print(f"Warning: {warning}")
