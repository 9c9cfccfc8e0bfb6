"""Rewards linear in psi with a Gaussian prior and Gaussian noise: everything has a closed form."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cobed.beliefs import AbstractBelief, Gaussian
from cobed.errors import ModelError
from cobed.models.base import AbstractBeliefModel, AbstractGaussianModel, LinearForm
from cobed.outcomes import NORMAL
from cobed.spaces import AbstractSpace
from cobed.types import Array, Float


class AbstractLinearGaussian(AbstractBeliefModel, AbstractGaussianModel):
    """y = phi(c, a) . psi + noise, psi ~ Normal(prior_mean, prior_cov). Where phi comes from is left open."""

    # A method or a field: one context (C,) and one action (A,) to phi (P,).
    features: eqx.AbstractVar[Callable[[Array, Array], Array]]
    belief: AbstractBelief
    action_space: AbstractSpace
    context_dim: int = eqx.field(static=True)
    noise_std: float = eqx.field(static=True)

    def __init__(
        self,
        prior_mean: Array | np.ndarray,
        prior_cov: Array | np.ndarray,
        action_space: AbstractSpace,
        context_dim: int,
        noise_std: float,
    ):
        """`prior_cov` has shape (P, P), or (P,) for the variances of independent coefficients."""
        if not noise_std > 0:
            raise ModelError(
                f"noise_std must be positive, got {noise_std!r}. For nearly exact outcomes give a small number."
            )
        self.belief = Gaussian(np.atleast_1d(np.asarray(prior_mean, np.float32)), prior_cov)
        self.action_space = action_space
        self.context_dim = context_dim
        self.noise_std = float(noise_std)

    def mean_reward(self, params, context, action):
        return self.features(context, action) @ params

    def linear_form(self):
        return LinearForm(self.features, NORMAL, self.noise_std)

    def design_matrix(self, contexts: Float[Array, "D C"], actions: Float[Array, "D A"]) -> Float[Array, "D P"]:
        return jax.vmap(self.features)(contexts, actions)


class LinearGaussian(AbstractLinearGaussian):
    """y = phi(c, a) . psi + noise, psi ~ Normal(prior_mean, prior_cov).

    `features(context, action)` maps one context of shape (C,) and one action of shape (A,) to phi of shape (P,). With
    discrete actions let it be linear in the one-hot vector, so that it means something between the actions.
    """

    features: Callable[[Array, Array], Array] = eqx.field(static=True)

    def __init__(
        self,
        features: Callable[[Array, Array], Array],
        prior_mean: Array | np.ndarray,
        prior_cov: Array | np.ndarray,
        action_space: AbstractSpace,
        context_dim: int,
        noise_std: float,
    ):
        """`prior_cov` has shape (P, P), or (P,) for the variances of independent coefficients."""
        super().__init__(prior_mean, prior_cov, action_space, context_dim, noise_std)
        self.features = features


def linear_information(
    model: AbstractLinearGaussian, contexts: np.ndarray, actions: np.ndarray, quantity: np.ndarray | None = None
) -> float:
    """I(T psi; y) in nats for the rows `quantity` = T of shape (Q, P); all of psi where it is None. Float64 on the host.

    T psi and y are jointly Gaussian, so I = 1/2 (log det S - log det S|y), in the directions where S is not zero.
    """
    phi = np.asarray(model.design_matrix(jnp.asarray(contexts), jnp.asarray(actions)), dtype=np.float64)
    prior = model.prior_cov
    noise = model.noise_std**2 * np.eye(len(phi))
    posterior = prior - prior @ phi.T @ np.linalg.solve(phi @ prior @ phi.T + noise, phi @ prior)
    rows = np.eye(len(prior)) if quantity is None else np.asarray(quantity, dtype=np.float64)
    values, vectors = np.linalg.eigh(rows @ prior @ rows.T)
    basis = vectors[:, values > 1e-10 * values.max()]
    before, after = (basis.T @ rows @ cov @ rows.T @ basis for cov in (prior, posterior))
    return 0.5 * float(np.linalg.slogdet(before)[1] - np.linalg.slogdet(after)[1])
