"""Rows of an experiment: what is accepted, and what is said about the rest."""

import jax.random as jr
import numpy as np
import pytest

from cobed.data import Data
from cobed.errors import ProblemError
from cobed.experiment import run_experiment
from cobed.models import DiscreteExample, discrete
from cobed.problem import Problem

GOOD = {"contexts": [[0.0], [1.0]], "actions": [[1, 0], [0, 1]], "outcomes": [0.3, 0.7]}


def test_vectors_become_columns():
    data = Data([0.0, 1.0], [0.5, 0.6], [[1.0], [2.0]])
    assert (data.contexts.shape, data.actions.shape, data.outcomes.shape) == ((2, 1), (2, 1), (2,))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outcomes": [0.3, float("nan")]}, "outcomes, row 1: nan is not a finite number.*Drop the unit"),
        ({"outcomes": [float("inf"), 1.0]}, "outcomes, row 0: inf"),
        ({"outcomes": [1e39, 1.0]}, "1e\\+39 is not a finite number in single precision"),
        ({"contexts": [[0.0], [float("nan")]]}, "contexts, row 1, column 0: nan"),
        ({"outcomes": [0.3]}, "2 contexts, 2 actions, 1 outcomes; one of each"),
        ({"contexts": np.zeros((0, 1)), "actions": np.zeros((0, 2)), "outcomes": []}, "no rows.*Run the experiment"),
        ({"outcomes": [[0.3, 0.7]]}, r"outcomes have shape \(1, 2\)"),
        ({"outcomes": ["high", "low"]}, "outcomes must be numbers.*Encode categories"),
        ({"contexts": 3.0}, r"contexts have shape \(\)"),
    ],
)
def test_bad_rows_are_named(change, message):
    with pytest.raises(ProblemError, match=message):
        Data(**{**GOOD, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"contexts": [[0.0, 1.0], [1.0, 1.0]], "actions": np.eye(4)[:2]}, "2 context column.*expects 1"),
        ({}, "2 action column.*has 4"),
        ({"actions": [[1, 0, 0, 0], [0.5, 0.5, 0, 0]]}, "actions, row 1: .* is not in Discrete.*1 such row"),
    ],
)
def test_rows_that_do_not_fit_the_model_are_named(change, message):
    with pytest.raises(ProblemError, match=message):
        Data(**{**GOOD, **change}).check_fits(DiscreteExample())


def test_two_designs_with_one_key_meet_the_same_noise():
    problem = Problem(DiscreteExample(), discrete.contexts(), -discrete.contexts())
    world = problem.sample_world(jr.key(0))
    designs = [np.eye(4)[np.full(10, arm)] for arm in (0, 1)]
    runs = [run_experiment(problem, world, actions, seed=1) for actions in designs]
    luck = [
        np.asarray(run.outcomes)
        - [problem.model.mean_reward(world, c, a) for c, a in zip(run.contexts, run.actions, strict=True)]
        for run in runs
    ]
    np.testing.assert_allclose(luck[0], luck[1], atol=1e-5)
    assert np.std(luck[0]) > 0.02


def test_a_design_of_another_shape_is_refused():
    problem = Problem(DiscreteExample(), discrete.contexts(), -discrete.contexts())
    with pytest.raises(ProblemError, match="has shape"):
        run_experiment(problem, problem.sample_world(jr.key(0)), np.eye(4), seed=1)
