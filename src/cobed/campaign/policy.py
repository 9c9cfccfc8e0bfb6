"""What to do for each of many target units: the candidate action of the largest posterior expected reward.

`cobed.deploy` serves any model at a few thousand targets. A campaign has a hundred thousand rows, options forbidden for
some of them, and asks what the policy gains over simpler ones: all candidates are compared at once, block by block.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cobed.campaign.engine import candidate_actions, mean_rewards, thinned
from cobed.compilation import lean_jit
from cobed.deployment import INTERVAL, NEARLY_BEST
from cobed.models.base import AbstractModel
from cobed.types import Array, Bool, Float, Int, Params

# Numbers in one block of rewards (draws by targets by candidates): 32 MiB in single precision.
BLOCK = 2**23
RANKING_DRAWS = 128
# So many targets are enough to compare policies by.
MAX_COMPARED = 2_000


@dataclasses.dataclass(frozen=True)
class Comparison:
    """An expected reward a unit, or a difference of two, with an interval that holds it with probability 90%."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, draws: np.ndarray) -> "Comparison":
        tails = (1 - INTERVAL) / 2
        return cls(float(draws.mean()), *(float(q) for q in np.quantile(draws, [tails, 1 - tails])))


@dataclasses.dataclass(frozen=True)
class TargetPolicy:
    """One row a target: the action's vector, its expected reward with a 90% interval, and the probability that it is best.

    `value` is the expected reward of the policy a unit; `over_single` and `over_random` what it gains over giving all
    units the best single action, `single`, and over actions at random. Forbidden options are nobody's.
    """

    actions: np.ndarray
    expected: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p_best: np.ndarray
    value: Comparison
    over_single: Comparison
    over_random: Comparison
    single: np.ndarray

    def summary(self) -> dict[str, Any]:
        """The comparisons as JSON can hold them."""
        return {name: dataclasses.asdict(getattr(self, name)) for name in ("value", "over_single", "over_random")} | {
            "p_best": float(self.p_best.mean())
        }


def choose_actions(
    model: AbstractModel, draws: Params, contexts: np.ndarray, forbidden: np.ndarray | None = None
) -> TargetPolicy:
    """The policy for encoded contexts (T, C), under draws of psi of equal weight. `forbidden` (T, J) marks options."""
    candidates = candidate_actions(model.action_space)
    allowed = np.ones((len(contexts), len(candidates)), bool) if forbidden is None else ~forbidden
    # Hundreds of candidate numbers are ranked by fewer draws; the chosen one is judged by all.
    ranking = thinned(draws, RANKING_DRAWS) if model.action_space.continuous else draws
    num_draws = jax.tree.leaves(ranking)[0].shape[0]
    size = max(1, min(len(contexts), BLOCK // (num_draws * len(candidates))))
    blocks = []
    for start in range(0, len(contexts), size):
        rows = slice(start, start + size)
        count = len(contexts[rows])
        # One shape for all blocks, one compilation: the last one is filled up and cut again.
        filled = np.resize(contexts[rows], (size, contexts.shape[1])), np.resize(allowed[rows], (size, len(candidates)))
        chosen, own, p_best = _choose(model, ranking, draws, *map(jnp.asarray, (*filled, candidates)))
        own = np.asarray(own)[:count]
        blocks.append((np.asarray(chosen)[:count], own.mean(axis=1), *_interval(own), np.asarray(p_best)[:count]))
    chosen, expected, low, high, p_best = (np.concatenate(column) for column in zip(*blocks, strict=True))
    comparisons = _compare(model, draws, contexts, candidates, allowed, chosen)
    return TargetPolicy(candidates[chosen], expected, low, high, p_best, **comparisons)


@lean_jit
def _choose(
    model: AbstractModel,
    ranking: Params,
    draws: Params,
    contexts: Float[Array, "T C"],
    allowed: Bool[Array, "T J"],
    candidates: Float[Array, "J A"],
) -> tuple[Int[Array, " T"], Float[Array, "T N"], Float[Array, " T"]]:
    """The best allowed candidate at each context, its reward under every draw, and how often none is better."""
    rewards = mean_rewards(model, ranking, contexts, candidates)
    chosen = jnp.argmax(jnp.where(allowed, jnp.mean(rewards, axis=2), -jnp.inf), axis=1)
    own = jnp.take_along_axis(rewards, chosen[:, None, None], axis=1)[:, 0]
    best = jnp.max(jnp.where(allowed[:, :, None], rewards, -jnp.inf), axis=1)
    # Options: only rounding. Of numbers one on the grid is never alone the best.
    slack = NEARLY_BEST if model.action_space.continuous else 1e-5
    p_best = jnp.mean(best - own <= slack * jnp.abs(jnp.mean(best, axis=1, keepdims=True)), axis=1)
    if model.action_space.continuous:
        over_draws = jax.vmap(model.mean_reward, in_axes=(0, None, None))
        own = jax.vmap(over_draws, in_axes=(None, 0, 0))(draws, contexts, candidates[chosen])
    return chosen, own, p_best


def _compare(
    model: AbstractModel,
    draws: Params,
    contexts: np.ndarray,
    candidates: np.ndarray,
    allowed: np.ndarray,
    chosen: np.ndarray,
) -> dict[str, Any]:
    """The policy beside simpler ones, on the same targets: all, or evenly spaced ones where there are many."""
    rows = np.linspace(0, len(contexts) - 1, min(len(contexts), MAX_COMPARED)).round().astype(int)
    num_draws = jax.tree.leaves(draws)[0].shape[0]
    policy, singles, random = np.zeros(num_draws), np.zeros((num_draws, len(candidates))), np.zeros(num_draws)
    for part in np.array_split(rows, max(1, -(-num_draws * len(candidates) * len(rows) // BLOCK))):
        rewards = np.asarray(_mean_rewards(model, draws, jnp.asarray(contexts[part]), jnp.asarray(candidates)))
        own = rewards[np.arange(len(part)), chosen[part]]
        policy += own.sum(axis=0)
        # Where a single action is forbidden, the unit gets what the policy gives it.
        singles += np.where(allowed[part][:, :, None], rewards, own[:, None]).sum(axis=0).T
        random += np.einsum("tjn,tj->n", rewards, allowed[part] / allowed[part].sum(axis=1, keepdims=True))
    policy, singles, random = policy / len(rows), singles / len(rows), random / len(rows)
    best = int(np.argmax(singles.mean(axis=0)))
    return {
        "value": Comparison.of(policy),
        "over_single": Comparison.of(policy - singles[:, best]),
        "over_random": Comparison.of(policy - random),
        "single": candidates[best],
    }


_mean_rewards = lean_jit(mean_rewards)


def _interval(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Between them lie 90% of each row."""
    ordered = np.sort(values, axis=1)
    # Copies: a view would keep the whole block alive, and a million targets are two hundred blocks.
    low, high = (ordered[:, round(q * (values.shape[1] - 1))].copy() for q in ((1 - INTERVAL) / 2, (1 + INTERVAL) / 2))
    return low, high
