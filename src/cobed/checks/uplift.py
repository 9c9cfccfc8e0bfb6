"""Whether those who were predicted to gain most did gain most: uplift curve, Qini and TOC, each with a 90% interval.

Pure functions of scores (N,), larger for those predicted to gain more, of outcomes (N,), of who got the action (N,), the others
having got the one it is compared with, and of the probability with which chance gave it (N,). Rows are sorted by falling score;
those of equal score count as their average, so that their order decides nothing. N_t(j), R_t(j) are the number of rows with the
action among the first j, and the sum of their outcomes; N_c, R_c those without it.

    uplift   u(j) = R_t(j) / N_t(j) - R_c(j) / N_c(j), what the action adds among the first j
    Qini     g(j) = R_t(j) - R_c(j) N_t(j) / N_c(j): extra outcomes that the action brought among the first j (Radcliffe 2007);
             its area is that between g and the line to its end, over shares of the rows, for each row with the action
    TOC      T(j) = mean of the first j effects - mean of all (Yadlowsky, Fleming, Shah, Brunskill & Wager 2021); its area AUTOC
             is the mean of T(j) over j, and the mean of j/N T(j) is their Qini coefficient

Where probabilities differ between rows, those with the action count s / p times and those without (1 - s) / (1 - p) times, with s
the average p; where they are equal, each counts once. An effect is one number a row whose expectation is what the action adds
to its outcome: by inverse probabilities, or doubly robust with predictions made without the row.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.stats import norm

from cobed.decide import INTERVAL

# Half-samples that the deviation of an area or a curve is estimated from.
HALF_SAMPLES = 200
# A curve of more rows is told at so many shares of them.
MAX_POINTS = 100
REACH = float(norm.ppf((1 + INTERVAL) / 2))


@dataclasses.dataclass(frozen=True)
class Curve:
    """A curve over the share of rows, those of the largest scores first, and its area; with the ends of their 90% intervals."""

    shares: np.ndarray
    values: np.ndarray
    low: np.ndarray
    high: np.ndarray
    area: float
    area_low: float
    area_high: float


class Rows(NamedTuple):
    """What one curve is made of."""

    scores: np.ndarray
    outcomes: np.ndarray
    acted: np.ndarray
    propensities: np.ndarray


def inverse_effects(outcomes: np.ndarray, acted: np.ndarray, propensities: np.ndarray) -> np.ndarray:
    """Effects by inverse probabilities, (N,)."""
    return outcomes * np.where(acted, 1 / propensities, -1 / (1 - propensities))


def robust_effects(
    outcomes: np.ndarray, acted: np.ndarray, propensities: np.ndarray, predicted: np.ndarray
) -> np.ndarray:
    """Doubly robust effects, (N,): `predicted` (N, 2) is the outcome without and with the action, made without the row."""
    got = np.where(acted, predicted[:, 1], predicted[:, 0])
    return predicted[:, 1] - predicted[:, 0] + inverse_effects(outcomes - got, acted, propensities)


def uplift_points(rows: Rows) -> np.ndarray:
    """u(j) for j = 1 to N, (N,); not a number where one side has no row yet."""
    with np.errstate(invalid="ignore", divide="ignore"):
        num_t, num_c, sum_t, sum_c = _cumulated(rows)
        return sum_t / num_t - sum_c / num_c


def qini_points(rows: Rows) -> np.ndarray:
    """g(j) for j = 0 to N, (N + 1,). Without a row that did not get the action there is nothing to compare with: 0."""
    num_t, num_c, sum_t, sum_c = _cumulated(rows)
    compared = np.divide(sum_c * num_t, num_c, out=np.array(sum_t), where=num_c > 0)
    return np.append(0.0, sum_t - compared)


def qini_area(points: np.ndarray, num_acted: float) -> float:
    """The area between g and the line from 0 to its end, for each row that got the action; above 0 where scores rank rightly."""
    line = np.linspace(0, points[-1], len(points))
    return float(np.trapezoid(points - line, dx=1 / (len(points) - 1)) / num_acted)


def toc_points(scores: np.ndarray, effects: np.ndarray) -> np.ndarray:
    """T(j) for j = 1 to N, (N,)."""
    means = np.cumsum(_sorted(scores, effects)[0]) / np.arange(1, len(scores) + 1)
    return means - means[-1]


def autoc(points: np.ndarray) -> float:
    """The area under T."""
    return float(points.mean())


def weighted_autoc(points: np.ndarray) -> float:
    """The mean of j/N T(j): the Qini coefficient of Yadlowsky et al."""
    return float(np.mean(np.arange(1, len(points) + 1) / len(points) * points))


def uplift_curve(rows: Rows, seed: int) -> Curve:
    """u, and its average over shares, with intervals from half-samples."""
    return _curve(rows, uplift_points, lambda points, _: float(np.nanmean(points)), seed)


def qini_curve(rows: Rows, seed: int) -> Curve:
    """g for each row that got the action, and its area, with intervals from half-samples."""
    return _curve(
        rows,
        lambda part: qini_points(part)[1:] / part.acted.sum(),
        lambda _, part: qini_area(qini_points(part), part.acted.sum()),
        seed,
    )


def toc_curve(scores: np.ndarray, effects: np.ndarray, seed: int) -> Curve:
    """T, and its area AUTOC, with intervals from half-samples."""
    rows = Rows(scores, effects, np.ones(len(scores), bool), np.ones(len(scores)))
    return _curve(rows, lambda part: toc_points(part.scores, part.outcomes), lambda points, _: autoc(points), seed)


def _sorted(scores: np.ndarray, *columns: np.ndarray) -> list[np.ndarray]:
    """Columns by falling score, those of equal score averaged."""
    _, places, counts = np.unique(-scores, return_inverse=True, return_counts=True)
    return [np.repeat(np.bincount(places, column, len(counts)) / counts, counts) for column in columns]


def _cumulated(rows: Rows) -> list[np.ndarray]:
    """N_t, N_c, R_t, R_c, each (N,)."""
    scores, outcomes, acted, propensities = rows
    share = propensities.mean()
    with np.errstate(divide="ignore"):
        weights = np.where(acted, share / propensities, (1 - share) / (1 - propensities))
    with_it, without = weights * acted, weights * ~acted
    return [np.cumsum(part) for part in _sorted(scores, with_it, without, with_it * outcomes, without * outcomes)]


def _curve(
    rows: Rows, points: Callable[[Rows], np.ndarray], area: Callable[[np.ndarray, Rows], float], seed: int
) -> Curve:
    """A curve with the deviation of its estimates: a half drawn without replacement scatters as much around the whole as the
    whole around the truth."""
    num_rows, rng = len(rows.scores), np.random.default_rng(seed)
    shares = np.arange(1, min(num_rows, MAX_POINTS) + 1) / min(num_rows, MAX_POINTS)

    def at_shares(all_points: np.ndarray) -> np.ndarray:
        return np.interp(shares, np.arange(1, len(all_points) + 1) / len(all_points), all_points)

    whole = points(rows)
    own, values, curves, areas = area(whole, rows), at_shares(whole), [], []
    for _ in range(HALF_SAMPLES):
        half = rng.permutation(num_rows)[: num_rows // 2]
        part = Rows(*(column[half] for column in rows))
        of_half = points(part)
        curves.append(at_shares(of_half))
        areas.append(area(of_half, part))
    # The first points of an uplift curve may have rows of one side alone.
    known = ~np.isnan(curves)
    means = np.where(known, curves, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    away = REACH * np.sqrt(np.where(known, (curves - means) ** 2, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1))
    reach = REACH * float(np.std(areas))
    return Curve(shares, values, values - away, values + away, own, own - reach, own + reach)
