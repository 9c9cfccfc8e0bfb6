"""Action spaces: names and numbers outside, float vectors inside, and a differentiable way from one to the other."""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cobed.errors import SpaceError
from cobed.spaces import Box, Discrete, Product, label_columns
from cobed.spaces.product import MAX_ENUMERATION

INF = math.inf
OFFERS = Discrete(["none", "5%", "10%"])
# Two bounds, none, only above, only below.
SIDES = Box([0.5, -INF, -INF, 2.0], [1.5, INF, 3.0, INF], scale=2.0)
MIXED = Product([OFFERS, Box([-1, 0], [1, INF]), Discrete(2)])
SPACES = {
    "discrete": OFFERS,
    "bounded": Box([-1, 10], [1, 10.5]),
    "sides": SIDES,
    "product": MIXED,
}
SOFT, HARD = jnp.asarray(False), jnp.asarray(True)
ONE = jnp.asarray(1.0)
NUM = 64

# The same examples at every run.
same_examples = settings(max_examples=25, deadline=None, derandomize=True)
# What runs once and briefly is compiled in haste.
quick_jit = functools.partial(
    jax.jit, compiler_options={"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
)


class Seen(NamedTuple):
    """What a space does with NUM keys, and with the rows of its discrete combinations."""

    samples: np.ndarray
    samples_inside: np.ndarray
    samples_projected: np.ndarray
    raws: np.ndarray
    hardened: np.ndarray
    hardened_inside: np.ndarray
    relaxed: np.ndarray
    weights: np.ndarray
    weights_of_rows: np.ndarray
    filled_rows_inside: np.ndarray


@functools.cache
def look(name: str, seed: int = 0) -> Seen:
    # Not the default threefry: its compilation would take most of the time.
    return Seen(*map(np.asarray, looker(name)(jr.split(jr.key(seed, impl="unsafe_rbg"), NUM))))


@functools.cache
def looker(name: str):
    """All in one compiled call, shared by the tests."""
    space = SPACES[name]
    rows = space.enumerate_discrete()

    def each(key):
        sample_key, raw_key, noise_key = jr.split(key, 3)
        sample, raw = space.sample(sample_key), space.initial_raw(raw_key)
        played, relaxed = space.harden(raw), space.relax(noise_key, raw, ONE, SOFT)
        judged = sample, space.contains(sample), space.project(sample), raw, played, space.contains(played)
        return *judged, relaxed, space.discrete_weights(relaxed)

    def everything(keys):
        seen = jax.vmap(each)(keys)
        is_continuous = np.isin(np.arange(space.dim), space.continuous)
        filled = jnp.where(is_continuous, seen[0][0], rows)
        return *seen, jax.vmap(space.discrete_weights)(jnp.asarray(rows)), jax.vmap(space.contains)(filled)

    return quick_jit(everything)


@pytest.fixture(params=SPACES)
def name(request):
    return request.param


# Sampling and projecting.


def test_samples_are_in_the_space(name):
    seen = look(name)
    assert seen.samples.shape == (NUM, SPACES[name].dim)
    assert seen.samples_inside.all()


def test_samples_and_starts_differ_between_keys(name):
    first, second = look(name), look(name, seed=1)
    assert (first.samples != second.samples).any()
    assert (first.raws != second.raws).any(axis=1).all()


def test_discrete_samples_are_uniform():
    shares = np.asarray(quick_jit(jax.vmap(Discrete(4).sample))(jr.split(jr.key(0), 4_000))).mean(axis=0)
    # Four binomial shares within 4.5 standard errors: false alarm below 1 in 30,000.
    np.testing.assert_allclose(shares, 0.25, atol=4.5 * math.sqrt(0.25 * 0.75 / 4_000))


def test_samples_of_a_bounded_box_are_uniform():
    actions = np.asarray(quick_jit(jax.vmap(Box(-1, 3).sample))(jr.split(jr.key(0), 4_000)))
    # A mean of uniforms has standard error width / sqrt(12 n): 4.5 of them, false alarm below 1 in 100,000.
    np.testing.assert_allclose(actions.mean(), 1.0, atol=4.5 * 4 / math.sqrt(12 * 4_000))
    # Each misses with probability 0.9975^4000, below 1 in 20,000.
    assert actions.min() < -0.99
    assert actions.max() > 2.99


def test_projecting_a_valid_action_changes_nothing(name):
    np.testing.assert_array_equal(look(name).samples_projected, look(name).samples)


@quick_jit
def project_twice(action):
    once = MIXED.project(action)
    return once, MIXED.project(once), MIXED.contains(once)


@same_examples
@given(arrays(np.float32, MIXED.dim, elements=st.floats(-1e6, 1e6, width=32)))
def test_projections_are_valid_and_stay_where_they_are(action):
    once, twice, inside = project_twice(action)
    assert inside
    np.testing.assert_array_equal(once, twice)


def test_a_box_projects_to_the_nearest_point_and_a_discrete_space_to_the_nearest_name():
    np.testing.assert_allclose(SIDES.project(jnp.array([9.0, 9.0, 9.0, -9.0])), [1.5, 9.0, 3.0, 2.0])
    np.testing.assert_array_equal(OFFERS.project(jnp.array([0.3, 0.1, 0.6])), [0, 0, 1])


@pytest.mark.parametrize(
    ("space", "actions"),
    [
        (OFFERS, [[0.5, 0.5, 0], [1, 1, 0], [0, 0, 0], [math.nan, 0, 1]]),
        (Box(0, 1), [[1.001], [-0.001], [math.nan]]),
        (Box.real(1), [[INF], [-INF], [math.nan]]),
        (Box(0, INF), [[INF], [-0.001]]),
        (MIXED, [[1, 0, 0, 2.0, 0, 1, 0], [0.9, 0.1, 0, 0.0, 0, 1, 0], [1, 0, 0, 0, 0, 0, 0]]),
    ],
)
def test_what_is_not_an_action_is_not_contained(space, actions):
    assert not quick_jit(jax.vmap(space.contains))(np.array(actions, dtype=np.float32)).any()


# From an unconstrained vector to an action.


def test_the_start_of_the_ascent_hardens_to_valid_actions(name):
    seen = look(name)
    assert seen.raws.shape == seen.hardened.shape == (NUM, SPACES[name].dim)
    assert seen.hardened_inside.all()


def test_the_start_of_the_ascent_is_off_the_walls_of_a_bounded_box():
    from_the_middle = np.abs(look("bounded").hardened - [0, 10.25]) / [1, 0.25]
    assert from_the_middle.max() <= 0.8 + 1e-5


def test_a_hard_action_is_one_hot_forward_and_soft_backward():
    key, raw, temperature = jr.key(4, impl="unsafe_rbg"), jnp.array([0.2, -0.1, 0.4]), jnp.asarray(0.7)

    @quick_jit
    def relax_with_slopes(hard):
        def relax(raw):
            action = OFFERS.relax(key, raw, temperature, hard)
            return action, action

        return jax.jacrev(relax, has_aux=True)(raw)

    (soft_slopes, soft), (hard_slopes, hard) = relax_with_slopes(SOFT), relax_with_slopes(HARD)
    assert soft.min() > 0.01
    assert soft.max() < 0.99
    np.testing.assert_allclose(hard, np.eye(3)[np.argmax(soft)], atol=1e-6)
    np.testing.assert_allclose(hard_slopes, soft_slopes, rtol=1e-6)
    # d softmax_i / d raw_j = s_i (1[i = j] - s_j) / tau
    soft = np.asarray(soft)
    np.testing.assert_allclose(soft_slopes, (np.diag(soft) - np.outer(soft, soft)) / 0.7, atol=1e-5)


@jax.jit
def relax_many(keys, raw, temperature):
    return jax.vmap(lambda k: Discrete(4).relax(k, raw, temperature, SOFT))(keys)


def test_the_largest_entry_of_gumbel_softmax_follows_softmax_at_every_temperature():
    raw, num = jnp.array([1.0, 0.0, -1.0, 0.5]), 40_000
    keys = jr.split(jr.key(5), num)
    warm, cold = (np.asarray(relax_many(keys, raw, t)).argmax(axis=1) for t in (2.0, 0.25))
    np.testing.assert_array_equal(warm, cold)
    expected = np.asarray(jax.nn.softmax(raw))
    shares = np.bincount(warm, minlength=4) / num
    # Four binomial shares within 4.5 standard errors: false alarm below 1 in 30,000.
    assert (np.abs(shares - expected) < 4.5 * np.sqrt(expected * (1 - expected) / num)).all()


def test_cold_gumbel_softmax_is_nearly_one_hot_and_hot_nearly_uniform():
    keys = jr.split(jr.key(6), 40_000)
    cold, hot = (np.asarray(relax_many(keys, jnp.zeros(4), t)) for t in (1e-3, 1e4))
    # The two largest of four Gumbels are closer than 0.005 in a fraction of about 0.005 of the draws.
    assert (cold.max(axis=1) > 0.99).mean() > 0.98
    np.testing.assert_allclose(hot, 0.25, atol=1e-3)


def test_hardening_takes_the_largest_logit_without_noise():
    np.testing.assert_array_equal(OFFERS.harden(jnp.array([-1.0, 3.0, 2.9])), [0, 1, 0])


def test_the_actions_of_a_box_need_no_relaxing():
    np.testing.assert_array_equal(look("sides").relaxed, look("sides").hardened)


@quick_jit
def squash(raws):
    """Actions of SIDES at the same raw value in every entry, their slopes, and whether they are inside."""
    each = jax.vmap(lambda r: jax.jvp(SIDES.harden, (jnp.full(4, r),), (jnp.ones(4),)))
    actions, slopes = each(raws)
    return actions, slopes, jax.vmap(SIDES.contains)(actions)


def test_squashing_stays_inside_with_two_bounds_one_or_none():
    actions, slopes, inside = squash(np.linspace(-1e4, 1e4, 401, dtype=np.float32))
    assert np.isfinite(actions).all()
    assert np.isfinite(slopes).all()
    assert inside.all()


def test_squashing_has_a_gradient_along_every_entry():
    _, slopes, _ = squash(np.linspace(-3, 3, 401, dtype=np.float32))
    # The flattest is the bounded entry: half a width times 1 - tanh^2.
    assert slopes.min() > 0.5 * (1 - math.tanh(3) ** 2) * 0.99


def test_squashing_reaches_all_of_a_bounded_box():
    actions = np.asarray(squash(np.linspace(-10, 10, 401, dtype=np.float32))[0])
    np.testing.assert_allclose(actions[[0, 200, -1], 0], [0.5, 1.0, 1.5], rtol=1e-6)


def test_a_product_relaxes_each_part_with_its_own_noise():
    space = Product([Discrete(2), Discrete(2)])
    action = np.asarray(quick_jit(space.relax)(jr.key(8, impl="unsafe_rbg"), jnp.zeros(4), ONE, SOFT))
    np.testing.assert_allclose(action.reshape(2, 2).sum(axis=1), 1, rtol=1e-6)
    assert (action[:2] != action[2:]).all()


def test_a_hard_product_is_a_valid_action_with_a_gradient_in_every_entry():
    @quick_jit
    def relax_with_slopes(raw):
        def relax(raw):
            return MIXED.relax(jr.key(9, impl="unsafe_rbg"), raw, ONE, HARD)

        return MIXED.contains(relax(raw)), jax.jacrev(relax)(raw)

    inside, slopes = relax_with_slopes(jnp.array([0.1, 0.0, -0.1, 0.3, -0.2, 0.0, 0.1]))
    assert inside
    assert (np.diagonal(slopes) > 1e-4).all()
    # The parts know nothing of each other.
    assert np.abs(slopes[:3, 3:]).max() == np.abs(slopes[3:, :3]).max() == 0


# Discrete combinations.


@pytest.mark.parametrize(
    ("space", "num", "continuous"),
    [
        (OFFERS, 3, ()),
        (SIDES, 1, (0, 1, 2, 3)),
        (MIXED, 6, (3, 4)),
        (Product([OFFERS, Discrete(2)]), 6, ()),
        (Product([Box(0, 1), Box(0, 1)]), 1, (0, 1)),
    ],
)
def test_every_discrete_combination_is_listed_once_with_zeros_in_the_continuous_entries(space, num, continuous):
    rows = space.enumerate_discrete()
    assert space.continuous == continuous
    assert rows.shape == (num, space.dim)
    assert len(np.unique(rows, axis=0)) == num
    assert (rows[:, continuous] == 0).all()


def test_a_discrete_combination_with_valid_continuous_entries_is_an_action(name):
    assert look(name).filled_rows_inside.all()


def test_the_weights_of_row_j_are_the_j_th_unit_vector(name):
    np.testing.assert_array_equal(look(name).weights_of_rows, np.eye(len(SPACES[name].enumerate_discrete())))


def test_the_weights_of_relaxed_actions_sum_to_one_and_mix_the_rows_to_the_action(name):
    seen, space = look(name), SPACES[name]
    np.testing.assert_allclose(seen.weights.sum(axis=1), 1, rtol=1e-5)
    assert (seen.weights >= 0).all()
    discrete = [i for i in range(space.dim) if i not in space.continuous]
    mixed = seen.weights @ space.enumerate_discrete()
    np.testing.assert_allclose(mixed[:, discrete], seen.relaxed[:, discrete], atol=1e-6)


# The user's words.


def test_labels_are_parsed_back_to_the_action(name):
    space = SPACES[name]
    for action in look(name).samples[:8]:
        np.testing.assert_array_equal(space.parse(space.label(action)), action)


@same_examples
@given(st.lists(st.text(min_size=1, max_size=5), min_size=2, max_size=5, unique=True))
def test_any_distinct_names_make_a_discrete_space(names):
    space = Discrete(names)
    assert [space.label(space.parse(name)) for name in names] == names


@same_examples
@given(st.floats(-1e6, 1e6, width=32))
def test_any_number_is_its_own_label(number):
    box = Box.real(1)
    assert box.label(box.parse(number)) == number


def test_labels_are_names_numbers_and_tuples_of_them():
    assert OFFERS.label([0, 1, 0]) == "5%"
    assert Discrete(3).names == ("1", "2", "3")
    assert Box(0, 1).label([0.25]) == 0.25
    assert Box(0, [1, 5]).label([0.25, 4]) == (0.25, 4.0)
    assert MIXED.label([0, 0, 1, -0.5, 2, 1, 0]) == ("10%", (-0.5, 2.0), "1")


def test_many_actions_are_translated_as_each_of_them(name):
    space, samples = SPACES[name], look(name).samples[:8]
    words = space.labels(samples)
    assert words == [space.label(action) for action in samples]
    np.testing.assert_array_equal(space.parse_all(words), samples)
    assert space.parse_all([]).shape == (0, space.dim)
    assert space.labels(samples[:0]) == []


def test_named_numbers_are_dictionaries_and_columns_of_their_names():
    box = Box([0, 1], [1, 5], names=["price", "days"])
    assert box.labels([[0.25, 4]]) == [{"price": 0.25, "days": 4.0}]
    np.testing.assert_array_equal(box.parse({"days": 4, "price": 0.25}), [0.25, 4])
    assert label_columns(box.labels([[0.25, 4], [1, 2]])) == {"price": [0.25, 1.0], "days": [4.0, 2.0]}
    with pytest.raises(SpaceError, match="needs as many different names"):
        Box(0, [1, 5], names=["price", "price"])


def test_digits_are_cut_without_leaving_the_box():
    assert Box(0, 0.1234567, names=["price"]).labels([[0.1234567], [0.0123456789]], digits=6) == [
        {"price": 0.1234567},
        {"price": 0.0123457},
    ]


def test_names_given_as_numbers_are_parsed_as_numbers():
    np.testing.assert_array_equal(Discrete([10, 20]).parse(20), [0, 1])


def test_search_bounds_are_the_box_or_four_scales_around_what_is_finite():
    low, high = SIDES.search_bounds()
    np.testing.assert_allclose(low, [0.5, -8, -13, 2])
    np.testing.assert_allclose(high, [1.5, 8, 3, 18])
    assert not SIDES.bounded
    assert Box(0, 1).bounded


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Discrete("none"), r"not the single string 'none'\. Write Discrete\(\['none'"),
        (lambda: Discrete(1), "at least 2 actions, got 1"),
        (lambda: Discrete([]), "at least 2 actions, got 0"),
        (lambda: Discrete(["a", "b", "a", "c", "c"]), r"must differ; \['a', 'c'\]"),
        (lambda: Discrete([1, "1"]), r"must differ; \['1'\]"),
        (lambda: Box("low", 1), "must be numbers or vectors of one length, got low='low'"),
        (lambda: Box([0, 0], [1, 1, 1]), "must be numbers or vectors of one length"),
        (lambda: Box(1, 1), r"low < high in every entry, got low=\[1.0\], high=\[1.0\]"),
        (lambda: Box([0, 2], [1, 1]), r"low < high in every entry, got low=\[0.0, 2.0\]"),
        (lambda: Box(math.nan, 1), "low < high in every entry"),
        (lambda: Box(INF, INF), "low < high in every entry"),
        (lambda: Box(np.zeros((2, 2)), 1), "numbers or vectors with at least one entry"),
        (lambda: Box(0, 1, scale=0), "scale must be a positive number, got 0"),
        (lambda: Box(0, 1, scale=INF), "scale must be a positive number, got inf"),
        (lambda: Product([]), "non-empty list of Discrete and Box"),
        (lambda: Product([OFFERS, 3]), "non-empty list of Discrete and Box"),
        (lambda: Product([MIXED]), "flatten nested products"),
        (
            lambda: Product([Discrete(400), Discrete(400)]),
            f"160,000 discrete combinations; at most {MAX_ENUMERATION:,}",
        ),
    ],
)
def test_impossible_spaces_say_what_is_wrong(build, message):
    with pytest.raises(SpaceError, match=message):
        build()


@pytest.mark.parametrize(
    ("space", "value", "message"),
    [
        (OFFERS, "20%", "'20%' is not an action. Allowed: none, 5%, 10%"),
        (OFFERS, math.nan, "nan is not an action"),
        (Box(0, 1, names=["price"]), {"cost": 1}, r"{'cost': 1} is not numbers of \['price'\]"),
        (Box(0, 1, names=["price"]), 0.5, r"0.5 is not numbers of \['price'\]"),
        (Box(0, 1), "much", r"'much' is not a number \(or a list of 1\)"),
        (Box(0, 1), 1.5, r"1.5 is not in the box of 1 number\(s\) between \[0.0\] and \[1.0\]"),
        (Box(0, 1), math.nan, "nan is not in the box"),
        (Box(0, 1), None, "None is not in the box"),
        (Box(0, 1), [0.5, 0.5], "is not in the box of 1"),
        (Box(0, [1, 1]), 0.5, "is not in the box of 2"),
        (Box(0, [1, 1]), [[1], [1, 2]], "is not a number"),
        (MIXED, ("none", (0, 1)), "is not a list of 3 values, one for each part"),
        (MIXED, "none", "is not a list of 3 values"),
        (MIXED, 3, "is not a list of 3 values"),
        (MIXED, ("20%", (0, 1), "1"), "'20%' is not an action"),
        (MIXED, ("none", (0, -1), "1"), "is not in the box of 2"),
    ],
)
def test_values_outside_the_space_say_what_is_allowed(space, value, message):
    with pytest.raises(SpaceError, match=message):
        space.parse(value)


@pytest.mark.parametrize("build", [lambda: Box([], []), lambda: Box.real(0)])
def test_a_box_without_entries_is_refused(build):
    with pytest.raises(SpaceError):
        build()


@pytest.mark.parametrize("build", [lambda: Discrete(None), lambda: Product(Box(0, 1)), lambda: Box(0, 1, scale="wide")])
def test_arguments_of_the_wrong_kind_are_space_errors(build):
    with pytest.raises(SpaceError):
        build()


def test_the_number_of_actions_may_be_a_numpy_integer():
    assert Discrete(np.int64(3)).names == ("1", "2", "3")


def test_squashing_never_leaves_a_box_even_by_rounding():
    """A reward such as log(a - low) is NaN one ulp outside."""
    low, high = np.float32(0.1), np.float32(0.7)
    action = Box(0.1, 0.7).harden(jnp.array([12.0]))
    assert low <= action[0] <= high


def test_a_grid_holds_the_bounds_and_every_combination():
    space = Product([Discrete(["mail", "phone"]), Box([0.0, -1.0], [2.0, 1.0])])
    grid = space.grid(9)
    assert grid.shape == (18, 4)
    for row in grid:
        assert bool(space.contains(jnp.asarray(row)))
    assert {tuple(row) for row in grid[:, 2:]} >= {(0.0, -1.0), (0.0, 1.0), (2.0, -1.0), (2.0, 1.0), (1.0, 0.0)}
    assert {tuple(row) for row in grid[:, :2]} == {(1.0, 0.0), (0.0, 1.0)}


def test_a_grid_over_many_numbers_is_a_sequence_that_fills_the_box():
    grid = Box(np.zeros(8), 2.0).grid(256)
    assert grid.shape == (256, 8)
    assert (np.abs(grid.mean(axis=0) - 1) < 0.02).all()


def test_named_actions_are_their_own_grid():
    space = Discrete(3)
    np.testing.assert_array_equal(space.grid(), space.enumerate_discrete())
