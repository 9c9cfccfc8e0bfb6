"""The contract of a belief: draws of psi, and what else is known about them. What only some beliefs know is None elsewhere."""

import abc
from collections.abc import Callable
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
from jax.flatten_util import ravel_pytree

from cobed.types import Array, Float, Key, Params

# Where the moments of psi are not known they come from so many draws.
MOMENT_DRAWS = 16_384
# Mean (P,) and covariance (P, P) of psi laid out flat, in double precision on the host.
Moments = tuple[np.ndarray, np.ndarray]


class AbstractBelief(eqx.Module):
    """What is known about psi. `P` numbers are in psi laid out flat by `jax.flatten_util.ravel_pytree`."""

    @abc.abstractmethod
    def sample(self, key: Key[Array, ""]) -> Params:
        """One draw of psi."""

    def log_density(self, params: Params) -> Float[Array, ""] | None:
        """log p(psi), minus infinity outside the support."""
        return None

    def gaussian(self) -> tuple[Float[Array, " P"], Float[Array, "P P"]] | None:
        """Mean and covariance of the flat psi, where it is Gaussian."""
        return None

    def gaussian_root(self) -> Float[Array, "P P"] | None:
        """R with R R^T = the covariance of the flat psi, where it is Gaussian."""
        return None

    def sparse(self) -> tuple[Float[Array, " P"], Float[Array, " P"]] | None:
        """Where the entries of the flat psi are independent and each is zero or half-normal: the probability that it is not
        zero, and s of its law |N(0, s^2)| then."""
        return None

    def process(self) -> Any:
        """The Gaussian process whose functions are the draws of psi."""
        return None

    def moments(self, key: Key[Array, ""]) -> Moments:
        """Exact where they are known, otherwise from draws."""
        return sampled_moments(key, self.sample)

    def scaled(self) -> Any:
        """The `Scaled` belief itself, where deviations are not known yet."""
        return None

    def matched(self) -> Moments | None:
        """The moments of the Gaussian that stands for it when an experiment is designed; None where it stands for itself."""
        return None

    def as_belief(self) -> "AbstractBelief":
        """See `Known`."""
        return self


class Known(Protocol):
    """What can take the place of a model's belief: a belief, or a posterior."""

    def as_belief(self) -> AbstractBelief: ...


def sampled_moments(key: Key[Array, ""], sample: Callable[[Key[Array, ""]], Params]) -> Moments:
    """Moments of the flat psi from draws of it."""
    draws = jax.vmap(lambda k: ravel_pytree(sample(k))[0])(jr.split(key, MOMENT_DRAWS))
    return moments_of(np.asarray(draws, np.float64))


def moments_of(flat: np.ndarray, weights: np.ndarray | None = None) -> Moments:
    """Moments of flat draws (N, P) of these weights; all alike where they are None."""
    return np.average(flat, axis=0, weights=weights), np.atleast_2d(np.cov(flat, rowvar=False, aweights=weights))
