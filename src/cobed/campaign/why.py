"""Why a unit gets its action: which of its columns move that decision, and by how much.

What the action is expected to earn more than the next best one depends on every column of the unit. A column moves that margin by
what it changes when the cell is taken from other targets in the place of the unit's own, on average over them:

    m(x) - mean_i m(x with column j of target i),   m = E[reward of the action] - E[reward of the other]
"""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cobed.campaign.encoding import encode
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.targets import ReadTargets
from cobed.errors import CampaignError

if TYPE_CHECKING:
    from cobed.inference.base import Posterior
    from cobed.models.base import AbstractModel

# Targets that stand for all where a cell is replaced, and draws of what is known.
NUM_OTHERS, NUM_DRAWS = 64, 128
# Units that are explained at once: a table of single units, not of a region.
MAX_UNITS = 1_000


def explain(
    spec: CampaignSpec, targets: ReadTargets, known: "tuple[AbstractModel, Posterior]", units: Sequence[str]
) -> pd.DataFrame:
    """One row for each context column of each unit, the one that moves its decision most first.

    Columns: the unit, its `action`, the next best one (`instead_of`; of numbers, the one that is best for all), their
    `margin` in expected reward, the `column`, its `cell`, and what it `moves` of the margin.
    """
    import jax.numpy as jnp
    import jax.random as jr

    from cobed.campaign.engine import candidate_actions
    from cobed.decide import judge, mean_rewards

    ids = targets.table.ids(spec.units.id)
    rows = _rows_of(ids, units, targets.table.name)
    contexts = encode(spec, targets.encoding, targets.cells)
    model, posterior = known
    draws = posterior.equal_draws(NUM_DRAWS, jr.key(spec.seed))
    candidates = candidate_actions(model.action_space)
    mine = contexts[rows]
    allowed = None if targets.allowed is None else targets.allowed[rows]
    choices = judge(model, candidates, draws, mine, allowed=allowed)
    assert choices.values is not None
    assert choices.chosen is not None
    values = choices.values if allowed is None else np.where(allowed, choices.values, -np.inf)
    some = np.random.default_rng(spec.seed).permutation(len(contexts))[:NUM_OTHERS]
    if spec.action.options is not None:
        others = _next_best(values, choices.chosen)
    else:
        everyone = judge(model, candidates, draws, contexts[some]).values
        assert everyone is not None
        others = _one_for_all(values, choices.chosen, int(everyone.mean(axis=0).argmax()))
    labels = targets.encoding.labels(spec)
    ends = np.cumsum([0, *(len(entries) for entries in labels.values())])
    words = spec.action.words(candidates)
    told: list[dict[str, Any]] = []
    for number, row in enumerate(rows):
        pair = candidates[[choices.chosen[number], others[number]]]
        # The unit itself, then with each column in turn from every one of the others.
        changed = np.tile(mine[number], (1 + len(labels) * len(some), 1))
        for place, (start, end) in enumerate(itertools.pairwise(ends)):
            part = slice(1 + place * len(some), 1 + (place + 1) * len(some))
            changed[part, start:end] = contexts[some, start:end]
        means = np.asarray(mean_rewards(model, draws, jnp.asarray(changed), jnp.asarray(pair))).mean(axis=2)
        margins = means[:, 0] - means[:, 1]
        moves = margins[0] - margins[1:].reshape(len(labels), len(some)).mean(axis=1)
        head = {
            spec.units.id: ids.iloc[row],
            "action": words[choices.chosen[number]],
            "instead_of": words[others[number]],
            "margin": float(margins[0]),
        }
        told += [
            head | {"column": name, "cell": targets.cells[name][row], "moves": float(moves[place])}
            for place, name in sorted(enumerate(labels), key=lambda entry: -abs(moves[entry[0]]))
        ]
    return pd.DataFrame(told)


def sentences(spec: CampaignSpec, told: pd.DataFrame) -> list[str]:
    """What `explain` found, in words."""
    said = []
    for unit, rows in told.groupby(spec.units.id, sort=False):
        first = rows.iloc[0]
        said.append(
            f"{unit}: {spec.action.label(first['action'])}, expected to bring {first['margin']:.4g} {spec.reward_words} more than "
            f"{spec.action.label(first['instead_of'])}. Beside other targets, this margin is moved by"
        )
        said += [f"  {row['column']} = {_cell(row['cell'])}: {row['moves']:+.4g}" for _, row in rows.iterrows()]
    return said


def _rows_of(ids: pd.Series, units: Sequence[str], name: str) -> np.ndarray:
    """The positions of these units in the table."""
    if not 1 <= len(units) <= MAX_UNITS:
        raise CampaignError(f"Name 1 to {MAX_UNITS:,} units to be told about, got {len(units):,}.")
    places = pd.Index(ids).get_indexer_for(list(units))
    if (places < 0).any():
        raise CampaignError(
            f"{name} has no unit {units[int(np.argmin(places))]!r}. Give ids as they stand in {ids.name!r}."
        )
    return places


def _next_best(values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """The position of the option that each unit (U, K) would get if there were not its own, (U,)."""
    rest = values.copy()
    rest[np.arange(len(values)), chosen] = -np.inf
    return rest.argmax(axis=1)


def _one_for_all(values: np.ndarray, chosen: np.ndarray, single: int) -> np.ndarray:
    """The position of the number that is best for all, (U,); of units that get just that one, the better bound."""
    last = values.shape[1] - 1
    bound = np.where((values[:, 0] > values[:, -1]) & (chosen != 0) | (chosen == last), 0, last)
    return np.where(chosen == single, bound, single)


def _cell(value: Any) -> str:
    return "missing" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
