"""Rows that cannot get every action: what was decided for them, or what their context forbids."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import cobed
from cobed.beliefs import Draws
from cobed.models.contract import check_model
from cobed.models.gaussian_process import GaussianProcess
from cobed.models.glm import GeneralisedLinear, LinearFeatures, linear_gaussian
from cobed.models.kernels import RBF
from cobed.models.routed import forbid, pin

OFFERS = LinearFeatures(cobed.Discrete(["none", "mail", "call"]), 2)
SIZE = OFFERS.by_kind(0, 0, 0, 0).size
NORMAL = linear_gaussian(OFFERS, np.zeros(SIZE), np.ones(SIZE), 1.0)
PSI = jr.normal(jr.key(0), (SIZE,))
NONE, MAIL, CALL = jnp.eye(3)
# The second column forbids mail where it is 1; none where it is 0.
MARKS, OFFSETS = jnp.array([[0.0, -1.0], [0.0, 1.0], [0.0, 0.0]]), jnp.array([1.0, 0.0, 0.0])
OLD, NEW = jnp.array([0.3, 0.0]), jnp.array([0.3, 1.0])


def test_a_decided_unit_gets_its_own_action_whatever_the_design_says():
    pinned = pin(NORMAL, 2)
    free, fixed = jnp.concatenate([OLD, jnp.zeros(4)]), jnp.concatenate([OLD, jnp.ones(1), CALL])
    assert pinned.mean_reward(PSI, free, MAIL) == NORMAL.mean_reward(PSI, OLD, MAIL)
    assert pinned.mean_reward(PSI, fixed, MAIL) == NORMAL.mean_reward(PSI, OLD, CALL)
    check_model(pinned, np.stack([free, fixed, free]))


def test_a_forbidden_action_is_the_first_allowed_one():
    model = forbid(NORMAL, MARKS, OFFSETS)
    for context, given, taken in ((OLD, NONE, MAIL), (OLD, MAIL, MAIL), (OLD, CALL, CALL), (NEW, MAIL, NONE)):
        assert model.mean_reward(PSI, context, given) == NORMAL.mean_reward(PSI, context, taken)
    # A mixture keeps what is allowed of it, and the rest goes the same way.
    half = model.mean_reward(PSI, NEW, (MAIL + CALL) / 2)
    assert half == pytest.approx(float(NORMAL.mean_reward(PSI, NEW, (NONE + CALL) / 2)), rel=1e-6)
    outcomes = [m.sample_outcomes(jr.key(1), PSI, NEW[None], a[None]) for m, a in ((model, MAIL), (NORMAL, NONE))]
    assert outcomes[0] == outcomes[1]
    check_model(model, np.stack([OLD, NEW, NEW]))


@pytest.mark.parametrize("likelihood", ["normal", "bernoulli"])
def test_the_best_reward_of_a_context_is_that_of_its_best_allowed_action(likelihood):
    model = NORMAL if likelihood == "normal" else GeneralisedLinear(OFFERS, np.zeros(SIZE), np.ones(SIZE), likelihood)
    problem = cobed.Problem(forbid(model, MARKS, OFFSETS), np.stack([OLD, NEW]), np.stack([OLD, NEW]))
    for psi in jr.normal(jr.key(1), (20, SIZE)):
        rewards = [[float(model.mean_reward(psi, c, a)) for a in (NONE, MAIL, CALL)] for c in (OLD, NEW)]
        expected = [max(rewards[0][1:]), max(rewards[1][0], rewards[1][2])]
        np.testing.assert_allclose(problem.best(psi)[0], expected, rtol=1e-5)


def test_what_nobody_may_get_at_the_targets_is_not_worth_learning():
    """Two units, two coefficients: call is the wilder one, and the targets forbid it."""
    space = cobed.Discrete(["none", "mail", "call"])

    def features(context, action):
        return action[1:]

    model = cobed.models.LinearGaussian(features, np.zeros(2), np.array([1.0, 9.0]), space, 1, 1.0)
    marks, offsets = jnp.array([[0.0], [0.0], [1.0]]), jnp.zeros(3)
    units, targets = np.zeros((2, 1)), np.ones((3, 1))
    free, restricted = (
        cobed.design(cobed.Problem(m, units, targets), seed=0, budget="smoke").actions.argmax(axis=1).tolist()
        for m in (model, forbid(model, marks, offsets))
    )
    assert 2 in free
    assert restricted == [1, 1]


def test_what_was_decided_stands_above_what_is_forbidden():
    """Beside columns that say what is decided, the marks see the first columns only."""
    model = forbid(pin(NORMAL.given(Draws(PSI[None])), 2), MARKS, OFFSETS)
    decided = jnp.concatenate([NEW, jnp.ones(1), MAIL])
    assert model.mean_reward(PSI, decided, NONE) == NORMAL.mean_reward(PSI, NEW, MAIL)


def test_a_process_keeps_its_posterior_mean_and_its_average():
    process = GaussianProcess(RBF(jnp.ones(5), 1.0), cobed.Discrete(["none", "mail", "call"]), 2, 0.5)
    model = forbid(process, MARKS, OFFSETS)
    contexts, surprise = jnp.stack([OLD, NEW]), jnp.array([1.0, -0.5])
    psi = model.posterior_mean(contexts, jnp.stack([NONE, MAIL]), surprise)
    plain = process.posterior_mean(contexts, jnp.stack([MAIL, NONE]), surprise)
    np.testing.assert_allclose(model.mean_reward(psi, NEW, MAIL), process.mean_reward(plain, NEW, NONE), rtol=1e-5)
    draws = jax.vmap(process.sample_prior)(jr.split(jr.key(0), 3))
    mean = model.average_params(draws, jnp.full(3, 1 / 3))
    each = jax.vmap(lambda psi: process.mean_reward(psi, OLD, CALL))(draws)
    assert model.mean_reward(mean, OLD, CALL) == pytest.approx(float(jnp.mean(each)), abs=1e-5)
