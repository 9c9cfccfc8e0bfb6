"""A posterior around its mode, in the coordinates z in which the prior is standard normal, or nearly so.

Any density is climbed by its Hessian. A linear predictor needs less:

    psi = mean + root z,   eta = offset + A z,   log p(z | y) = sum_i log p(y_i | eta_i) - |z|^2 / 2 + c

With w the Fisher information of each outcome about its eta and S = diag(sqrt(w)), the curvature is H = I + A^T S^2 A. Where rows
are fewer than numbers of psi, its inverse is I - A^T S B^-1 S A with B = I + S A A^T S, and a draw of N(0, H^-1) is

    z0 - A^T S B^-1 (S A z0 + e),   z0 and e standard normal.

Nothing of the size of psi squared is then factored for a world, and tables of many columns are planned for in seconds.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from cobed.data import Data
from cobed.inference.base import data_log_likelihood
from cobed.linalg import whitener
from cobed.models.base import AbstractModel
from cobed.models.gaussian import unraveller
from cobed.outcomes import AbstractLaw
from cobed.types import Array, Float, Key, Params, present


class Curvature(eqx.Module):
    """H at one z: W with W H W^T = I; or, where S A is given as `rows`, with W B W^T = I."""

    white: Float[Array, "M M"]
    rows: Float[Array, "D P"] | None = None

    def solve(self, vectors: Float[Array, "N P"]) -> Float[Array, "N P"]:
        """H^-1 v of each vector."""
        if self.rows is None:
            return vectors @ self.white.T @ self.white
        return vectors - vectors @ self.rows.T @ self.white.T @ self.white @ self.rows

    def draws(self, key: Key[Array, ""], num_draws: int) -> tuple[Float[Array, "N P"], Float[Array, " N"]]:
        """Draws d of N(0, H^-1), and their squared lengths d^T H d."""
        if self.rows is None:
            standard = jr.normal(key, (num_draws, self.white.shape[1]))
            return standard @ self.white, jnp.sum(standard**2, axis=1)
        num_rows, num_numbers = self.rows.shape
        standard, noise = jnp.split(jr.normal(key, (num_draws, num_numbers + num_rows)), [num_numbers], axis=1)
        draws = standard - (standard @ self.rows.T + noise) @ self.white.T @ self.white @ self.rows
        return draws, jnp.sum(draws**2, axis=1) + jnp.sum((draws @ self.rows.T) ** 2, axis=1)


class AbstractPosterior(eqx.Module):
    """log p(z | y) = log p(z) + log p(y | z) up to a constant, for many z at once, and its curvature at one."""

    @abc.abstractmethod
    def psi(self, z: Float[Array, "N P"]) -> Params:
        """The psi of each z, stacked N."""

    @abc.abstractmethod
    def prior(self, z: Float[Array, "N P"]) -> Float[Array, " N"]:
        """log p(z) of each z, up to a constant."""

    @abc.abstractmethod
    def likelihood(self, z: Float[Array, "N P"]) -> Float[Array, " N"]:
        """log p(y | z) of each z."""

    @abc.abstractmethod
    def curvature(self, z: Float[Array, " P"]) -> Curvature: ...

    def value(self, z: Float[Array, "N P"]) -> Float[Array, " N"]:
        return self.prior(z) + self.likelihood(z)

    def slope(self, z: Float[Array, " P"]) -> Float[Array, " P"]:
        return jax.grad(lambda z: self.value(z[None])[0])(z)


class AnyPosterior(AbstractPosterior):
    """psi = mean + scale * z, so that columns of any unit are alike."""

    model: AbstractModel
    data: Data
    mean: Float[Array, " P"]
    scale: Float[Array, " P"]

    def psi(self, z):
        return jax.vmap(unraveller(self.model))(self.mean + self.scale * z)

    def prior(self, z):
        # What is known exactly does not move with its z, which is standard normal.
        unused = -0.5 * jnp.sum(jnp.where(self.scale == 0, z, 0.0) ** 2, axis=1)
        return jax.vmap(lambda psi: present(self.model.log_prior(psi)))(self.psi(z)) + unused

    def likelihood(self, z):
        return jax.vmap(lambda psi: data_log_likelihood(self.model, psi, self.data))(self.psi(z))

    def curvature(self, z):
        hessian = -jax.hessian(lambda z: self.value(z[None])[0])(z)
        # A ridge of a thousandth of the prior's own curvature, which is 1 and more: for rounding alone.
        white = whitener((hessian + hessian.T) / 2 + 1e-3 * jnp.eye(z.size))
        # Where the density is not concave, the prior's own scale: the weights will tell.
        return Curvature(jnp.where(jnp.all(jnp.isfinite(white)), white, jnp.eye(z.size)))


class LinearPosterior(AbstractPosterior):
    """Outcomes of a law around eta = offset + A z, psi = mean + root z."""

    law: AbstractLaw = eqx.field(static=True)
    scale: float | Float[Array, ""]
    outcomes: Float[Array, " D"]
    offset: Float[Array, " D"]
    rows: Float[Array, "D P"]
    mean: Float[Array, " P"]
    root: Float[Array, "P P"]

    def psi(self, z):
        return self.mean + z @ self.root.T

    def prior(self, z):
        return -0.5 * jnp.sum(z**2, axis=1)

    def likelihood(self, z):
        return jnp.sum(self.law.log_density(self.outcomes, self.offset + z @ self.rows.T, self.scale), axis=1)

    def curvature(self, z):
        eta = self.offset + self.rows @ z
        information = self.law.information(eta, jnp.zeros_like(eta), self.scale)
        scaled = jnp.sqrt(jnp.maximum(jnp.nan_to_num(information), 0.0))[:, None] * self.rows
        num_rows, num_numbers = scaled.shape
        if num_rows < num_numbers:
            return Curvature(whitener(jnp.eye(num_rows) + scaled @ scaled.T), scaled)
        return Curvature(whitener(jnp.eye(num_numbers) + scaled.T @ scaled))


def posterior_in_z(model: AbstractModel, data: Data) -> AbstractPosterior:
    """The posterior of a model with a Gaussian prior."""
    mean, cov = present(model.prior_moments())
    form, root = model.linear_form(), model.prior_root()
    if form is None or root is None or not form.scale_known:
        return AnyPosterior(model, data, mean, jnp.sqrt(jnp.diagonal(cov)))
    features = jax.vmap(form.features)(data.contexts, data.actions)
    outcomes, offset, rows = jnp.asarray(data.outcomes, mean.dtype), features @ mean, features @ root
    return LinearPosterior(form.law, form.scale, outcomes, offset, rows, mean, root)
