"""From draws of psi to choices: every target gets the action of the largest expected reward, block by block of targets.

The same for `cobed.deploy`, campaigns and plans. Where the actions to choose among can be listed, all of them are compared under
the same draws at once; elsewhere each target's best action is searched for.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cobed.compilation import lean_jit
from cobed.decide.search import Chooser
from cobed.inference.base import thinned
from cobed.models.base import AbstractModel, over_draws
from cobed.optimum import AbstractOptimum
from cobed.types import Array, Bool, Float, Int, Params

# The probability that a reward lies between `low` and `high`.
INTERVAL = 0.9
# A continuous action is never exactly the best; within this share of the best expected reward it is as good as. Of named actions
# only rounding is allowed for.
NEARLY_BEST, ROUNDING = 0.05, 1e-5
# Numbers in one block of rewards (draws by targets by candidates): 32 MiB in single precision.
BLOCK = 2**23
# More candidates than this are ranked by fewer draws; the chosen one is judged by all.
MANY_CANDIDATES, RANKING_DRAWS = 64, 128


@dataclasses.dataclass(frozen=True)
class Choices:
    """One row per target: the action, its expected reward, the 90% interval of its reward, and the probability that it is best.

    `tolerance` (T,) is what another action may be better by and still count as no better. Where the actions could be listed:
    `chosen` (T,) is the position of the action among them, and `values` (T, J) the expected reward of every named action.
    """

    actions: np.ndarray
    expected: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p_best: np.ndarray
    tolerance: np.ndarray
    chosen: np.ndarray | None = None
    values: np.ndarray | None = None


def decide(
    model: AbstractModel,
    optimum: AbstractOptimum,
    draws: Params,
    targets: np.ndarray,
    *,
    weights: Float[Array, " N"] | None = None,
    allowed: np.ndarray | None = None,
) -> Choices:
    """The best action at each target (T, C) under draws of psi, stacked N, of these weights (None: all alike).

    `optimum` says among what: the actions it lists, of which `allowed` (T, J) marks those a target may get, or those it searches.
    """
    weights = _weights_of(draws) if weights is None else weights
    candidates = optimum.candidates(model.action_space)
    if candidates is None:
        way = _searching(model, optimum, draws, weights, targets)
    else:
        way = _comparing(model, candidates, (draws, weights), targets, allowed)
    return _in_blocks(way, len(targets), weights, keep_values=not model.action_space.continuous)


def judge(
    model: AbstractModel,
    candidates: np.ndarray,
    draws: Params,
    targets: np.ndarray,
    *,
    weights: Float[Array, " N"] | None = None,
    allowed: np.ndarray | None = None,
    chosen: np.ndarray | None = None,
) -> Choices:
    """Choices among `candidates` (J, A) made elsewhere, `chosen` (T,), told as `decide` tells its own; without them, the best.

    `values` (T, J) has the expected reward of every candidate, also where these are numbers.
    """
    weights = _weights_of(draws) if weights is None else weights
    way = _comparing(model, candidates, (draws, weights), targets, allowed, chosen)
    return _in_blocks(way, len(targets), weights, keep_values=True)


def _weights_of(draws: Params) -> Float[Array, " N"]:
    number = jax.tree.leaves(draws)[0].shape[0]
    return jnp.full(number, 1 / number)


class Block(NamedTuple):
    """What is found of some targets: the reward of the chosen action under every draw, and what `Choices` holds."""

    earned: Float[Array, "T N"]
    p_best: Float[Array, " T"]
    tolerance: Float[Array, " T"]
    actions: Float[Array, "T A"]
    chosen: Int[Array, " T"] | None
    values: Float[Array, "T J"] | None


# How many targets make a block, and what is found of those in these rows.
Way = tuple[int, Callable[[Int[np.ndarray, " B"]], Block]]


def _in_blocks(way: Way, num_targets: int, weights: Float[Array, " N"], keep_values: bool) -> Choices:
    size, choose = way
    size, host_weights = max(1, min(num_targets, size)), np.asarray(weights, np.float64)
    blocks: list[Choices] = []
    for start in range(0, num_targets, size):
        rows = np.arange(start, min(start + size, num_targets))
        # One shape for all blocks, one compilation: the last one is filled up and cut again.
        block = choose(np.resize(rows, size))
        earned, p_best, tolerance, actions = (np.asarray(part)[: len(rows)] for part in block[:4])
        chosen = None if block.chosen is None else np.asarray(block.chosen)[: len(rows)]
        values = np.asarray(block.values)[: len(rows)] if keep_values and block.values is not None else None
        expected = earned.astype(np.float64) @ host_weights
        blocks.append(Choices(actions, expected, *interval(earned, host_weights), p_best, tolerance, chosen, values))
    columns = zip(*(vars(block).values() for block in blocks), strict=True)
    return Choices(*(None if parts[0] is None else np.concatenate(parts) for parts in columns))  # pyright: ignore[reportArgumentType]


def _searching(
    model: AbstractModel, optimum: AbstractOptimum, draws: Params, weights: Array, targets: np.ndarray
) -> Way:
    chooser = Chooser(model, jnp.asarray(targets), len(weights), optimum)
    # The rewards of the chosen and of the best action under every draw are kept, and some as much again.
    size = BLOCK // (4 * len(weights))
    return size, lambda rows: _search(chooser, model, optimum, draws, weights, jnp.asarray(targets[rows]))


def _comparing(
    model: AbstractModel,
    candidates: np.ndarray,
    known: tuple[Params, Float[Array, " N"]],
    targets: np.ndarray,
    allowed: np.ndarray | None,
    given: np.ndarray | None = None,
) -> Way:
    """Among `candidates` (J, A) by draws and their weights; `given` (T,) are choices that were made already."""
    ranking = known
    if len(candidates) > MANY_CANDIDATES and np.ptp(np.asarray(known[1])) == 0:
        fewer = thinned(known[0], RANKING_DRAWS)
        ranking = fewer, _weights_of(fewer)
    if allowed is None:
        allowed = np.ones((len(targets), len(candidates)), bool)

    def choose(rows: np.ndarray) -> Block:
        contexts, actions, mask = map(jnp.asarray, (targets[rows], candidates, allowed[rows]))
        return _compare(
            model, ranking, known, contexts, actions, mask, None if given is None else jnp.asarray(given[rows])
        )

    return BLOCK // (len(ranking[1]) * len(candidates)), choose


@lean_jit
def _compare(
    model: AbstractModel,
    ranking: tuple[Params, Float[Array, " M"]],
    judging: tuple[Params, Float[Array, " N"]],
    targets: Float[Array, "T C"],
    candidates: Float[Array, "J A"],
    allowed: Bool[Array, "T J"],
    given: Int[Array, " T"] | None,
) -> Block:
    """The best allowed candidate by the draws and weights of `ranking`, its rewards under those of `judging`; or those given."""
    ranking_draws, ranking_weights = ranking
    rewards = mean_rewards(model, ranking_draws, targets, candidates)
    values = rewards @ ranking_weights
    chosen = jnp.argmax(jnp.where(allowed, values, -jnp.inf), axis=1) if given is None else given
    earned = jnp.take_along_axis(rewards, chosen[:, None, None], axis=1)[:, 0]
    best = jnp.max(jnp.where(allowed[:, :, None], rewards, -jnp.inf), axis=1)
    p_best, tolerance = _chance(model, earned, best, ranking_weights)
    if len(ranking_weights) < len(judging[1]):
        earned = jax.vmap(lambda target, action: rewards_of(model, judging[0], target, action))(
            targets, candidates[chosen]
        )
    return Block(earned, p_best, tolerance, candidates[chosen], chosen, values)


@lean_jit
def _search(
    chooser: Chooser,
    model: AbstractModel,
    optimum: AbstractOptimum,
    draws: Params,
    weights: Float[Array, " N"],
    targets: Float[Array, "T C"],
) -> Block:
    """The same where the best action is searched for; nothing is listed."""

    def at(target: Float[Array, " C"]) -> tuple[Array, Array, Array]:
        _, action = chooser(draws, weights, target)
        best = over_draws(model, lambda psi: optimum(model, psi, target)[0], draws)
        return action, rewards_of(model, draws, target, action), best

    actions, earned, best = jax.lax.map(at, targets)
    p_best, tolerance = _chance(model, earned, best, weights)
    return Block(earned, p_best, tolerance, actions, None, None)


def _chance(
    model: AbstractModel, earned: Array, best: Array, weights: Array
) -> tuple[Float[Array, " T"], Float[Array, " T"]]:
    """The probability that no action is better than `earned` (T, N) by more than a tolerance, and that tolerance."""
    slack = NEARLY_BEST if model.action_space.continuous else ROUNDING
    tolerance = slack * (jnp.abs(best @ weights) if model.action_space.continuous else jnp.max(jnp.abs(best), axis=1))
    return (best - earned <= tolerance[:, None]) @ weights, tolerance


def rewards_of(model: AbstractModel, draws: Params, target: Array, action: Array) -> Float[Array, " N"]:
    """What an action earns at one target under every draw."""
    return over_draws(model, lambda psi: model.mean_reward(psi, target, action), draws)


def mean_rewards(
    model: AbstractModel, draws: Params, contexts: Float[Array, "T C"], candidates: Float[Array, "J A"]
) -> Float[Array, "T J N"]:
    """E[y | a_j, c_t, psi_n] of every context, candidate action and draw."""
    over_actions = jax.vmap(lambda context, action: rewards_of(model, draws, context, action), in_axes=(None, 0))
    return jax.vmap(over_actions, in_axes=(0, None))(contexts, candidates)


def interval(values: np.ndarray, weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Between them lies the middle 90% of each row of `values` (T, N), whose entries have these weights (N,), and its mean.

    A few large draws can move the mean out of the middle: nobody believes a range without the expected value in it.
    """
    low, high = _middle(values, weights)
    mean = np.average(values, axis=1, weights=weights)
    return np.minimum(low, mean), np.maximum(high, mean)


def _middle(values: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    tails = (1 - INTERVAL) / 2, (1 + INTERVAL) / 2
    if weights is None or np.ptp(weights) == 0:
        ranks = [round(q * (values.shape[1] - 1)) for q in tails]
        ordered = np.partition(values, ranks, axis=1)
        # Copies: a view would keep the whole block alive, and a million targets are two hundred blocks.
        low, high = (ordered[:, rank].copy() for rank in ranks)
        return low, high
    order = np.argsort(values, axis=1)
    ordered, heights = np.take_along_axis(values, order, axis=1), np.cumsum(weights[order], axis=1)
    rows = np.arange(len(values))
    low, high = (ordered[rows, np.argmax(heights >= q * heights[:, -1:], axis=1)] for q in tails)
    return low, high
