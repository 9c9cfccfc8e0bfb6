"""Baselines against what the paper says of them."""

import jax.random as jr
import numpy as np
import pytest

import cobed
from cobed.designers.baselines import UCB, RandomCorners, RandomNormal, RandomUniform, Thompson
from cobed.errors import ProblemError
from cobed.models import continuous
from cobed.optimum import Grid


@pytest.fixture(scope="module")
def continuous_problem() -> cobed.Problem:
    return cobed.Problem(cobed.models.ContinuousExample(), continuous.contexts(40), continuous.targets(40))


@pytest.fixture(scope="module")
def cube_problem() -> cobed.Problem:
    model = cobed.models.LinearGaussian(
        lambda context, action: action * context[0], np.ones(3), np.ones(3), cobed.Box(np.zeros(3), 1.0), 1, 0.1
    )
    return cobed.Problem(model, np.ones((200, 1)), np.ones((2, 1)))


@pytest.mark.parametrize(
    ("designer", "name"),
    [
        (RandomUniform(), "Random"), (RandomNormal(0.2), "Random_.2"), (RandomNormal(2.0), "Random_2"),
        (RandomCorners(0.667), "Random_.667"), (UCB(1.0), "UCB_1"), (Thompson(), "Thompson"),
    ],
)  # fmt: skip
def test_names_are_the_papers(designer, name):
    assert designer.name == name


def test_optimism_prefers_the_less_certain_of_two_tied_actions(discrete_problem):
    """Actions 1 and 2 have the same prior mean; 1 has twice the standard deviation."""
    for alpha in (1.0, 2.0):
        assert UCB(alpha)(discrete_problem, seed=0).labels == ["1"] * 10


def test_without_optimism_poor_actions_are_never_tried(discrete_problem):
    assert set(UCB(0.0)(discrete_problem, seed=0).labels) <= {"1", "2"}


def test_thompson_tries_both_of_two_tied_actions(discrete_problem):
    """Each unit prefers 1 or 2 with probability one half: all alike in 1 of 512 seeds."""
    labels = [label for seed in range(4) for label in Thompson()(discrete_problem, seed=seed).labels]
    assert set(labels) == {"1", "2"}
    assert 8 <= labels.count("1") <= 32  # false alarm below 1 in 10,000


def test_ucb_is_the_argmax_of_mean_plus_deviation_on_the_grid(continuous_problem):
    designer = UCB(1.0, optimum=Grid(200, 0))
    actions = designer.actions(jr.key(0), continuous_problem)[:, 0]
    rng = np.random.default_rng(0)
    psi = rng.uniform(0.1, 1.1, (4, 4_000))
    contexts, grid = continuous.contexts(40)[:, 0], np.linspace(-4, 4, 200)
    centre = psi[0] + psi[1] * contexts[:, None] - psi[2] * contexts[:, None] ** 2  # (D, N)
    rewards = np.exp(-((grid[:, None, None] - centre) ** 2) / psi[3] ** 2 - 0.1 * grid[:, None, None] ** 2)
    scores = rewards.mean(-1) + rewards.std(-1)  # (G, D)
    chosen = np.interp(actions, grid, np.arange(200)).round().astype(int)
    loss = scores.max(0) - scores[chosen, np.arange(40)]
    assert loss.max() < 0.05  # both are Monte Carlo: their argmax may differ, its worth hardly


def test_random_normal_has_its_standard_deviation(continuous_problem):
    actions = np.concatenate([RandomNormal(0.2)(continuous_problem, seed=s).actions for s in range(50)])
    assert abs(actions.std() / 0.2 - 1) < 0.08  # 2,000 draws: 5 standard errors


def test_random_corners_are_corners(cube_problem):
    actions = RandomCorners(0.75)(cube_problem, seed=0).actions
    assert set(np.unique(actions)) == {0.0, 1.0}
    assert abs(actions.mean() - 0.75) < 0.09  # 600 draws: 5 standard errors


def test_kinds_that_do_not_fit_the_space_say_so(discrete_problem, continuous_problem):
    with pytest.raises(ProblemError, match="needs continuous actions"):
        RandomNormal(1.0)(discrete_problem, seed=0)
    with pytest.raises(ProblemError, match="finite bounds"):
        RandomCorners(0.5)(continuous_problem, seed=0)
    with pytest.raises(ProblemError, match="Grid"):
        Thompson(Grid(10, 0))(discrete_problem, seed=0)
