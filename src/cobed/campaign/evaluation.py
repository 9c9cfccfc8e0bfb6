"""What policies are worth by the outcomes of units whose action chance chose, beside what the model says of them."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from cobed.campaign.constraints import permitted
from cobed.campaign.encoding import Encoding
from cobed.campaign.logged import (
    COBED,
    RANDOM,
    SINGLE,
    TODAY,
    ByChance,
    matching,
    net_rewards,
    read_by_chance,
    read_choices,
)
from cobed.campaign.observe import engine_rows
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.store import Store
from cobed.campaign.tables import Table
from cobed.errors import CampaignError
from cobed.valuation import EMPHASES, METHODS, Logged, Worth, assign_folds, difference, emphasise

if TYPE_CHECKING:
    from cobed.campaign.crossfit import Judged, OutOfFold


@dataclasses.dataclass(frozen=True)
class PolicyWorth:
    """A policy by its name: its value per unit and its gain over the reference, by outcomes alone; the model's own word about it,
    (mean, low, high), about the same units. `num_units` are those with a random action that it decides for."""

    name: str
    value: Worth
    gain: Worth | None
    model: tuple[float, float, float] | None
    num_units: int


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Policies and what they are worth per unit, in `unit`; gains are over `reference`. `notes` are sentences about the data."""

    policies: tuple[PolicyWorth, ...]
    unit: str
    reference: str
    num_units: int
    notes: tuple[str, ...] = ()

    def to_frame(self) -> pd.DataFrame:
        """A row per policy."""
        return pd.DataFrame([_row(policy) for policy in self.policies])

    def summary(self) -> dict[str, Any]:
        """All of it as JSON can hold it."""
        rows = [{key: _plain(value) for key, value in _row(policy).items()} for policy in self.policies]
        return {
            "unit": self.unit,
            "reference": self.reference,
            "units": self.num_units,
            "policies": rows,
            "notes": list(self.notes),
        }

    @property
    def troubles(self) -> list[str]:
        """Of each policy about which the data cannot tell, why."""
        return [f"{policy.name}: {policy.value.trouble}" for policy in self.policies if policy.value.trouble]


def _row(policy: PolicyWorth) -> dict[str, Any]:
    value, gain = policy.value, policy.gain
    model = policy.model or (float("nan"),) * 3
    return {
        "policy": policy.name, "value": value.mean, "error": value.error, "low": value.low, "high": value.high,
        "gain": gain.mean if gain else float("nan"), "gain_low": gain.low if gain else float("nan"),
        "gain_high": gain.high if gain else float("nan"), "matched": value.num_matched, "units": policy.num_units,
        "model": model[0], "model_low": model[1], "model_high": model[2], "trouble": value.trouble,
    }  # fmt: skip


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value


class Asked(NamedTuple):
    """How policies are judged: by the random units of one round or of all, by which method, with which weights over rounds."""

    round: int | None = None
    method: str = "doubly robust"
    weights: str = "pooled"

    def checked(self) -> tuple[str, str]:
        """The method and the weights, where there are such."""
        for what, name, known in (("method", self.method, METHODS), ("weights", self.weights, EMPHASES)):
            if name not in known:
                raise CampaignError(f"{what} = {name!r} is unknown. Allowed: {', '.join(known)}.")
        return self.method, self.weights


def nothing_random(spec: CampaignSpec, logged: ByChance, round: int | None) -> None:
    """`CampaignError` where no outcome is of a unit whose action was random, with what to do."""
    if len(logged.places):
        return
    where = "" if round is None else f" in round {round}"
    raise CampaignError(
        f"No outcome{where} is of a unit whose action was random, so that outcomes alone say of no policy what it is worth. "
        "Give the next round random_share = 0.1 under [design]. Where history was assigned at random, say so: history_shares "
        "under [design], or a column 'propensity' beside its outcomes."
    )


def evaluate_policies(
    spec: CampaignSpec,
    encoding: Encoding,
    directory: Path | None,
    store: Store,
    tables: Sequence[Table],
    asked: "Asked",
) -> Evaluation:
    """cobed's policy, the best single action, today's, random actions and those of tables."""
    from cobed.campaign.engine import learn_from
    from cobed.data import Data

    method, weights = asked.checked()
    logged = store.read(lambda connection: read_by_chance(connection, spec, asked.round))
    nothing_random(spec, logged, asked.round)
    back = [(entry.row.context, entry.outcome) for entry in logged.entries if entry.outcome is not None]
    rows = engine_rows(spec, encoding, [context for context, _ in back], [outcome.action for _, outcome in back])
    data = Data(*rows, [outcome.value for _, outcome in back])
    learn = functools.partial(learn_from, spec, encoding, directory, quickly=True)
    got = np.asarray(data.actions, float)
    rewards = net_rewards(spec, got, np.asarray(data.outcomes, float))
    fixed, decides, notes = _fixed_policies(spec, logged, tables)
    judged = _judged(spec, logged, fixed)
    units = [entry.row.unit for entry in logged.entries]
    from cobed.campaign.crossfit import cross_fit

    found = cross_fit(learn, data, units, judged)
    usable, said = _supported(spec, logged, found)
    rows = np.flatnonzero(usable)
    ledger = _Ledger(spec, logged.part(rows), rewards[logged.places[rows]], got[logged.places[rows]], method, weights)
    model_says = _words_of_model(spec, learn(data), np.asarray(data.contexts)[logged.places[rows]], judged, rows)
    reference = TODAY if TODAY in fixed else SINGLE
    policies = []
    for name in [*found.actions, RANDOM]:
        has = decides.get(name, np.ones(len(usable), bool))[rows]
        worths = [ledger.worth(each, found, rows, has) for each in (name, reference)]
        gain = None if name == reference else difference(*worths)
        policies.append(
            PolicyWorth(name, worths[0], gain, model_says(name, has) if has.any() else None, int(has.sum()))
        )
    notes = [*notes, *said, *_left_out(spec, encoding, logged)]
    return Evaluation(tuple(policies), spec.reward_words, reference, len(rows), tuple(notes))


def _fixed_policies(
    spec: CampaignSpec, logged: ByChance, tables: Sequence[Table]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], list[str]]:
    """Policies that no outcome moves: their actions by name, for which units they decide, and what to say of them."""
    number, space = len(logged.places), spec.action.space
    fixed, decides, notes = {}, {}, []
    if spec.value.current is not None:
        fixed[TODAY] = np.tile(np.asarray(space.parse(spec.value.current), np.float32), (number, 1))
    elif spec.value.current_column in spec.context and spec.action.options is not None:
        cells = [logged.entries[place].row.context[spec.value.current_column] for place in logged.places]
        decides[TODAY] = np.array([cell in spec.action.options for cell in cells], bool)
        words = [cell if cell in spec.action.options else spec.action.options[0] for cell in cells]
        fixed[TODAY] = np.asarray(space.parse_all(words), np.float32)
    elif spec.value.current_column is not None:
        notes.append(
            f"What is done today stands in the column {spec.value.current_column!r} of the targets, which is not stored. Give "
            f"it as a table of the units in the experiment: {', '.join([spec.units.id, *spec.action.columns])}."
        )
    for table in tables:
        chosen, has = read_choices(spec, table, logged.units)
        fixed[table.name], decides[table.name] = chosen.astype(np.float32), has
        if not has.any():
            notes.append(
                f"{table.name} decides for none of the {number:,} units whose action was random and whose outcome is known. "
                f"Outcomes can judge a policy on these units alone: give a table with their {spec.units.id!r} and what the policy "
                "gives them. Rows of other units have no outcome to be judged by, whatever their columns say."
            )
        elif not has.all():
            notes.append(f"{table.name} is judged on the {has.sum():,} of {number:,} units for which it decides.")
    if tables:
        notes.append(
            "A table is judged as it is. Where its actions were learned from the outcomes of this campaign, its value is too "
            "high; that of cobed's policy is not, because each unit is decided for by what the others taught."
        )
    return fixed, decides, notes


def _judged(spec: CampaignSpec, logged: ByChance, fixed: Mapping[str, np.ndarray]) -> "Judged":
    from cobed.campaign.crossfit import NUM_FOLDS, Judged
    from cobed.campaign.engine import candidate_actions

    units = logged.units
    cells = {name: [logged.entries[place].row.context[name] for place in logged.places] for name in spec.context}
    mask = permitted(spec, cells)
    if mask is None:
        mask = np.ones((len(units), len(candidate_actions(spec.action.space))), bool)
    if len(set(units)) < NUM_FOLDS:
        raise CampaignError(
            f"{len(set(units))} unit(s) with a random action have an outcome; {NUM_FOLDS} are needed at least to judge a policy by."
        )
    return Judged(logged.places, assign_folds(units, NUM_FOLDS, spec.seed), mask, fixed, spec.seed)


def _supported(spec: CampaignSpec, logged: ByChance, found: "OutOfFold") -> tuple[np.ndarray, list[str]]:
    """Which units count: history in which chance could not give what one of these policies does, counts for none of them."""
    everybody = np.ones(len(logged.places), bool)
    if spec.action.options is None:
        return everybody, []
    chosen = np.stack([np.nan_to_num(actions) for actions in found.actions.values()])
    impossible = ((chosen > 0.5) & (logged.chances == 0)).any(axis=(0, 2)) & (logged.rounds == 0)
    if not impossible.any():
        return everybody, []
    history = logged.rounds == 0
    if history.all():
        return everybody, []
    return ~history, [
        f"The {history.sum():,} random units of history are left out: chance could not give all options there, and the "
        f"policies give {impossible.sum():,} of them one of the others."
    ]


@dataclasses.dataclass(frozen=True)
class _Ledger:
    """The random units that count, with what they got (N, A) and what that was worth (N,); how policies are judged."""

    spec: CampaignSpec
    logged: ByChance
    rewards: np.ndarray
    got: np.ndarray
    method: str
    weights: str

    def worth(self, name: str, found: "OutOfFold", rows: np.ndarray, has: np.ndarray) -> Worth:
        """Of a policy on those units, `has` (N,), that count here. `rows` are the positions of all in `found`."""
        number, logged = int(has.sum()), self.logged.part(np.flatnonzero(has))
        if number < 2:
            return Worth.unknown(
                number, 0, "The data cannot tell: the policy decides for no unit whose action was random."
            )
        if name in found.actions:
            chosen = found.actions[name][rows][has]
            weights, chance = matching(self.spec, logged, self.got[has], chosen)
            if (chance <= 0).any():
                return Worth.unknown(number, int((weights > 0).sum()), _impossible(int((chance <= 0).sum()), number))
        else:
            # Chance gives every option that a unit may get alike, as this policy does.
            chance = logged.propensity
            weights = self._uniform(logged) / chance
        table = Logged(self.rewards[has], weights, found.predicted[name][rows][has], found.fitted[rows][has])
        first = METHODS[self.method](table, None)
        if self.weights == "pooled" or first.trouble:
            return first
        return METHODS[self.method](table, emphasise(self.weights, logged.rounds, chance, first.scores))

    def _uniform(self, logged: ByChance) -> np.ndarray:
        """The probability, of numbers the density, with which a uniform action is what each unit got."""
        if self.spec.action.options is None:
            return logged.propensity
        return 1 / np.maximum((logged.chances > 0).sum(axis=1), 1)


def _impossible(count: int, number: int) -> str:
    return (
        f"The data cannot tell: for {count:,} of {number:,} units the policy gives an option that they could not get by chance, "
        "such as one that is forbidden to them."
    )


def _words_of_model(spec: CampaignSpec, known: Any, contexts: np.ndarray, judged: "Judged", rows: np.ndarray) -> Any:
    """By name and units, what the model says of a policy learned from all outcomes."""
    import jax.random as jr

    from cobed.campaign.crossfit import decide_for, word_of_model
    from cobed.campaign.engine import POLICY_DRAWS

    model, posterior = known
    draws = posterior.equal_draws(POLICY_DRAWS, jr.key(spec.seed))
    listed = decide_for(model, draws, contexts, judged.allowed[rows])
    actions = {name: chosen[rows] for name, chosen in judged.fixed.items()}
    actions |= {COBED: listed.best, SINGLE: listed.single}

    def word(name: str, has: np.ndarray) -> tuple[float, float, float]:
        said = word_of_model(model, draws, contexts[has], None if name == RANDOM else actions[name][has])
        return said.mean, said.low, said.high

    return word


def _left_out(spec: CampaignSpec, encoding: Encoding, logged: ByChance) -> list[str]:
    notes = []
    if logged.num_others:
        notes.append(f"{logged.num_others:,} unit(s) got something else than chance had given them, and are left out.")
    if spec.budget.is_given:
        notes.append("cobed's policy is judged without [budget], which is about the targets together.")
    if spec.action.options is None:
        notes.append("A unit counts as having got what a policy says where each number is within a tenth of its range.")
    return notes
