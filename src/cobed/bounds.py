"""Bounds on mutual information, in nats. Scores in, scalar out."""

import jax
import jax.numpy as jnp
import numpy as np

from cobed.types import Array, Float

# A bound this close to its ceiling says the batch is too small, not that the design has converged.
SATURATION = 0.95


@jax.custom_vjp
def infonce(scores: Float[Array, "B B"]) -> Float[Array, ""]:
    """Lower bound on I(y; m): `scores[i, j]` is U(y_i, m_j), drawn together on the diagonal. At most log B."""
    return _infonce_forward(scores)[0]


def _infonce_forward(scores):
    # log (1/B) sum_j exp U(y_i, m_j), keeping the exponentials for the backward pass: they are the costly part.
    peaks = jnp.max(scores, axis=1, keepdims=True)
    exponentials = jnp.exp(scores - peaks)
    sums = jnp.sum(exponentials, axis=1, keepdims=True)
    # The peak is taken off the diagonal before anything small is added, so that large scores lose nothing to rounding.
    heights = jnp.diagonal(scores) - peaks[:, 0] - jnp.log(sums)[:, 0]
    return jnp.mean(heights) + np.log(scores.shape[1]), (exponentials, sums)


def _infonce_backward(residuals, cotangent):
    # d/dU_ij = (1[i = j] - softmax_j(U_i.)_j) / B
    exponentials, sums = residuals
    size = exponentials.shape[0]
    return ((jnp.eye(size) - exponentials / sums) * (cotangent / size),)


infonce.defvjp(_infonce_forward, _infonce_backward)


def infonce_ceiling(batch_size: int) -> float:
    """The largest value InfoNCE can take: log B."""
    return float(np.log(batch_size))


def is_saturated(bound: float, batch_size: int) -> bool:
    """Whether an InfoNCE value is near its ceiling, so that it says little about the information itself."""
    return bound > SATURATION * infonce_ceiling(batch_size)


def prior_contrastive(
    likelihoods: Float[Array, " N"], evidence: Float[Array, " N"], num_contrasts: int
) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
    """Per-sample lower and upper bounds on EIG(psi) from log-likelihoods.

    `likelihoods[i]` = log p(y_i | psi_i), `evidence[i]` = log sum_l p(y_i | psi_l) over independent contrasts. With psi_i
    among the contrasts the mean is a lower bound (PCE, at most log(L+1)); without it, an upper bound (nested Monte Carlo).
    """
    lower = likelihoods - jnp.logaddexp(likelihoods, evidence) + np.log(num_contrasts + 1)
    upper = likelihoods - evidence + np.log(num_contrasts)
    return lower, upper
