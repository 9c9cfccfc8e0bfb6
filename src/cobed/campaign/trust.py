"""What checks look at, from a campaign's tables and spec: the only place that knows both."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax.random as jr
import numpy as np

from cobed.campaign import records as kept
from cobed.campaign.columns import Column as Kind
from cobed.campaign.constraints import limits_of, permitted
from cobed.campaign.encoding import Cells, Encoding, encode, read_cells
from cobed.campaign.engine import POLICY_DRAWS, learn_from, policy_optimum
from cobed.campaign.logged import chances_of
from cobed.campaign.observe import engine_rows
from cobed.campaign.records import Planned, Round
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.summary import propensity_of
from cobed.campaign.tables import Complaints, Table
from cobed.checks import MAX_ROWS, Actions, Check, Column, Evidence, Predictions, Targets, Units, run_checks
from cobed.checks.predictions import Learn
from cobed.data import Data
from cobed.decide import decide
from cobed.errors import CampaignError
from cobed.inference.base import Posterior
from cobed.models.base import AbstractModel
from cobed.types import Params

if TYPE_CHECKING:
    from cobed.campaign.campaign import Campaign

# Draws that outcomes are predicted by, and targets that stand for all where the policy's value is told.
NUM_DRAWS, MAX_TARGETS = 1_024, 500
AT_RANDOM = "Random"  # the designer that leaves actions to chance


def trust(campaign: "Campaign", table: Table | None) -> list[Check]:
    """What every check says of a campaign whose policy is for the targets in this table."""
    return run_checks(gather(campaign, table))


def gather(campaign: "Campaign", table: Table | None) -> Evidence:
    """All that checks look at."""
    spec, encoding = campaign.spec, campaign.encoding()
    if encoding is None:
        raise CampaignError("The campaign has seen no table yet. Design a round, or give it historical outcomes.")
    cells = None
    if table is not None:
        complaints = Complaints(table)
        # Missing cells and new levels are not bad.
        cells = read_cells(spec, encoding, table, complaints, strict=False)
        complaints.tell()
        encoding = encoding.knowing(spec, cells)
    with campaign.store.reading() as connection:
        rounds, planned = kept.read_rounds(connection), list(kept.read_planned(connection))
    units = units_of(spec, encoding, planned, rounds)
    known = campaign.posterior(encoding) if units.is_back.any() else None

    def learn(data: Data) -> tuple[AbstractModel, Params]:
        model, posterior = learn_from(spec, encoding, campaign.directory, data, quickly=True)
        return model, posterior.equal_draws(POLICY_DRAWS, jr.key(spec.seed))

    return evidence_of(spec, units, None if cells is None else targets_of(spec, encoding, cells), known, learn)


def units_of(spec: CampaignSpec, encoding: Encoding, planned: Sequence[Planned], rounds: Sequence[Round]) -> Units:
    """All units of all rounds, as the checks see them."""
    rows = [entry.row for entry in planned]
    cells: dict[str, list[Any]] = {name: [row.context.get(name) for row in rows] for name in spec.context}
    contexts, wanted = engine_rows(spec, encoding, [row.context for row in rows], [row.action for row in rows])
    outcomes = [entry.outcome for entry in planned]
    got = spec.action.space.parse_all(
        [r.action if o is None else o.action for r, o in zip(rows, outcomes, strict=True)]
    )
    numbers = np.array([entry.round for entry in planned], int)
    at_random, guessed, propensities = assigned_by_chance(spec, cells, planned, rounds, wanted)
    return Units(
        ids=np.array([row.unit for row in rows], dtype=object),
        rounds=numbers,
        columns=columns_of(spec, encoding, cells, contexts),
        planned=wanted,
        got=got,
        outcomes=np.array([np.nan if o is None or o.value is None else o.value for o in outcomes], float),
        at_random=at_random,
        are_guessed=guessed,
        propensities=propensities,
    )


def assigned_by_chance(
    spec: CampaignSpec, cells: Cells, planned: Sequence[Planned], rounds: Sequence[Round], wanted: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Whose action chance alone decided (N,), for whom of these nobody said the probabilities, and with which ones each option was
    given (N, K), None for numbers.

    Units whose probability is stored or told; those of a round by the designer Random, unless they were pinned or refused
    something, or a rule over the whole round had a say; and history of more than one action, in the shares that it has.
    """
    numbers = np.array([entry.round for entry in planned], int)
    is_told = np.array([bool(propensity_of(spec, entry)) for entry in planned], bool)
    free = np.array([entry.row.state != "pinned" and not entry.row.rejected for entry in planned], bool)
    drawn = [r.id for r in rounds if r.summary.get("method") == AT_RANDOM and not limits_of(spec, r.num_units)]
    by_designer, guessed = np.isin(numbers, drawn) & free & ~is_told, (numbers == 0) & ~is_told
    guessed &= len(np.unique(wanted[guessed], axis=0)) > 1
    at_random = is_told | by_designer | guessed
    if spec.action.options is None:
        return at_random, guessed, None
    allowed = permitted(spec, cells)
    chances = np.ones(wanted.shape) if allowed is None else allowed.astype(float)
    chances /= np.maximum(chances.sum(axis=1, keepdims=True), 1)
    chances[is_told] = chances_of(spec, [entry for entry, told in zip(planned, is_told, strict=True) if told])
    if guessed.any():
        chances[guessed] = wanted[guessed].mean(axis=0)
    return at_random, guessed, np.where(at_random[:, None], chances, 0.0)


def columns_of(spec: CampaignSpec, encoding: Encoding, cells: Cells, contexts: np.ndarray) -> tuple[Column, ...]:
    """The context columns of N rows with these cells and encoded numbers (N, C)."""
    columns, start = [], 0
    for name, labels in encoding.labels(spec).items():
        kind, end = spec.context[name], start + len(labels)
        stored = np.array([*cells[name], None], dtype=object)[:-1]
        groups = group_names(encoding, name, kind, cells[name])
        columns.append(Column(name, tuple(labels), contexts[:, start:end], stored, groups, kind.is_number))
        start = end
    return tuple(columns)


def group_names(encoding: Encoding, name: str, kind: Kind, cells: Sequence[Any]) -> np.ndarray:
    """The group that tables for people count each cell in: a level, a third of the numbers, (missing) or (new)."""
    absent = encoding.absent(name, kind, cells)
    groups = np.full(len(cells), "", dtype=object)
    for fact, rows in absent.items():
        groups[rows] = f"({fact})"
    known = np.flatnonzero(~np.any(list(absent.values()), axis=0))
    if len(known):
        groups[known] = [str(group) for group in kind.groups([cells[int(row)] for row in known])]
    return groups


def targets_of(spec: CampaignSpec, encoding: Encoding, cells: Cells) -> Targets:
    """Targets, as the checks see them."""
    return Targets(columns_of(spec, encoding, cells, encode(spec, encoding, cells)), permitted(spec, cells))


def evidence_of(
    spec: CampaignSpec,
    units: Units,
    targets: Targets | None,
    known: tuple[AbstractModel, Posterior] | None,
    learn: Learn | None = None,
) -> Evidence:
    """All that checks look at; `known` is what was learned, None where no outcome has come back, and `learn` learns from others."""
    numbers = list((spec.action.numbers or {}).values())
    low, high = np.array([n.low for n in numbers]), np.array([n.high for n in numbers])
    names = spec.action.options or tuple(spec.action.numbers or ())
    options = list(spec.action.options or ())
    return Evidence(
        units=units,
        actions=Actions(tuple(names)) if options else Actions(tuple(names), low, high),
        law=spec.outcome.law,
        outcome=spec.outcome.column,
        reward=spec.reward_words,
        targets=targets,
        predictions=None if known is None else predictions_of(spec, units, targets, known, learn),
        reference=options.index(spec.value.current) if spec.value.current in options else None,
        seed=spec.seed,
    )


def predictions_of(
    spec: CampaignSpec,
    units: Units,
    targets: Targets | None,
    known: tuple[AbstractModel, Posterior],
    learn: Learn | None = None,
) -> Predictions:
    """What the model says of the rows that came back; where these are many, of some of them drawn at random."""
    model, posterior = known
    rows, rng = np.flatnonzero(units.is_back), np.random.default_rng(spec.seed)
    if len(rows) > MAX_ROWS:
        rows = np.sort(rng.choice(rows, MAX_ROWS, replace=False))
    contexts = np.concatenate([column.numbers for column in units.columns], axis=1)
    data = Data(contexts[rows], units.got[rows], units.outcomes[rows])
    where, allowed = contexts[rows], None
    if targets is not None:
        where, allowed = np.concatenate([column.numbers for column in targets.columns], axis=1), targets.allowed
    some = np.sort(rng.choice(len(where), min(MAX_TARGETS, len(where)), replace=False))
    where, allowed = where[some].astype(np.float32), None if allowed is None else allowed[some]
    optimum, draws = policy_optimum(model.action_space), posterior.equal_draws(POLICY_DRAWS, jr.key(spec.seed))
    chosen = decide(model, optimum, draws, where, allowed=allowed).actions
    params, family = dataclasses.replace(posterior, params=(posterior.params, posterior.family)).equal_draws(
        NUM_DRAWS, jr.key(spec.seed)
    )
    return Predictions(model, params, data, rows, (where, chosen), spec.seed, family, learn)
