"""Uplift, Qini and TOC against their published definitions, computed by another route: slow loops over rows."""

import numpy as np
import pytest

from cobed.checks.uplift import (
    Rows,
    autoc,
    inverse_effects,
    qini_area,
    qini_curve,
    qini_points,
    robust_effects,
    toc_curve,
    toc_points,
    uplift_curve,
    uplift_points,
    weighted_autoc,
)


def make_rows(num_rows, seed, share=0.5, ties=False, effect=1.0):
    """Outcomes whose gain from the action grows with the score."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 7, num_rows).astype(float) if ties else rng.normal(size=num_rows)
    propensities = np.full(num_rows, share) if np.isscalar(share) else rng.choice(share, num_rows)
    acted = rng.random(num_rows) < propensities
    outcomes = rng.normal(size=num_rows) + effect * acted * scores
    return Rows(scores, outcomes, acted, propensities)


def radcliffe(rows):
    """g(j) = R_t(j) - R_c(j) N_t(j) / N_c(j) by counting, for distinct scores and one propensity; 0 without a comparison."""
    points = [0.0]
    for cut in sorted(rows.scores, reverse=True):
        treated = [y for s, y, a in zip(rows.scores, rows.outcomes, rows.acted, strict=True) if s >= cut and a]
        control = [y for s, y, a in zip(rows.scores, rows.outcomes, rows.acted, strict=True) if s >= cut and not a]
        points.append(sum(treated) - sum(control) * len(treated) / len(control) if control else 0.0)
    return points


@pytest.mark.parametrize("share", [0.5, 0.2])
def test_qini_is_that_of_radcliffe_counted_row_by_row(share):
    rows = make_rows(157, 1, share)
    slow = radcliffe(rows)
    np.testing.assert_allclose(qini_points(rows), slow, atol=1e-6)
    # The area between the curve and the line to its end, by the rule of trapezia.
    area = 0.0
    for j in range(157):
        left, right = slow[j] - slow[-1] * j / 157, slow[j + 1] - slow[-1] * (j + 1) / 157
        area += (left + right) / 2 / 157
    assert qini_area(qini_points(rows), rows.acted.sum()) == pytest.approx(area / rows.acted.sum(), abs=1e-6)


def test_uplift_is_the_difference_of_averages_among_the_first():
    rows = make_rows(90, 2)
    order = np.argsort(-rows.scores)
    points = uplift_points(rows)
    for j in (10, 45, 90):
        first = order[:j]
        with_it, without = first[rows.acted[first]], first[~rows.acted[first]]
        assert points[j - 1] == pytest.approx(rows.outcomes[with_it].mean() - rows.outcomes[without].mean(), abs=1e-6)


@pytest.mark.parametrize("ties", [False, True])
def test_toc_is_that_of_yadlowsky_and_others_summed_row_by_row(ties):
    """grf: TOC(j/n) = 1/j sum of the first j doubly robust scores - their mean; a tie has its average. AUTOC is the mean of
    TOC over j, their Qini that of j/n TOC (written `sum(seq(1, n) / n^2 * TOC)` there)."""
    rows = make_rows(131, 3, share=[0.3, 0.6], ties=ties)
    predicted = np.random.default_rng(0).normal(size=(131, 2))
    effects = robust_effects(rows.outcomes, rows.acted, rows.propensities, predicted)
    slow_effects = []
    for y, a, e, (m0, m1) in zip(rows.outcomes, rows.acted, rows.propensities, predicted, strict=True):
        slow_effects.append(m1 - m0 + ((y - m1) / e if a else -(y - m0) / (1 - e)))
    np.testing.assert_allclose(effects, slow_effects, atol=1e-6)
    averaged = []
    for score in sorted(rows.scores, reverse=True):
        own = [g for s, g in zip(rows.scores, slow_effects, strict=True) if s == score]
        averaged.append(sum(own) / len(own))
    mean = sum(averaged) / 131
    slow = [sum(averaged[: j + 1]) / (j + 1) - mean for j in range(131)]
    points = toc_points(rows.scores, effects)
    np.testing.assert_allclose(points, slow, atol=1e-6)
    assert autoc(points) == pytest.approx(sum(slow) / 131, abs=1e-6)
    assert weighted_autoc(points) == pytest.approx(sum((j + 1) / 131**2 * t for j, t in enumerate(slow)), abs=1e-6)


def test_toc_at_shares_of_the_rows_is_that_of_econml():
    """EconML's DRTester: TOC(q) = mean of the effects with a score of at least the q-th percentile - mean of all; its coefficient
    sums TOC times the steps between percentiles; QINI(q) = share * TOC(q)."""
    rows = make_rows(200, 4)
    effects = inverse_effects(rows.outcomes, rows.acted, rows.propensities)
    points = toc_points(rows.scores, effects)
    percentiles = np.linspace(5, 95, 50)
    for cut in np.percentile(rows.scores, percentiles):
        chosen = rows.scores >= cut
        assert points[chosen.sum() - 1] == pytest.approx(effects[chosen].mean() - effects.mean(), abs=1e-6)


def test_probabilities_that_differ_are_counted_by_their_inverse():
    """Who gets the action more often has no more say: curves of a trial with two shares estimate those of one share."""
    even, uneven = make_rows(40_000, 5, 0.5), make_rows(40_000, 6, [0.2, 0.8])
    wanted, got = (qini_area(qini_points(rows), rows.acted.sum()) for rows in (even, uneven))
    # Standard errors about .008 and .013 (200 half-samples): 5 of both together, false alarm below 1 in a million.
    assert got == pytest.approx(wanted, abs=0.08)
    assert wanted > 0.1


def test_scores_that_mean_nothing_have_areas_near_zero():
    rows = make_rows(2_000, 7, effect=0.0)
    effects = inverse_effects(rows.outcomes, rows.acted, rows.propensities)
    same = np.zeros(2_000)
    assert autoc(toc_points(same, effects)) == pytest.approx(0, abs=1e-9)
    assert qini_area(qini_points(rows._replace(scores=same)), rows.acted.sum()) == pytest.approx(0, abs=1e-9)


@pytest.mark.slow
def test_intervals_of_the_areas_hold_the_truth_nine_times_in_ten():
    """With effect = score and standard normal scores, T(q) is the mean of the largest share q: phi(z) / q, so that AUTOC is its
    integral, .903; the Qini area is that of q T(q): the integral of phi(z(q)) dq = 1 / (2 sqrt(pi))."""
    truths = {"toc": None, "qini": 1 / (2 * np.sqrt(np.pi))}
    from scipy.integrate import quad
    from scipy.stats import norm

    truths["toc"] = quad(lambda q: norm.pdf(norm.isf(q)) / q, 0, 1)[0]
    held = dict.fromkeys(truths, 0)
    for seed in range(300):
        rows = make_rows(500, 100 + seed)
        effects = inverse_effects(rows.outcomes, rows.acted, rows.propensities)
        for name, curve in (("toc", toc_curve(rows.scores, effects, 0)), ("qini", qini_curve(rows, 0))):
            held[name] += curve.area_low <= truths[name] <= curve.area_high
    # 90% of 300 within 5 standard errors of 1.7%: false alarm below 1 in a million.
    assert all(0.81 <= count / 300 <= 0.985 for count in held.values()), held


def test_curves_of_many_rows_are_told_at_a_hundred_shares_within_their_intervals():
    rows = make_rows(1_000, 8)
    for curve in (uplift_curve(rows, 0), qini_curve(rows, 0), toc_curve(rows.scores, rows.outcomes, 0)):
        assert len(curve.shares) == len(curve.values) == 100
        known = ~np.isnan(curve.values)
        assert (curve.low[known] <= curve.values[known]).all()
        assert curve.area_low < curve.area < curve.area_high
