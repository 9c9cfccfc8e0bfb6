"""Problems take any table of numbers, and say which cell, column or row is wrong when they cannot."""

import functools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest

from cobed.errors import ModelError, ProblemError
from cobed.models import DiscreteExample, LinearGaussian, from_numpyro
from cobed.optimum import Enumeration, Grid
from cobed.problem import Problem
from cobed.spaces import Box, Discrete

# What runs once and briefly is compiled in haste.
quick_jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
OFFERS = Discrete(["none", "5%", "10%"])
COLUMN = np.linspace(-3, -1, 4)[:, None]
PAIRS = np.arange(6.0).reshape(3, 2)


def outer(context, action):
    return jnp.outer(action, context).ravel()


# One model for contexts of two columns, one for a single column.
WIDE = LinearGaussian(outer, np.zeros(6), np.ones(6), OFFERS, context_dim=2, noise_std=0.5)
NARROW = DiscreteExample()


@pytest.fixture(scope="module")
def problem():
    return Problem(WIDE, PAIRS, -PAIRS[:2])


@pytest.fixture(scope="module")
def one_row():
    return Problem(NARROW, [0.5], [1.5])


def refuse(contexts, targets, message):
    with pytest.raises(ProblemError, match=message):
        Problem(NARROW, contexts, targets)


def holed(value):
    table = PAIRS.copy()
    table[2, 1] = table[2, 0] = value
    return table


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            holed(np.nan),
            r"row 2, column 0: nan is not a finite number \(2 such value\(s\) in all\)\. Fill them or drop",
        ),
        (holed(np.inf), "row 2, column 0: inf is not a finite number"),
        (holed(-np.inf), "row 2, column 0: -inf is not a finite number"),
        (pd.DataFrame(holed(np.nan), columns=["age", "tenure"]), "row 2, column 'age': nan"),
        ([[1.0, None], [2.0, 3.0]], "row 0, column 1: nan"),
        (np.zeros((0, 2)), "0 rows and 2 columns; at least one of each"),
        (np.zeros((3, 0)), "3 rows and 0 columns; at least one of each"),
        ([], "0 rows"),
        (np.zeros((2, 2, 2)), r"shape \(2, 2, 2\); one row per unit, \(rows, columns\)"),
        (1.0, r"shape \(\); one row per unit"),
        ([["north", "old"]], "must be numbers in rows of one length: .*'north'.*Encode categories as numbers"),
        (pd.DataFrame({"region": ["north", "south"]}), "must be numbers .*'north'"),
        ("contexts.csv", "must be numbers .*'contexts.csv'"),
        ([[1.0], [1.0, 2.0]], "must be numbers in rows of one length"),
        ({"age": [1.0]}, "must be numbers"),
    ],
)
@pytest.mark.parametrize("place", ["contexts", "targets"])
def test_a_bad_table_is_refused_by_name_and_place(table, message, place):
    tables = {"contexts": PAIRS, "targets": PAIRS} | {place: table}
    refuse(**tables, message=f"{place}.* {message}|{place}, {message}")


def test_contexts_and_targets_of_different_columns_are_refused():
    refuse(COLUMN, PAIRS, r"contexts have 1 column\(s\) and targets 2\. Both must describe a unit by the same columns")


def test_contexts_that_do_not_fit_the_model_are_refused():
    with pytest.raises(ModelError, match="2"):
        Problem(WIDE, COLUMN, COLUMN)


def test_a_vector_is_one_column(one_row):
    assert one_row.contexts.shape == one_row.targets.shape == (1, 1)


def test_a_problem_may_have_a_single_context_and_target(one_row):
    assert (one_row.num_contexts, one_row.num_targets, one_row.action_dim) == (1, 1, 4)

    @quick_jit
    def run(key):
        world = one_row.sample_world(key)
        return one_row.sample_outcomes(key, world, jnp.eye(4)[:1]), *one_row.best(world)

    outcomes, values, actions = run(jr.key(0))
    assert (outcomes.shape, values.shape, actions.shape) == ((1,), (1,), (1, 4))
    assert np.isfinite(outcomes).all()


@pytest.mark.parametrize(
    "table",
    [
        PAIRS.tolist(),
        PAIRS.astype(int),
        jnp.asarray(PAIRS),
        pd.DataFrame(PAIRS, columns=["age", "tenure"], index=["x", "y", "z"]),
        pd.DataFrame({"age": [0, 2, 4], "tenure": [1.0, 3.0, 5.0]}),
    ],
    ids=["lists", "whole numbers", "jax", "frame", "frame of two kinds"],
)
def test_any_table_of_numbers_is_accepted(table, monkeypatch):
    # The model was checked in the other tests; what is read from the table is the question here.
    monkeypatch.setattr("cobed.problem.check_model", lambda model, contexts: None)
    problem = Problem(WIDE, table, table)
    np.testing.assert_array_equal(problem.contexts, PAIRS)
    np.testing.assert_array_equal(problem.targets, PAIRS)
    assert problem.contexts.dtype == jnp.float32


def test_yes_and_no_become_one_and_zero(monkeypatch):
    monkeypatch.setattr("cobed.problem.check_model", lambda model, contexts: None)
    table = pd.DataFrame({"member": [True, False]})
    np.testing.assert_array_equal(Problem(NARROW, table, table).contexts, [[1], [0]])


def test_a_numpyro_program_learns_the_number_of_columns_from_the_contexts():
    def revenue(contexts, actions):
        lift = numpyro.sample("lift", dist.Normal(0, 1).expand([3, contexts.shape[1]]).to_event(2))
        mean = numpyro.deterministic("reward", jnp.sum(actions @ lift * contexts, -1))
        numpyro.sample("y", dist.Normal(mean, 0.5).to_event(1))

    model = from_numpyro(revenue, actions=OFFERS)
    assert model.context_dim is None
    problem = Problem(model, PAIRS, PAIRS)
    assert problem.model.context_dim == 2
    assert jax.eval_shape(problem.sample_world, jr.key(0))["lift"].shape == (3, 2)
    assert problem.optimum == Enumeration()


def test_the_best_actions_are_those_of_the_targets(problem):
    world = np.arange(-2.0, 4.0, dtype=np.float32)
    values, actions = quick_jit(lambda world: problem.best(world))(world)
    rewards = -PAIRS[:2] @ world.reshape(3, 2).T
    np.testing.assert_allclose(values, rewards.max(axis=1), rtol=1e-5)
    np.testing.assert_array_equal(actions, np.eye(3)[rewards.argmax(axis=1)])


def test_the_way_to_the_max_values_can_be_given(monkeypatch):
    monkeypatch.setattr("cobed.problem.check_model", lambda model, contexts: None)
    model = LinearGaussian(outer, np.zeros(1), np.ones(1), Box(0, 1), context_dim=1, noise_std=0.5)
    assert Problem(model, COLUMN, COLUMN, optimum=Grid(9)).optimum == Grid(9)


# Designs given by the user.


def test_a_valid_design_passes_as_an_array_of_floats(problem):
    design = problem.check_actions(np.eye(3, dtype=int)[[2, 0, 0]].tolist())
    np.testing.assert_array_equal(design, np.eye(3)[[2, 0, 0]])
    assert design.dtype == jnp.float32


@pytest.mark.parametrize(
    ("design", "message"),
    [
        (np.eye(3)[:2], r"has shape \(3, 3\) \(contexts, action entries\), got \(2, 3\)"),
        (np.zeros((3, 2)), r"has shape \(3, 3\) .*, got \(3, 2\)"),
        ([0, 1, 2], r"has shape \(3, 3\) .*, got \(3,\)"),
        (np.full((3, 3), 1 / 3), r"Row 0 of the design is not a valid action: \[0.33.*\] is not in Discrete"),
        ([[1, 0, 0], [0, 1, 0], [1, 1, 0]], r"Row 2 of the design is not a valid action: \[1.0, 1.0, 0.0\]"),
        ([[1, 0, 0], [0, np.nan, 0], [1, 0, 0]], r"Row 1 of the design is not a valid action: \[0.0, nan, 0.0\]"),
    ],
)
def test_a_design_that_does_not_fit_is_refused(problem, design, message):
    with pytest.raises(ProblemError, match=message):
        problem.check_actions(design)


# Known faults.


@pytest.mark.parametrize("design", [["none", "5%", "10%"], [[1, 0, 0], [0, 1], [0, 0, 1]]])
def test_a_design_that_is_not_a_table_of_numbers_is_refused(problem, design):
    with pytest.raises(ProblemError):
        problem.check_actions(design)


def test_frames_with_columns_in_another_order_are_refused_or_reordered():
    """Silently, age would be taken for tenure at every target."""
    contexts = pd.DataFrame(PAIRS, columns=["age", "tenure"])
    try:
        problem = Problem(WIDE, contexts, contexts[["tenure", "age"]])
    except ProblemError:
        return
    np.testing.assert_array_equal(problem.targets, PAIRS)


def test_a_reward_that_is_not_a_number_at_the_targets_is_refused():
    model = LinearGaussian(lambda c, a: jnp.log(c) * a, np.zeros(3), np.ones(3), OFFERS, context_dim=1, noise_std=0.5)
    with pytest.raises(ModelError):
        Problem(model, contexts=[1.0, 2.0], targets=[-1.0, -2.0])


def test_a_bad_cell_of_a_frame_is_named_by_its_labels():
    refuse(pd.DataFrame(holed(np.nan), columns=["age", "tenure"], index=["x", "y", "z"]), PAIRS, "'age'")
