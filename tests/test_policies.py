"""The temperature schedule, and designs of one unconstrained vector a unit."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from cobed.allowed import Allowed, Feasible
from cobed.budget import BUDGETS
from cobed.errors import BudgetError
from cobed.policies import FreeDesign, Temperature
from cobed.spaces import Box, Discrete, Product

PAPER = Temperature(2.0, 0.5, 5, hard_fraction=0.2)
SPACE = Product([Discrete(["mail", "phone"]), Box(0, 1)])
NUM_UNITS = 6


def schedule(temperature, progress):
    values, hard = jax.vmap(temperature)(jnp.asarray(progress, dtype=jnp.float32))
    return np.asarray(values), np.asarray(hard)


def test_the_schedule_of_the_paper_halves_at_each_fifth_and_is_hard_in_the_last():
    values, hard = schedule(PAPER, [0.0, 0.19, 0.2, 0.4, 0.6, 0.79, 0.8, 0.99])
    np.testing.assert_allclose(values, [2, 2, 1, 0.5, 0.25, 0.25, 0.125, 0.125])
    np.testing.assert_array_equal(hard, [False] * 6 + [True] * 2)


def test_the_schedule_is_right_at_the_steps_where_a_stage_begins():
    """progress is step / total in float32, as the ascent computes it."""
    steps = np.arange(0, 50_000, 10_000, dtype=np.float32)
    before, begin = schedule(PAPER, (steps[1:] - 1) / 50_000)[0], schedule(PAPER, steps / 50_000)[0]
    np.testing.assert_allclose(begin, [2, 1, 0.5, 0.25, 0.125])
    np.testing.assert_allclose(before, begin[:-1])


def test_the_default_schedule_is_hard_from_the_first_step_at_temperature_one():
    values, hard = schedule(Temperature(), [0.0, 0.5, 0.99])
    np.testing.assert_array_equal(values, 1)
    assert hard.all()


def test_a_schedule_may_stay_soft_to_the_end():
    assert not schedule(Temperature(hard_fraction=0.0), [0.0, 0.5, 0.999])[1].any()


@pytest.mark.parametrize(
    "arguments",
    [
        {"initial": 0.0},
        {"initial": -1.0},
        {"initial": float("nan")},
        {"factor": 0.0},
        {"factor": 1.5},
        {"num_stages": 0},
        {"hard_fraction": -0.1},
        {"hard_fraction": 1.1},
    ],
)
def test_an_impossible_schedule_is_refused(arguments):
    (name, value), *_ = arguments.items()
    with pytest.raises(BudgetError, match=f"needs initial > 0, 0 < factor <= 1, .*; got .*{name}={value}"):
        Temperature(**arguments)


# What runs once and briefly is compiled in haste.
quick_jit = functools.partial(
    jax.jit, compiler_options={"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
)


@pytest.fixture(scope="module")
def design():
    return quick_jit(lambda key: FreeDesign.initial(key, Feasible.build(SPACE, NUM_UNITS, Allowed())))(
        jr.key(0, impl="unsafe_rbg")
    )


@pytest.fixture(scope="module")
def sample(design):
    """Actions of the design for a key, a temperature and hard or soft, with their validity and the slopes of their sum."""

    @quick_jit
    def run(key, temperature, hard):
        def weighted_sum(design):
            actions = design.sample(key, temperature, hard)
            return jnp.sum(actions * jnp.arange(actions.size).reshape(actions.shape)), actions

        slopes, actions = eqx.filter_grad(weighted_sum, has_aux=True)(design)
        return actions, jax.vmap(SPACE.contains)(actions), slopes.raw

    return run


def test_a_design_starts_with_one_vector_a_unit_each_its_own(design):
    assert design.raw.shape == (NUM_UNITS, SPACE.dim)
    assert len(np.unique(design.raw, axis=0)) == NUM_UNITS


def test_hard_samples_are_valid_actions_and_soft_ones_are_mixtures(sample):
    hard, hard_valid, _ = sample(jr.key(1, impl="unsafe_rbg"), 1.0, True)
    soft, soft_valid, _ = sample(jr.key(1, impl="unsafe_rbg"), 1.0, False)
    assert hard.shape == soft.shape == (NUM_UNITS, SPACE.dim)
    assert hard_valid.all()
    assert not soft_valid.any()
    np.testing.assert_allclose(soft[:, :2].sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(soft[:, 2], hard[:, 2])


@pytest.mark.parametrize("hard", [False, True])
def test_every_unit_gets_a_gradient_in_every_entry(sample, hard):
    _, _, slopes = sample(jr.key(2, impl="unsafe_rbg"), 1.0, hard)
    assert (np.abs(slopes) > 1e-5)[1:].all()


def test_units_have_noise_of_their_own_and_new_noise_at_each_call(sample, design):
    first, second = (np.asarray(sample(jr.key(seed, impl="unsafe_rbg"), 1.0, False)[0]) for seed in (4, 5))
    assert (first[:, 0] != second[:, 0]).all()
    # logit(share) = (raw_0 - raw_1 + g_0 - g_1) / tau
    raw = np.asarray(design.raw)
    noise = np.log(first[:, 0] / first[:, 1]) - (raw[:, 0] - raw[:, 1])
    assert np.diff(np.sort(noise)).min() > 1e-3


def test_the_design_that_is_played_is_valid_and_has_no_noise(design):
    @quick_jit
    def play(design):
        actions = design.harden()
        return actions, jax.vmap(SPACE.contains)(actions)

    actions, valid = map(np.asarray, play(design))
    assert actions.shape == (NUM_UNITS, SPACE.dim)
    assert valid.all()
    raw = np.asarray(design.raw)
    np.testing.assert_array_equal(actions[:, 0] == 1, raw[:, 0] > raw[:, 1])
    np.testing.assert_allclose(actions[:, 2], 0.5 + 0.5 * np.tanh(raw[:, 2]), rtol=1e-5)


def test_the_budget_of_the_paper_has_the_schedule_of_the_paper():
    assert BUDGETS["paper"].temperature == PAPER
