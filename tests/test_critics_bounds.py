"""Bounds against exact information, critics pair by pair, and the scales in front of them."""

import functools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.special import logsumexp

from cobed.bounds import SATURATION, infonce, infonce_ceiling, is_saturated, prior_contrastive
from cobed.critics import (
    MAX_COMPONENTS,
    WHITENING_FLOOR,
    Joint,
    Layers,
    OutcomeLayer,
    OutcomeScale,
    Separable,
    ValueScale,
)
from cobed.errors import BudgetError
from cobed.models import from_simulator
from cobed.objectives import outcome_scale
from cobed.problem import Problem
from cobed.spaces import Discrete

# What runs once and briefly is compiled in haste.
quick_jit = functools.partial(
    jax.jit, compiler_options={"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
)


# InfoNCE as a formula.


def naive_infonce(scores):
    """mean_i log( exp U_ii / ((1/B) sum_j exp U_ij) ), written as it is read."""
    return jnp.mean(jnp.log(jnp.exp(jnp.diagonal(scores)) / jnp.mean(jnp.exp(scores), axis=1)))


bound = quick_jit(infonce)


def random_scores(seed, scale=1.0, size=100):
    return np.float32(scale) * np.random.default_rng(seed).normal(size=(size, size)).astype(np.float32)


def test_infonce_and_its_gradient_are_those_of_the_formula():
    # The outer function makes the cotangent something other than one.
    (value, slopes), (naive_value, naive_slopes) = (
        quick_jit(jax.value_and_grad(lambda s, bound=bound: jnp.sin(3 * bound(s))))(random_scores(0, scale=2, size=6))
        for bound in (infonce, naive_infonce)
    )
    np.testing.assert_allclose(value, naive_value, rtol=1e-5)
    np.testing.assert_allclose(slopes, naive_slopes, rtol=1e-4, atol=1e-7)


def test_infonce_and_its_gradient_are_the_same_under_vmap():
    batches = np.stack([random_scores(seed, size=5) for seed in range(3)])
    values, slopes = quick_jit(jax.vmap(jax.value_and_grad(infonce)))(batches)
    exact = [np.mean(np.diag(batch) - logsumexp(batch, axis=1)) + np.log(5) for batch in batches]
    np.testing.assert_allclose(values, exact, rtol=1e-5)
    shares = np.exp(batches - logsumexp(batches, axis=2, keepdims=True))
    np.testing.assert_allclose(slopes, (np.eye(5) - shares) / 5, rtol=1e-4, atol=1e-6)


def test_infonce_and_its_gradient_do_not_overflow():
    value, slopes = quick_jit(jax.value_and_grad(infonce))(random_scores(2, scale=1e30, size=8))
    assert np.isfinite(value)
    assert np.isfinite(slopes).all()


def test_infonce_of_scores_that_tell_nothing_is_zero():
    """Constant, or depending on the outcome alone: then every pair fits equally."""
    np.testing.assert_allclose(bound(np.full((100, 100), 3, np.float32)), 0, atol=1e-5)
    np.testing.assert_allclose(bound(np.tile(random_scores(3)[:, :1], 100)), 0, atol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 10.0, 100.0])
def test_infonce_never_exceeds_log_b(scale):
    assert bound(scale * np.eye(100, dtype=np.float32)) <= np.log(100) + 1e-4
    assert bound(random_scores(4, scale)) <= np.log(100) + 1e-4


def test_infonce_reaches_log_b_for_perfect_scores():
    np.testing.assert_allclose(bound(100 * np.eye(100, dtype=np.float32)), np.log(100), rtol=1e-5)


def test_infonce_never_exceeds_log_b_for_absurd_scores():
    worst = max(float(bound(np.float32(scale) * np.eye(100, dtype=np.float32))) for scale in (1e4, 1e6, 1e7, 1e8))
    assert worst <= np.log(100) + 1e-4


def test_the_ceiling_is_log_b_and_saturation_begins_near_it():
    assert infonce_ceiling(512) == pytest.approx(math.log(512))
    assert is_saturated(SATURATION * math.log(512) + 1e-6, 512)
    assert not is_saturated(SATURATION * math.log(512) - 1e-6, 512)
    assert not is_saturated(0.0, 2)


# InfoNCE with the optimal critic, log p(y | m) / p(y), against exact information.

RHO = 0.8
EXACT_NORMAL = -0.5 * math.log1p(-(RHO**2))


@functools.partial(jax.jit, static_argnums=(1, 2))
def infonce_of_normals(key, size, num_batches):
    """InfoNCE on batches of a bivariate normal with correlation RHO."""

    def one(key):
        m, noise = jr.normal(key, (2, size))
        y = RHO * m + math.sqrt(1 - RHO**2) * noise
        # log N(y; rho m, 1 - rho^2) - log N(y; 0, 1), up to what depends on y alone
        return infonce(-0.5 * (y[:, None] - RHO * m[None, :]) ** 2 / (1 - RHO**2))

    return jax.lax.map(one, jr.split(key, num_batches))


@pytest.fixture(scope="module")
def normals():
    """InfoNCE estimates by batch size."""
    sizes = {4: 2_000, 512: 100}
    return {size: np.asarray(infonce_of_normals(jr.key(5), size, num)) for size, num in sizes.items()}


@pytest.mark.parametrize("size", [4, 512])
def test_infonce_stays_below_the_exact_information_of_a_bivariate_normal(normals, size):
    """I = -1/2 log(1 - rho^2)."""
    estimates = normals[size]
    error = estimates.std() / math.sqrt(len(estimates))
    assert estimates.mean() <= EXACT_NORMAL + 4 * error  # false alarm below 1 in 30,000 even were the bound exact


def test_infonce_of_a_large_batch_is_near_the_exact_information_and_of_a_small_one_far_below(normals):
    # At B = 512 the standard error is below 1% of the information, so 5% is more than 5 of them: below 1 in 1,000,000.
    assert normals[512].std() / 10 < 0.01 * EXACT_NORMAL
    assert normals[512].mean() == pytest.approx(EXACT_NORMAL, rel=0.05)
    assert normals[4].mean() < 0.8 * EXACT_NORMAL


def test_infonce_of_a_large_batch_is_near_the_exact_information_of_two_coins():
    """theta ~ Bern(.4), y ~ Bern((.5 + theta) / 2): I = 0.1258037 nats, by enumeration of the four outcomes."""
    prior, chance = np.array([0.6, 0.4]), np.array([[0.75, 0.25], [0.25, 0.75]])  # p(theta), p(y | theta)
    ratio = np.log(chance / (prior @ chance))  # [theta, y]
    exact = float((prior[:, None] * chance * ratio).sum())
    assert exact == pytest.approx(0.1258037, abs=1e-7)

    @jax.jit
    def estimate(keys):
        def one(key):
            theta_key, y_key = jr.split(key)
            theta = jr.bernoulli(theta_key, 0.4, (1_024,)).astype(int)
            y = jr.bernoulli(y_key, (0.5 + theta) / 2).astype(int)
            return infonce(jnp.asarray(ratio)[theta[None, :], y[:, None]])

        return jax.lax.map(one, keys)

    estimates = np.asarray(estimate(jr.split(jr.key(6), 60)))
    # The bias is about chi^2 / 2B, below 1e-4; 4.5 standard errors: false alarm below 1 in 100,000.
    error = estimates.std() / math.sqrt(len(estimates))
    assert error < 0.003
    assert abs(estimates.mean() - exact) < 4.5 * error + 1e-4


# Prior contrastive bounds.


@pytest.fixture(scope="module")
def contrasted():
    """Lower and upper bounds by number of contrasts. Coefficients of sds (1, 1.5), noise 1, rows e1, e2, e2."""
    stds, rows = np.array([1.0, 1.5]), np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])

    def bounds(num_contrasts):
        rng = np.random.default_rng(7)
        own, others = stds * rng.normal(size=(2_000, 2)), stds * rng.normal(size=(num_contrasts, 2))
        outcomes = own @ rows.T + rng.normal(size=(2_000, 3))
        # log N(y; Phi psi, I), up to a constant
        own_likelihood = -0.5 * np.sum((outcomes - own @ rows.T) ** 2, axis=-1)
        likelihoods = -0.5 * np.sum((outcomes[:, None] - others @ rows.T) ** 2, axis=-1)
        return prior_contrastive(own_likelihood, logsumexp(likelihoods, axis=1), num_contrasts)

    return {num: tuple(map(np.asarray, bounds(num))) for num in (8, 2_000)}


EXACT_LINEAR = 0.5 * math.log(11)


def test_the_exact_information_of_the_linear_model_is_the_known_number():
    """1/2 log det(I + S Phi' Phi) = 1/2 log((1 + 1)(1 + 2 * 1.5^2))."""
    assert pytest.approx(1.198948, abs=1e-6) == EXACT_LINEAR


@pytest.mark.parametrize("num_contrasts", [8, 2_000])
def test_prior_contrastive_bounds_hold_the_exact_information_between_them(contrasted, num_contrasts):
    lower, upper = contrasted[num_contrasts]
    assert lower.shape == upper.shape == (2_000,)
    # Four standard errors on either side: false alarm below 1 in 15,000 even were both bounds exact.
    assert lower.mean() <= EXACT_LINEAR + 4 * lower.std() / math.sqrt(2_000)
    assert upper.mean() >= EXACT_LINEAR - 4 * upper.std() / math.sqrt(2_000)


def test_prior_contrastive_bounds_close_in_as_the_contrasts_grow(contrasted):
    gaps = {num: float((upper - lower).mean()) for num, (lower, upper) in contrasted.items()}
    assert 0 < gaps[2_000] < 0.02
    assert gaps[8] > 10 * gaps[2_000]


def test_the_lower_contrastive_bound_never_exceeds_the_log_of_all_its_draws(contrasted):
    assert all(lower.max() <= math.log(num + 1) + 1e-5 for num, (lower, _) in contrasted.items())
    lower, upper = prior_contrastive(jnp.array([0.0]), jnp.array([-1e6]), 8)
    np.testing.assert_allclose(lower, math.log(9), rtol=1e-6)
    assert upper[0] > 1e5


# Critics.

NUM_CONTEXTS, NUM_FEATURES = 3, 5
SPECS = {
    "separable": Separable(hidden=(8, 7), embedding=4),
    "separable without hidden layers": Separable(hidden=(), embedding=4),
    "separable with batch norm": Separable(hidden=(8, 7), embedding=4, batch_norm=True),
    "joint": Joint(hidden=(8, 7)),
}


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def quick_key(seed):
    """Not the default threefry: its compilation would take most of the time."""
    return jr.key(seed, impl="unsafe_rbg")


def inputs(num_discrete, num_outcomes=6, num_values=6):
    """Outcomes, features and the weights of a hard design."""
    design = np.eye(num_discrete, dtype=np.float32)[np.array([0, 1, 0]) % num_discrete]
    return normal(8, num_outcomes, NUM_CONTEXTS), normal(9, num_values, NUM_FEATURES), design


def build(spec, num_discrete=2):
    """A critic as after training: the shifts start at zero, where a fault in them would not show."""
    critic = spec.build(quick_key(10), NUM_CONTEXTS, num_discrete, NUM_FEATURES)
    if num_discrete == 1:
        return critic
    shifts = normal(11, *critic.outcome_layer.shifts.shape)
    return eqx.tree_at(lambda c: c.outcome_layer.shifts, critic, jnp.asarray(shifts))


@functools.cache
def scored(name):
    """Scores of a whole batch, of the pair (2, 4) alone and of the batch without its last rows; then the same frozen."""
    outcomes, values, weights = inputs(2)

    @quick_jit
    def run():
        critic = build(SPECS[name])
        frozen = critic.freeze(outcomes, values, weights)
        return [
            (c(outcomes, values, weights), c(outcomes[2:3], values[4:5], weights), c(outcomes[:4], values[:4], weights))
            for c in (critic, frozen)
        ]

    return jax.tree.map(np.asarray, run())


@pytest.mark.parametrize("num_discrete", [1, 2])
@pytest.mark.parametrize("name", SPECS)
def test_a_critic_scores_every_outcome_against_every_value(name, num_discrete):
    scores = jax.eval_shape(lambda: build(SPECS[name], num_discrete)(*inputs(num_discrete, 6, 4)))
    assert scores.shape == (6, 4)


@pytest.mark.parametrize("name", SPECS)
def test_the_scores_of_a_new_critic_are_finite_and_all_different(name):
    scores = scored(name)[0][0]
    assert np.isfinite(scores).all()
    assert len(np.unique(scores)) == 36


@pytest.mark.parametrize("name", SPECS)
def test_a_frozen_critic_scores_a_pair_the_same_whatever_else_is_in_the_batch(name):
    live, (whole, pair, part) = scored(name)
    np.testing.assert_allclose(whole, live[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(pair[0, 0], whole[2, 4], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(part, whole[:4, :4], rtol=1e-4, atol=1e-5)


def test_only_batch_norm_makes_a_critic_depend_on_the_batch():
    for name in SPECS:
        (whole, _, part), _ = scored(name)
        assert np.allclose(part, whole[:4, :4], rtol=0.01, atol=1e-3) == ("batch norm" not in name), name


def test_batch_norm_takes_out_shift_and_scale_of_the_batch_until_it_is_frozen():
    hidden = normal(14, 32, 8)
    moved = 5 + 3 * hidden

    @quick_jit
    def run():
        network = Layers.initial(quick_key(15), (1, 8, 3), batch_norm=True)
        frozen = network.freeze(hidden)
        again = frozen.freeze(moved)
        live = network.after_first(hidden), network.after_first(moved)
        return network.weights[1], *live, frozen.after_first(moved), again.after_first(moved)

    weights, of_hidden, of_moved, frozen_of_moved, again_of_moved = map(np.asarray, run())
    # Linear in relu of the standardised input: batch statistics leave nothing of the move.
    expected = np.maximum((hidden - hidden.mean(axis=0)) / hidden.std(axis=0), 0) @ weights
    np.testing.assert_allclose(of_hidden, expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(of_moved, expected, rtol=1e-3, atol=1e-3)
    assert np.abs(frozen_of_moved - expected).mean() > 1
    # Frozen once, a second batch changes nothing.
    np.testing.assert_allclose(again_of_moved, frozen_of_moved, rtol=1e-6)


def test_freezing_a_network_without_batch_norm_gives_the_network():
    network = Layers(weights=(jnp.zeros((1, 8)),), biases=(jnp.zeros(8),), gains=None, statistics=None)
    assert network.freeze(jnp.ones((4, 8))) is network


def test_the_separable_critic_is_a_product_of_two_encoders():
    """12 x 12 scores through embeddings of length 4."""
    scores = np.asarray(quick_jit(lambda: build(SPECS["separable"])(*inputs(2, 12, 12)))())
    assert np.linalg.matrix_rank(scores, tol=1e-4 * np.abs(scores).max()) == 4


def test_an_outcome_layer_with_one_hot_weights_takes_the_weights_of_the_actions_taken():
    num_discrete, width = 4, 6
    slopes, shifts = normal(19, NUM_CONTEXTS, num_discrete, width), normal(20, NUM_CONTEXTS, num_discrete, width)
    layer = OutcomeLayer(jnp.asarray(slopes.reshape(-1, width)), jnp.asarray(shifts.reshape(-1, width)))
    outcomes, taken = normal(21, 5, NUM_CONTEXTS), np.array([3, 0, 2])
    expected = sum(outcomes[:, d : d + 1] * slopes[d, taken[d]] + shifts[d, taken[d]] for d in range(NUM_CONTEXTS))
    np.testing.assert_allclose(layer(outcomes, jnp.eye(num_discrete)[taken]), expected, rtol=1e-4, atol=1e-5)


def test_an_outcome_layer_without_discrete_actions_is_one_matrix_product():
    layer = OutcomeLayer.initial(quick_key(22), NUM_CONTEXTS, 1, 6)
    assert layer.shifts is None
    outcomes = normal(23, 5, NUM_CONTEXTS)
    expected = outcomes @ np.asarray(layer.slopes)
    np.testing.assert_allclose(layer(outcomes, jnp.ones((NUM_CONTEXTS, 1))), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "build",
    [
        lambda: Separable(hidden=(0,)),
        lambda: Separable(hidden=(8, -1)),
        lambda: Separable(embedding=0),
        lambda: Joint(hidden=()),
        lambda: Joint(hidden=(8, 0)),
    ],
)
def test_a_critic_with_an_empty_layer_is_refused(build):
    with pytest.raises(BudgetError, match="layers of at least one unit each, got"):
        build()


def test_the_work_of_an_encoder_counts_its_multiplications():
    # Two encoders and the product of their outputs, for one pair; of the joint critic every layer.
    assert Separable(hidden=(4, 5), embedding=2).work(1, 3)[0] == 2 * (3 * 4 + 4 * 5 + 5 * 2) + 2
    assert Joint(hidden=(4, 5)).work(1, 3)[0] == 3 * 4 + 4 * 5 + 5 * 1


# Scales.


def test_a_value_scale_standardises_each_entry_and_whitens_the_components():
    mixing = np.array([[3.0, 1.0, 0.0], [0.0, 0.5, 0.2], [0.0, 0.0, 1.0]])
    values = 100 + normal(24, 500, 3) @ mixing
    scale = ValueScale.fit(jnp.asarray(values))
    features = np.asarray(scale(jnp.asarray(values)))
    assert features.shape == (500, scale.num_features) == (500, 6)
    np.testing.assert_allclose(features.mean(axis=0), 0, atol=1e-3)
    np.testing.assert_allclose(features.std(axis=0), 1, rtol=1e-3)
    np.testing.assert_allclose(np.cov(features[:, 3:].T, bias=True), np.eye(3), atol=2e-3)


def test_small_components_are_amplified_only_so_far():
    big, small = normal(25, 2, 500)
    values = np.stack([big, 1e-4 * small], axis=1)
    scale = ValueScale.fit(jnp.asarray(values))
    np.testing.assert_allclose(scale.std, values.std(axis=0), rtol=1e-4)
    assert np.abs(scale.whitening).max() <= 1.01 / (WHITENING_FLOOR * big.std())


@pytest.mark.parametrize(
    "values",
    [
        np.full((50, 3), 3.3, np.float32),
        np.concatenate([normal(26, 50, 1), np.full((50, 2), 3.3, np.float32)], axis=1),
        np.tile(np.float32(1e-6) * normal(26, 50, 1), 3),
    ],
    ids=["all constant", "two of three constant", "one value thrice"],
)
def test_a_value_scale_survives_values_without_spread(values):
    features = np.asarray(ValueScale.fit(values)(values))
    assert np.isfinite(features).all()
    assert np.abs(features).max() < 10
    spread = features.std(axis=0)
    assert ((spread < 1e-3) | (np.abs(spread - 1) < 0.01)).all()


def test_at_most_so_many_components_are_kept():
    values = normal(27, 100, MAX_COMPONENTS + 6)
    assert ValueScale.fit(values).num_features == 2 * MAX_COMPONENTS + 6
    # Fewer draws than targets.
    assert ValueScale.fit(values[:10]).num_features == MAX_COMPONENTS + 6 + 10


def test_an_outcome_scale_takes_the_statistics_of_the_actions_taken():
    scale = OutcomeScale(mean=jnp.array([[1.0, 2.0], [3.0, 4.0]]), std=jnp.array([[1.0, 10.0], [2.0, 5.0]]))
    weights = jnp.array([[0.0, 1.0], [1.0, 0.0]])
    np.testing.assert_allclose(scale(jnp.array([[12.0, 7.0]]), weights), [[1.0, 2.0]])


@pytest.fixture(scope="module")
def try_or_rest():
    """y = c psi + noise for the first action; the second always pays 3.3."""

    def simulate(key, params, context, action):
        return action[0] * (context[0] * params + jr.normal(key)) + 3.3 * action[1]

    model = from_simulator(jr.normal, simulate, Discrete(["try", "rest"]), 1, num_mean_draws=2)
    with pytest.MonkeyPatch.context() as patch:
        # check_model has tests of its own.
        patch.setattr("cobed.problem.check_model", lambda model, contexts: None)
        problem = Problem(model, [0.0, 1.0, 2.0], [0.0])
    return outcome_scale(jr.key(28), problem, num_draws=2_000)


def test_outcomes_are_scaled_by_their_prior_mean_and_spread_at_every_context(try_or_rest):
    assert try_or_rest.mean.shape == try_or_rest.std.shape == (3, 2)
    exact = np.sqrt([1.0, 2.0, 5.0])
    # Means and sds of 2,000 normals, six numbers within 4.5 standard errors: false alarm below 1 in 20,000.
    np.testing.assert_allclose(try_or_rest.mean[:, 0] / exact, 0, atol=4.5 / math.sqrt(2_000))
    np.testing.assert_allclose(try_or_rest.std[:, 0] / exact, 1, atol=4.5 / math.sqrt(2 * 2_000))


def test_an_outcome_that_never_varies_does_not_divide_by_zero(try_or_rest):
    scaled = np.asarray(try_or_rest(np.full((1, 3), 3.3, np.float32), np.tile([0.0, 1.0], (3, 1))))
    assert np.isfinite(scaled).all()
    assert np.abs(scaled).max() < 5
