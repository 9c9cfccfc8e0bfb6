"""The protocol behind the printed tables, against what it must give."""

import jax.random as jr
import numpy as np
import pytest

from cobed.designers.baselines import UCB, Thompson
from cobed.errors import ProblemError
from cobed.reproduce.protocol import paper_scores
from cobed.reproduce.stylised import CONTEXTS, informations, make_model


@pytest.mark.slow
def test_every_discrete_design_has_the_regret_of_a_guess(discrete_problem):
    """One of two tied actions is deployed whatever was learned: regret 1.150 and a hit rate of one half (FACTS 3)."""
    for designer in (Thompson(), UCB(1.0)):
        scores = paper_scores(jr.key(0), discrete_problem, designer(discrete_problem, seed=0).actions, 400)
        assert abs(scores.regret.mean - 1.150) < 4 * scores.regret.standard_error  # false alarm 1 in 16,000
        assert scores.hit_rate is not None
        assert abs(scores.hit_rate.mean - 0.5) < 4 * scores.hit_rate.standard_error


def test_the_same_key_gives_the_same_worlds_to_every_design(discrete_problem):
    designs = [UCB(1.0)(discrete_problem, seed=0), Thompson()(discrete_problem, seed=0)]
    first, second = (paper_scores(jr.key(0), discrete_problem, d.actions, 20) for d in designs)
    # The deployed action ignores the data, so with the same worlds the regrets are the same.
    assert np.allclose(first.regret.per_world, second.regret.per_world)
    assert not np.allclose(first.mse_m.per_world, second.mse_m.per_world)


def test_a_wrong_design_is_told(discrete_problem):
    with pytest.raises(ProblemError, match="shape"):
        paper_scores(jr.key(0), discrete_problem, np.zeros((3, 4)), 10)


def test_information_about_psi_and_about_the_best_reward_want_opposite_designs():
    found = informations()
    assert max(found, key=lambda name: found[name][1]) == "BBB"
    assert min(found, key=lambda name: found[name][0]) == "BBB"


def test_the_stylised_informations_are_those_of_a_joint_gaussian():
    """I(T psi; y) = 1/2 log(var T psi / var(T psi | y)) for one number, by conditioning the joint covariance."""
    model = make_model()
    actions = np.eye(2, dtype=np.float32)[[1, 0, 1]]
    phi = np.asarray(model.design_matrix(CONTEXTS, actions), np.float64)
    prior = np.asarray(model.prior_cov, np.float64)
    best = np.array([0.0, 0.0, 0.0, 1.0])
    cross = best @ prior @ phi.T
    cov = phi @ prior @ phi.T + 0.25 * np.eye(3)
    before = best @ prior @ best
    exact = 0.5 * np.log(before / (before - cross @ np.linalg.solve(cov, cross)))
    assert informations()["BAB"][1] == pytest.approx(exact, rel=1e-5)
