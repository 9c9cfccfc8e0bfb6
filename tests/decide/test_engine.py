"""Policies for many targets, against the deployment of the engine and values worked out by hand."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import cobed
from cobed.campaign.engine import POLICY_DRAWS, candidate_actions, policy_optimum
from cobed.decide import compare, decide, engine, interval
from cobed.errors import ProblemError
from cobed.inference.base import Posterior
from cobed.models.glm import LinearFeatures, linear_gaussian
from cobed.optimum import Grid

FEATURES = LinearFeatures(cobed.Discrete(["a", "b"]), 1)
MODEL = linear_gaussian(FEATURES, np.zeros(6), np.ones(6), 1.0)
# baseline, context, a, b, a by context, b by context
SURE = np.array([1.0, 0.0, 0.0, 0.0, 1.0, -1.0])


def draws_around(psi, scale=0.1, number=64):
    half = scale * jr.normal(jr.key(0), (number // 2, len(psi)))
    return jnp.asarray(psi, jnp.float32) + jnp.concatenate([half, -half])


def choose(model, draws, targets, allowed=None):
    """As a campaign does."""
    return decide(model, policy_optimum(model.action_space), draws, targets, allowed=allowed)


def compared(draws, targets, allowed=None):
    choices = choose(MODEL, draws, targets, allowed)
    return choices, compare(MODEL, draws, targets, candidate_actions(MODEL.action_space), choices, allowed)


def test_each_target_gets_its_best_action_and_the_gains_are_counted():
    found, beside = compared(draws_around(SURE, 0.0), np.array([[2.0], [-1.0], [-3.0]], np.float32))
    assert np.argmax(found.actions, axis=1).tolist() == [0, 1, 1]
    np.testing.assert_allclose(found.expected, [3, 2, 4], atol=1e-5)
    np.testing.assert_allclose(found.p_best, 1)
    # b for all earns -1, 2 and 4; a and b at random earn 1 on average.
    assert np.argmax(beside.single) == 1
    assert beside.value.mean == pytest.approx(3)
    assert beside.over_single.mean == pytest.approx(3 - 5 / 3)
    assert beside.over_random.mean == pytest.approx(2)
    # baseline 1, a by context 1, b by context -1
    np.testing.assert_allclose(found.values, [[3, -1], [0, 2], [-2, 4]], atol=1e-5)


def test_a_forbidden_option_is_nobodys():
    allowed = np.array([[False, True], [True, True]])
    found, beside = compared(draws_around(SURE, 0.0), np.array([[2.0], [2.0]], np.float32), allowed)
    assert np.argmax(found.actions, axis=1).tolist() == [1, 0]
    np.testing.assert_allclose(found.expected, [-1, 3], atol=1e-5)
    # a for all gives the first unit b, as the policy does.
    assert beside.over_single.mean == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("space", [cobed.Discrete(["a", "b"]), cobed.Box(0.0, 4.0)])
def test_blocks_change_nothing_and_the_engine_agrees(space, monkeypatch):
    features = LinearFeatures(space, 1)
    size = features.by_kind(0, 0, 0, 0).size
    model = linear_gaussian(features, np.zeros(size), np.ones(size), 1.0)
    psi = np.array([0.0, 0.2, 0.1, -1.0, 0.7, 0.3])[:size]
    draws, contexts = draws_around(psi, 0.05), np.linspace(-1, 1, 7, dtype=np.float32)[:, None]
    whole = choose(model, draws, contexts)
    monkeypatch.setattr(engine, "BLOCK", 3 * 64 * (2 if space.dim == 2 else 101))
    blocks = choose(model, draws, contexts)
    np.testing.assert_allclose(blocks.actions, whole.actions)
    np.testing.assert_allclose(blocks.low, whole.low, atol=1e-5)
    theirs = cobed.deploy(Posterior(draws, jnp.zeros(64), "test"), model, contexts)
    # The grid of the campaign has steps of a hundredth of the range.
    np.testing.assert_allclose(whole.actions, theirs.actions, atol=0.041)
    np.testing.assert_allclose(whole.expected, theirs.expected, atol=1e-3)
    np.testing.assert_allclose(whole.low, theirs.low, atol=0.05)


def test_weighted_draws_are_resampled_by_their_weights():
    weighted = Posterior(jnp.arange(4.0), jnp.log(jnp.array([0.5, 0.25, 0.25, 1e-9])), "test")
    found = np.asarray(weighted.equal_draws(400, jr.key(0)))
    assert np.abs(np.bincount(found.astype(int), minlength=4) - [200, 100, 100, 0]).max() <= 1
    equal = Posterior(jnp.arange(2.0 * POLICY_DRAWS), jnp.zeros(2 * POLICY_DRAWS), "test")
    np.testing.assert_array_equal(equal.equal_draws(POLICY_DRAWS, jr.key(0)), np.arange(0, 2 * POLICY_DRAWS, 2))


def test_what_is_kept_of_a_block_does_not_keep_the_block():
    values = np.random.default_rng(0).normal(size=(7, 41))
    for found, place in zip(interval(values), (2, 38), strict=True):
        assert found.base is None
        np.testing.assert_array_equal(found, np.sort(values, axis=1)[:, place])


def test_weights_count_in_the_interval():
    """Ten draws of which the last has half of the weight: the middle 90% begins at the first tenth of the rest."""
    values, weights = np.arange(10.0)[None], np.array([*np.full(9, 0.5 / 9), 0.5])
    low, high = interval(values, weights)
    assert (low[0], high[0]) == (0.0, 9.0)
    low, high = interval(values, np.array([0.04, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.43, 0.0, 0.03]))
    assert (low[0], high[0]) == (2.0, 7.0)


def test_searched_choices_are_not_compared():
    space = cobed.Box(0.0, 4.0)
    features = LinearFeatures(space, 1)
    size = features.by_kind(0, 0, 0, 0).size
    model = linear_gaussian(features, np.zeros(size), np.ones(size), 1.0)
    targets, draws = np.zeros((1, 1), np.float32), draws_around(np.ones(size))
    searched = decide(model, Grid(16, 2), draws, targets)
    assert searched.values is None
    with pytest.raises(ProblemError, match="among listed actions"):
        compare(model, draws, targets, candidate_actions(space), searched)
