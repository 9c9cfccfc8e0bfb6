"""Outcomes of units whose action chance chose, with the probabilities; and the policies of tables, matched by the units' ids."""

import dataclasses
from typing import Any

import numpy as np

from cobed.campaign import records as kept
from cobed.campaign.encoding import read_actions
from cobed.campaign.records import Planned
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.summary import propensity_of
from cobed.campaign.tables import Complaints, Table

# The policies that are always judged.
COBED, SINGLE, TODAY, RANDOM = "cobed's policy", "the best single action", "what is done today", "at random"
# Of numbers, a unit counts as having got what a policy says where each is within this share of its range.
NEAR = 0.1


@dataclasses.dataclass(frozen=True)
class ByChance:
    """All outcomes (M,), and those of units whose action was random: (N,) positions among them, probabilities (of numbers,
    densities) of what they got, rounds; `chances` (N, K) the probability of every option. `num_others` got something else than
    chance had given them and are left out.
    """

    entries: list[Planned]
    places: np.ndarray
    propensity: np.ndarray
    rounds: np.ndarray
    chances: np.ndarray
    num_others: int

    @property
    def units(self) -> list[str]:
        return [self.entries[place].row.unit for place in self.places]

    def part(self, rows: np.ndarray) -> "ByChance":
        """Some of the random ones."""
        names = ("places", "propensity", "rounds", "chances")
        return dataclasses.replace(self, **{name: getattr(self, name)[rows] for name in names})


def read_by_chance(connection: Any, spec: CampaignSpec, round: int | None) -> ByChance:
    """The random units of all rounds, or of one."""
    entries = list(kept.read_planned(connection, kept.is_back))
    probabilities = [propensity_of(spec, entry) if round in (None, entry.round) else None for entry in entries]
    places = np.array([place for place, p in enumerate(probabilities) if p is not None and p > 0], int)
    num_others = sum(
        entry.row.chance is not None and entry.outcome is not None and entry.outcome.action != entry.row.action
        for entry in entries
        if round in (None, entry.round)
    )
    random = [entries[place] for place in places]
    return ByChance(
        entries,
        places,
        np.array([probabilities[place] for place in places], float),
        np.array([entry.round for entry in random], int),
        chances_of(spec, random),
        num_others,
    )


def chances_of(spec: CampaignSpec, random: list[Planned]) -> np.ndarray:
    """The probability of every option for each unit whose action was random, (N, K).

    Where history tells only that of what each got, the options' shares stand for the others: which of them are possible is what is
    asked of these.
    """
    options = spec.action.options or ()
    chosen_by = [entry.row.chance or {} for entry in random]
    got = [entry.row.action for entry in random if entry.row.chance is not None and "probability" in entry.row.chance]
    shares = {name: got.count(name) / len(got) for name in options} if got else {}
    rows = [
        chance.get("among", shares if "probability" in chance else spec.design.history_shares) for chance in chosen_by
    ]  # fmt: skip
    return np.array([[row.get(name, 0.0) for name in options] for row in rows]).reshape(len(random), len(options))


def net_rewards(spec: CampaignSpec, actions: np.ndarray, outcomes: np.ndarray) -> np.ndarray:
    """What the outcomes (N,) after these actions (N, A) are worth, as [value] says."""
    if not spec.value.is_money:
        return outcomes
    amounts, shares = spec.value.amounts(tuple(spec.action.options or spec.action.numbers or ()))
    return spec.value.outcome * (1 - actions @ shares) * outcomes - actions @ amounts


def matching(
    spec: CampaignSpec, logged: ByChance, got: np.ndarray, chosen: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """By unit, one over the probability of its action where a policy `chosen` (N, A) gives that, else 0; and the probability that
    chance gave what the policy says (N,). Of numbers, "that" is whatever is near."""
    if spec.action.options is not None:
        same, probability = np.all(got == chosen, axis=1), (logged.chances * chosen).sum(axis=1)
        return same / logged.propensity, probability
    low, high = np.array([[number.low, number.high] for number in (spec.action.numbers or {}).values()]).T
    reach = NEAR * (high - low)
    same = (np.abs(got - chosen) <= reach * (1 + 1e-6)).all(axis=1)
    window = (np.minimum(chosen + reach, high) - np.maximum(chosen - reach, low)).prod(axis=1)
    probability = logged.propensity * window
    return same / probability, probability


def read_choices(spec: CampaignSpec, table: Table, units: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """What a table decides for these units: actions (N, A), NaN where it does not, and whether it does (N,)."""
    ids = table.ids(spec.units.id).tolist()
    table.require(spec.action.columns, "which say what the policy gives to each unit")
    complaints = Complaints(table)
    words = read_actions(spec, table, complaints)
    complaints.tell()
    given = {unit: word for unit, word in zip(ids, words, strict=True) if word is not None}
    decides = np.array([unit in given for unit in units], bool)
    chosen = np.full((len(units), spec.action.space.dim), np.nan)
    if decides.any():
        chosen[decides] = spec.action.space.parse_all([given[unit] for unit in units if unit in given])
    return chosen, decides
