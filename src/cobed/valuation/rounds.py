"""Weights for outcomes gathered over rounds, in which the probabilities of actions may differ (Hadad et al., 2021).

Where the same share is drawn uniformly in every round, all rows weigh the same. Where probabilities were chosen from earlier
outcomes, rows with a small one are noisy, and estimates that pool them are no longer normal: weights by the root of the probability
hold the variance of each row's score level. A weight may depend on a unit's context, the policy and earlier outcomes, never on
the unit's own action or outcome.
"""

from typing import Literal, get_args

import numpy as np

from cobed.errors import ProblemError

Emphasis = Literal["pooled", "propensity", "variance"]
EMPHASES = get_args(Emphasis)


def emphasise(kind: str, rounds: np.ndarray, chosen: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Weights of rows (N,). `rounds` (N,) are their rounds, `chosen` (N,) the probability that chance gave what the policy says,
    `scores` (N,) those of a pooled estimate.

    pooled: all alike. propensity: the root of that probability. variance: by round, one over the variance of its scores, which
    judges the rounds that tell most, whoever was in them.
    """
    if kind == "pooled":
        return np.ones(len(rounds))
    if kind == "propensity":
        return np.sqrt(chosen)
    if kind != "variance":
        raise ProblemError(f"There is no weight {kind!r} for rounds. Allowed: {', '.join(EMPHASES)}.")
    weights = np.ones(len(rounds))
    numbers, counts = np.unique(rounds, return_counts=True)
    if counts.min() < 2:
        return weights
    spreads = np.array([scores[rounds == number].var(ddof=1) for number in numbers])
    if (spreads <= 0).any():
        return weights
    return (1 / spreads)[np.searchsorted(numbers, rounds)]
