"""Entropies and second-moment information against closed forms."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from cobed.entropy import gaussian_information, negentropy

RNG = np.random.default_rng(10)


def test_a_gaussian_has_no_negentropy_in_any_number_of_dimensions():
    for dim in (1, 3, 12):
        found = negentropy(RNG.normal(size=(4096, dim)) @ RNG.normal(size=(dim, dim)))
        assert found.num_entries == dim
        # 4 standard errors: false alarm below 1 in 15,000 for each dimension.
        assert abs(found.value) < 4 * found.standard_error


def test_the_negentropy_of_uniform_entries_is_known():
    """H of U(0, 1) is 0; of a Gaussian with variance 1/12, 1/2 log(2 pi e / 12) = 0.1765 nats an entry."""
    found = negentropy(RNG.uniform(size=(8192, 2)))
    exact = 2 * 0.5 * np.log(2 * np.pi * np.e / 12)
    # 4 standard errors (false alarm below 1 in 15,000), and what edges cost nearest neighbours.
    assert abs(found.value - exact) < 4 * found.standard_error + 0.05


def test_entries_without_a_density_of_their_own_are_left_out():
    free = RNG.normal(size=(4096, 2))
    curve = np.concatenate([free, np.sin(free[:, :1] * 3)], axis=1)
    assert negentropy(curve).num_entries == 2
    assert negentropy(np.concatenate([free, free @ [[1.0], [2.0]]], axis=1)).num_entries == 2


def test_repeated_draws_count_once():
    draws = RNG.normal(size=(1024, 2))
    found = negentropy(draws[RNG.integers(0, 1024, 4096)])
    assert found.num_entries == 2
    assert abs(found.value) < 4 * found.standard_error  # false alarm below 1 in 15,000


def test_single_values_have_no_density_at_all():
    assert negentropy(RNG.integers(0, 2, size=(2048, 1)).astype(float)).num_entries == 0
    assert negentropy(np.ones((2048, 2))).num_entries == 0


@pytest.mark.parametrize(("batch", "dim"), [(64, 3), (256, 10)])
def test_second_moments_give_the_information_of_gaussians_without_bias(batch, dim):
    """Pairs with correlation .9 in each of `dim` entries: -dim/2 log(1 - .81) nats, also from small samples."""
    exact = -0.5 * dim * np.log(1 - 0.81)

    def one(key):
        x_key, noise_key = jr.split(key)
        x = jr.normal(x_key, (batch, dim))
        return gaussian_information(x, 0.9 * x + np.sqrt(0.19) * jr.normal(noise_key, (batch, dim)))

    values = np.asarray(jax.jit(jax.vmap(one))(jr.split(jr.key(0), 400)), np.float64)
    error = values.std(ddof=1) / 20
    assert abs(values.mean() - exact) < 4 * error  # false alarm below 1 in 15,000


def test_shrinkage_lowers_the_information_and_survives_copies():
    x = jr.normal(jr.key(1), (50, 4))
    y = jnp.concatenate([x, x], axis=1)
    plain, shrunk = gaussian_information(x, x + 0.1 * jr.normal(jr.key(2), x.shape)), gaussian_information(x, y, 0.5)
    assert np.isfinite(shrunk)
    assert shrunk < plain
