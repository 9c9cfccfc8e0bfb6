"""A generalised linear model near what is believed of it: rewards affine in psi, normal noise, everything in closed form.

    E[y | a, c, psi] ~ f(m) + f'(m) . (psi - m),   psi ~ Normal(m, S),   y ~ Normal(E[y | a, c, psi], sigma^2)

m and S are the moments of draws of psi; sigma^2 is the average variance of an outcome. It serves to design, where only the
comparison of designs counts: a policy that is best under it is chosen and judged by the model itself.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.models.base import AbstractGaussianModel
from cobed.models.gaussian import covariance_root
from cobed.models.glm import GeneralisedLinear
from cobed.spaces import AbstractSpace
from cobed.types import Array, Float


class Linearised(AbstractGaussianModel):
    """`model` to first order around `centre`, with a Gaussian belief about psi and one level of noise."""

    model: GeneralisedLinear
    centre: Float[Array, " P"]
    root: Float[Array, "P P"]
    action_space: AbstractSpace
    context_dim: int = eqx.field(static=True)
    noise_std: float = eqx.field(static=True)

    def __init__(self, model: GeneralisedLinear, draws: Float[Array, "N P"], contexts: Float[Array, "D C"]):
        """`draws` of psi, all of one weight. The noise is that of actions at random in `contexts`."""
        self.model, self.action_space, self.context_dim = model, model.action_space, model.context_dim
        values = np.asarray(draws, np.float64)
        self.centre = jnp.asarray(values.mean(axis=0), jnp.float32)
        self.root = jnp.asarray(covariance_root(np.cov(values, rowvar=False), np), jnp.float32)
        actions = jax.vmap(model.action_space.sample)(jr.split(jr.key(0), len(contexts)))
        variances = jax.vmap(model.outcome_variance, in_axes=(None, 0, 0))(
            self.centre, jnp.asarray(contexts, jnp.float32), actions
        )
        self.noise_std = float(jnp.sqrt(jnp.mean(variances)))

    def sample_prior(self, key):
        return self.centre + self.root @ jr.normal(key, self.centre.shape)

    def prior_moments(self):
        return self.centre, self.root @ self.root.T

    def mean_reward(self, params, context, action):
        reward, slope = jax.value_and_grad(self.model.mean_reward)(self.centre, context, action)
        return reward + slope @ (params - self.centre)
