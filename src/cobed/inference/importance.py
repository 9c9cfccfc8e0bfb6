"""Self-normalised importance sampling: draws of the prior, weighed jointly by the likelihood of all rows.

How far the weights can be trusted is told by their effective size and by the shape k of a generalised Pareto law fitted
to the largest of them (Vehtari, Simpson, Gelman, Yao & Gabry 2024). Moments of the weights of order 1/k and above do
not exist; above k = 0.7 the averages are unreliable whatever their number seems to say.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.errors import ProblemError
from cobed.inference.base import AbstractSampler, Draws, data_log_likelihood, effective_size, needs_likelihood
from cobed.inference.second_route import choose_witnesses
from cobed.types import Array, Float

MAX_PARETO_K = 0.7
MIN_ESS = 400.0


class Importance(AbstractSampler):
    """`num_draws` draws of the prior with joint weights."""

    reason = "the weights of the prior draws pass the checks of effective size and Pareto k."
    # The effective size of prior draws means little when their weights have collapsed.
    last_resort = True
    num_draws: int = eqx.field(static=True, default=20_000)

    def __check_init__(self):
        if self.num_draws < 100:
            raise ProblemError(
                f"Importance sampling needs at least 100 draws to judge its own weights, got {self.num_draws}."
            )

    @property
    def name(self) -> str:
        return "importance"

    def unfit(self, model, data):
        return needs_likelihood(model)

    def draw(self, key, model, data):
        params = jax.vmap(model.sample_prior)(jr.split(key, self.num_draws))
        log_weights = jax.vmap(lambda p: data_log_likelihood(model, p, data))(params)
        diagnostics = {
            "ess": effective_size(log_weights),
            "pareto_k": pareto_k(log_weights),
            "impossible": ~jnp.isfinite(jnp.max(log_weights)),
            # p(y) = E_prior p(y | psi)
            "log_evidence": jax.nn.logsumexp(log_weights) - jnp.log(self.num_draws),
        }
        return Draws(params, log_weights, diagnostics, choose_witnesses(params, log_weights))

    def judge(self, diagnostics):
        ess, k = diagnostics["ess"], diagnostics["pareto_k"]
        warnings = []
        if not ess >= MIN_ESS:
            warnings.append(
                f"Only {ess:.0f} of {self.num_draws:,} prior draws carry weight (effective size; {MIN_ESS:.0f} are "
                "wanted): averages and intervals are rough. Use method='smc' or 'nuts', or more draws."
            )
        if not k <= MAX_PARETO_K:
            warnings.append(
                f"The largest weights have Pareto shape k = {k:.2f}, above {MAX_PARETO_K}: averages are unreliable "
                "and more draws will hardly help. Use method='smc' or 'nuts'."
            )
        return tuple(warnings)


def pareto_k(log_weights: Float[Array, " N"]) -> Float[Array, ""]:
    """Shape of the generalised Pareto law of the largest weights; infinity where fewer than five of them differ from zero."""
    num_draws = log_weights.shape[0]
    # The tail of Vehtari et al.: the smaller of a fifth of the draws and 3 sqrt(N).
    num_tail = int(np.ceil(min(0.2 * num_draws, 3 * np.sqrt(num_draws))))
    largest = jax.lax.top_k(log_weights, num_tail + 1)[0]
    weights = jnp.exp(largest - jnp.where(jnp.isfinite(largest[0]), largest[0], 0.0))
    excesses = jnp.flip(weights[:-1] - weights[-1])
    return generalised_pareto_shape(excesses)


def generalised_pareto_shape(excesses: Float[Array, " n"]) -> Float[Array, ""]:
    """Shape k of a generalised Pareto law, by the quasi-Bayesian fit of Zhang & Stephens (2009). `excesses` ascending.

    The density is (1 + k x / sigma)^(-1/k - 1) / sigma. With b = -k / sigma the likelihood profiled over k is
    l(b) = n (log(-b / k(b)) - k(b) - 1), k(b) = mean log(1 - b x); b is averaged over a grid with weights exp l(b).
    """
    n = excesses.shape[0]
    num_grid = 30 + int(np.sqrt(n))
    quartile, largest = excesses[int(n / 4 + 0.5) - 1], excesses[-1]
    usable = quartile > 1e-30 * jnp.maximum(largest, 1e-30)
    usable &= quartile > jnp.finfo(excesses.dtype).tiny
    # Branches not taken must stay finite.
    x = jnp.where(usable, excesses, jnp.linspace(0.1, 1.0, n))
    quartile, largest = jnp.where(usable, quartile, 0.25), jnp.where(usable, largest, 1.0)
    places = np.arange(1, num_grid + 1)
    b = 1 / largest + (1 - np.sqrt(num_grid / (places - 0.5))) / (3 * quartile)

    def shape(b: Float[Array, ""]) -> Float[Array, ""]:
        return jnp.mean(jnp.log1p(-b * x))

    k = jax.vmap(shape)(b)
    profile = n * (jnp.log(-b / k) - k - 1)
    posterior_b = jax.nn.softmax(jnp.where(jnp.isnan(profile), -jnp.inf, profile)) @ b
    # Ten imagined observations of k = 1/2 steady the estimate in short tails.
    k = (n * shape(posterior_b) + 10 * 0.5) / (n + 10)
    # Equal weights have no tail at all; vanishing ones have nothing but.
    flat = excesses[-1] <= 1e-6
    return jnp.where(usable, k, jnp.where(flat & (excesses[-1] == excesses[0]), -jnp.inf, jnp.inf))
