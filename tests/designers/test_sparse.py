"""Confidence bounds on the entries of a sparse psi."""

import numpy as np
import pytest

from cobed.designers.sparse import EntrywiseUCB
from cobed.errors import ProblemError
from cobed.models import CausalGraph, DiscreteExample, discrete
from cobed.problem import Problem


def actions(alpha: float) -> np.ndarray:
    contexts = np.tril(np.ones((8, 8), np.float32))  # one to eight active areas
    problem = Problem(CausalGraph(3), contexts, contexts)
    return EntrywiseUCB(alpha)(problem, seed=0).actions


def test_a_unit_gets_all_activities_or_none():
    """E w = .15 and sd w = .41: the mean alone pays from seven active areas, one standard deviation more from two."""
    assert np.array_equal(actions(0.0), np.repeat([[0.0], [1.0]], [6, 2], axis=0) * np.ones(3))
    assert np.array_equal(actions(1.0), np.repeat([[0.0], [1.0]], [1, 7], axis=0) * np.ones(3))
    assert np.array_equal(actions(1.0), actions(2.0))


def test_it_needs_a_sparse_prior():
    problem = Problem(DiscreteExample(), discrete.contexts(), -discrete.contexts())
    with pytest.raises(ProblemError, match="UCB\\(alpha\\) bounds the reward"):
        EntrywiseUCB(1.0)(problem, seed=0)
