"""LEVI, local penalties and transductive information, against numerical integration and enumeration."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import cobed
from cobed.designers.baselines import UCB
from cobed.designers.expected_max import expected_gain_affine
from cobed.designers.itl import TransductiveInformation
from cobed.designers.local_penalisation import LEVI, ExactUCB, UCBLocalPenalisation
from cobed.errors import ProblemError
from cobed.models import RBF, GaussianProcess
from cobed.optimum import Grid

DESIGNERS = [LEVI(), LEVI(penalised=True), ExactUCB(alpha=1.0), UCBLocalPenalisation(), TransductiveInformation()]


def by_integration(intercepts: np.ndarray, slopes: np.ndarray) -> float:
    """E[max] piece by piece between all crossings, where the integrand is linear in z times the normal density."""
    crossings = [
        (intercepts[i] - intercepts[j]) / (slopes[j] - slopes[i])
        for i, j in itertools.combinations(range(len(slopes)), 2)
        if slopes[i] != slopes[j]
    ]
    edges = np.concatenate([[-40.0], np.sort(np.clip(crossings, -40, 40)), [40.0]])
    middles = (edges[1:] + edges[:-1]) / 2
    leaders = np.argmax(intercepts[:, None] + slopes[:, None] * middles, axis=0)
    mass, moment = np.diff(norm.cdf(edges)), -np.diff(norm.pdf(edges))
    return float(np.sum(intercepts[leaders] * mass + slopes[leaders] * moment))


def expected_max(intercepts, slopes):
    return jnp.max(intercepts) + expected_gain_affine(intercepts, slopes)


@pytest.mark.parametrize("num_lines", [1, 2, 5, 40])
def test_the_expected_maximum_is_that_of_integration(num_lines):
    rng = np.random.default_rng(num_lines)
    intercepts, slopes = rng.normal(size=(20, num_lines)), rng.normal(size=(20, num_lines))
    with jax.enable_x64(True):
        found = np.asarray(jax.jit(jax.vmap(expected_max))(jnp.asarray(intercepts), jnp.asarray(slopes)))
    expected = [by_integration(a, b) for a, b in zip(intercepts, slopes, strict=True)]
    np.testing.assert_allclose(found, expected, atol=1e-10)


@pytest.mark.parametrize(
    ("intercepts", "slopes", "expected"),
    [
        ([0.0, 0.0], [-1.0, 1.0], (2 / np.pi) ** 0.5),  # E|Z|
        ([1.0, 3.0, 2.0], [0.5, 0.5, 0.5], 3.0),  # parallel
        ([0.0, 0.0, 0.0], [-1.0, 0.0, 1.0], (2 / np.pi) ** 0.5),  # three through one point
        ([2.0, 2.0, 0.0], [1.0, 1.0, 0.0], 2 + norm.pdf(2) - 2 * norm.cdf(-2)),  # the same line twice
        ([5.0], [2.0], 5.0),
    ],
)
def test_the_expected_maximum_of_lines_that_tie(intercepts, slopes, expected):
    found = jax.jit(expected_max)(jnp.array(intercepts), jnp.array(slopes))
    assert float(found) == pytest.approx(expected, abs=1e-6)


def test_a_small_gain_keeps_its_digits():
    """Two lines that cross at z = 4, far below the rounding of an intercept of 100."""
    gain = jax.jit(expected_gain_affine)(jnp.array([100.0, 96.0]), jnp.array([0.0, 1.0]))
    assert float(gain) == pytest.approx(norm.pdf(4) - 4 * norm.cdf(-4), rel=0.05)


def line_problem(units=(0.0, 0.0, 0.0, 0.0), **known) -> cobed.Problem:
    model = GaussianProcess(RBF(0.4), cobed.Box(-1.0, 1.0), 1, 0.1, num_features=64)
    model = model.condition(cobed.Data(**known)) if known else model
    return cobed.Problem(model, np.array(units)[:, None], np.array([[0.0]]), optimum=Grid(128, 0))


SEEN = {"contexts": [[0.0], [0.1]], "actions": [[-0.5], [0.6]], "outcomes": [1.0, -0.3]}


@pytest.mark.parametrize("designer", DESIGNERS, ids=lambda d: d.name)
def test_designs_are_valid_and_the_same_each_time(designer):
    problem = line_problem(**SEEN)
    first, second = (designer(problem, seed=seed) for seed in (0, 1))
    assert np.array_equal(first.actions, second.actions)
    assert first.method == designer.name
    problem.check_actions(first.actions)


def test_names_are_the_papers():
    assert [designer.name for designer in DESIGNERS] == ["LEVI", "LEVI+LP", "UCB_1", "UCB+LP", "ITL"]


def test_levi_is_the_expected_rise_of_the_best_expected_reward():
    """Against 200,000 simulated outcomes, within 5 standard errors at 6 actions: false alarm below 1 in 250,000."""
    model = line_problem(**SEEN).model
    grid = jnp.linspace(-1, 1, 6)[:, None]
    contexts = jnp.zeros((6, 1))
    scores = np.asarray(LEVI().scores(model, contexts, grid))
    mean, cov = (np.asarray(array, np.float64) for array in model.moments(contexts, grid))
    z = np.random.default_rng(0).normal(size=200_000)
    for action in range(6):
        after = mean + z[:, None] * cov[action] / np.sqrt(cov[action, action] + 0.1**2)
        gains = after.max(1) - mean.max()
        assert abs(scores[action] - gains.mean()) < 5 * gains.std() / 200_000**0.5 + 1e-6


@pytest.mark.parametrize("alpha", [0.0, 2.0])
def test_the_exact_bound_is_that_of_the_moments(alpha):
    problem = line_problem((0.0, 0.3), **SEEN)
    designer = ExactUCB(alpha=alpha)
    assert designer.name == UCB(alpha).name
    grid = jnp.linspace(-1, 1, 128)[:, None]
    for context, action in zip((0.0, 0.3), designer(problem, seed=0).actions[:, 0], strict=True):
        mean, cov = problem.model.moments(jnp.full((128, 1), context), grid)
        hopes = np.asarray(mean) + alpha * np.sqrt(np.diagonal(cov))
        assert hopes[np.argmin(np.abs(np.asarray(grid)[:, 0] - action))] == pytest.approx(hopes.max(), rel=1e-5)


def test_equal_scores_are_decided_by_chance():
    """Nothing is known: every action has the same mean and variance."""
    problem = line_problem((0.0,) * 30)
    first, second = (ExactUCB(alpha=2.0)(problem, seed=seed).actions for seed in (0, 1))
    assert not np.array_equal(first, second)
    # 30 of 128 actions at random: fewer than 10 different ones once in 10^15.
    assert len(np.unique(first)) >= 10


@pytest.mark.slow
def test_levi_of_a_process_is_that_of_numerical_integration():
    """E max over the grid of mu + s Z by quadrature in double precision, to 1e-6."""
    model = line_problem(**SEEN).model
    with jax.enable_x64(True):
        grid, contexts = jnp.linspace(-1, 1, 9)[:, None], jnp.zeros((9, 1))
        scores = np.asarray(LEVI().scores(model, contexts, grid))
        mean, cov = (np.asarray(array) for array in model.moments(contexts, grid))
    z = np.linspace(-10, 10, 400_001)
    for action in range(9):
        slopes = cov[action] / np.sqrt(cov[action, action] + 0.1**2)
        largest = np.max(mean[:, None] + slopes[:, None] * z, axis=0)
        gain = np.trapezoid(largest * norm.pdf(z), z) - mean.max()
        assert scores[action] == pytest.approx(gain, abs=1e-6)


def test_penalties_spread_units_of_one_context():
    """Four units alike: without penalties all do the same, with them the second goes elsewhere."""
    problem = line_problem(**SEEN)
    alike = LEVI()(problem, seed=0).actions[:, 0]
    assert (alike == alike[0]).all()
    actions = LEVI(penalised=True)(problem, seed=0).actions[:, 0]
    assert actions[0] == alike[0]
    assert abs(actions[1] - actions[0]) > 0.3


def test_ucb_with_penalties_is_softplus_times_the_distances():
    """Unit after unit, written out in double precision."""
    problem = line_problem((0.0, 0.1, 0.0), **SEEN)
    actions = UCBLocalPenalisation(alpha=1.0)(problem, seed=0).actions[:, 0]
    grid, chosen = np.linspace(-1, 1, 128), []
    for context, action in zip([0.0, 0.1, 0.0], actions, strict=True):
        mean, cov = problem.model.moments(jnp.full((128, 1), context), jnp.asarray(grid[:, None], jnp.float32))
        scores = np.logaddexp(0, np.asarray(mean) + np.sqrt(np.diagonal(cov)))
        for other in chosen:
            scores = scores * (1 - np.exp(-4.5 * ((context - other[0]) ** 2 + (grid - other[1]) ** 2)))
        assert scores[np.argmin(np.abs(grid - action))] == pytest.approx(scores.max(), rel=1e-4)
        chosen.append((context, action))


@pytest.mark.slow
def test_transductive_information_is_greedy_by_enumeration():
    """Three named actions, three units, two targets: every choice scored by determinants."""
    names = cobed.Discrete(3)
    model = GaussianProcess(RBF([0.7, 1.0, 1.0, 1.0]), names, 1, 0.3, num_features=64)
    model = model.condition(cobed.Data([[0.2]], [[0, 1, 0]], [1.0]))
    contexts, targets = np.array([[-0.6], [0.1], [0.3]]), np.array([[0.0], [0.9]])
    problem = cobed.Problem(model, contexts, targets)
    rewards = np.array([[*target, *row] for target in targets for row in np.eye(3)])

    def information(points):
        everything = jnp.asarray(np.concatenate([rewards, points]), jnp.float32)
        cov = np.asarray(model.covariance(everything, everything), np.float64)
        left, across, right = cov[:6, :6], cov[:6, 6:], cov[6:, 6:] + 0.09 * np.eye(len(points))
        after = right - across.T @ np.linalg.solve(left + 1e-8 * np.eye(6), across)
        return 0.5 * (np.linalg.slogdet(right)[1] - np.linalg.slogdet(after)[1])

    chosen: list[list[float]] = []
    for context in contexts:
        options = [[*chosen, [*context, *row]] for row in np.eye(3)]
        chosen = max(options, key=information)
    expected = [int(np.argmax(row[1:])) for row in chosen]
    assert np.argmax(TransductiveInformation()(problem, seed=0).actions, axis=1).tolist() == expected


@pytest.mark.parametrize("designer", DESIGNERS, ids=lambda d: d.name)
def test_a_model_without_covariances_is_told_what_is_needed(designer, discrete_problem):
    with pytest.raises(ProblemError, match=r"needs a cobed\.models\.GaussianProcess"):
        designer(discrete_problem, seed=0)


def test_too_many_rewards_to_learn_about_are_refused():
    problem = cobed.Problem(line_problem().model, np.zeros((1, 1)), np.linspace(-1, 1, 63)[:, None], optimum=Grid(8, 0))
    with pytest.raises(ProblemError, match="63 targets x 128 actions = 8,064 rewards"):
        TransductiveInformation()(problem, seed=0)
