"""The Lasso for thousands of worlds at once: a point estimate of psi, as the paper uses for its causal graph.

    minimise over w   1 / (2 n) |y - f(0) - X w|^2 + alpha |w|_1        (scikit-learn's objective, no intercept)

All worlds share X, so all share A = X^T X / n. Splitting w from its sparse copy z (ADMM with over-relaxation; Boyd, Parikh,
Chu, Peleato & Eckstein 2011) makes each iteration one product with a matrix inverted once:

    w = (A + R)^-1 (q + R (z - u)),   h = 1.8 w - 0.8 z,   z = shrink(h + u, alpha / R),   u = u + h - z

with q = X^T (y - f(0)) / n and R a diagonal of step sizes. Coordinate descent needs several hundred sweeps of small dependent
steps to the same accuracy where the columns overlap as they do here.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.flatten_util import ravel_pytree

from cobed.compilation import lean_jit
from cobed.data import Data
from cobed.errors import ProblemError
from cobed.inference.base import AbstractSampler, Draws
from cobed.inference.second_route import quadratic_witnesses
from cobed.models.gaussian import is_affine, outcomes_and_slopes
from cobed.problem import Problem
from cobed.types import Array, Float, Key, present

RELAXATION = 1.8
# Of the diagonal of X^T X / n. Measured on the causal graph: .4 needs 60 iterations to 1e-6, .2 and .8 about 110.
STEP_SHARE = 0.4


class Lasso(AbstractSampler):
    """One draw: the estimate itself, of weight one. There is no posterior around it; deployment acts as if it were psi.

    `penalty` is scikit-learn's alpha; `cross_validate` chooses it for a design. Stops when no entry moves by more than
    `tolerance`.
    """

    num_together = 250
    # An array, so that designs with different penalties share compiled code.
    penalty: Float[Array, ""] = eqx.field(converter=jnp.asarray)
    tolerance: float = eqx.field(static=True, default=1e-5)
    max_iterations: int = eqx.field(static=True, default=1000)
    num_draws: int = eqx.field(static=True, default=1, init=False)

    def __check_init__(self):
        if not self.penalty > 0:
            raise ProblemError(f"The penalty of a Lasso must be positive, got {float(self.penalty):g}.")

    @property
    def name(self) -> str:
        return "lasso"

    def unfit(self, model, data):
        if model.gaussian_noise() is None:
            return f"{type(model).__name__} has no Gaussian noise, for which least squares are made (AbstractGaussianModel)."
        if not is_affine(model, data.contexts, data.actions):
            return f"the mean reward of {type(model).__name__} is not affine in psi."
        return None

    def draw(self, key, model, data):
        noise_std = present(model.gaussian_noise())
        flat, unravel = ravel_pytree(model.sample_prior(key))
        at_zero, slopes = outcomes_and_slopes(model, data.contexts, data.actions, jnp.zeros_like(flat))
        residuals = data.outcomes - at_zero
        gram, moments = slopes.T @ slopes / data.num_rows, slopes.T @ residuals / data.num_rows
        estimate, change = lasso(gram, moments, self.penalty, self.tolerance, self.max_iterations)
        params = jax.tree.map(lambda leaf: leaf[None], unravel(estimate))
        precision = data.num_rows * noise_std**-2
        seen = quadratic_witnesses(params, estimate[None], precision * moments, precision * gram, residuals, noise_std)
        return Draws(params, jnp.zeros(1), {"ess": jnp.ones(()), "change": change}, seen)

    def judge(self, diagnostics):
        if diagnostics["change"] <= self.tolerance:
            return ()
        return (
            f"The Lasso still moved by {diagnostics['change']:.1g} after {self.max_iterations} iterations, more than "
            f"{self.tolerance:.1g}. Raise max_iterations, or the penalty.",
        )


def lasso(
    gram: Float[Array, "P P"],
    moments: Float[Array, "*worlds P"],
    penalty: Float[Array, ""] | float,
    tolerance: float = 1e-5,
    max_iterations: int = 1000,
) -> tuple[Float[Array, "*worlds P"], Float[Array, "*worlds"]]:
    """The minimisers w of 1/2 w.A w - q.w + alpha |w|_1, one per world, and how far their last iteration moved.

    `gram` = A = X^T X / n, `moments` = q = X^T y / n. Computes in the precision of its arguments; in single precision a
    `tolerance` below 1e-6 is out of reach.
    """
    # A column of zeros keeps w at zero; its step size only has to be positive.
    steps = STEP_SHARE * jnp.diagonal(gram)
    steps = jnp.where(steps > 0, steps, 1.0)
    inverse = jnp.linalg.inv(gram + jnp.diag(steps))
    # w = (q + R (z - u)) (A + R)^-1, with what does not change taken out of the loop.
    ridge, pull_back = moments @ inverse, steps[:, None] * inverse

    def unfinished(state):
        _, _, change, number = state
        return jnp.any(change > tolerance) & (number < max_iterations)

    def iterate(state):
        z, u, _, number = state
        w = ridge + (z - u) @ pull_back
        h = RELAXATION * w + (1 - RELAXATION) * z
        new = shrink(h + u, penalty / steps)
        # Where the copies agree and stand still, w is the minimiser.
        change = jnp.max(jnp.maximum(jnp.abs(new - z), jnp.abs(w - new)), axis=-1)
        return new, u + h - new, change, number + 1

    zero = jnp.zeros_like(moments)
    infinite = jnp.full(moments.shape[:-1], jnp.inf, moments.dtype)
    z, _, change, _ = jax.lax.while_loop(unfinished, iterate, (zero, zero, infinite, 0))
    return z, change


def shrink(values: Float[Array, "*worlds P"], amounts: Float[Array, " P"]) -> Float[Array, "*worlds P"]:
    """Towards zero by `amounts`."""
    return jnp.sign(values) * jnp.maximum(jnp.abs(values) - amounts, 0.0)


def cross_validate(
    key: Key[Array, ""],
    problem: Problem,
    actions: Any,
    *,
    num_worlds: int = 64,
    num_folds: int = 5,
    num_penalties: int = 24,
) -> Lasso:
    """The Lasso whose penalty predicts left-out rows of the design `actions` (D, A) best, on average over worlds.

    One penalty a design, as in the paper, from `num_worlds` drawn from the prior. The candidates are evenly spaced in their
    logarithm from the smallest that makes all of psi zero in every world down to its thousandth.
    """
    if not 2 <= num_folds <= problem.num_contexts:
        raise ProblemError(
            f"num_folds must be from 2 to the {problem.num_contexts} rows of the design, got {num_folds}."
        )
    if num_worlds < 1 or num_penalties < 2:
        raise ProblemError(
            f"Cross-validation needs a world and two penalties at least, got {num_worlds} and {num_penalties}."
        )
    design = Data(problem.contexts, problem.check_actions(actions), np.zeros(problem.num_contexts))
    Lasso(1.0).require_fit(problem.model, design)
    fold_key, key = jr.split(key)
    # Folds of as equal size as possible, in random order.
    folds = np.asarray(jr.permutation(fold_key, problem.num_contexts)) % num_folds
    kept = jnp.asarray(np.arange(num_folds)[:, None] != folds, jnp.float32)
    penalties, errors = _fold_errors(key, problem, design, kept, num_worlds, num_penalties)
    return Lasso(float(penalties[np.argmin(np.asarray(errors))]))


@lean_jit
def _fold_errors(
    key: Key[Array, ""],
    problem: Problem,
    design: Data,
    kept: Float[Array, "folds D"],
    num_worlds: int,
    num_penalties: int,
) -> tuple[Float[Array, " penalties"], Float[Array, " penalties"]]:
    """The candidates, and the mean squared error of each on the rows that were left out."""
    flat, _ = ravel_pytree(problem.sample_world(key))
    at_zero, slopes = outcomes_and_slopes(problem.model, design.contexts, design.actions, jnp.zeros_like(flat))

    def simulate(key):
        world_key, noise_key = jr.split(key)
        return problem.sample_outcomes(noise_key, problem.sample_world(world_key), design.actions) - at_zero

    outcomes = jax.vmap(simulate)(jr.split(key, num_worlds))
    largest = jnp.max(jnp.abs(outcomes @ slopes)) / design.num_rows
    penalties = largest * jnp.logspace(0, -3, num_penalties)

    def fold(kept):
        num_rows = jnp.sum(kept)
        rows = kept[:, None] * slopes
        gram, moments = rows.T @ slopes / num_rows, outcomes @ rows / num_rows

        def error(penalty):
            estimates, _ = lasso(gram, moments, penalty, tolerance=1e-4)
            return jnp.sum((1 - kept) * (outcomes - estimates @ slopes.T) ** 2) / jnp.sum(1 - kept)

        return jax.lax.map(error, penalties)

    return penalties, jnp.mean(jax.lax.map(fold, kept), axis=0) / num_worlds
