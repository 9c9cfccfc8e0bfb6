"""What the model of a campaign says of units whose outcomes it has not seen: refitted without each fold in turn."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.campaign.engine import POLICY_DRAWS, candidate_actions
from cobed.campaign.logged import COBED, RANDOM, SINGLE
from cobed.compilation import lean_jit
from cobed.data import Data
from cobed.decide import Comparison, judge
from cobed.decide.engine import BLOCK, rewards_of
from cobed.inference.base import Posterior
from cobed.models.base import AbstractModel
from cobed.types import Array, Float, Params

# So many parts of the data, each judged by what the others taught.
NUM_FOLDS = 5
# What learns from some outcomes: a model and what is known about its psi.
Learner = Callable[[Data], tuple[AbstractModel, Posterior]]


@dataclasses.dataclass(frozen=True)
class Judged:
    """Units to judge policies on: their positions (N,) among the data, their folds, what each may get (N, J) of the candidates, the
    actions (N, A) of fixed policies by name, and a seed."""

    places: np.ndarray
    folds: np.ndarray
    allowed: np.ndarray
    fixed: Mapping[str, np.ndarray]
    seed: int


class OutOfFold(NamedTuple):
    """By unit: E[r] of the action it got (N,); by policy, its actions (N, A), none at random, and E[r] under it (N,)."""

    fitted: np.ndarray
    actions: dict[str, np.ndarray]
    predicted: dict[str, np.ndarray]


def cross_fit(learn: Learner, data: Data, units: Sequence[str], judged: Judged) -> OutOfFold:
    """Fit without each fold; the policies that are learned decide for the units of the fold by that. `units` (M,) name the rows.

    All fits have the same number of rows, so that they share compiled programs: at most a few rows of the longer ones are left out.
    """
    contexts, got = np.asarray(data.contexts), np.asarray(data.actions)
    number, dim = len(judged.places), got.shape[1]
    fitted = np.zeros(number)
    actions = {name: np.zeros((number, dim), np.float32) for name in (COBED, SINGLE)} | dict(judged.fixed)
    predicted = {name: np.zeros(number) for name in (*actions, RANDOM)}
    for rows, training in _splits(units, judged):
        model, posterior = learn(data.rows(training))
        draws = posterior.equal_draws(POLICY_DRAWS, jr.key(judged.seed))
        # One shape for all folds, one compilation: the smaller ones are filled up and cut again.
        filled = np.resize(rows, np.bincount(judged.folds).max())
        listed = decide_for(model, draws, contexts[judged.places], judged.allowed)
        actions[COBED][rows], actions[SINGLE][rows] = listed.best[rows], listed.single[rows]
        predicted[RANDOM][rows] = listed.at_random[rows]
        expected = functools.partial(mean_of, model, draws, contexts[judged.places[filled]])
        fitted[rows] = expected(got[judged.places[filled]])[: len(rows)]
        for name, chosen in actions.items():
            predicted[name][rows] = expected(np.nan_to_num(chosen[filled]))[: len(rows)]
    return OutOfFold(fitted, actions, predicted)


class Listed(NamedTuple):
    """The best action for each unit, the best single one where it may get that, both (N, A), and E[r] of random ones (N,)."""

    best: np.ndarray
    single: np.ndarray
    at_random: np.ndarray


def decide_for(model: AbstractModel, draws: Params, contexts: np.ndarray, allowed: np.ndarray) -> Listed:
    """What the draws say of units with these contexts (N, C), who may get the `allowed` (N, J) candidates."""
    candidates = candidate_actions(model.action_space)
    choices = judge(model, candidates, draws, contexts, allowed=allowed)
    values = choices.values
    assert values is not None
    best = int(np.argmax(np.where(allowed, values, choices.expected[:, None]).sum(axis=0)))
    single = np.where(allowed[:, [best]], candidates[best], choices.actions)
    return Listed(choices.actions, single, (values * allowed).sum(axis=1) / allowed.sum(axis=1))


def _splits(units: Sequence[str], judged: Judged) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each fold, the rows to judge and the data to learn from, in which none of their units is."""
    names = np.asarray(units, object)
    parts = []
    for fold in np.unique(judged.folds):
        rows = np.flatnonzero(judged.folds == fold)
        inside = set(names[judged.places[rows]])
        parts.append((rows, np.flatnonzero([name not in inside for name in names])))
    least = min(len(training) for _, training in parts)
    rng = np.random.default_rng(judged.seed)
    for rows, training in parts:
        yield rows, np.sort(rng.permutation(training)[:least])


def mean_of(model: AbstractModel, draws: Params, contexts: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """E[r] of one action at each context, (T,)."""
    return np.concatenate(
        [np.asarray(block).mean(axis=1) for block in _pairs_in_blocks(model, draws, contexts, actions)]
    )


def word_of_model(model: AbstractModel, draws: Params, contexts: np.ndarray, actions: np.ndarray | None) -> Comparison:
    """What the model itself says a policy is worth per unit, with a 90% interval; of actions at random where none are given."""
    candidates = candidate_actions(model.action_space) if actions is None else [None]
    total: Any = 0.0
    for candidate in candidates:
        chosen = actions if candidate is None else np.broadcast_to(candidate, (len(contexts), len(candidate)))
        assert chosen is not None
        total += sum(np.asarray(block).sum(axis=0) for block in _pairs_in_blocks(model, draws, contexts, chosen))
    return Comparison.of(total / len(contexts) / len(candidates))


def _pairs_in_blocks(
    model: AbstractModel, draws: Params, contexts: np.ndarray, actions: np.ndarray
) -> Iterator[Float[Array, "T N"]]:
    size = max(1, BLOCK // jax.tree.leaves(draws)[0].shape[0])
    for start in range(0, len(contexts), size):
        part = slice(start, start + size)
        yield _pairs(model, draws, jnp.asarray(contexts[part]), jnp.asarray(actions[part], jnp.float32))


@lean_jit
def _pairs(
    model: AbstractModel, draws: Params, contexts: Float[Array, "T C"], actions: Float[Array, "T A"]
) -> Float[Array, "T N"]:
    return jax.vmap(lambda context, action: rewards_of(model, draws, context, action))(contexts, actions)
