"""Weights for outcomes of rounds in which the probabilities of actions may differ (Hadad et al., 2021; Zhan et al., 2021).

Where the same share is drawn uniformly in every round, all rows weigh the same. Where probabilities were chosen from earlier
outcomes, a round in which what the policy says was rare is noisy: weights level the variance of the rounds. All rows of a round
weigh the same, so that every weighted mean is about the same kind of units.
"""

from typing import Literal, get_args

import numpy as np

from cobed.errors import ProblemError

Emphasis = Literal["pooled", "propensity", "variance"]
EMPHASES = get_args(Emphasis)


def emphasise(kind: str, rounds: np.ndarray, chosen: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Weights of rows (N,). `rounds` (N,) are their rounds, `chosen` (N,) the probability that chance gave what the policy says,
    `scores` (N,) those of a pooled estimate.

    pooled: all alike. propensity: the root of that probability, averaged over the round; nothing in it depends on the outcomes of
    the round. variance: one over the variance of the round's scores, for rounds on units of one kind.
    """
    if kind == "pooled":
        return np.ones(len(rounds))
    numbers, places = np.unique(rounds, return_inverse=True)
    if kind == "propensity":
        return np.array([np.mean(1 / chosen[rounds == number]) ** -0.5 for number in numbers])[places]
    if kind != "variance":
        raise ProblemError(f"There is no weight {kind!r} for rounds. Allowed: {', '.join(EMPHASES)}.")
    parts = [scores[rounds == number] for number in numbers]
    spreads = np.array([part.var(ddof=1) if len(part) > 1 else 0.0 for part in parts])
    return (1 / spreads)[places] if (spreads > 0).all() else np.ones(len(rounds))
