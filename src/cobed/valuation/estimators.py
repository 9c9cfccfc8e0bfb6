"""The value of a policy from rows whose actions chance chose with known probabilities.

Inverse propensity averages the rewards of units that got what the policy says, each weighed by one over its probability. The
doubly robust estimate takes what an outcome model predicts under the policy, and corrects it by the weighed residuals of the same
units: right whatever the model says, and less noisy the better it predicts. Predictions for a unit come from a model that has not
seen it. Both are self-normalised: weights are divided by their sum.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import stats

# The probability that an interval holds the value, as everywhere.
INTERVAL = 0.9
# Below so many rows, as equally weighed ones count, nothing is said: intervals would no longer hold.
ENOUGH = 10.0


class Logged(NamedTuple):
    """A row per unit whose action was chosen by chance, (N,) each.

    `weights` are pi(a_i | x_i) / e(a_i | x_i): the probability with which the policy gives the action that the unit got over the
    one with which chance gave it, 0 where the policy gives another. `predicted` is E[r | x_i, pi] and `fitted` E[r | x_i, a_i]
    of a model that has not seen the unit.
    """

    rewards: np.ndarray
    weights: np.ndarray
    predicted: np.ndarray
    fitted: np.ndarray


@dataclasses.dataclass(frozen=True)
class Worth:
    """A value per unit with its standard error and 90% interval. `scores` (N,) have the value as their mean and the error as that
    of their mean: differences of two policies are made of them. `num_matched` units got what the policy says.

    Where `trouble` says in a sentence why the rows cannot tell, the numbers are not a number.
    """

    mean: float
    error: float
    low: float
    high: float
    scores: np.ndarray = dataclasses.field(repr=False)
    num_matched: int
    trouble: str | None = None

    @classmethod
    def unknown(cls, num_rows: int, num_matched: int, trouble: str) -> "Worth":
        nothing = float("nan")
        return cls(nothing, nothing, nothing, nothing, np.full(num_rows, nothing), num_matched, trouble)


def inverse_propensity(rows: Logged, emphasis: np.ndarray | None = None) -> Worth:
    """sum_i h_i w_i r_i / sum_i h_i w_i, with weights w and emphasis h (N,)."""
    nothing = np.zeros(len(rows.rewards))
    return doubly_robust(rows._replace(predicted=nothing, fitted=nothing), emphasis)


def doubly_robust(rows: Logged, emphasis: np.ndarray | None = None) -> Worth:
    """sum_i h_i mu(x_i, pi) / sum_i h_i + sum_i h_i w_i (r_i - mu(x_i, a_i)) / sum_i h_i w_i; emphasis h (N,) is 1 by default."""
    number, matched = len(rows.rewards), rows.weights > 0
    trouble = _trouble(rows)
    if trouble is not None:
        return Worth.unknown(number, int(matched.sum()), trouble)
    shares = np.ones(number) if emphasis is None else emphasis
    weights, shares = shares * rows.weights, shares / shares.sum()
    weights = weights / weights.sum()
    residuals = rows.rewards - rows.fitted
    base, correction = shares @ rows.predicted, weights @ residuals
    # What each row moves the estimate by, times N.
    moves = number * (shares * (rows.predicted - base) + weights * (residuals - correction))
    return _worth(base + correction + moves, int(matched.sum()))


METHODS: dict[str, Callable[[Logged, np.ndarray | None], Worth]] = {
    "doubly robust": doubly_robust,
    "inverse propensity": inverse_propensity,
}


def difference(first: Worth, second: Worth) -> Worth:
    """What `first` is worth more than `second`, of the same rows: errors that both share cancel."""
    trouble, number = first.trouble or second.trouble, len(first.scores)
    if trouble is not None:
        return Worth.unknown(number, min(first.num_matched, second.num_matched), trouble)
    return _worth(first.scores - second.scores, min(first.num_matched, second.num_matched))


def effective(weights: np.ndarray) -> float:
    """As how many equally weighed rows these count."""
    total = float(np.sum(weights))
    return total**2 / float(np.sum(weights**2)) if total > 0 else 0.0


def _trouble(rows: Logged) -> str | None:
    """Why these rows cannot tell what the policy is worth; None where they can."""
    number, matched = len(rows.rewards), rows.weights > 0
    size = effective(rows.weights)
    if size < ENOUGH:
        counts = f"{matched.sum():,} of {number:,} units whose action was random got what this policy gives them"
        as_many = f", which counts as {size:.1f} equally weighed ones" if size < matched.sum() - 0.05 else ""
        return f"The data cannot tell: {counts}{as_many}; {ENOUGH:.0f} are needed."
    if np.ptp(rows.rewards[matched]) == 0:
        return (
            f"The data cannot tell: the {matched.sum():,} units that got by chance what this policy gives them all have the same "
            "outcome, which says nothing of how sure their average is."
        )
    return None


def _worth(scores: np.ndarray, num_matched: int) -> Worth:
    """The mean of scores with its interval by Student's t.

    Few rows carry most of the variance, because most were not given what the policy says. The variance of such scores is known less
    well than N says: s^2 has the relative variance (kurtosis - 1) / N, that of a chi-square with 2 N / (kurtosis - 1) degrees of
    freedom (Satterthwaite). docs/decisions.md has how often the intervals hold.
    """
    number = len(scores)
    mean = float(scores.mean())
    centred = scores - mean
    squares = float(centred @ centred)
    if squares == 0:
        return Worth(mean, 0.0, mean, mean, scores, num_matched)
    error = (squares / (number * (number - 1))) ** 0.5
    kurtosis = number * float(np.sum(centred**4)) / squares**2
    freedom = min(number - 1.0, max(1.0, 2 * number / max(kurtosis - 1, 1e-9)))
    reach = error * float(stats.t.ppf((1 + INTERVAL) / 2, freedom))
    return Worth(mean, error, mean - reach, mean + reach, scores, num_matched)
