"""Scores over worlds: the discrete example has known answers, and designs with one key are paired."""

import numpy as np
import pytest

from cobed.errors import ModelError, ProblemError
from cobed.inference import Conjugate, Importance, TemperedSMC
from cobed.metrics import evaluate, paired_difference
from cobed.models import ContinuousExample, DiscreteExample, continuous, discrete
from cobed.problem import Problem


@pytest.fixture(scope="module")
def problem():
    return Problem(DiscreteExample(), discrete.contexts(), -discrete.contexts())


def arms(*numbers: int) -> np.ndarray:
    return np.eye(4)[np.resize(np.array(numbers) - 1, 10)]


@pytest.mark.parametrize(
    ("design", "regret"), [(arms(1, 2), 0.0113), (arms(1), 0.124), (arms(2), 0.647)], ids=["12", "1", "2"]
)
def test_regret_of_the_discrete_example_is_the_known_one(problem, design, regret):
    """20,000 worlds. The known values have the same error as ours: the difference is within 4 sqrt(2) of it."""
    scores = evaluate(problem, design, 20_000, num_draws=64, seed=0)
    assert scores.sampler == "conjugate"
    assert abs(scores.regret.mean - regret) < 4 * 2**0.5 * scores.regret.standard_error
    assert scores.regret.standard_error < 0.02 * regret + 0.0005
    assert scores.mse_a is None


def test_alternating_arms_hit_the_best_action_as_often_as_known(problem):
    scores = evaluate(problem, arms(1, 2), 4_000, seed=1)
    assert scores.hit_rate.mean == pytest.approx(0.955, abs=0.01)
    # The best of all designs has 0.078; this one is close to it.
    assert scores.mse_m.mean == pytest.approx(0.078, abs=0.01)
    assert scores.mse_m.mean < scores.mse_m_plug_in.mean


def test_designs_with_one_key_are_paired(problem):
    """The same worlds and noise: a design differs from itself by nothing, and a paired error is below that of two means."""
    first, again = (evaluate(problem, arms(1, 2), 500, seed=2) for _ in range(2))
    assert paired_difference(first.regret, again.regret).mean == 0
    # The last row alone differs: nearly the same luck.
    changed = arms(1, 2)
    changed[-1] = np.eye(4)[0]
    other = evaluate(problem, changed, 500, seed=2)
    difference = paired_difference(first.mse_m, other.mse_m)
    assert difference.standard_error < np.hypot(first.mse_m.standard_error, other.mse_m.standard_error)
    assert difference.mean == pytest.approx(first.mse_m.mean - other.mse_m.mean, abs=1e-6)


def test_batches_do_not_change_the_scores(problem):
    class OneByOne(Conjugate):
        num_together = 1

    class Together(Conjugate):
        num_together = 30

    one, many = (evaluate(problem, arms(1), 30, sampler=sampler(256), seed=3) for sampler in (OneByOne, Together))
    np.testing.assert_allclose(one.regret.per_world, many.regret.per_world, atol=1e-4)


@pytest.mark.slow
def test_the_continuous_example_is_scored_by_smc():
    """Ten rows tell more about the best actions than two do, and no regret is negative but by rounding."""
    problems = [Problem(ContinuousExample(), continuous.contexts(n), continuous.targets(6)) for n in (2, 10)]
    sampler = TemperedSMC(256, num_moves=4)
    few, many = (
        evaluate(p, 0.5 * np.ones((p.num_contexts, 1)), 60, num_draws=64, sampler=sampler, seed=0) for p in problems
    )
    assert few.sampler == "smc"
    assert few.hit_rate is None
    assert few.mse_a is not None
    assert min(few.regret.per_world.min(), many.regret.per_world.min()) > -1e-5
    difference = paired_difference(few.regret, many.regret)
    assert difference.mean > 2 * difference.standard_error


def test_doubtful_posteriors_are_counted(problem):
    scores = evaluate(problem, arms(1, 2), 20, sampler=Importance(1_000), seed=0)
    assert "In 20 of 20 worlds the posterior is doubtful" in scores.warnings[0]
    # Few prior draws decide worse than the exact posterior.
    assert scores.regret.mean > 0


def test_bad_arguments_are_named(problem):
    with pytest.raises(ProblemError, match="num_worlds must be at least 2"):
        evaluate(problem, arms(1), 1, seed=0)
    with pytest.raises(ProblemError, match="num_draws must be at least 2"):
        evaluate(problem, arms(1), num_draws=1, seed=0)
    with pytest.raises(ProblemError, match="A design for this problem has shape"):
        evaluate(problem, arms(1)[:3], seed=0)
    continuous_problem = Problem(ContinuousExample(), continuous.contexts(3), continuous.targets(3))
    with pytest.raises(ModelError, match="not Gaussian in psi"):
        evaluate(continuous_problem, np.zeros((3, 1)), sampler=Conjugate(), seed=0)
    scores = [evaluate(problem, arms(1), n, seed=0) for n in (10, 20)]
    with pytest.raises(ProblemError, match="10 and 20 worlds"):
        paired_difference(scores[0].regret, scores[1].regret)


def test_fewer_worlds_are_the_first_of_more_and_each_may_have_its_own_design(discrete_problem):
    """So that experiments in rounds, tried in fewer worlds, are paired with those in one round."""
    rng = np.random.default_rng(0)
    designs = np.eye(4, dtype=np.float32)[rng.integers(0, 4, (3, 10))]
    many = evaluate(discrete_problem, designs[0], 6, seed=0, num_draws=16).regret.per_world
    few = evaluate(discrete_problem, np.stack([designs[0]] * 3), 3, seed=0, num_draws=16).regret.per_world
    np.testing.assert_allclose(many[:3], few, atol=1e-5)
    each = [evaluate(discrete_problem, design, 3, seed=0, num_draws=16).regret.per_world for design in designs]
    own = evaluate(discrete_problem, designs, 3, seed=0, num_draws=16).regret.per_world
    np.testing.assert_allclose(own, np.diagonal(each), atol=1e-5)
    with pytest.raises(ProblemError, match="designs of 3 worlds, and 4 are asked for"):
        evaluate(discrete_problem, designs, 4, seed=0)
