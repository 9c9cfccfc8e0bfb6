"""The set-up of the paper's Gaussian process example, and the scores of designs in worlds of another model."""

import jax.random as jr
import numpy as np
import pytest

import cobed
from cobed.designers.baselines import RandomUniform
from cobed.errors import ProblemError
from cobed.models import RBF, GaussianProcess
from cobed.optimum import Grid
from cobed.reproduce.gp import make_problem, make_worlds, observational_data


def test_observational_data_are_those_of_the_paper():
    confounded, random = (observational_data(kind, seed=0) for kind in ("confounded", "random"))
    contexts, actions = np.asarray(confounded.contexts), np.asarray(confounded.actions)[:, 0]
    assert (np.sign(actions) == np.sign(contexts[:, 0])).all()
    assert (np.abs(actions) >= 0.8).all()
    assert np.abs(np.asarray(random.actions)).min() < 0.1
    best = np.sin(np.pi * contexts.sum(1))
    expected = 1 + np.sin(np.pi * (contexts[:, 0] - contexts[:, 1])) - (actions - best) ** 2
    np.testing.assert_allclose(confounded.outcomes, expected, atol=1e-5)
    with pytest.raises(ProblemError, match="Allowed: 'confounded', 'random'"):
        observational_data("observed", seed=0)  # pyright: ignore[reportArgumentType]


def test_the_problem_has_49_units_and_16_targets():
    data = observational_data("confounded", seed=0)
    problem = make_problem(data, 25)
    assert (problem.num_contexts, problem.num_targets) == (49, 16)
    assert np.abs(problem.contexts).max() == 1
    assert np.abs(problem.targets).max() == pytest.approx(0.8)
    assert problem.model.num_observations == 25
    assert make_worlds(data).num_observations == 100
    with pytest.raises(ProblemError, match="from 0 to 100; got 101"):
        make_problem(data, 101)


def small(num_rows: int, side: int = 3) -> tuple[cobed.Problem, GaussianProcess]:
    """A few units on a line; the design knows none of the rows that the worlds agree with."""
    rng = np.random.default_rng(0)
    contexts, actions = rng.uniform(-1, 1, (num_rows, 1)), rng.uniform(-1, 1, (num_rows, 1))
    model = GaussianProcess(RBF(0.5), cobed.Box(-1.0, 1.0), 1, 0.1, num_features=64)
    worlds = model.condition(cobed.Data(contexts, actions, -(actions[:, 0] ** 2)))
    units = np.linspace(-1, 1, side)[:, None]
    return cobed.Problem(model, units, units / 2, optimum=Grid(16, 0)), worlds


@pytest.mark.slow
def test_worlds_of_another_model_are_those_the_regret_is_measured_in():
    """40 rows all but settle the worlds, m* = 0: what is left is the error of decisions made without them."""
    problem, worlds = small(40)
    actions = RandomUniform()(problem, seed=0).actions
    other = cobed.evaluate(jr.key(0), problem, actions, 64, num_draws=2, worlds=worlds)
    known = cobed.Problem(worlds, problem.contexts, problem.targets, optimum=problem.optimum)
    best = cobed.evaluate(jr.key(0), known, actions, 64, num_draws=2)
    assert best.regret.mean < 0.05 < other.regret.mean
    assert other.regret.per_world.min() > -1e-4  # decisions and truth are looked for on one grid


def test_worlds_of_the_model_itself_change_nothing():
    problem, _ = small(5)
    actions = RandomUniform()(problem, seed=0).actions
    own, same = (cobed.evaluate(jr.key(0), problem, actions, 8, num_draws=2, worlds=w) for w in (None, problem.model))
    np.testing.assert_array_equal(own.regret.per_world, same.regret.per_world)


def test_worlds_that_do_not_fit_are_refused():
    problem, _ = small(5)
    actions = RandomUniform()(problem, seed=0).actions
    wider = GaussianProcess(RBF(0.5), cobed.Box(-2.0, 1.0), 1, 0.1, num_features=8)
    deeper = GaussianProcess(RBF(0.5), cobed.Box(-1.0, 1.0), 2, 0.1, num_features=8)
    with pytest.raises(ProblemError, match="Both must offer the same"):
        cobed.evaluate(jr.key(0), problem, actions, 20, worlds=wider)
    with pytest.raises(ProblemError, match=r"worlds has 2 context column\(s\) and the problem 1"):
        cobed.evaluate(jr.key(0), problem, actions, 20, worlds=deeper)
    with pytest.raises(ProblemError, match="worlds is a int"):
        cobed.evaluate(jr.key(0), problem, actions, 20, worlds=3)  # pyright: ignore[reportArgumentType]
