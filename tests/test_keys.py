"""Seeds at the public edge: a whole number or a key, nothing else, and the calls of 0.1.0 go on working."""

import jax
import jax.random as jr
import numpy as np
import pytest

import cobed
from cobed.errors import ProblemError
from cobed.inference import Posterior
from cobed.keys import as_key, plain_seed


def test_a_number_and_its_key_are_the_same_seed(linear_problem):
    actions = np.eye(2, dtype=np.float32)[[0, 1, 1]]
    world = linear_problem.sample_world(3)
    np.testing.assert_array_equal(world, linear_problem.sample_world(jr.key(3)))
    outcomes = [cobed.run_experiment(linear_problem, world, actions, seed=seed).outcomes for seed in (5, jr.key(5))]
    np.testing.assert_array_equal(*outcomes)
    assert plain_seed(np.int64(5)) == 5
    assert plain_seed(jr.key(5)) == np.asarray(jr.key_data(jr.key(5))).tolist()


@pytest.mark.parametrize("seed", [1.5, "1", None, jr.split(jr.key(0)), 2**63, jax.numpy.ones(2)])
def test_other_seeds_are_told(seed):
    with pytest.raises(ProblemError, match="seed must be a whole number"):
        as_key(seed)


def test_a_posterior_of_infer_knows_its_model_and_old_calls_still_work(discrete_problem):
    actions = np.eye(4, dtype=np.float32)[np.arange(10) % 4]
    data = cobed.run_experiment(discrete_problem, discrete_problem.sample_world(0), actions, seed=1)
    posterior = cobed.infer(discrete_problem.model, data, seed=2)
    new, old = cobed.deploy(posterior, np.asarray(discrete_problem.targets)), cobed.deploy(posterior, discrete_problem)
    assert new.labels == old.labels
    np.testing.assert_allclose(new.values[np.arange(10), np.argmax(new.actions, axis=1)], new.expected, rtol=1e-4)
    with pytest.warns(DeprecationWarning, match=r"cobed\.infer\(key, \.\.\.\) is now cobed\.infer\(\.\.\., seed=key\)"):
        before = cobed.infer(jr.key(2), discrete_problem.model, data)
    np.testing.assert_array_equal(before.params, posterior.params)


def test_a_posterior_made_by_hand_asks_for_its_model():
    posterior = Posterior(np.zeros((4, 2), np.float32), np.zeros(4), "by hand")
    with pytest.raises(ProblemError, match="does not know its model"):
        cobed.deploy(posterior, [[1.0, 0.0]])
