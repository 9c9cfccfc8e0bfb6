"""Factors by products against numpy and against JAX's own gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cobed.linalg import log_det, lower_inverse, whitener


def positive_definite(size, seed=0):
    root = np.random.default_rng(seed).normal(size=(size, size))
    return jnp.asarray(root @ root.T + 0.3 * size * np.eye(size), jnp.float32)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 49])
def test_a_lower_triangular_matrix_times_its_inverse_is_the_identity(size):
    lower = jnp.linalg.cholesky(positive_definite(size))
    inverse = lower_inverse(lower)
    np.testing.assert_allclose(inverse @ lower, np.eye(size), atol=1e-5)
    np.testing.assert_array_equal(inverse, jnp.tril(inverse))


@pytest.mark.parametrize("size", [1, 5, 49])
def test_whitening_and_its_gradient_are_those_of_the_cholesky_factor(size):
    matrix = positive_definite(size)
    mix = jnp.asarray(np.random.default_rng(1).normal(size=(size, size)), jnp.float32)

    def by_solving(matrix):
        solved = jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(matrix), jnp.eye(size), lower=True)
        return jnp.sum(mix * solved)

    white = whitener(matrix)
    np.testing.assert_allclose(white @ matrix @ white.T, np.eye(size), atol=1e-5)
    ours, theirs = (jax.grad(f)(matrix) for f in (lambda m: jnp.sum(mix * whitener(m)), by_solving))
    # Only symmetric changes of the matrix mean anything.
    np.testing.assert_allclose(ours + ours.T, theirs + theirs.T, rtol=1e-3, atol=1e-5 * float(jnp.abs(theirs).max()))


def test_the_log_determinant_is_that_of_numpy():
    matrix = positive_definite(30)
    assert float(log_det(matrix)) == pytest.approx(np.linalg.slogdet(np.asarray(matrix, np.float64))[1], rel=1e-5)
