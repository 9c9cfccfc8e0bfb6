"""What Gaussian beliefs about psi become after an experiment, where expected outcomes are affine in psi.

y = f(mu) + Phi (psi - mu) + sigma e,   psi ~ (mu, L L^T),   B = Phi L / sigma
E[psi | y] = mu + L B^T (I + B B^T)^-1 (y - f(mu)) / sigma
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.flatten_util import ravel_pytree

from cobed.compilation import lean_jit
from cobed.linalg import covariance_root, whitener
from cobed.models.base import AbstractModel, params_shape
from cobed.types import Array, Float, Key, Params, present


class AffineUpdate(eqx.Module):
    """A model affine in psi with Gaussian noise, and the mean and a root of the covariance of its flat psi.

    Where psi is Gaussian, `posterior_mean` is exact. Elsewhere it is the best estimate of psi that is affine in the
    outcomes, as if psi and the outcomes were jointly Gaussian.
    """

    model: AbstractModel
    mean: Float[Array, " P"]
    root: Float[Array, "P P"]

    def posterior_mean(
        self, contexts: Float[Array, "D C"], actions: Float[Array, "D A"], surprise: Float[Array, " D"]
    ) -> Params:
        """See `AbstractModel.posterior_mean`."""
        return unraveller(self.model)(self.mean + surprise @ self.gains(contexts, actions))

    def gains(self, contexts: Float[Array, "D C"], actions: Float[Array, "D A"]) -> Float[Array, "D P"]:
        """How the posterior mean of the flat psi moves with each entry of the surprise."""
        _, slopes = outcomes_and_slopes(self.model, contexts, actions, self.mean)
        scaled = slopes @ self.root / present(self.model.gaussian_noise())
        # y - E[y] = sigma L_y surprise with L_y L_y^T = I + B B^T, so E[psi | y] - mu = L B^T L_y^-T surprise.
        return whitener(jnp.eye(len(slopes)) + scaled @ scaled.T) @ (scaled @ self.root.T)


def find_update(key: Key[Array, ""], model: AbstractModel, contexts: Float[Array, "D C"]) -> AffineUpdate | None:
    """The update of a model whose outcomes are affine in psi and whose noise is Gaussian; None of any other."""
    if model.gaussian_noise() is None or not is_affine(model, contexts):
        return None
    mean, cov = model.psi_moments(key)
    return AffineUpdate(model, jnp.asarray(mean, jnp.float32), jnp.asarray(covariance_root(cov, np), jnp.float32))


def has_posterior_mean(model: AbstractModel, contexts: Float[Array, "D C"]) -> bool:
    """Whether the model itself knows what its posterior mean reward will be."""
    actions = jax.ShapeDtypeStruct((len(contexts), model.action_space.dim), jnp.float32)
    surprise = jax.ShapeDtypeStruct((len(contexts),), jnp.float32)
    return jax.eval_shape(model.posterior_mean, contexts, actions, surprise) is not None


def num_params(model: AbstractModel) -> int:
    """How many numbers there are in psi."""
    return sum(leaf.size for leaf in jax.tree.leaves(params_shape(model)))


def unraveller(model: AbstractModel):
    """The function from the flat psi to the model's own psi."""
    return ravel_pytree(model.sample_prior(jr.key(0)))[1]


def outcomes_and_slopes(
    model: AbstractModel, contexts: Float[Array, "D C"], actions: Float[Array, "D A"], flat: Float[Array, " P"]
) -> tuple[Float[Array, " D"], Float[Array, "D P"]]:
    """Expected outcomes at the flat psi, and their slopes in it."""
    unravel = unraveller(model)

    def outcome(flat, context, action):
        return model.mean_outcome(unravel(flat), context, action)

    return jax.vmap(jax.value_and_grad(outcome), in_axes=(None, 0, 0))(flat, contexts, actions)


def is_affine(model: AbstractModel, contexts: Float[Array, "D C"], actions: Float[Array, "D A"] | None = None) -> bool:
    """Whether expected outcomes are affine in psi: the slopes at draws of the prior agree, at these or at random actions."""
    leaves = jax.tree.leaves(params_shape(model))
    if not all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves):
        return False
    if actions is None:
        actions = jax.vmap(model.action_space.sample)(jr.split(jr.key(1), len(contexts)))
    change, size = _slope_change(model, contexts, actions)
    return bool(change <= 1e-4 * size + 1e-12)


@lean_jit
def _slope_change(model: AbstractModel, contexts: Array, actions: Array) -> tuple[Array, Array]:
    """How much the slopes of expected outcomes in psi differ between draws of the prior, beside their size."""
    flats = _flat_draws(jr.key(0), model, 4)
    slopes = jax.vmap(lambda flat: outcomes_and_slopes(model, contexts, actions, flat)[1])(flats)
    return jnp.max(jnp.abs(slopes - slopes[0])), jnp.max(jnp.abs(slopes))


def _flat_draws(key: Key[Array, ""], model: AbstractModel, num_draws: int) -> Float[Array, "N P"]:
    return jax.vmap(lambda k: ravel_pytree(model.sample_prior(k))[0])(jr.split(key, num_draws))
