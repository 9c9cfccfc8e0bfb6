"""What a problem allows: m*, designs and decisions keep to it, and no model knows of it."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import cobed
from cobed.designers.baselines import RandomUniform, Thompson
from cobed.errors import ProblemError
from cobed.models.glm import GeneralisedLinear, LinearFeatures, linear_gaussian

OFFERS = LinearFeatures(cobed.Discrete(["none", "mail", "call"]), 2)
SIZE = OFFERS.by_kind(0, 0, 0, 0).size
NORMAL = linear_gaussian(OFFERS, np.zeros(SIZE), np.ones(SIZE), 1.0)
CONTEXTS = np.array([[0.3, 0.0], [0.3, 1.0]])
MASK = np.array([[False, True, True], [True, False, True]])


@pytest.mark.parametrize("likelihood", ["normal", "bernoulli"])
def test_the_best_reward_of_a_target_is_that_of_its_best_allowed_action(likelihood):
    model = NORMAL if likelihood == "normal" else GeneralisedLinear(OFFERS, np.zeros(SIZE), np.ones(SIZE), likelihood)
    problem = cobed.Problem(model, CONTEXTS, CONTEXTS, allowed=cobed.Allowed(targets=MASK))
    for psi in jr.normal(jr.key(1), (20, SIZE)):
        rewards = np.array([[float(model.mean_reward(psi, c, a)) for a in jnp.eye(3)] for c in jnp.asarray(CONTEXTS)])
        values, actions = problem.best(psi)
        np.testing.assert_allclose(values, np.where(MASK, rewards, -np.inf).max(axis=1), rtol=1e-5)
        assert (np.asarray(actions).astype(bool) <= MASK).all()


def coefficients(rows=2, **allowed):
    """Two coefficients: call is the wilder one."""

    def features(context, action):
        return action[1:]

    space = cobed.Discrete(["none", "mail", "call"])
    model = cobed.models.LinearGaussian(features, np.zeros(2), np.array([1.0, 9.0]), space, 1, 1.0)
    return cobed.Problem(model, np.zeros((rows, 1)), np.ones((3, 1)), allowed=cobed.Allowed(**allowed))


def test_what_no_target_may_get_is_not_worth_learning():
    designs = [
        cobed.design(coefficients(targets=mask), seed=0, budget="smoke").labels
        for mask in (None, np.tile([True, True, False], (3, 1)))
    ]
    assert "call" in designs[0]
    assert designs[1] == ["mail", "mail"]


def fixed_first(num_units, action):
    fixed = np.full((num_units, 3), np.nan)
    fixed[0] = np.eye(3)[action]
    return fixed


@pytest.mark.parametrize("objective", ["value", "linear-gaussian", pytest.param("infonce", marks=pytest.mark.slow)])
def test_a_design_keeps_to_permissions_and_fixed_units_and_what_is_fixed_stands_above(objective):
    mask = np.tile([True, True, False], (4, 1))
    problem = coefficients(4, units=mask, fixed=fixed_first(4, 2))
    result = cobed.design(problem, seed=0, budget="smoke", objective=objective)
    assert result.labels[0] == "call"
    assert "call" not in result.labels[1:]
    assert all(start.actions[0].argmax() == 2 for start in result.starts)


def test_a_design_knows_what_fixed_units_will_teach():
    """With one call fixed the other unit still calls: the coefficient is worth most. With three, mail is."""
    one, three = coefficients(2, fixed=fixed_first(2, 2)), np.full((4, 3), np.nan)
    three[:3] = np.eye(3)[2]
    assert cobed.design(one, seed=0, budget="smoke").labels[1] in ("call", "mail")
    assert cobed.design(coefficients(4, fixed=three), seed=0, budget="smoke").labels == ["call"] * 3 + ["mail"]


def test_fixed_numbers_stay_and_count():
    model = cobed.models.LinearGaussian(
        lambda c, a: a * c, np.zeros(1), np.ones(1), cobed.Box(0.0, 2.0), 1, 1.0
    )  # fmt: skip
    fixed = np.array([[np.nan], [0.5], [np.nan]])
    allowed = cobed.Allowed(fixed=fixed, rules=[cobed.rules.MaxCost(2.0)], costs=[1.0])
    problem = cobed.Problem(model, np.ones((3, 1)), np.ones((1, 1)), allowed=allowed)
    actions = cobed.design(problem, seed=0, budget="smoke").actions
    assert actions[1, 0] == 0.5
    assert 1.9 < actions.sum() <= 2 + 1e-5


def test_several_limits_on_numbers_hold_at_once():
    """Between 1 and 2 in all, and the first unit alone below .5."""
    first = np.array([[1.0], [0.0], [0.0]])
    rules = [cobed.rules.Limit("in all", np.ones(1), 1.0, 2.0), cobed.rules.Limit("the first", first, most=0.5)]
    model = cobed.models.LinearGaussian(lambda c, a: a * c, np.zeros(1), np.ones(1), cobed.Box(0.0, 2.0), 1, 1.0)
    problem = cobed.Problem(model, np.ones((3, 1)), np.ones((1, 1)), allowed=cobed.Allowed(rules=rules))
    for actions in (np.zeros((3, 1)), np.full((3, 1), 2.0)):
        for found in (problem.feasible.drawn_back(jnp.asarray(actions)), problem.feasible.nearest(actions)):
            assert 1 - 1e-5 <= np.sum(found) <= 2 + 1e-5
            assert np.asarray(found)[0, 0] <= 0.5 + 1e-5
            problem.check_actions(found)


@pytest.mark.parametrize("designer", [RandomUniform(), Thompson()])
def test_baselines_keep_to_what_is_allowed(designer):
    mask = np.tile([True, False, True], (6, 1))
    problem = coefficients(6, units=mask, rules=[cobed.rules.AtMost({"call": 2})], fixed=fixed_first(6, 1))
    labels = designer(problem, seed=0).labels
    assert labels[0] == "mail"
    assert labels.count("mail") == 1
    assert labels.count("call") <= 2


def test_random_actions_are_uniform_over_what_is_allowed():
    """1,200 units with two options each: 4 standard deviations, false alarm below 1 in 15,000."""
    problem = coefficients(1_200, units=np.tile([True, False, True], (1_200, 1)))
    counts = np.asarray(RandomUniform().allowed_actions(jr.key(0), problem)).sum(axis=0)
    assert counts[1] == 0
    assert abs(counts[0] - 600) < 4 * np.sqrt(300)


def test_decisions_keep_to_what_targets_may_get():
    data = cobed.Data(np.zeros((4, 1)), np.eye(3)[[0, 1, 2, 2]], [0.0, 1.0, 9.0, 9.0])
    mask = np.tile([True, True, False], (3, 1))
    mask[0, 2] = True
    problem = coefficients(targets=mask)
    posterior = cobed.infer(problem.model, data, seed=0)
    assert cobed.deploy(posterior, problem).labels == ["call", "mail", "mail"]
    assert cobed.deploy(posterior, np.ones((1, 1)), allowed=[[True, False, False]]).labels == ["none"]
    with pytest.raises(ProblemError, match=r"pass allowed \(T, K\) for the other targets"):
        cobed.deploy(posterior, problem, np.ones((1, 1)))
    assert cobed.evaluate(problem, np.eye(3)[[1, 1]], 4, seed=0).regret.mean >= 0


@pytest.mark.parametrize(
    ("allowed", "message"),
    [
        ({"units": np.ones((2, 2))}, r"Allowed\.units has shape \(2, 2\); \(2, 3\) is expected.* none, mail, call"),
        ({"targets": np.zeros((3, 3))}, r"Row 0 of Allowed\.targets allows no action at all \(3 such row"),
        ({"fixed": np.zeros((2, 2))}, r"Allowed\.fixed has shape \(2, 2\)"),
        ({"fixed": np.full((2, 3), 0.4)}, r"Row 0 of Allowed\.fixed is not a valid action"),
        ({"costs": {"post": 1.0}}, "names 'post', which is no action. Allowed: none, mail, call"),
        ({"costs": [1.0]}, "needs a finite number for each of 3 action entries"),
        ({"rules": [cobed.rules.AtMost({"post": 1})]}, "A rule names the action 'post'"),
        ({"rules": [cobed.rules.AtLeast({"mail": 3})]}, "No assignment has at least 3 units of 'mail'"),
    ],
)
def test_what_cannot_be_allowed_is_told(allowed, message):
    with pytest.raises(ProblemError, match=message):
        coefficients(**allowed)


def test_numbers_have_no_masks():
    model = cobed.models.LinearGaussian(lambda c, a: a * c, np.zeros(1), np.ones(1), cobed.Box(0.0, 2.0), 1, 1.0)
    for name in ("units", "targets"):
        with pytest.raises(ProblemError, match=f"Allowed.{name} marks named actions"):
            cobed.Problem(model, np.ones((1, 1)), np.ones((1, 1)), allowed=cobed.Allowed(**{name: [[True]]}))
