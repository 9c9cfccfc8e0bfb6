"""Values of policies from rows whose actions chance chose: closed forms, and how often the intervals hold."""

import numpy as np
import pytest

from cobed.errors import ProblemError
from cobed.valuation import Logged, assign_folds, difference, doubly_robust, effective, emphasise, inverse_propensity

NUM_ROWS = 60


def world(rng, number=NUM_ROWS, bias=0.0, chance=0.5):
    """Contexts x, actions with P(a = 1) = chance; E[r | x, 1] = x, E[r | x, 0] = 0; the policy gives 1 where x > 0. Its value is
    E[max(x, 0)] = 1 / sqrt(2 pi)."""
    x, noise = rng.normal(size=(2, number))
    action = rng.random(number) < chance
    rewards = x * action + noise
    policy = x > 0
    probability = np.where(action, chance, 1 - chance)
    weights = (action == policy) / probability
    return Logged(rewards, weights, np.where(policy, x, 0) * (1 - bias) + bias, x * action * (1 - bias) + bias)


VALUE = (2 * np.pi) ** -0.5


def test_inverse_propensity_is_the_weighted_mean_of_who_got_what_the_policy_says():
    rows = world(np.random.default_rng(0))
    assert inverse_propensity(rows).mean == pytest.approx(np.average(rows.rewards, weights=rows.weights), rel=1e-12)
    assert inverse_propensity(rows).num_matched == (rows.weights > 0).sum()


def test_a_model_without_error_leaves_the_mean_of_its_predictions():
    rows = world(np.random.default_rng(0))
    exact = rows._replace(rewards=rows.fitted)
    found = doubly_robust(exact)
    assert found.mean == pytest.approx(rows.predicted.mean(), rel=1e-12)
    assert found.error == pytest.approx(rows.predicted.std(ddof=1) / NUM_ROWS**0.5, rel=1e-9)


def test_scores_have_the_value_as_their_mean_and_differences_are_paired():
    rows = world(np.random.default_rng(0))
    found, other = doubly_robust(rows), inverse_propensity(rows)
    assert found.scores.mean() == pytest.approx(found.mean, rel=1e-12)
    assert difference(found, other).mean == pytest.approx(found.mean - other.mean, rel=1e-9)
    same = difference(found, found)
    assert (same.mean, same.error, same.low, same.high) == (0.0, 0.0, 0.0, 0.0)


def test_too_few_rows_or_outcomes_all_alike_are_a_sentence_and_no_number():
    rows = world(np.random.default_rng(0))
    few = rows._replace(weights=np.where(np.cumsum(rows.weights > 0) <= 9, rows.weights, 0.0))
    found = doubly_robust(few)
    assert np.isnan([found.mean, found.low, found.high]).all()
    assert "9 of 60 units whose action was random got what this policy gives them; 10 are needed" in found.trouble
    assert "all have the same outcome" in inverse_propensity(rows._replace(rewards=np.zeros(NUM_ROWS))).trouble
    assert difference(found, doubly_robust(rows)).trouble == found.trouble
    assert effective(np.array([2.0, 2.0, 0.0])) == 2
    assert effective(np.zeros(3)) == 0


@pytest.mark.parametrize("estimate", [inverse_propensity, doubly_robust])
@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_the_estimates_are_unbiased_and_their_intervals_hold_whether_or_not_the_model_is_right(estimate, bias):
    """Of 1,000 worlds .90 +- .0095, 5 errors: false alarm below 1 in a million where the true coverage is within .02 of .9."""
    rng = np.random.default_rng(1)
    found = [estimate(world(rng, bias=bias)) for _ in range(1_000)]
    values, errors = np.array([worth.mean for worth in found]), np.array([worth.error for worth in found])
    assert abs(values.mean() - VALUE) < 5 * values.std() / 1_000**0.5
    assert errors.mean() == pytest.approx(values.std(), rel=0.1)
    held = np.mean([worth.low <= VALUE <= worth.high for worth in found])
    assert abs(held - 0.9) < 0.02 + 5 * (0.09 / 1_000) ** 0.5


@pytest.mark.parametrize("kind", ["pooled", "propensity", "variance"])
def test_intervals_hold_over_adaptive_rounds(kind):
    """The probability of action 1 in the second round follows the outcomes of the first. 600 worlds, tolerance as above."""
    rng, held = np.random.default_rng(2), []
    for _ in range(600):
        first = world(rng, 40, 0.5)
        # A round in which action 1 looked good gives it more often.
        chance = 0.8 if inverse_propensity(first).mean > VALUE else 0.3
        second = world(rng, 40, 0.5, chance)
        rows = Logged(*(np.concatenate(parts) for parts in zip(first, second, strict=True)))
        rounds = np.repeat([1, 2], 40)
        # The policy gives 1 where x > 0: there the model predicts more than its bias.
        gives = rows.predicted > 0.5
        chosen = np.where(rounds == 1, 0.5, np.where(gives, chance, 1 - chance))
        worth = doubly_robust(rows, emphasise(kind, rounds, chosen, doubly_robust(rows).scores))
        held.append(worth.low <= VALUE <= worth.high)
    # Weights by estimated variances depend a little on the outcomes they weigh.
    assert abs(np.mean(held) - 0.9) < (0.04 if kind == "variance" else 0.02) + 5 * (0.09 / 600) ** 0.5


def test_rounds_are_weighed_as_asked():
    rounds, chosen = np.array([1, 1, 2, 2]), np.array([0.25, 0.25, 1.0, 1.0])
    scores = np.array([0.0, 2.0, 0.0, 4.0])
    assert emphasise("pooled", rounds, chosen, scores).tolist() == [1, 1, 1, 1]
    assert emphasise("propensity", rounds, chosen, scores).tolist() == [0.5, 0.5, 1, 1]
    assert emphasise("variance", rounds, chosen, scores).tolist() == [0.5, 0.5, 0.125, 0.125]
    with pytest.raises(
        ProblemError, match=r"There is no weight 'other' for rounds\. Allowed: pooled, propensity, variance"
    ):
        emphasise("other", rounds, chosen, scores)


def test_folds_are_equal_and_keep_a_unit_together():
    folds = assign_folds(["a", "b", "c", "d", "a", "e"], 5, 0)
    assert folds[0] == folds[4]
    assert sorted([*folds[:4].tolist(), folds[5]]) == [0, 1, 2, 3, 4]
    assert assign_folds(["a", "b", "c", "d", "a", "e"], 5, 0).tolist() == folds.tolist()
