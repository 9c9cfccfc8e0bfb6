"""A pool holds what fresh draws would give, in windows of independent rows, within the memory allowed."""

import re

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from cobed import pool as pool_module
from cobed.errors import BudgetError
from cobed.models import DiscreteExample, discrete, from_simulator
from cobed.optimum import Grid
from cobed.pool import FreshDraws, Pool, bytes_per_draw, draw_pool, make_source
from cobed.problem import Problem
from cobed.spaces import Box

SIZE, CHUNK = 40, 16


def bump(params, context, action):
    return params["height"] * jnp.exp(-((action[0] - params["place"] - context[0]) ** 2))


@pytest.fixture(scope="module", autouse=True)
def unchecked():
    """check_model has tests of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cobed.problem.check_model", lambda model, contexts: None)
        yield


@pytest.fixture(scope="module")
def problem():
    """Curved in a bounded action, so that its max-values need a grid; nine targets make that costly."""
    model = from_simulator(
        lambda key: {"height": 1 + jr.uniform(key), "place": jr.normal(jr.fold_in(key, 1))},
        lambda key, *arguments: bump(*arguments) + 0.1 * jr.normal(key),
        Box(-2, 2),
        context_dim=1,
        mean_reward=bump,
    )
    return Problem(model, np.linspace(-1, 1, 3), np.linspace(-1, 1, 9), optimum=Grid())


@pytest.fixture(scope="module")
def pool(problem):
    return draw_pool(jr.key(0), problem, SIZE, chunk=CHUNK)


@pytest.fixture(scope="module")
def cheap():
    return Problem(DiscreteExample(), discrete.contexts(3), -discrete.contexts(3))


def test_a_pool_holds_as_many_rows_as_asked(pool):
    assert pool.size == SIZE
    assert pool.max_values.shape == (SIZE, 9)
    assert {leaf.shape for leaf in jax.tree.leaves(pool.params)} == {(SIZE,)}


def test_the_max_values_of_a_pool_belong_to_its_draws(pool, problem):
    again = jax.jit(jax.vmap(lambda params: problem.best(params)[0]))(pool.params)
    np.testing.assert_allclose(pool.max_values, again, rtol=1e-5)
    # The top of the bump is inside the box wherever |place + context| < 2.
    place = np.asarray(pool.params["place"])[:, None] + np.linspace(-1, 1, 9)
    height = np.broadcast_to(np.asarray(pool.params["height"])[:, None], place.shape)
    inside = np.abs(place) < 2
    np.testing.assert_allclose(np.asarray(pool.max_values)[inside], height[inside], rtol=1e-4)


@pytest.fixture(scope="module")
def cheap_pool(cheap):
    return draw_pool(jr.key(1), cheap, SIZE, chunk=CHUNK)


@pytest.fixture(scope="module")
def fresh(cheap):
    return jax.jit(lambda key: FreshDraws(cheap).batch(key, CHUNK))


def test_the_rows_of_a_pool_are_those_of_fresh_draws(cheap_pool, fresh):
    chunks = [fresh(key) for key in jr.split(jr.key(1), 3)]
    params, values = jax.tree.map(lambda *leaves: np.concatenate(leaves)[:SIZE], *chunks)
    np.testing.assert_allclose(cheap_pool.params, params, rtol=1e-6)
    np.testing.assert_allclose(cheap_pool.max_values, values, rtol=1e-6)


def test_fresh_draws_are_distinct_and_their_max_values_are_the_largest_rewards(cheap, fresh):
    params, values = fresh(jr.key(2))
    assert len(np.unique(params, axis=0)) == CHUNK
    c = np.asarray(cheap.targets)[:, 0]
    ends = np.stack([(3 - c) / 6, (3 + c) / 6])
    rewards = 9 - c**2 + np.asarray(params) @ ends  # (B, action, T)
    np.testing.assert_allclose(values, rewards.max(axis=1), rtol=1e-5)


def test_the_same_key_draws_the_same_pool_and_another_key_another(cheap, cheap_pool, fresh):
    again = draw_pool(jr.key(1), cheap, SIZE, chunk=CHUNK, max_bytes=SIZE * 44)
    np.testing.assert_array_equal(again.max_values, cheap_pool.max_values)
    np.testing.assert_array_equal(again.params, cheap_pool.params)
    assert not np.isin(fresh(jr.key(2))[0], cheap_pool.params).any()


@pytest.fixture(scope="module")
def numbered():
    """A pool whose rows are their own numbers."""
    return Pool({"psi": jnp.arange(SIZE)}, jnp.arange(SIZE, dtype=float)[:, None] * jnp.ones(2))


def test_a_batch_is_a_window_of_distinct_rows_with_their_own_values(numbered):
    params, values = numbered.batch(jr.key(3), 8)
    rows = np.asarray(params["psi"])
    np.testing.assert_array_equal(rows, rows[0] + np.arange(8))
    np.testing.assert_array_equal(values, rows[:, None] * np.ones(2))


def test_windows_start_everywhere_and_reach_the_first_and_last_row(numbered):
    starts = jax.jit(jax.vmap(lambda key: numbered.batch(key, 8)[0]["psi"][0]))(jr.split(jr.key(4), 2_000))
    # A start is missed with probability (32/33)^2000, below 1e-25.
    assert set(np.asarray(starts).tolist()) == set(range(SIZE - 8 + 1))


def test_a_batch_may_be_the_whole_pool(numbered):
    np.testing.assert_array_equal(numbered.batch(jr.key(5), SIZE)[0]["psi"], np.arange(SIZE))


def test_a_draw_takes_the_memory_of_its_parameters_and_max_values(problem, cheap):
    assert bytes_per_draw(problem) == 4 * (2 + 9)
    assert bytes_per_draw(cheap) == 4 * (8 + 3)


def test_a_pool_beyond_the_memory_allowed_is_refused_with_the_size_that_fits(problem):
    with pytest.raises(BudgetError, match=r"A pool of 100,000,000 draws needs 4.1 GiB; 1.0 GiB are allowed") as caught:
        draw_pool(jr.key(6), problem, 100_000_000)
    (most,) = re.findall(r"Draw at most ([\d,]+), or use fresh draws", str(caught.value))
    assert int(most.replace(",", "")) == 2**30 // 44


def test_a_pool_one_byte_too_large_is_refused(cheap):
    with pytest.raises(BudgetError, match="Draw at most 39"):
        draw_pool(jr.key(7), cheap, SIZE, chunk=CHUNK, max_bytes=SIZE * 44 - 1)


def test_cheap_max_values_are_drawn_fresh_and_costly_ones_pooled(problem, cheap, monkeypatch):
    drawn = []
    monkeypatch.setattr(pool_module, "draw_pool", lambda key, problem, size: drawn.append(size) or "a pool")
    assert isinstance(make_source(jr.key(8), cheap, SIZE), FreshDraws)
    assert make_source(jr.key(8), problem, SIZE) == "a pool"
    assert isinstance(make_source(jr.key(8), problem, SIZE, "fresh"), FreshDraws)
    assert make_source(jr.key(8), cheap, SIZE, "pool") == "a pool"
    assert drawn == [SIZE, SIZE]


def test_a_pool_is_made_smaller_where_memory_is_short(problem, monkeypatch):
    monkeypatch.setattr(pool_module, "MAX_POOL_BYTES", 30 * 44)
    monkeypatch.setattr(pool_module, "draw_pool", lambda key, problem, size: size)
    assert make_source(jr.key(9), problem, SIZE, "pool") == 30


def test_an_unknown_source_is_refused(cheap):
    with pytest.raises(BudgetError, match=r"Unknown source of draws 'cached'. Allowed: 'auto', 'fresh', 'pool'"):
        make_source(jr.key(10), cheap, SIZE, "cached")  # pyright: ignore[reportArgumentType]


# Known faults.


def test_a_batch_larger_than_the_pool_is_refused(numbered):
    """Happens where memory made the pool smaller than settle_batch_size, as with 200,000 targets."""
    with pytest.raises(BudgetError):
        numbered.batch(jr.key(11), SIZE + 1)
