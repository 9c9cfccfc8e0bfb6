"""Is the gradient of an outcome in the action that of its distribution?

Along a straight way from one action to another, with the noise as it is, an outcome that has a gradient obeys

    f(y(1)) - f(y(0)) = integral of f'(y(s)) y'(s) ds,

for every f. A uniformly drawn s makes the right side an estimate without bias, however curved the outcome is, so the two sides
agree on average over the noise; where an outcome jumps (a hurdle, a count, a rounded number) or a gradient is cut off they do
not. Compared are the averages of two bounded functions of the standardised outcome, one of its place and one of its spread:
bounded, because some outcomes have no variance.

For each draw of psi, context and pair of actions the differences of the two sides are averaged over two sets of noise, in
standard errors. The product of the two averages has mean zero where the gradient is right, whatever the law of the differences,
and a positive mean where it is wrong, in whatever direction. The sum over all products, divided by the root of the sum of their
squares, is nearly standard normal where the gradient is right, and exceeds x with a probability of at most exp(-x^2 / 2) where
the products are as often negative as positive. Where it is suspicious, more noise decides, and nothing else.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.types import Array, Float, Key

# Draws of the noise; few where it is added to the mean and the same for all actions. So many are played at once.
NUM_NOISES, FEW_NOISES, AT_ONCE = 128, 8, 16
MOST_ERRORS = 3.0
# So many times more noise decides where the first is above `SUSPICIOUS`. False alarm below 1 in 50,000: 2 exp(-2) of right models
# are looked at again, and 2 exp(-4.5^2 / 2) of them refused, with two functions each.
NUM_AGAIN, SUSPICIOUS, LARGEST_MISFIT = 7, 2.0, 4.5
# A difference below this, of functions between -1 and 1, is taken for rounding.
ROUNDING = 1e-3


class Noise(NamedTuple):
    """K draws of the noise for each of N draws of psi: a key, and how far between the ends of each of R ways to look."""

    keys: Key[Array, "N K"]
    shares: Float[Array, "N K R"]


class Walks(NamedTuple):
    """Outcomes and their slopes at both ends of the ways and at two points between, for K draws of the noise."""

    outcomes: Float[Array, "*N K 4 R"]
    slopes: Float[Array, "*N K 4 R A"]
    ways: Float[Array, "*N R A"]


def draw_noise(key: Key[Array, ""], num_draws: int, num_noises: int, num_ways: int) -> Noise:
    noise_key, share_key = jr.split(key)
    shape = (num_draws, num_noises)
    return Noise(jr.split(noise_key, shape), jr.uniform(share_key, (*shape, num_ways)))


def find_ways(first: Float[Array, "R A"], others: Float[Array, "3 R A"]) -> Float[Array, "R A"]:
    """To the farthest of the others, or to a mixture of it and another."""
    rows = jnp.arange(len(first))
    far = jnp.argmax(jnp.sum((others - first) ** 2, axis=2), axis=0)
    end, other = others[far, rows], others[(far + 1) % 3, rows]
    return jnp.where((rows % 4 < 2)[:, None], end, (end + other) / 2) - first


def along(first: Float[Array, "R A"], ways: Float[Array, "R A"], share: Float[Array, " R"]) -> Float[Array, "4 R A"]:
    """The actions at both ends, and at two points between that are as far from one as from the other."""
    shares = jnp.stack([jnp.zeros_like(share), jnp.ones_like(share), share, 1 - share])
    return first + shares[..., None] * ways


def walk(
    outcomes: Callable[[Key[Array, ""], Float[Array, "R A"]], Float[Array, " R"]],
    noise: Noise,
    first: Float[Array, "R A"],
    ways: Float[Array, "R A"],
    with_slopes: bool,
) -> Walks:
    """The outcomes of one psi on the ways that begin at `first`."""

    def at(key, actions):
        if not with_slopes:
            return outcomes(key, actions), jnp.zeros_like(actions)
        values, pullback = jax.vjp(lambda a: outcomes(key, a), actions)
        # Row r of the gradient of sum(y) is dy_r / da_r: units do not share actions.
        return values, pullback(jnp.ones_like(values))[0]

    def with_noise(noise):
        return jax.vmap(at, in_axes=(None, 0))(noise.keys, along(first, ways, noise.shares))

    # Few are compiled sooner without a loop.
    at_once = len(noise.shares) <= AT_ONCE
    values, slopes = jax.vmap(with_noise)(noise) if at_once else jax.lax.map(with_noise, noise, batch_size=AT_ONCE)
    return Walks(values, slopes, ways)


def misfit(parts: Sequence[Walks]) -> float:
    """How far the gradient is from that of the distribution, in standard errors, by all noise of the same walks."""
    outcomes, slopes = (
        np.concatenate([np.asarray(getattr(walks, name), np.float64) for walks in parts], axis=1)
        for name in ("outcomes", "slopes")
    )
    slopes = np.sum(slopes * np.asarray(parts[0].ways)[:, None, None], axis=-1)
    ends = outcomes[:, :, :2]
    centre = ends.mean(axis=(1, 2), keepdims=True)
    spread = np.abs(ends - centre).mean(axis=(1, 2), keepdims=True)
    spread = np.where(spread > 0, spread, 1.0)
    standard, slopes = (outcomes - centre) / spread, slopes / spread
    return max(_statistic(standard, slopes, *pair) for pair in ((np.tanh, _tanh_slope), (_hat, _hat_slope)))


def _statistic(standard: np.ndarray, slopes: np.ndarray, function, derivative) -> float:
    climbed = np.mean(derivative(standard[:, :, 2:]) * slopes[:, :, 2:], axis=2)
    differences = function(standard[:, :, 1]) - function(standard[:, :, 0]) - climbed
    # In standard errors, partly of all pairs: one whose noise is rarely large may have shown none of it.
    variances = differences.var(axis=1)
    errors = np.sqrt(((variances + variances.mean()) / 2 + ROUNDING**2) / (differences.shape[1] / 2))
    first, second = (
        np.clip(half.mean(axis=1) / errors, -MOST_ERRORS, MOST_ERRORS)
        for half in (differences[:, ::2], differences[:, 1::2])
    )
    products = first * second
    # Where all is far below rounding, nothing is left of the sum.
    return float(np.sum(products) / np.sqrt(np.sum(products**2) + 0.01 * products.size))


def _tanh_slope(z: np.ndarray) -> np.ndarray:
    return 1 - np.tanh(z) ** 2


def _hat(z: np.ndarray) -> np.ndarray:
    return z**2 / (1 + z**2)


def _hat_slope(z: np.ndarray) -> np.ndarray:
    return 2 * z / (1 + z**2) ** 2
