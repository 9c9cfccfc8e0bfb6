"""Every way to the best action against brute force, on rewards whose maximum is known or can be searched densely."""

import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from cobed.errors import ProblemError
from cobed.models import AbstractGaussianModel, ContinuousExample, DiscreteExample
from cobed.optimum import ClosedForm, Enumeration, Grid, LinearProgram, check_optimum, choose_optimum
from cobed.problem import Problem
from cobed.spaces import AbstractSpace, Box, Discrete, Product

CONTEXTS = jnp.linspace(-1, 1, 5)[:, None]
UNIT = Box(0, 1)
# What runs once and briefly is compiled in haste.
quick_jit = functools.partial(
    jax.jit, compiler_options={"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
)


class Made(AbstractGaussianModel):
    """The reward of a function of (params, context, action); psi is a vector of standard normals."""

    reward: Callable = eqx.field(static=True)
    action_space: AbstractSpace
    num_params: int = eqx.field(static=True, default=2)
    context_dim: int = eqx.field(static=True, default=1)
    noise_std: float = eqx.field(static=True, default=0.1)

    def sample_prior(self, key):
        return jr.normal(key, (self.num_params,))

    def mean_reward(self, params, context, action):
        return self.reward(params, context, action)


def wave(params, context, action):
    """About six hills on [-2, 2], their heights moved by psi and the context."""
    a = action[0]
    return jnp.sin(9 * a + params[0]) + 0.3 * params[1] * a + 0.2 * context[0] * a**2


def two_hills(params, context, action):
    """A hill for each of two channels: heights 1 and 0.9 + c, at psi_0 and psi_1."""
    mail, phone, amount = action
    return mail * (1 - (amount - params[0]) ** 2) + phone * (0.9 + context[0] - (amount - params[1]) ** 2)


def plane(params, context, action):
    return context[0] + params @ action + context[0] * action[0]


def bowl(params, context, action):
    """A tilted quadratic with its maximum, 0, at psi: inside the box or not."""
    gap = action - params
    return -(gap[0] ** 2 + 3 * gap[1] ** 2)


WAVE = Made(wave, Box(-2, 2))
HILLS = Made(two_hills, Product([Discrete(["mail", "phone"]), Box(-1, 1)]))
PLANE = Made(plane, Box([-1, 0, 2], [1, 0.5, 3]), num_params=3)
BOWL = Made(bowl, Box(-1, 1 + np.zeros(2)))
PAIRS = Made(
    lambda params, context, action: action[:3] @ params[:3] + context[0] * action[3:] @ params[3:],
    Product([Discrete(3), Discrete(2)]),
    num_params=5,
)


def worlds(model, num, seed=0):
    return quick_jit(jax.vmap(model.sample_prior))(jr.split(jr.key(seed), num))


def solve(optimum, model, params, contexts=CONTEXTS):
    """Best values (N, D), best actions (N, D, A), and whether they are valid."""

    @quick_jit
    def run(params, contexts):
        each = jax.vmap(jax.vmap(lambda p, c: optimum(model, p, c), in_axes=(None, 0)), in_axes=(0, None))
        values, actions = each(params, contexts)
        return values, actions, jax.vmap(jax.vmap(model.action_space.contains))(actions)

    return tuple(map(np.asarray, run(params, jnp.asarray(contexts))))


def rewards_of(model, params, actions, contexts=CONTEXTS):
    """Mean rewards (N, D, M) of the candidates (M, A), or (N, D) of one action each (N, D, A)."""
    actions = jnp.asarray(actions, dtype=float)
    per_context = 0 if actions.ndim == 3 else None
    reward = model.mean_reward
    if actions.ndim == 2:
        reward = jax.vmap(reward, in_axes=(None, None, 0))
    each = jax.vmap(jax.vmap(reward, in_axes=(None, 0, per_context)), in_axes=(0, None, per_context))
    return np.asarray(quick_jit(each)(params, jnp.asarray(contexts), actions))


def line(low, high, num=4_001):
    return np.linspace(low, high, num)[:, None]


BRUTE = {
    "closed form": (ClosedForm(), ContinuousExample(), line(-6, 6)),
    "linear program": (
        LinearProgram(),
        PLANE,
        np.stack(np.meshgrid([-1, 0.3, 1], [0, 0.2, 0.5], [2, 2.4, 3]), axis=-1).reshape(-1, 3),
    ),
    "enumeration": (Enumeration(), DiscreteExample(), np.eye(4)),
    "enumeration of pairs": (Enumeration(), PAIRS, PAIRS.action_space.enumerate_discrete()),
    "grid on a line": (Grid(), WAVE, line(-2, 2)),
    "grid for each discrete action": (
        Grid(),
        HILLS,
        np.concatenate([np.hstack([np.tile(row, (2_001, 1)), line(-1, 1, 2_001)]) for row in np.eye(2)]),
    ),
}


@pytest.mark.parametrize("case", BRUTE)
def test_no_action_of_a_dense_search_beats_the_optimum(case):
    optimum, model, candidates = BRUTE[case]
    params = worlds(model, 16)
    values, actions, inside = solve(optimum, model, params)
    assert inside.all()
    np.testing.assert_allclose(rewards_of(model, params, actions), values, rtol=1e-5, atol=1e-5)
    brute = rewards_of(model, params, candidates).max(axis=-1)
    np.testing.assert_array_less(brute, values + 1e-4)
    # The dense search is within its spacing of the best, so the optimum does not promise what no action earns.
    np.testing.assert_allclose(values, brute, rtol=1e-3, atol=1e-3)


def test_a_grid_finds_a_maximum_inside_the_box_and_one_clipped_to_its_walls():
    centres = jnp.array([[0.3, -0.7], [0.0, 0.0], [0.99, 0.99], [1.6, 0.2], [-1.2, 3.0], [-2.0, -2.0]])
    values, actions, inside = solve(Grid(num_points=512), BOWL, centres, CONTEXTS[:1])
    assert inside.all()
    clipped = np.clip(centres, -1, 1)
    exact = -((clipped - centres) ** 2 @ np.array([1, 3]))
    np.testing.assert_allclose(actions[:, 0], clipped, atol=0.01)
    np.testing.assert_allclose(values[:, 0], exact, atol=1e-4)


def test_a_grid_searches_unbounded_boxes_around_what_is_finite():
    model = Made(bowl, Box([-np.inf, 1.0], [np.inf, np.inf], scale=0.5))
    centres = jnp.array([[0.4, 1.5], [-1.3, 3.0], [0.0, 0.0]])
    _, actions, inside = solve(Grid(num_points=512), model, centres, CONTEXTS[:1])
    assert inside.all()
    np.testing.assert_allclose(actions[:, 0], np.maximum(centres, [-np.inf, 1.0]), atol=0.01)


@pytest.fixture(scope="module")
def refined():
    """Best values of a coarse grid without refinement and with it."""
    params = worlds(WAVE, 16)
    return [solve(Grid(num_points=33, num_refinements=n), WAVE, params)[0] for n in (0, 24)]


def test_refinement_never_makes_a_grid_worse(refined):
    without, refined = refined
    assert (refined >= without).all()


def test_a_refined_coarse_grid_is_much_nearer_to_the_maximum(refined):
    """Both may stand on the second highest hill; on a hill, the refined one stands on its top."""
    brute = rewards_of(WAVE, worlds(WAVE, 16), line(-2, 2)).max(axis=-1)
    without, refined = (brute - values for values in refined)
    assert np.median(without) > 1e-3
    assert np.median(refined) < 1e-4
    assert refined.mean() < without.mean() / 3


def test_an_unrefined_grid_is_the_best_of_its_points(refined):
    points = rewards_of(WAVE, worlds(WAVE, 16), line(-2, 2, 33)).max(axis=-1)
    np.testing.assert_allclose(refined[0], points, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (ContinuousExample(), ClosedForm()),
        (DiscreteExample(), Enumeration()),
        (PAIRS, Enumeration()),
        (PLANE, LinearProgram()),
        (WAVE, Grid(128)),
        (HILLS, Grid(128)),
        (Made(lambda p, c, a: p[0] * a[0], Box.real(1)), Grid(128)),
        (Made(bowl, Box.real(2)), Grid(512)),
        (Made(bowl, Box.real(3)), Grid(2048)),
    ],
    ids=["closed form", "names", "pairs", "plane", "wave", "mixed", "line", "two entries", "three entries"],
)
def test_the_cheapest_exact_way_is_chosen_and_a_grid_where_there_is_none(model, expected):
    assert choose_optimum(model, CONTEXTS) == expected


@pytest.mark.parametrize(
    ("optimum", "model", "message"),
    [
        (ClosedForm(), WAVE, r"ClosedForm\(\) needs a model with a `best_action` method. Leave optimum=None"),
        (LinearProgram(), DiscreteExample(), r"LinearProgram\(\) needs a Box with finite bounds"),
        (LinearProgram(), ContinuousExample(), r"LinearProgram\(\) needs a Box with finite bounds"),
        (LinearProgram(), HILLS, r"LinearProgram\(\) needs a Box with finite bounds"),
        (Enumeration(), WAVE, r"Enumeration\(\) needs discrete actions. Use Grid\(\)"),
        (Enumeration(), HILLS, r"Enumeration\(\) needs discrete actions"),
    ],
)
def test_a_way_that_does_not_fit_the_model_is_refused(optimum, model, message):
    with pytest.raises(ProblemError, match=message):
        check_optimum(optimum, model, CONTEXTS)


def test_the_way_given_to_a_problem_is_checked():
    with pytest.raises(ProblemError, match="needs discrete actions"):
        Problem(WAVE, CONTEXTS, CONTEXTS, optimum=Enumeration())


@pytest.mark.parametrize("arguments", [{"num_points": 1}, {"num_refinements": -1}])
def test_an_impossible_grid_is_refused(arguments):
    with pytest.raises(ProblemError, match="at least 2 points and no negative number of refinements"):
        Grid(**arguments)


def test_the_cost_of_a_way_counts_its_rewards():
    assert ClosedForm().num_evaluations(ContinuousExample()) == 1
    assert Enumeration().num_evaluations(PAIRS) == 6
    assert Grid(100, 0).num_evaluations(WAVE) == 100
    assert Grid(100, 0).num_evaluations(HILLS) == 200
    # Two moves along each entry, one up the gradient, and the gradient itself.
    assert Grid(100, 10).num_evaluations(WAVE) == 100 + 10 * 5


# Known faults.


def test_a_grid_for_discrete_actions_is_refused():
    """It fails later, in _grid, with 'not enough values to unpack'."""
    with pytest.raises(ProblemError):
        check_optimum(Grid(), DiscreteExample(), CONTEXTS)


def test_a_reward_that_is_curved_only_at_the_targets_gets_no_linear_program():
    model = Made(lambda p, c, a: p[0] * a[0] - 5 * c[0] ** 2 * (a[0] - 0.5) ** 2, UNIT, num_params=1)
    problem = Problem(model, contexts=np.zeros((4, 1)), targets=np.ones((4, 1)))
    assert isinstance(problem.optimum, Grid)


def test_a_reward_that_is_curved_only_at_later_contexts_gets_no_linear_program():
    model = Made(lambda p, c, a: p[0] * a[0] - 5 * c[0] ** 2 * (a[0] - 0.5) ** 2, UNIT, num_params=1)
    assert isinstance(choose_optimum(model, jnp.repeat(jnp.array([0.0, 1.0]), 8)[:, None]), Grid)


def test_a_reward_that_starts_at_a_threshold_gets_no_linear_program():
    """Nothing below 0.95, then a slope of 1 + psi^2: the linear program plays 0 and earns nothing."""
    model = Made(lambda p, c, a: (1 + p[0] ** 2) * jnp.maximum(a[0] - 0.95, 0.0), UNIT, num_params=1)
    assert isinstance(choose_optimum(model, CONTEXTS), Grid)


def test_a_linear_program_for_a_curved_reward_is_refused():
    with pytest.raises(ProblemError):
        Problem(WAVE, CONTEXTS, CONTEXTS, optimum=LinearProgram())


def test_a_grid_point_that_is_not_a_number_does_not_win():
    model = Made(lambda p, c, a: -a[0] * jnp.log(a[0]), UNIT)
    values, _, _ = solve(Grid(), model, worlds(model, 2), CONTEXTS[:1])
    np.testing.assert_allclose(values, np.exp(-1), rtol=1e-4)
