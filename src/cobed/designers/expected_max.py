"""E[max_i a_i + b_i Z] for a standard normal Z, in closed form.

The largest of the lines is convex in Z, with a kink at each z where the leader changes. With f(z) = phi(z) + z Phi(z),

    E[max_i a_i + b_i Z] = max_i a_i + sum over kinks of (rise of the slope) f(-|z|)
"""

import jax
import jax.numpy as jnp
from jax.scipy.stats import norm

from cobed.types import Array, Float


def expected_gain_affine(intercepts: Float[Array, " N"], slopes: Float[Array, " N"]) -> Float[Array, ""]:
    """E[max_i intercepts_i + slopes_i Z] - max_i intercepts_i, to full precision also where it is small."""
    # By rising slope, the upper of parallel lines last: the leader goes up this order as z grows.
    order = jnp.lexsort((intercepts, slopes))
    a, b = intercepts[order], slopes[order]
    rise = b[None, :] - b[:, None]  # [i, j]: positive where line j is steeper than i
    crossing = (a[:, None] - a[None, :]) / jnp.where(rise == 0, 1.0, rise)
    # Line i leads from its last crossing with a flatter line to its first crossing with a steeper one. Never, where a
    # parallel line comes after it.
    start = jnp.max(jnp.where(rise < 0, crossing, -jnp.inf), axis=1)
    end = jnp.min(jnp.where(rise > 0, crossing, jnp.inf), axis=1)
    parallel = jnp.any(jnp.triu(rise == 0, 1), axis=1)
    leads = (start < end) & ~parallel
    # The slope of the leader before: the largest among the leaders earlier in the order.
    so_far = jax.lax.cummax(jnp.where(leads, b, -jnp.inf))
    before = jnp.concatenate([jnp.full(1, -jnp.inf, b.dtype), so_far[:-1]])
    kinks = leads & jnp.isfinite(before)
    distance = jnp.abs(jnp.where(kinks, start, 0.0))
    gains = (b - jnp.where(kinks, before, b)) * (norm.pdf(distance) - distance * norm.cdf(-distance))
    return jnp.sum(jnp.where(kinks, gains, 0.0))
