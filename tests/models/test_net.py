"""Rewards in money: worked out by hand, while beliefs, outcomes and everything learned from them stay as they were."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import cobed
from cobed.errors import ModelError, ProblemError
from cobed.models import AbstractModel, NetReward
from cobed.models.glm import GeneralisedLinear, LinearFeatures, linear_gaussian
from cobed.objectives import Predictor
from cobed.objectives.value.information import PredictorValue
from cobed.policies import Temperature

OFFERS = LinearFeatures(cobed.Discrete(["none", "mail", "coupon"]), 1)
SIZE = OFFERS.by_kind(0, 0, 0, 0).size
TERMS = {"worth": 10.0, "costs": {"mail": 0.5}, "shares": {"coupon": 0.2}}
CONTEXTS, NAMED = jnp.linspace(-1, 1, 8)[:, None], jnp.eye(3)


def sales(law="normal", mean=None):
    mean = np.zeros(SIZE) if mean is None else mean
    if law == "normal":
        return linear_gaussian(OFFERS, mean, np.full(SIZE, 0.5), 1.0)
    return GeneralisedLinear(OFFERS, mean, np.full(SIZE, 0.5), law)


@pytest.mark.parametrize("law", ["normal", "bernoulli", "poisson"])
def test_a_reward_is_what_costs_leave_of_the_outcome(law):
    model, psi = sales(law), jnp.linspace(-0.5, 1.0, SIZE)
    net = NetReward(model, **TERMS)
    gross = [float(model.mean_reward(psi, CONTEXTS[1], action)) for action in NAMED]
    found = [float(net.mean_reward(psi, CONTEXTS[1], action)) for action in NAMED]
    np.testing.assert_allclose(found, [10 * gross[0], 10 * gross[1] - 0.5, 8 * gross[2]], rtol=1e-5)
    spent = [float(net.terms(action).spent(y)) for action, y in zip(NAMED, gross, strict=True)]
    np.testing.assert_allclose(spent, [0, 0.5, 2 * gross[2]], rtol=1e-5)


def test_numbers_cost_by_what_there_is_of_them():
    model = linear_gaussian(LinearFeatures(cobed.Box(0.0, 4.0, names=["ads"]), 1), np.zeros(5), np.ones(5), 1.0)
    net = NetReward(model, costs={"ads": 3.0})
    psi, ads = jnp.array([1.0, 0, 0, 0, 0]), jnp.array([2.0])
    assert float(net.mean_reward(psi, CONTEXTS[0], ads)) == pytest.approx(1 - 6)


def test_everything_that_a_model_can_do_is_passed_on():
    """A method that a model gains later must be passed on too, or be refused in words."""
    public = {name for name, part in vars(AbstractModel).items() if callable(part) and not name.startswith("_")}
    assert public <= set(vars(NetReward))


def test_outcomes_teach_the_same_whatever_they_are_worth():
    data = cobed.Data(CONTEXTS, np.eye(3)[np.arange(8) % 3], np.linspace(0, 2, 8))
    gross, net = (cobed.infer(model, data, seed=0) for model in (sales(), NetReward(sales(), **TERMS)))
    np.testing.assert_array_equal(gross.params, net.params)
    assert net.warnings == gross.warnings
    assert isinstance(net.model, NetReward)
    # After the data the belief is another one, and the terms are those of before.
    later = net.model.given(net)
    assert later.prior_moments()[0] == pytest.approx(np.asarray(net.params).mean(axis=0), abs=0.05)
    policy = cobed.deploy(net, CONTEXTS)
    values = np.asarray(gross.mean_rewards(sales(), CONTEXTS, jnp.tile(NAMED[2], (8, 1)))).mean(axis=0)
    assert policy.values is not None
    np.testing.assert_allclose(policy.values[:, 2], 8 * values, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("law", ["normal", "bernoulli"])
def test_the_value_of_an_experiment_is_in_money(law):
    """From the information matrix, against draws of what the mean of psi will be."""
    mean = OFFERS.by_kind(0.3, 0.1, 0.0, 0.0)
    net = NetReward(sales(law, mean), **TERMS)
    predictor = Predictor.of(jr.key(0), net)
    assert predictor is not None
    places = (CONTEXTS, None)
    objective = PredictorValue.build(jr.key(0), net, CONTEXTS, places, predictor, Temperature())
    shares = jnp.tile(NAMED, (3, 1))[:8]
    units = jax.vmap(OFFERS)(CONTEXTS, shares)
    means, variances = units @ predictor.mean, jnp.sum((units @ predictor.root) ** 2, axis=1)
    information = (units * predictor.information(means, variances)[:, None]).T @ units
    before = np.asarray(predictor.root @ predictor.root.T)
    after = np.linalg.inv(np.linalg.inv(before) + np.asarray(information))
    draws = np.random.default_rng(0).multivariate_normal(np.asarray(predictor.mean), before - after, 20_000)
    rows = np.stack([np.asarray(jax.vmap(OFFERS, (0, None))(CONTEXTS, action)) for action in NAMED], axis=1)
    # worth 10; none costs nothing, mail 0.5, coupon a fifth
    slopes, costs = np.array([10, 10, 8]), np.array([0, 0.5, 0])

    def earned(psi, cov):
        variance = np.einsum("tkp,pq,tkq->tk", rows, cov, rows)
        gross = predictor.law.expected(jnp.asarray(np.einsum("tkp,...p->...tk", rows, psi)), variance)
        return (np.asarray(gross) * slopes - costs).max(axis=-1).mean(axis=-1)

    later = earned(draws, after)
    expected = later.mean() - earned(np.asarray(predictor.mean), before)
    # Four standard errors (false alarm below 1 in 15,000) and the error of 256 quasi-random points.
    assert float(objective.of_shares(shares)) == pytest.approx(expected, abs=4 * later.std() / 141 + 0.02 * expected)


def test_designs_and_regrets_are_of_money():
    """Where mail costs more than it can bring, nothing is left to learn about it: the best action is known."""
    dear = NetReward(sales("normal"), costs={"mail": 50.0, "coupon": 50.0})
    problem = cobed.Problem(dear, CONTEXTS, CONTEXTS)
    values, best = problem.best(jnp.zeros(SIZE))
    assert np.argmax(best, axis=1).tolist() == [0] * 8
    np.testing.assert_allclose(values, 0)
    scores = cobed.evaluate(problem, np.eye(3)[np.zeros(8, int)], 16, seed=0, num_draws=64)
    assert scores.regret.mean == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("terms", "error", "message"),
    [
        ({"worth": 0.0}, ModelError, "a positive number; got 0.0"),
        ({"shares": {"mail": 1.5}}, ModelError, "from 0 to 1; got"),
        (
            {"costs": {"post": 1.0}},
            ProblemError,
            "NetReward.costs names 'post', which is no action. Allowed: none, mail",
        ),
        ({"costs": [1.0]}, ProblemError, "a finite number for each of 3 action entries"),
    ],
)
def test_terms_that_make_no_sense_are_told(terms, error, message):
    with pytest.raises(error, match=message):
        NetReward(sales(), **terms)
