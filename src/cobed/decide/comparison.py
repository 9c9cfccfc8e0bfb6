"""A policy beside simpler ones, on the same targets and draws: what is done today, one action for all, and actions at random."""

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cobed.compilation import lean_jit
from cobed.decide.engine import BLOCK, MANY_CANDIDATES, ROUNDING, Choices, interval, mean_rewards, rewards_of
from cobed.errors import ProblemError
from cobed.models.base import AbstractModel
from cobed.types import Array, Bool, Float, Int, Params

# Of many actions, so many targets are enough to compare policies by.
MAX_COMPARED = 2_000


@dataclasses.dataclass(frozen=True)
class Comparison:
    """An expected reward per unit, or a difference of two, with an interval that holds it with probability 90%."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, draws: np.ndarray) -> "Comparison":
        low, high = interval(draws[None])
        return cls(float(draws.mean()), float(low[0]), float(high[0]))


@dataclasses.dataclass(frozen=True)
class Gains:
    """What an action earns more than the reference at each target, with a 90% interval from the same draws of both: (T,) arrays
    of the chosen action; of every named action (T, K), with the probability that none is better."""

    expected: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p_best: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class Comparisons:
    """`value` is the expected reward of the policy per unit; `over_single` and `over_random` are what it gains over giving all
    units the best single action, `single`, and over actions at random; `over_current`, over what is done today, where that was
    given. What is not allowed is nobody's.

    The reference of `gains`, of the chosen action, and `every`, of all named ones (None for numbers), is what is done today, or
    else the best single action.
    """

    value: Comparison
    over_single: Comparison
    over_random: Comparison
    single: np.ndarray
    over_current: Comparison | None
    gains: Gains
    every: Gains | None = None

    def summary(self) -> dict[str, Any]:
        """The comparisons as JSON can hold them."""
        names = ["value", "over_single", "over_random", *(["over_current"] if self.over_current else [])]
        return {name: dataclasses.asdict(getattr(self, name)) for name in names}


class Targets(NamedTuple):
    """Some targets: their contexts, what each may get, the position of what it gets, and what it got as reference."""

    contexts: Float[Array, "T C"]
    allowed: Bool[Array, "T J"]
    chosen: Int[Array, " T"]
    reference: Float[Array, "T A"]


class Block(NamedTuple):
    """Rewards above the reference, of every action; how probably each is best; and sums over the
    targets: of the policy, the reference, each single action, and actions at random."""

    above: Float[Array, "T J N"]
    p_best: Float[Array, "T J"]
    policy: Float[Array, " N"]
    reference: Float[Array, " N"]
    singles: Float[Array, "J N"]
    random: Float[Array, " N"]


def compare(
    model: AbstractModel,
    draws: Params,
    targets: np.ndarray,
    candidates: np.ndarray,
    choices: Choices,
    allowed: np.ndarray | None = None,
    current: np.ndarray | None = None,
) -> Comparisons:
    """Choices among `candidates` (J, A) at all targets (T, C); where candidates are many, sums are over evenly spaced targets.

    The draws have equal weight. `allowed` (T, J) marks the candidates that a target may get, `current` (T, A), or (A,) for all, are
    the actions of today.
    """
    if choices.chosen is None:
        raise ProblemError("Policies are compared among listed actions; these choices were searched for.")
    num_targets, num_draws = len(targets), jax.tree.leaves(draws)[0].shape[0]
    allowed = np.ones((num_targets, len(candidates)), bool) if allowed is None else allowed
    everything = Targets(targets, allowed, choices.chosen, np.zeros((num_targets, candidates.shape[1]), np.float32))  # pyright: ignore[reportArgumentType]
    few = len(candidates) <= MANY_CANDIDATES
    rows = np.arange(num_targets)
    if not few:
        rows = np.linspace(0, num_targets - 1, min(num_targets, MAX_COMPARED)).round().astype(int)
    single = _best_single(model, draws, everything, candidates, rows, choices)
    if current is None:
        # Where the single action is forbidden, the unit gets what the policy gives it.
        reference = np.where(allowed[:, [single]], candidates[single], candidates[choices.chosen])
    else:
        reference = np.broadcast_to(current, (num_targets, candidates.shape[1]))
    everything = everything._replace(reference=reference.astype(np.float32))
    sums = [np.zeros(num_draws), np.zeros(num_draws), np.zeros((len(candidates), num_draws)), np.zeros(num_draws)]
    by_block: list[tuple[np.ndarray, ...]] = []
    for part in _blocks(rows, num_draws * len(candidates)):
        block = _compare(model, draws, _some(everything, part), jnp.asarray(candidates))
        for total, more in zip(sums, block[2:], strict=True):
            total += np.asarray(more)
        if few:
            above = np.asarray(block.above)
            ends = interval(above.reshape(-1, num_draws))
            every = (above.mean(axis=2), *(end.reshape(above.shape[:2]) for end in ends), np.asarray(block.p_best))
            by_block.append(every)
    policy, today, singles, random = (total / len(rows) for total in sums)
    names = {
        "value": Comparison.of(policy),
        "over_single": Comparison.of(policy - singles[single]),
        "over_random": Comparison.of(policy - random),
        "single": candidates[single],
        "over_current": None if current is None else Comparison.of(policy - today),
    }
    if not few:
        return Comparisons(**names, gains=_gains_of_chosen(model, draws, everything, candidates))
    every = [np.concatenate(parts) for parts in zip(*by_block, strict=True)]
    chosen = np.arange(num_targets), choices.chosen
    of_chosen = Gains(*(part[chosen] for part in every[:3]))
    return Comparisons(**names, gains=of_chosen, every=None if choices.values is None else Gains(*every))


def _best_single(
    model: AbstractModel, draws: Params, targets: Targets, candidates: np.ndarray, rows: np.ndarray, choices: Choices
) -> int:
    """The position of the action that is best for all; units that may not get it get what the policy gives them."""
    values = choices.values
    if values is not None:
        earned = values[np.arange(len(values)), choices.chosen]
        return int(np.argmax(np.where(targets.allowed, values, earned[:, None]).sum(axis=0, dtype=np.float64)))
    total = np.zeros(len(candidates))
    for part in _blocks(rows, jax.tree.leaves(draws)[0].shape[0] * len(candidates)):
        total += np.asarray(_compare(model, draws, _some(targets, part), jnp.asarray(candidates)).singles).mean(axis=1)
    return int(np.argmax(total))


def _gains_of_chosen(model: AbstractModel, draws: Params, targets: Targets, candidates: np.ndarray) -> Gains:
    blocks = []
    for part in _blocks(np.arange(len(targets.contexts)), 4 * jax.tree.leaves(draws)[0].shape[0]):
        some = _some(targets, part)
        above = np.asarray(_pairs(model, draws, some, jnp.asarray(candidates)[some.chosen]))
        blocks.append((above.mean(axis=1), *interval(above)))
    return Gains(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))


def _blocks(rows: np.ndarray, numbers_each: int) -> Iterator[np.ndarray]:
    """The rows in parts, so that the numbers of each part fit into a block."""
    yield from np.array_split(rows, max(1, -(-numbers_each * len(rows) // BLOCK)))


def _some(targets: Targets, rows: np.ndarray) -> Targets:
    return Targets(*(jnp.asarray(part[rows]) for part in targets))


@lean_jit
def _compare(model: AbstractModel, draws: Params, targets: Targets, candidates: Float[Array, "J A"]) -> Block:
    rewards = mean_rewards(model, draws, targets.contexts, candidates)
    earned = jnp.take_along_axis(rewards, targets.chosen[:, None, None], axis=1)[:, 0]
    reference = _rewards(model, draws, targets.contexts, targets.reference)
    allowed = targets.allowed[:, :, None]
    best = jnp.max(jnp.where(allowed, rewards, -jnp.inf), axis=1)
    tolerance = ROUNDING * jnp.max(jnp.abs(best), axis=1)[:, None, None]
    return Block(
        rewards - reference[:, None],
        jnp.mean(allowed & (best[:, None] - rewards <= tolerance), axis=2),
        earned.sum(axis=0),
        reference.sum(axis=0),
        jnp.where(allowed, rewards, earned[:, None]).sum(axis=0),
        jnp.einsum("tjn,tj->n", rewards, targets.allowed / targets.allowed.sum(axis=1, keepdims=True)),
    )


@lean_jit
def _pairs(model: AbstractModel, draws: Params, targets: Targets, actions: Float[Array, "T A"]) -> Float[Array, "T N"]:
    """Rewards of these actions above those of the reference."""
    contexts = targets.contexts
    return _rewards(model, draws, contexts, actions) - _rewards(model, draws, contexts, targets.reference)


def _rewards(
    model: AbstractModel, draws: Params, contexts: Float[Array, "T C"], actions: Float[Array, "T A"]
) -> Float[Array, "T N"]:
    return jax.vmap(lambda context, action: rewards_of(model, draws, context, action))(contexts, actions)
