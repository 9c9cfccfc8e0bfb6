"""Gibbs sampling where each number in psi is zero or half-normal: mean reward affine in psi, Gaussian noise.

    y = f(0) + X w + sigma e,   w_k = 0 with probability 1 - pi_k,   w_k ~ |N(0, s_k^2)| with probability pi_k

Only A = X^T X / sigma^2, which all worlds share, and X^T (y - f(0)) / sigma^2 are needed. With the pull on coordinate k,
b = X_k . (y - f(0) - X w without k) / sigma^2, and v^2 = 1 / (A_kk + 1 / s_k^2), m = v^2 b, t = m / v, the others given:

    odds of w_k > 0 = pi_k / (1 - pi_k) * 2 v / s_k * Phi(t) exp(t^2 / 2),   w_k | w_k > 0 ~ N(m, v^2) above zero

One at a time is slow where columns of X are alike, as in designs that treat all activities alike: the chain would have to
walk from one explanation to the other through small steps. So each sweep also moves pairs along w_k + w_l = const: two
positive entries slide (a draw from the Gaussian along that line, refused outside), a positive and a zero one swap.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jax.scipy.special import ndtr, ndtri

from cobed.compilation import lean_jit
from cobed.data import Data
from cobed.errors import ProblemError
from cobed.inference.base import AbstractSampler, Draws
from cobed.inference.second_route import quadratic_witnesses
from cobed.models.base import AbstractModel
from cobed.models.gaussian import is_affine, outcomes_and_slopes, unraveller
from cobed.types import Array, Float, Key, present

MIN_ESS = 400.0
LONG_BURN = 1_000
# Below this t the distribution function leaves single precision, and the tail of the normal has its own formula.
FAR = -8.0


class System(NamedTuple):
    """All the chains need to know of the data and the prior."""

    matrix: Float[Array, "P P"]  # A
    pull: Float[Array, " P"]  # X^T (y - f(0)) / sigma^2
    inclusion: Float[Array, " P"]  # pi
    scale: Float[Array, " P"]  # s
    residuals: Float[Array, " D"]  # y - f(0)


class Summary(NamedTuple):
    """Averages over sweeps of what one coordinate is expected to be given the others (Rao-Blackwell)."""

    inclusion: Float[Array, " P"]  # P(w_k > 0 | data)
    mean: Float[Array, " P"]  # E[w_k | data]


class SpikeAndSlab(AbstractSampler):
    """`num_chains` chains from draws of the prior; after `num_burn` sweeps, each sweep is a draw."""

    num_together = 50
    reason = "each number in psi is zero or half-normal, and the chains agree."
    num_draws: int = eqx.field(static=True, default=2048)
    num_chains: int = eqx.field(static=True, default=8)
    num_burn: int = eqx.field(static=True, default=100)

    def __check_init__(self):
        if (
            self.num_chains < 2
            or self.num_burn < 0
            or self.num_draws < self.num_chains
            or self.num_draws % self.num_chains
        ):
            raise ProblemError(
                "Spike-and-slab sampling compares chains: num_chains must be at least 2 and num_draws a multiple of it, "
                f"num_burn not negative; got {self.num_draws} draws, {self.num_chains} chains, {self.num_burn} sweeps of burn-in."
            )

    @property
    def name(self) -> str:
        return "spike_slab"

    def stronger(self):
        return SpikeAndSlab(16_384, num_burn=LONG_BURN) if self.num_burn < LONG_BURN else None

    def for_worlds(self, num_draws):
        # Four chains: what is spent on burn-in is not averaged over.
        return SpikeAndSlab(4 * max(-(-num_draws // 4), 16), num_chains=4, num_burn=50)

    def unfit(self, model, data):
        if model.gaussian_noise() is None or model.sparse_prior() is None:
            return (
                f"{type(model).__name__} has no independent entries of psi that are zero or half-normal, with Gaussian "
                "noise (AbstractGaussianModel, sparse_prior)."
            )
        if not is_affine(model, data.contexts, data.actions):
            return f"the mean reward of {type(model).__name__} is not affine in psi."
        return None

    def draw(self, key, model, data):
        system = make_system(model, data)
        chains, _ = self._run(key, system)
        flat = chains.reshape(self.num_draws, -1)
        params = jax.vmap(unraveller(model))(flat)
        seen = quadratic_witnesses(
            params, flat, system.pull, system.matrix, system.residuals, present(model.gaussian_noise())
        )
        return Draws(params, jnp.zeros(self.num_draws), agreement(chains), seen)

    def judge(self, diagnostics):
        # Few draws were asked for where worlds are averaged; they are judged by what they can be.
        wanted = min(MIN_ESS, self.num_draws / 16)
        if diagnostics["ess"] >= wanted:
            return ()
        return (
            f"The {self.num_chains} chains do not agree well enough: their draws are worth {diagnostics['ess']:.0f} "
            f"independent ones ({wanted:.0f} are wanted; R-hat {diagnostics['r_hat']:.2f}). Raise num_burn and num_draws. "
            "Designs that cannot tell some entries of psi apart need the longest chains.",
        )

    def summary(self, key: Key[Array, ""], model: AbstractModel, data: Data) -> Summary:
        """For each entry of the flat psi, the probability that it is not zero, and its mean: less noisy than from draws."""
        self.require_fit(model, data)
        return compiled_summary(self, key, model, data)

    def _run(self, key: Key[Array, ""], system: System) -> tuple[Float[Array, "chains N P"], Summary]:
        chains, summaries = jax.vmap(lambda key: self._chain(key, system))(jr.split(key, self.num_chains))
        return chains, jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), summaries)

    def _chain(self, key: Key[Array, ""], system: System) -> tuple[Float[Array, "N P"], Summary]:
        start_key, key = jr.split(key)
        graph_key, slab_key = jr.split(start_key)
        size = system.pull.shape
        slabs = system.scale * jnp.abs(jr.normal(slab_key, size))
        start = jnp.where(jr.bernoulli(graph_key, system.inclusion, size), slabs, 0.0)
        burnt = jax.lax.fori_loop(0, self.num_burn, lambda i, w: sweep(jr.fold_in(key, i), i, w, system)[0], start)
        num_kept = self.num_draws // self.num_chains

        def step(carry, i):
            w, total = carry
            w, expected = sweep(jr.fold_in(key, i), i, w, system)
            return (w, jax.tree.map(jnp.add, total, expected)), w

        zero = Summary(jnp.zeros(size), jnp.zeros(size))
        (_, total), draws = jax.lax.scan(step, (burnt, zero), self.num_burn + jnp.arange(num_kept))
        return draws, jax.tree.map(lambda leaf: leaf / num_kept, total)


def make_system(model: AbstractModel, data: Data) -> System:
    """The Gram matrix and the pulls of the data, in units of the noise."""
    inclusion, scale = present(model.sparse_prior())
    at_zero, slopes = outcomes_and_slopes(model, data.contexts, data.actions, jnp.zeros_like(scale))
    precision, residuals = present(model.gaussian_noise()) ** -2, data.outcomes - at_zero
    return System(precision * slopes.T @ slopes, precision * slopes.T @ residuals, inclusion, scale, residuals)


def sweep(
    key: Key[Array, ""], number: Array, w: Float[Array, " P"], system: System
) -> tuple[Float[Array, " P"], Summary]:
    """Every coordinate once, then every coordinate with one partner. Expected values are those of the coordinate moves."""
    # One uniform a move: random numbers are the largest part of its cost. Never zero or one: infinite as normal quantiles.
    uniforms = jr.uniform(key, (w.shape[0] + w.shape[0] // 2,), minval=1e-7, maxval=1 - 1e-7)
    # X^T (y - f(0) - X w) / sigma^2, afresh each sweep, so that rounding does not add up.
    pulls = system.pull - system.matrix @ w

    def one(pulls, entry):
        k, w, uniform, row = entry
        new, expected = draw_entry(uniform, w, pulls[k], row[k], system.inclusion[k], system.scale[k])
        return pulls - row * (new - w), (new, expected)

    places = jnp.arange(w.shape[0])
    pulls, (w, expected) = jax.lax.scan(one, pulls, (places, w, uniforms[: w.shape[0]], system.matrix))
    return move_pairs(uniforms[w.shape[0] :], number, w, pulls, system), expected


def move_pairs(
    uniforms: Float[Array, " H"], number: Array, w: Float[Array, " P"], pulls: Float[Array, " P"], system: System
) -> Float[Array, " P"]:
    """Every coordinate with one partner. Who is whose partner depends on the number of the sweep alone."""
    # The same pairs in all worlds and chains: the rows of the matrix are then shared, not gathered for each.
    order = jr.permutation(jr.fold_in(jr.key(0), number), w.shape[0])
    half = w.shape[0] // 2
    first, second = order[:half], order[half : 2 * half]

    def move(pulls, entry):
        (i, j), (here, there), uniform, rows = entry
        curvature = rows[0][i] + rows[1][j] - 2 * rows[0][j]
        slabs = (system.inclusion[i], system.scale[i]), (system.inclusion[j], system.scale[j])
        shift = draw_shift(uniform, here, there, pulls[i] - pulls[j], curvature, *slabs)
        return pulls - (rows[0] - rows[1]) * shift, (here + shift, there - shift)

    entries = (first, second), (w[first], w[second]), uniforms, (system.matrix[first], system.matrix[second])
    _, (here, there) = jax.lax.scan(move, pulls, entries)
    # Scatter by gathering: entry i of w is at place argsort(order)[i] of the permuted ones.
    return jnp.concatenate([here, there, w[order[2 * half :]]])[jnp.argsort(order)]


def draw_entry(
    uniform: Float[Array, ""],
    w: Float[Array, ""],
    pull: Float[Array, ""],
    a: Float[Array, ""],
    pi: Float[Array, ""],
    s: Float[Array, ""],
) -> tuple[Float[Array, ""], Summary]:
    """A draw of one entry given the others, with the probability that it is positive and its mean."""
    v = jax.lax.rsqrt(a + s**-2)
    t = v * (pull + a * w)
    phi, log_mills = normal_below(t)
    probability = jax.nn.sigmoid(jnp.log(2 * pi / (1 - pi) / s) + jnp.log(v) + log_mills)
    # Where the uniform decides for a positive entry, its quotient by the probability is again uniform.
    slab = v * above_zero(jnp.clip(uniform / probability, 1e-7, 1 - 1e-7), t, phi)
    # E[w | w > 0] = v (t + phi(t) / Phi(t)), and phi(t) / Phi(t) = 1 / (sqrt(2 pi) exp(log_mills))
    mean = probability * v * jnp.maximum(t + jnp.exp(-log_mills - 0.5 * jnp.log(2 * jnp.pi)), 0.0)
    return jnp.where(uniform < probability, slab, 0.0), Summary(probability, mean)


def normal_below(t: Float[Array, ""]) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Phi(t), where t is above `FAR`, and log Phi(t) + t^2 / 2 everywhere: it grows like -log(-t) on the left."""
    near = jnp.maximum(t, FAR)
    phi = ndtr(near)
    # Phi(t) = phi(t) / a (1 - 1 / a^2 + 3 / a^4 - ...), a = -t
    inverse = 1 / jnp.maximum(-t, -FAR) ** 2
    far = 0.5 * jnp.log(inverse / (2 * jnp.pi)) + jnp.log1p(-inverse * (1 - 3 * inverse))
    return phi, jnp.where(t < FAR, far, jnp.log(phi) + near**2 / 2)


def above_zero(uniform: Float[Array, ""], t: Float[Array, ""], phi: Float[Array, ""]) -> Float[Array, ""]:
    """A draw of N(t, 1) given that it is positive, by its quantile function; `phi` is Phi(t)."""
    # P(z > x) = u Phi(t) for z standard normal, and the draw is t + x.
    body = t - ndtri(uniform * phi)
    # Far out P(z > x) is about phi(x) / x, so that x^2 / 2 + log x = a^2 / 2 + log a - log u with a = -t: solved for x by
    # one repetition, off by less than a^-4; then x - a without taking the difference of two large numbers.
    a = jnp.maximum(-t, -FAR)
    squares = -2 * jnp.log(uniform)
    squares -= jnp.log1p(squares / a**2)
    tail = squares / (jnp.sqrt(a**2 + squares) + a)
    return jnp.maximum(jnp.where(t < FAR, tail, body), 1e-30)


def draw_shift(
    uniform: Float[Array, ""],
    here: Float[Array, ""],
    there: Float[Array, ""],
    slope: Float[Array, ""],
    curvature: Float[Array, ""],
    slab_here: tuple[Array, Array],
    slab_there: tuple[Array, Array],
) -> Float[Array, ""]:
    """How much moves from `there` to `here`: zero where the proposal is refused, or both are zero.

    A shift d changes the log-likelihood by d slope - d^2 curvature / 2. The slabs are pi and s of the two entries.
    """
    (pi_here, s_here), (pi_there, s_there) = slab_here, slab_there
    # Both positive: the density along the shift is Gaussian, cut off where an entry would become negative.
    precision = curvature + s_here**-2 + s_there**-2
    centre = (slope - here * s_here**-2 + there * s_there**-2) / precision
    slide = centre + ndtri(uniform) * jax.lax.rsqrt(precision)
    slide = jnp.where((here + slide > 0) & (there - slide > 0), slide, 0.0)
    # One positive: exchange, by the ratio of posterior densities.
    swap = there - here
    log_odds = jnp.log(pi_here * (1 - pi_there) * s_there / (pi_there * (1 - pi_here) * s_here))
    log_odds -= 0.5 * swap**2 * (s_here**-2 - s_there**-2)
    gain = swap * slope - 0.5 * swap**2 * curvature + jnp.sign(swap) * log_odds
    swap = jnp.where(jnp.log(uniform) < gain, swap, 0.0)
    return jnp.where((here > 0) & (there > 0), slide, swap)


def agreement(chains: Float[Array, "chains N P"]) -> dict[str, Array]:
    """Effective number of draws and R-hat from how far the chains' means lie apart, all entries of psi together.

    Together, because an entry that is hardly ever positive has no R-hat of its own. Var(mean) = B / chains, with B the
    variance between the means of chains; a mean of n independent draws would have the variance of the posterior over n.
    """
    num_chains, length, _ = chains.shape
    between = jnp.sum(jnp.var(jnp.mean(chains, axis=1), axis=0, ddof=1))
    within = jnp.sum(jnp.mean(jnp.var(chains, axis=1), axis=0))
    total = within + between
    ess = jnp.where(between > 0, num_chains * total / jnp.maximum(between, 1e-30), num_chains * length)
    return {
        "ess": jnp.minimum(ess, num_chains * length),
        "r_hat": jnp.sqrt(total / jnp.maximum(within, 1e-30)),
    }


@lean_jit
def compiled_summary(sampler: SpikeAndSlab, key: Key[Array, ""], model: AbstractModel, data: Data) -> Summary:
    return sampler._run(key, make_system(model, data))[1]
