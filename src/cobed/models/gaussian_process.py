"""A Gaussian process over (context, action), given what has already been observed. psi is a function.

A draw is a sum of random waves, corrected at the observed points X (pathwise conditioning, Wilson et al. 2020):

    f(x) = mean + phi(x).w + k(x, X) (K + S)^-1 (y - mean - phi(X).w - S^(1/2) e),   w, e ~ N(0, I),   S the noise of y

The waves make the draw cheap everywhere and differentiable; the correction is exact, so that only the prior part of a
draw is an approximation. Solved once, in double precision on the host; used in single precision in compiled code.
"""

from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.errors import ModelError
from cobed.linalg import whitener
from cobed.models.base import AbstractGaussianModel
from cobed.models.kernels import AbstractKernel
from cobed.models.marginal_likelihood import maximise_likelihood
from cobed.models.observations import read_noise, read_rows, whiten
from cobed.spaces import AbstractSpace
from cobed.types import Array, Float, Key

# Of the kernel's variance: the least noise of an experiment that single precision can tell from none.
LEAST_NOISE = 1e-5


class Rows(Protocol):
    """Anything with the columns of `cobed.Data`."""

    contexts: Any
    actions: Any
    outcomes: Any


class FunctionDraw(NamedTuple):
    """One function: random waves, and bumps of the kernel at the model's observations and at further points.

    Draws of the model itself have no further points, M = 0. Draws of a posterior have those of the experiment, the same
    in all draws. Posterior means have no waves, F = 0.
    """

    weights: Float[Array, " F"]
    coefficients: Float[Array, " O"]
    extra_points: Float[Array, "M X"]
    extra_coefficients: Float[Array, " M"]


class Update(NamedTuple):
    """What a design does to the process, whatever the outcomes."""

    points: Float[Array, "D X"]
    cross: Float[Array, "O D"]  # covariance of the design with the observations, whitened by these
    whitener: Float[Array, "D D"]  # L^-1, where L L^T is the covariance of the outcomes before the experiment


class GaussianProcess(AbstractGaussianModel):
    """f ~ GP(mean, kernel) over x = (context, action) laid end to end, given observations; y = f(x) + noise.

    Discrete actions enter one-hot: two of them are as far apart as the lengthscale of their entries says.
    """

    kernel: AbstractKernel
    action_space: AbstractSpace
    points: Float[Array, "O X"]
    outcomes: Float[Array, " O"]
    observation_noise: Float[Array, " O"]
    frequencies: Float[Array, "H X"]
    mean_coefficients: Float[Array, " O"]  # (K + S)^-1 (y - mean)
    whitener: Float[Array, "O O"]  # whitener.T @ whitener = (K + S)^-1
    context_dim: int = eqx.field(static=True)
    noise_std: float = eqx.field(static=True)
    mean: float = eqx.field(static=True)
    seed: int = eqx.field(static=True)

    def __init__(
        self,
        kernel: AbstractKernel,
        action_space: AbstractSpace,
        context_dim: int,
        noise_std: float,
        *,
        mean: float = 0.0,
        num_features: int = 1024,
        seed: int = 0,
    ):
        """The process before any outcome; `condition` gives it what is already known.

        `noise_std` is the standard deviation of outcomes in the experiment to come. `num_features` waves make up a draw, of
        frequencies chosen by `seed`: an error of about 1 / sqrt(num_features) in the correlations of a draw where nothing is
        observed.
        """
        if not noise_std > 0:
            raise ModelError(
                f"noise_std must be positive, got {noise_std!r}. For nearly exact outcomes give a small number."
            )
        if num_features < 2 or num_features % 2:
            raise ModelError(
                f"num_features must be even and at least 2 (a cosine and a sine each), got {num_features}."
            )
        dim = context_dim + action_space.dim
        if kernel.lengthscale.ndim == 1 and kernel.lengthscale.size != dim:
            raise ModelError(
                f"The kernel has {kernel.lengthscale.size} lengthscales; {context_dim} context and {action_space.dim} action "
                f"entries need {dim}, in that order, or a single one for all."
            )
        if not np.isfinite(mean):
            raise ModelError(f"The mean of the process must be a finite number, got {mean!r}.")
        self.kernel, self.action_space, self.context_dim = kernel, action_space, context_dim
        self.noise_std, self.mean, self.seed = float(noise_std), float(mean), seed
        self.frequencies = kernel.frequencies(seed, num_features // 2, dim)
        self.points, self.whitener = jnp.zeros((0, dim)), jnp.zeros((0, 0))
        self.outcomes = self.observation_noise = self.mean_coefficients = jnp.zeros(0)

    def _observing(self, points: np.ndarray, outcomes: np.ndarray, noise: np.ndarray) -> "GaussianProcess":
        """The process with these observations, (O, X), (O,) and (O,), in the place of its own."""
        seen, values = jnp.asarray(points, jnp.float32), jnp.asarray(outcomes, jnp.float32)
        whitener = whiten(self.kernel, np.asarray(seen), noise)
        coefficients = whitener.T @ (whitener @ (np.asarray(values, np.float64) - self.mean))
        arrays = (seen, values, *(jnp.asarray(array, jnp.float32) for array in (noise, whitener, coefficients)))
        return eqx.tree_at(
            lambda m: (m.points, m.outcomes, m.observation_noise, m.whitener, m.mean_coefficients), self, arrays
        )

    @property
    def num_observations(self) -> int:
        return self.outcomes.shape[0]

    @property
    def num_features(self) -> int:
        return 2 * self.frequencies.shape[0]

    def sample_prior(self, key):
        return self.add_mean(self.deviation(key))

    def mean_reward(self, params, context, action):
        x = jnp.concatenate([context, action])
        reward = self.mean + self.kernel.matrix(x[None], self.points)[0] @ params.coefficients
        # The lengths are known when compiled: what a draw does not have costs nothing.
        if params.weights.size:
            reward += self.features(x) @ params.weights
        if params.extra_coefficients.size:
            reward += self.kernel.matrix(x[None], params.extra_points)[0] @ params.extra_coefficients
        return reward

    def features(self, x: Float[Array, " X"]) -> Float[Array, " F"]:
        """phi(x) of `kernels`."""
        angles = self.frequencies @ x
        scale = jnp.sqrt(self.kernel.variance / self.frequencies.shape[0])
        return scale * jnp.concatenate([jnp.cos(angles), jnp.sin(angles)])

    def deviation(self, key: Key[Array, ""]) -> FunctionDraw:
        """A draw minus its mean; its mirror image is as likely."""
        wave_key, noise_key = jr.split(key)
        weights = jr.normal(wave_key, (self.num_features,))
        noise = self.observation_noise * jr.normal(noise_key, self.outcomes.shape)
        seen = jax.vmap(self.features)(self.points) @ weights + noise
        coefficients = -self.whitener.T @ (self.whitener @ seen)
        return FunctionDraw(weights, coefficients, jnp.zeros((0, self.points.shape[1])), jnp.zeros(0))

    def add_mean(self, deviation: FunctionDraw) -> FunctionDraw:
        return deviation._replace(coefficients=self.mean_coefficients + deviation.coefficients)

    def moments(
        self, contexts: Float[Array, "N C"], actions: Float[Array, "N A"]
    ) -> tuple[Float[Array, " N"], Float[Array, "N N"]]:
        """Mean and covariance of the mean reward at N pairs, given the observations."""
        points = jnp.concatenate([contexts, actions], axis=1)
        mean = self.mean + self.kernel.matrix(points, self.points) @ self.mean_coefficients
        return mean, self.covariance(points, points)

    def covariance(self, points: Float[Array, "N X"], others: Float[Array, "M X"]) -> Float[Array, "N M"]:
        """Covariance of the mean rewards at two sets of points (context, action), given the observations."""
        first, second = (self.whitener @ self.kernel.matrix(self.points, x) for x in (points, others))
        return self.kernel.matrix(points, others) - first.T @ second

    def update(self, contexts: Float[Array, "D C"], actions: Float[Array, "D A"]) -> Update:
        """The factors of an experiment. They depend on its design alone."""
        points = jnp.concatenate([contexts, actions], axis=1)
        cross = self.whitener @ self.kernel.matrix(self.points, points)
        noise = jnp.maximum(self.noise_std**2, LEAST_NOISE * self.kernel.variance)
        cov = self.kernel.matrix(points, points) - cross.T @ cross + noise * jnp.eye(points.shape[0])
        # The inverse, not a solve for each draw: a product of matrices is far quicker when there are thousands.
        return Update(points, cross, whitener(cov))

    def correct(self, update: Update, draw: FunctionDraw, surprise: Float[Array, " D"]) -> FunctionDraw:
        """draw + k_O(., X) L^-T surprise, where k_O is the covariance given the observations."""
        extra = update.whitener.T @ surprise
        # k_O(x, X) b = k(x, X) b - k(x, O) (K + S)^-1 k(O, X) b
        coefficients = draw.coefficients - self.whitener.T @ (update.cross @ extra)
        return FunctionDraw(draw.weights, coefficients, update.points, extra)

    def surprise(
        self, update: Update, draw: FunctionDraw, outcomes: Float[Array, " D"], noise: Float[Array, " D"]
    ) -> Float[Array, " D"]:
        """L^-1 (outcomes - f(X) - noise) for the function `draw` of this model."""
        at = jax.vmap(lambda x: self.mean_reward(draw, x[: self.context_dim], x[self.context_dim :]))
        return update.whitener @ (outcomes - at(update.points) - noise)

    def process(self):
        return self

    def given(self, known):
        """The process with all observations, where the posterior is exact. Its functions are psi then, and no others."""
        return known.as_belief().process() or super().given(known)

    def posterior_mean(self, contexts, actions, surprise):
        """The posterior mean reward after outcomes y = E[y] + L surprise, as a function of its own, without waves."""
        # Everything but the last line depends on the design alone: one factorisation for all surprises of a vmap.
        return self.correct(self.update(contexts, actions), self.mean_draw(), surprise)

    def mean_draw(self) -> FunctionDraw:
        """The mean reward given the observations."""
        return FunctionDraw(jnp.zeros(0), self.mean_coefficients, jnp.zeros((0, self.points.shape[1])), jnp.zeros(0))

    def average_params(self, draws, weights):
        mean = jax.tree.map(lambda leaf: jnp.tensordot(weights, leaf, axes=1), draws)
        return mean._replace(extra_points=draws.extra_points[0])

    def shared_params(self, params):
        return FunctionDraw(False, False, True, False)  # pyright: ignore[reportArgumentType]

    def condition(self, data: Rows, noise: Any = None) -> "GaussianProcess":
        """The process given further rows, such as a `cobed.Data`. In double precision on the host.

        `noise` is the standard deviation of their outcomes, one number or one per row; None: `noise_std`.
        """
        points, outcomes = read_rows(
            data.contexts, data.actions, data.outcomes, self.context_dim, self.action_space.dim
        )
        noises = read_noise(self.noise_std if noise is None else noise, len(points))
        before = (np.asarray(array) for array in (self.points, self.outcomes, self.observation_noise))
        return self._observing(*(np.concatenate(pair) for pair in zip(before, (points, outcomes, noises), strict=True)))

    def fit(self, *, noise: bool = True, num_starts: int = 4, seed: int = 0) -> "GaussianProcess":
        """The process with the lengthscales, the variance and the noise under which its observations are likeliest.

        `noise=False` keeps the noise as it is; otherwise one level is fitted to all rows and expected of the experiment.
        The mean is kept. The best of `num_starts` climbs, the first from the present values, the others from random ones.
        """
        residuals = np.asarray(self.outcomes, np.float64) - self.mean
        kernel, noise_std = maximise_likelihood(
            self.kernel,
            np.asarray(self.points, np.float64),
            residuals,
            None if noise else np.asarray(self.observation_noise, np.float64),
            self.noise_std,
            num_starts,
            seed,
        )
        fitted = GaussianProcess(
            kernel, self.action_space, self.context_dim, noise_std if noise else self.noise_std,
            mean=self.mean, num_features=self.num_features, seed=self.seed,
        )  # fmt: skip
        noises = np.full(self.num_observations, noise_std) if noise else np.asarray(self.observation_noise)
        return fitted._observing(np.asarray(self.points), np.asarray(self.outcomes), noises)
