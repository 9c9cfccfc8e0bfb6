"""What Gaussian beliefs about psi become after an experiment, where the mean reward is affine in psi.

y = f(mu) + Phi (psi - mu) + sigma e,   psi ~ (mu, L L^T),   B = Phi L / sigma
E[psi | y] = mu + L B^T (I + B B^T)^-1 (y - f(mu)) / sigma
"""

from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.flatten_util import ravel_pytree

from cobed.compilation import lean_jit
from cobed.linalg import whitener
from cobed.models.base import AbstractGaussianModel, AbstractModel, HasGaussianPrior, HasPosteriorMean
from cobed.types import Array, Float, Key, Params

# Where the prior is not Gaussian its moments come from so many draws.
MOMENT_DRAWS = 16_384


class LinearBelief(eqx.Module):
    """A model affine in psi with Gaussian noise, and the mean and a root of the covariance of its flat psi.

    Where psi is Gaussian, `posterior_mean` is exact. Elsewhere it is the best estimate of psi that is affine in the
    outcomes, as if psi and the outcomes were jointly Gaussian.
    """

    model: AbstractGaussianModel
    mean: Float[Array, " P"]
    root: Float[Array, "P P"]

    def posterior_mean(
        self, contexts: Float[Array, "D C"], actions: Float[Array, "D A"], surprise: Float[Array, " D"]
    ) -> Params:
        """See `HasPosteriorMean`."""
        return unraveller(self.model)(self.mean + surprise @ self.gains(contexts, actions))

    def gains(self, contexts: Float[Array, "D C"], actions: Float[Array, "D A"]) -> Float[Array, "D P"]:
        """How the posterior mean of the flat psi moves with each entry of the surprise."""
        _, slopes = rewards_and_slopes(self.model, contexts, actions, self.mean)
        scaled = slopes @ self.root / self.model.noise_std
        # y - E[y] = sigma L_y surprise with L_y L_y^T = I + B B^T, so E[psi | y] - mu = L B^T L_y^-T surprise.
        return whitener(jnp.eye(len(slopes)) + scaled @ scaled.T) @ (scaled @ self.root.T)


def has_belief(model: AbstractModel, contexts: Float[Array, "D C"]) -> bool:
    """Whether `find_belief` finds one, without the draws it may need."""
    return isinstance(model, HasPosteriorMean) or (
        isinstance(model, AbstractGaussianModel) and is_affine(model, contexts)
    )


def find_belief(key: Key[Array, ""], model: AbstractModel, contexts: Float[Array, "D C"]) -> HasPosteriorMean | None:
    """The model's own posterior mean, else a `LinearBelief` where rewards are affine in psi and noise is Gaussian."""
    if not has_belief(model, contexts):
        return None
    if isinstance(model, HasPosteriorMean):
        return model
    model = cast(AbstractGaussianModel, model)
    if isinstance(model, HasGaussianPrior):
        mean, cov = (np.asarray(moment, np.float64) for moment in model.prior_moments())
    else:
        draws = np.asarray(_flat_draws(key, model, MOMENT_DRAWS), np.float64)
        mean, cov = draws.mean(axis=0), np.atleast_2d(np.cov(draws, rowvar=False))
    return LinearBelief(model, jnp.asarray(mean, jnp.float32), jnp.asarray(covariance_root(cov, np), jnp.float32))


def covariance_root(cov, xp):
    """L with L L^T = cov, in the array library `xp`; from the correlations, so that small scales keep their digits."""
    scales = xp.sqrt(xp.diagonal(cov))
    safe = xp.where(scales > 0, scales, 1.0)
    values, vectors = xp.linalg.eigh(cov / safe[:, None] / safe[None, :])
    return scales[:, None] * vectors * xp.sqrt(xp.maximum(values, 0.0))


def num_params(model: AbstractModel) -> int:
    """How many numbers there are in psi."""
    return sum(leaf.size for leaf in jax.tree.leaves(jax.eval_shape(model.sample_prior, jr.key(0))))


def unraveller(model: AbstractModel):
    """The function from the flat psi to the model's own psi."""
    return ravel_pytree(model.sample_prior(jr.key(0)))[1]


def rewards_and_slopes(
    model: AbstractModel, contexts: Float[Array, "D C"], actions: Float[Array, "D A"], flat: Float[Array, " P"]
) -> tuple[Float[Array, " D"], Float[Array, "D P"]]:
    """Mean rewards at the flat psi, and their slopes in it."""
    unravel = unraveller(model)

    def reward(flat, context, action):
        return model.mean_reward(unravel(flat), context, action)

    return jax.vmap(jax.value_and_grad(reward), in_axes=(None, 0, 0))(flat, contexts, actions)


def is_affine(model: AbstractModel, contexts: Float[Array, "D C"], actions: Float[Array, "D A"] | None = None) -> bool:
    """Whether mean rewards are affine in psi: the slopes at draws of the prior agree, at these or at random actions."""
    leaves = jax.tree.leaves(jax.eval_shape(model.sample_prior, jr.key(0)))
    if not all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves):
        return False
    if actions is None:
        actions = jax.vmap(model.action_space.sample)(jr.split(jr.key(1), len(contexts)))
    change, size = _slope_change(model, contexts, actions)
    return bool(change <= 1e-4 * size + 1e-12)


@lean_jit
def _slope_change(model: AbstractModel, contexts: Array, actions: Array) -> tuple[Array, Array]:
    """How much the slopes of the mean reward in psi differ between draws of the prior, beside their size."""
    flats = _flat_draws(jr.key(0), model, 4)
    slopes = jax.vmap(lambda flat: rewards_and_slopes(model, contexts, actions, flat)[1])(flats)
    return jnp.max(jnp.abs(slopes - slopes[0])), jnp.max(jnp.abs(slopes))


def _flat_draws(key: Key[Array, ""], model: AbstractModel, num_draws: int) -> Float[Array, "N P"]:
    return jax.vmap(lambda k: ravel_pytree(model.sample_prior(k))[0])(jr.split(key, num_draws))
