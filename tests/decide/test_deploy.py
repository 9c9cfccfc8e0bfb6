"""The deployed action has the largest posterior expected reward, and the table says how sure we are."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.stats import norm

from cobed.data import Data
from cobed.decide import Chooser, deploy
from cobed.errors import ModelError, ProblemError
from cobed.inference import Conjugate, Posterior
from cobed.models import AbstractModel, ContinuousExample, DiscreteExample, LinearGaussian, discrete
from cobed.problem import Problem
from cobed.rules import AtMost, MaxCost
from cobed.spaces import Box, Discrete, Product

NAMES = Discrete(["a", "b"])
TWO = LinearGaussian(lambda c, a: a, np.array([0.0, 1.0]), np.array([1.0, 1.0]), NAMES, 1, 1.0)


def prior_of(model, num_draws=4096) -> Posterior:
    return Posterior(jax.vmap(model.sample_prior)(jr.split(jr.key(0), num_draws)), jnp.zeros(num_draws), "prior")


def test_two_normal_rewards_have_the_table_of_the_textbook():
    """psi_b - psi_a ~ N(1, 2): P(b best) = Phi(1 / sqrt 2); the 90% interval of psi_b is 1 +- 1.645. Errors of 4096 draws."""
    frame = deploy(prior_of(TWO), TWO, [[0.0], [5.0]]).to_frame()
    assert list(frame.columns) == ["context_0", "action", "expected_reward", "low", "high", "p_best"]
    assert frame["action"].tolist() == ["b", "b"]
    np.testing.assert_allclose(frame["expected_reward"], 1.0, atol=0.07)
    np.testing.assert_allclose(frame["p_best"], norm.cdf(1 / 2**0.5), atol=0.03)
    np.testing.assert_allclose(frame["low"], 1 - 1.645, atol=0.15)
    np.testing.assert_allclose(frame["high"], 1 + 1.645, atol=0.15)


def test_weights_decide():
    """Of two draws the heavier one prefers a."""
    posterior = Posterior(jnp.array([[1.0, 0.0], [0.0, 1.5]]), jnp.log(jnp.array([0.9, 0.1])), "by hand")
    policy = deploy(posterior, TWO, [[0.0]])
    assert policy.labels == ["a"]
    assert policy.expected[0] == pytest.approx(0.9)
    assert policy.p_best[0] == pytest.approx(0.9)


def test_a_problem_brings_its_targets():
    problem = Problem(DiscreteExample(), discrete.contexts(), -discrete.contexts())
    world = problem.sample_world(jr.key(3))
    actions = np.eye(4)[np.arange(10) % 2]
    data = Data(problem.contexts, actions, problem.sample_outcomes(jr.key(4), world, jnp.asarray(actions)))
    policy = deploy(Conjugate().posterior(jr.key(5), problem.model, data), problem)
    assert policy.actions.shape == (10, 4)
    # Exact draws come in mirrored pairs, so the average reward is that of the posterior mean.
    assert set(policy.labels) <= {"1", "2"}
    assert ((policy.low < policy.expected) & (policy.expected < policy.high)).all()


def test_continuous_actions_maximise_the_average_reward():
    """Against a dense line search of the average over the same draws."""
    model, targets = ContinuousExample(), np.array([[-2.0], [0.5], [3.0]])
    posterior = prior_of(model, 256)
    policy = deploy(posterior, model, targets)
    line = np.linspace(-13, 5, 20_001, dtype=np.float32)

    @jax.jit
    def average(target):
        def reward(a):
            return jnp.mean(jax.vmap(lambda psi: model.mean_reward(psi, target, a[None]))(posterior.params))

        return jax.lax.map(reward, jnp.asarray(line), batch_size=256)

    for target, value in zip(targets, policy.expected, strict=True):
        assert value >= float(average(jnp.asarray(target, jnp.float32)).max()) - 1e-5


def test_a_narrow_posterior_far_out_is_followed_beyond_the_grid():
    """The grid of a real line ends at 4; this world's best action at c = -3 is near -9.2."""
    model, psi = ContinuousExample(), jnp.array([0.2, 0.3, 1.0, 0.3])
    draws = psi + 0.001 * jr.normal(jr.key(0), (64, 4))
    chooser = Chooser(model, jnp.array([[-3.0]]), 64)
    _, action = chooser(draws, jnp.full(64, 1 / 64), jnp.array([-3.0]))
    assert float(action[0]) == pytest.approx(float(model.best_action(psi, jnp.array([-3.0]))[0]), abs=0.05)


def test_a_bounded_box_with_a_linear_reward_is_solved_at_its_corners():
    model = LinearGaussian(lambda c, a: a, np.array([1.0, -1.0]), np.full(2, 0.01), Box(0, [2.0, 3.0]), 1, 1.0)
    policy = deploy(prior_of(model, 64), model, [[0.0]])
    assert policy.labels == [(2.0, 0.0)]
    assert policy.expected[0] == pytest.approx(2.0, abs=0.1)


def test_the_parts_of_a_product_get_their_own_columns():
    space = Product([NAMES, Box(0, 1)])
    model = LinearGaussian(lambda c, a: a, np.array([0.0, 1.0, -1.0]), np.full(3, 0.01), space, 1, 1.0)
    frame = deploy(prior_of(model, 64), model, [[0.0]]).to_frame()
    assert frame["action_0"].tolist() == ["b"]
    assert frame["action_1"].tolist() == pytest.approx([0.0], abs=0.02)


def test_warnings_of_the_posterior_reach_the_policy():
    posterior = Posterior(jnp.array([[1.0, 0.0]]), jnp.zeros(1), "by hand", warnings=("rough",))
    assert deploy(posterior, TWO, [[0.0]]).warnings == ("rough",)


def test_missing_and_misshapen_targets_are_named():
    with pytest.raises(ProblemError, match="needs the targets"):
        deploy(prior_of(TWO, 8), TWO)
    with pytest.raises(ProblemError, match="targets"):
        deploy(prior_of(TWO, 8), Problem(TWO, [[0.0]], [[0.0]]), [[0.0, 1.0]])


class Counted(AbstractModel):
    """Rewards psi[a]; every outcome that is really drawn is counted."""

    action_space: Discrete = NAMES
    context_dim: int | None = 1
    calls: ClassVar[list[int]] = []

    def sample_prior(self, key):
        return jr.normal(key, (2,))

    def mean_reward(self, params, context, action):
        return params @ action / jnp.where(context[0] > 1e30, 0.0, 1.0)

    def sample_outcome(self, key, params, context, action):
        jax.debug.callback(lambda: self.calls.append(1))
        return self.mean_reward(params, context, action) + jr.normal(key)


def test_the_contract_of_a_model_is_checked_once_and_not_when_its_policy_is_deployed():
    problem = Problem(Counted(), [[0.0]], [[0.0]])
    jax.effects_barrier()
    assert Counted.calls
    Counted.calls.clear()
    posterior = dataclasses.replace(prior_of(problem.model, 8), model=problem.model)
    assert len(deploy(posterior, [[1.0], [2.0]]).labels) == len(deploy(posterior, problem, [[1.0], [2.0]]).labels) == 2
    jax.effects_barrier()
    assert not Counted.calls
    with pytest.raises(ModelError, match=r"Row 1 of the targets: mean_reward is not finite there \(1 such row"):
        deploy(posterior, [[1.0], [2e30]])
    with pytest.raises(ModelError, match=r"2 column\(s\) and the model expects 1"):
        deploy(posterior, [[1.0, 2.0]])


def test_a_budget_goes_to_the_targets_that_gain_most():
    """b gains psi_b - psi_a = 1 times the context over a: with two units of b, the largest two contexts get it."""
    model = LinearGaussian(lambda c, a: a * jnp.array([0.0, 1.0]) * c, [0.0, 1.0], [1.0, 1.0], NAMES, 1, 1.0)
    targets = [[1.0], [4.0], [2.0], [3.0]]
    policy = deploy(prior_of(model), model, targets, rules=[AtMost({"b": 2})])
    assert policy.labels == ["a", "b", "a", "b"]
    free = deploy(prior_of(model), model, targets)
    assert free.labels == ["b"] * 4
    np.testing.assert_allclose(policy.values, free.values)
    spent = deploy(prior_of(model), model, targets, rules=[MaxCost(3.0)], costs={"b": 3.0})
    assert spent.labels == ["a", "b", "a", "a"]


def test_numbers_within_a_budget_are_spent_where_they_pay():
    """The reward is c a: every unit of the number pays c, so that all of it goes to the largest c."""
    model = LinearGaussian(lambda c, a: a * c, [1.0], [1e-6], Box(0.0, 1.0), 1, 1.0)
    policy = deploy(prior_of(model, 64), model, [[1.0], [3.0], [2.0]], rules=[MaxCost(1.5)], costs=[1.0])
    np.testing.assert_allclose(policy.actions[:, 0], [0.0, 1.0, 0.5], atol=0.011)
    assert policy.values is None
