"""A policy beside simpler ones, on the same targets and draws: one action for all, and actions at random."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cobed.compilation import lean_jit
from cobed.decide.engine import BLOCK, Choices, interval, mean_rewards
from cobed.errors import ProblemError
from cobed.models.base import AbstractModel
from cobed.types import Params

# So many targets are enough to compare policies by.
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
class Comparisons:
    """`value` is the expected reward of the policy per unit; `over_single` and `over_random` are what it gains over giving all
    units the best single action, `single`, and over actions at random. What is not allowed is nobody's.
    """

    value: Comparison
    over_single: Comparison
    over_random: Comparison
    single: np.ndarray

    def summary(self) -> dict[str, Any]:
        """The comparisons as JSON can hold them."""
        return {name: dataclasses.asdict(getattr(self, name)) for name in ("value", "over_single", "over_random")}


def compare(
    model: AbstractModel,
    draws: Params,
    targets: np.ndarray,
    candidates: np.ndarray,
    choices: Choices,
    allowed: np.ndarray | None = None,
) -> Comparisons:
    """Choices among `candidates` (J, A) at all targets (T, C), or at evenly spaced ones where there are many.

    The draws have equal weight. `allowed` (T, J) marks the candidates that a target may get.
    """
    if choices.chosen is None:
        raise ProblemError("Policies are compared among listed actions; these choices were searched for.")
    chosen = choices.chosen
    allowed = np.ones((len(targets), len(candidates)), bool) if allowed is None else allowed
    rows = np.linspace(0, len(targets) - 1, min(len(targets), MAX_COMPARED)).round().astype(int)
    num_draws = jax.tree.leaves(draws)[0].shape[0]
    policy, singles, random = np.zeros(num_draws), np.zeros((num_draws, len(candidates))), np.zeros(num_draws)
    for part in np.array_split(rows, max(1, -(-num_draws * len(candidates) * len(rows) // BLOCK))):
        rewards = np.asarray(_mean_rewards(model, draws, jnp.asarray(targets[part]), jnp.asarray(candidates)))
        own = rewards[np.arange(len(part)), chosen[part]]
        policy += own.sum(axis=0)
        # Where a single action is forbidden, the unit gets what the policy gives it.
        singles += np.where(allowed[part][:, :, None], rewards, own[:, None]).sum(axis=0).T
        random += np.einsum("tjn,tj->n", rewards, allowed[part] / allowed[part].sum(axis=1, keepdims=True))
    policy, singles, random = policy / len(rows), singles / len(rows), random / len(rows)
    best = int(np.argmax(singles.mean(axis=0)))
    return Comparisons(
        value=Comparison.of(policy),
        over_single=Comparison.of(policy - singles[:, best]),
        over_random=Comparison.of(policy - random),
        single=candidates[best],
    )


_mean_rewards = lean_jit(mean_rewards)
