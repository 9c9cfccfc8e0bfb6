"""The stateful part: rounds of design and outcomes over weeks, kept in one database. Everything it uses is stateless."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from cobed.campaign import records as kept
from cobed.campaign.encoding import Encoding, action_columns
from cobed.campaign.evaluation import Asked, Evaluation, evaluate_policies
from cobed.campaign.ids import check_known
from cobed.campaign.making import make_round
from cobed.campaign.marks import round_marks
from cobed.campaign.observe import (
    Receipt,
    Withdrawal,
    add_outcomes,
    engine_rows,
    stored_encoding,
    withdraw_units,
    withdraw_upload,
)
from cobed.campaign.pins import mark_units
from cobed.campaign.policy import make_policy, policy_names
from cobed.campaign.records import Round
from cobed.campaign.scaling import refit
from cobed.campaign.selection import select_units
from cobed.campaign.spec import CampaignSpec, read_spec, spec_hash
from cobed.campaign.store import Store
from cobed.campaign.stored_spec import check_changes, parse_stored
from cobed.campaign.summary import Status, campaign_card, export_table
from cobed.campaign.tables import Table, read_table
from cobed.campaign.targets import read_targets, split_targets
from cobed.errors import CampaignError, TableError

if TYPE_CHECKING:
    from cobed.checks import Check
    from cobed.data import Data
    from cobed.inference.base import Posterior
    from cobed.models.base import AbstractModel
    from cobed.progress import Reporter


class Campaign:
    """An experiment in rounds. `recommend`, `add_outcomes` and `deploy` may be called in any order, by any process."""

    def __init__(self, store: Store, spec: CampaignSpec, directory: Path | None = None):
        """Use `create` and `open`."""
        self.store, self.spec, self.directory = store, spec, directory
        self.deployed: dict[str, Any] | None = None  # what `deploy` found last
        self._known: tuple[Any, AbstractModel, Posterior] | None = None

    @classmethod
    def create(cls, spec: str | Path | CampaignSpec, store: str | Path | None = None) -> "Campaign":
        """A new campaign from a campaign.toml. By default it is kept in campaign.db beside it."""
        if isinstance(spec, CampaignSpec):
            read, text, directory = spec, spec.stated(), Path.cwd()
        else:
            read, text = read_spec(spec)
            directory = Path(spec).resolve().parent
        values = {"spec": text, "spec_hash": spec_hash(text)}
        return cls(Store.create(store or directory / "campaign.db", values), read, directory)

    @classmethod
    def open(cls, store: str | Path, spec: str | Path | None = None, *, reading: bool = False) -> "Campaign":
        """An existing campaign. With `spec`, a campaign.toml changed since takes the place of the stored one.

        With `reading`, it does so in memory only: opening then waits for no other process.
        """
        opened = Store.open(store)
        with opened.reading() as connection:
            text = kept.read_meta(connection).get("spec")
            old = parse_stored(text, opened.label)
            if spec is None:
                return cls(opened, old, None)
            new, new_text = read_spec(spec)
            check_changes(connection, old, new, Path(spec).name, opened.label)
        if new_text != text and not reading and not opened.reading_only:
            with opened.transaction() as connection:
                check_changes(connection, old, new, Path(spec).name, opened.label)
                kept.write_meta(connection, "spec", new_text)
                kept.write_meta(connection, "spec_hash", spec_hash(new_text))
        return cls(opened, new, Path(spec).resolve().parent)

    def close(self) -> None:
        self.store.close()

    # A round.

    def recommend(
        self,
        units: Any,
        targets: Any = None,
        *,
        take: int | None = None,
        again: bool = False,
        new_round: bool = False,
        budget: Any = None,
        progress: "Reporter | None" = None,
    ) -> pd.DataFrame:
        """The same rows, order and index with the action to try on each unit, designed from all outcomes so far.

        `targets` is where the policy will be deployed; by default the units themselves. `take` draws so many of the rows at
        random. Units that have an outcome or wait for one are left out unless `again`; those that wait count as fixed.
        A round on the same units without outcomes is not repeated: the stored one comes back, designed anew where
        `targets`, pins or rejections have changed. With `new_round` the other units of the table are a round of their own.
        """
        table = read_table(units, "units")
        given = None if targets is None else read_table(targets, "targets")
        self._check_free(table, self.spec.action.columns)
        with self.store.reading() as connection:
            check_known(connection, self.spec, table, table.ids(self.spec.units.id).tolist())
            chosen = select_units(connection, self.spec, table, take, again=again, new_round=new_round)
        part = chosen.table
        target_table = part if given is None else given
        if len(part) > self.spec.max_units:
            raise CampaignError(
                f"{table.name} has {len(part):,} units, and a round of this spec takes at most {self.spec.max_units:,}, "
                "designed jointly (named options of the linear family without constraints take most). "
                f"Experiment on a random part of them: cobed design --take {self.spec.max_units}. Deploy takes any number."
            )
        # The same units, targets and wishes: the same round.
        marks = round_marks(self.spec, part.hash + target_table.hash)
        if chosen.states and not chosen.is_stale and chosen.rounds[-1].units_hash in marks:
            rows = [chosen.states[unit] for unit in part.ids(self.spec.units.id)]
        else:
            rows = make_round(self, chosen, target_table, marks[0], (budget, progress))
        return part.with_columns(action_columns(self.spec, [row.action for row in rows]))

    def pin(self, actions: Mapping[str, Any]) -> None:
        """Decide the actions of single units of the last round; the next `recommend` on it redesigns the rest."""
        mark_units(self.store, self.spec, actions, ())

    def reject(self, units: Iterable[str]) -> None:
        """Refuse what single units of the last round were given; the next `recommend` on it gives them something else."""
        if self.spec.action.options is None:
            raise CampaignError("A number cannot be rejected: the next best one is beside it. Pin another value.")
        mark_units(self.store, self.spec, {}, _names(units))

    def refit(self, units: Any, targets: Any = None) -> None:
        """Scale contexts by these tables instead of the first ones; an error once there are outcomes. Then `recommend`."""
        tables = [read_table(units, "units"), *([] if targets is None else [read_table(targets, "targets")])]
        refit(self.store, self.spec, tables)

    # What came back.

    def add_outcomes(self, table: Any, *, round: int | None = None) -> Receipt:
        """Take outcomes: partial, late, corrected or unplanned rows are normal; the same table twice changes nothing.

        Rows of units that no round planned are history: they need their context and action columns too.
        """
        return add_outcomes(self.store, self.spec, read_table(table, "outcomes"), round)

    def withdraw(self, units: Iterable[str] = (), *, round: int | None = None, upload: int | None = None) -> Withdrawal:
        """Take back outcomes: of single units, in `round` or the last each is in, which are then awaited again; or all
        that one upload said, so that what counted before counts again. What was told stays in the history."""
        names = _names(units)
        if upload is not None and not names and round is None:
            return withdraw_upload(self.store, upload)
        if upload is not None or not names:
            raise CampaignError("Give either the units whose outcomes to withdraw, or the number of an upload.")
        return withdraw_units(self.store, names, round)

    def data(self, encoding: Encoding | None = None) -> "Data | None":
        """All outcomes so far in the engine's numbers, of the campaign's encoding or another; None where there are none."""
        from cobed.data import Data

        with self.store.reading() as connection:
            encoding = encoding or stored_encoding(connection, self.spec)
            planned = list(kept.read_planned(connection, kept.is_back))
        back = [(entry.row.context, entry.outcome) for entry in planned if entry.outcome is not None]
        if not back or encoding is None:
            return None
        contexts, actions = [context for context, _ in back], [outcome.action for _, outcome in back]
        return Data(*engine_rows(self.spec, encoding, contexts, actions), [outcome.value for _, outcome in back])

    def posterior(self, encoding: Encoding | None = None) -> "tuple[AbstractModel, Posterior]":
        """The model and what is known about its psi after all outcomes so far, for contexts of this or the own encoding."""
        encoding = encoding or self.encoding()
        if encoding is None:
            raise CampaignError("The campaign has seen no table yet. Design a round, or give it historical outcomes.")
        return self._posterior(encoding)

    def _posterior(self, encoding: Encoding) -> "tuple[AbstractModel, Posterior]":
        from cobed.campaign.engine import learn_from

        learned_from = (self.store.read(kept.outcomes_mark), encoding.to_json())
        if self._known is None or self._known[0] != learned_from:
            self._known = (learned_from, *learn_from(self.spec, encoding, self.directory, self.data(encoding)))
        return self._known[1:]

    # What to do.

    def deploy(self, targets: Any, *, rules: int | None = None) -> pd.DataFrame:
        """The same rows, order and index with the best action for each, its expected outcome and how sure that is.

        With `rules` the actions follow a tree of so many questions in a row about the columns, instead of the best for each. What
        it is worth is in `deployed`, and recorded in a store that can be written. One row that cannot be used is an error;
        `split` takes such rows out first.
        """
        table = read_table(targets, "targets")
        frame, summary = self.policy(table, rules)
        self.deployed, created = summary, kept.now("microseconds")
        if not self.store.reading_only:
            self.store.write(lambda connection: kept.write_policy(connection, created, table.name, summary))
        return frame

    def split(self, targets: Any) -> tuple[Table, pd.DataFrame]:
        """The targets that `deploy` can use, to be given to it, and the other rows with their number and the reason.

        An error where no row can be used.
        """
        table = read_table(targets, "targets")
        good, rejected, complaints = split_targets(self.spec, self._deployed_encoding(), table)
        if good is None:
            complaints.tell()
        return good or table, rejected

    def policy(self, table: Table, rules: int | None = None) -> tuple[pd.DataFrame, dict[str, Any]]:
        """What `deploy` gives, and what it is worth, without storing it."""
        self._check_free(table, [*self.spec.action.columns, *policy_names(self.spec).values()])
        table.ids(self.spec.units.id)
        # Bad cells are told before the posterior is computed.
        read = read_targets(self.spec, self._deployed_encoding(), table)
        return make_policy(self.spec, read, self._posterior(read.encoding), rules)

    def why(self, targets: Any, units: Iterable[str]) -> pd.DataFrame:
        """Which columns of these targets move what they get, and by how much: a row for each column of each unit, the one that
        moves most first. Budgets and rules over all targets are left out of account."""
        from cobed.campaign.why import explain

        table = read_table(targets, "targets")
        read = read_targets(self.spec, self._deployed_encoding(), table)
        return explain(self.spec, read, self._posterior(read.encoding), _names(units))

    def evaluate(
        self, *tables: Any, round: int | None = None, method: str = "doubly robust", weights: str = "pooled"
    ) -> Evaluation:
        """What policies are worth per unit by the outcomes of units whose action was random: cobed's, the best single action,
        today's, actions at random, and those of `tables` of units and actions. `round` takes the random units of one round.

        `method` is "doubly robust" or "inverse propensity"; `weights` of rows over rounds are "pooled", "propensity" or "variance".
        """
        given = [read_table(table, f"policy {number}") for number, table in enumerate(tables, start=1)]
        asked = Asked(round, method, weights)
        return evaluate_policies(self.spec, self._deployed_encoding(), self.directory, self.store, given, asked)

    def _deployed_encoding(self) -> Encoding:
        with self.store.reading() as connection:
            has_outcomes = any(r.num_outcomes for r in kept.read_rounds(connection))
            encoding = stored_encoding(connection, self.spec) if has_outcomes else None
        if encoding is None:
            raise CampaignError(
                "No outcome has come back yet, so there is nothing to deploy by. Add outcomes with `cobed observe`."
            )
        return encoding

    # Where it stands.

    def trust(self, targets: Any = None) -> "list[Check]":
        """What may be wrong with the experiment and with what was learned: one check each, with a verdict and what to do.

        `targets` is where the policy is, or will be, deployed.
        """
        from cobed.campaign.trust import trust

        return trust(self, None if targets is None else read_table(targets, "targets"))

    def status(self) -> Status:
        """Rounds, outcomes and policies so far."""
        with self.store.reading() as connection:
            return Status.of(self.spec.name, kept.read_rounds(connection), kept.count_policies(connection))

    def _repr_html_(self) -> str:
        return campaign_card(self.spec, self.status(), self.store.label, self.policies())

    def uploads(self) -> pd.DataFrame:
        """Every table of outcomes and every withdrawal: its number, what it was, how many rows it changed."""
        names = ["upload", "name", "created", "round", "rows", "withdrawn"]
        uploads = [{**row, "upload": row["id"]} for row in self.store.read(kept.read_uploads)]
        return pd.DataFrame({name: [row[name] for row in uploads] for name in names}, dtype=object)

    def export(self) -> pd.DataFrame:
        """Everything as one table: a row for each unit of each round, with its context, what was planned and what came back."""
        with self.store.reading() as connection:
            return export_table(self.spec, kept.read_planned(connection), self.store.label)

    def policies(self) -> list[dict[str, Any]]:
        """What was deployed so far: counts, expected rewards and gains."""
        return self.store.read(kept.read_policies)

    def encoding(self) -> Encoding | None:
        """How contexts become numbers; None before the first table."""
        return self.store.read(lambda connection: stored_encoding(connection, self.spec))

    def rounds(self) -> list[Round]:
        """All rounds with their summaries, history as round 0."""
        return self.store.read(kept.read_rounds)

    def _check_free(self, table: Table, columns: Iterable[str]) -> None:
        for column in columns:
            if column in table.frame.columns:
                raise TableError(
                    f"{table.name} has a column {column!r} already, which would be written over. Rename or drop it."
                )


def _names(units: Iterable[str]) -> list[str]:
    """Units by name; one alone may be given as it is."""
    return [units] if isinstance(units, str) else [str(unit) for unit in units]
