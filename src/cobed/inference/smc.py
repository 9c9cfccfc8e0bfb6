"""Sequential Monte Carlo: from the prior to the posterior by raising the likelihood to powers that grow from 0 to 1.

Each step takes the largest power that keeps a share of the draws effective, resamples, and moves every draw by
Metropolis steps that leave the tempered posterior p(psi) p(y | psi)^t as it is. Steps alternate between an independent
proposal, a Student t with the moments of the draws (nearly a fresh draw where the posterior is nearly Gaussian), and a
random walk of the same shape (which follows curved and bounded posteriors). Every loop has a fixed largest length, so
thousands of worlds run in one vmap.

The first power is reached from many more prior draws than are kept: they cost one likelihood each, and which modes are
found is decided there. The effective size is measured through the ancestors of the draws (Lee & Whiteley 2018): draws
of one ancestor share its luck, however often they have moved since.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jax.flatten_util import ravel_pytree

from cobed.errors import ProblemError
from cobed.inference.base import (
    AbstractSampler,
    Draws,
    data_log_likelihood,
    effective_size,
    model_log_prior,
    needs_likelihood,
    systematic,
)
from cobed.inference.second_route import Witnesses, choose_witnesses, join
from cobed.models.base import has_log_prior, params_shape
from cobed.models.gaussian import num_params
from cobed.types import Array, Float, Int, Key, present

# Degrees of freedom of the independent proposal: heavier tails than the posterior keep its weights bounded.
FREEDOM = 5
MIN_ACCEPTANCE = 0.05
MIN_ESS = 200.0
MANY_DRAWS = 16_384
# Above this many numbers in psi a cloud of draws says too little about their covariance.
MAX_DIM = 50
# Prior draws for each draw that is kept.
PRIOR_DRAWS = 8


class State(NamedTuple):
    """The draws and their log-densities at one temperature."""

    flat: Float[Array, "N P"]
    log_prior: Float[Array, " N"]
    log_likelihood: Float[Array, " N"]
    ancestor: Int[Array, " N"]
    temperature: Float[Array, ""]
    log_evidence: Float[Array, ""]
    acceptance: Float[Array, ""]
    num_temperatures: Int[Array, ""]


class Cloud(NamedTuple):
    """Moments of weighted draws, from which the proposals are made."""

    mean: Float[Array, " P"]
    root: Float[Array, "P P"]
    inverse_root: Float[Array, "P P"]


class TemperedSMC(AbstractSampler):
    """For psi of a few to a few dozen numbers with a prior density. `num_moves` Metropolis steps a temperature."""

    reason = "the prior has a density and psi is small; the draws reached the posterior and moved freely."
    num_draws: int = eqx.field(static=True, default=2048)
    num_moves: int = eqx.field(static=True, default=8)
    max_temperatures: int = eqx.field(static=True, default=100)
    ess_share: float = eqx.field(static=True, default=0.5)

    def __check_init__(self):
        if self.num_draws < 16 or self.num_moves < 2 or self.max_temperatures < 1 or not 0 < self.ess_share < 1:
            raise ProblemError(
                f"Tempered SMC needs num_draws >= 16, num_moves >= 2, max_temperatures >= 1 and 0 < ess_share < 1; "
                f"got {self}."
            )

    @property
    def name(self) -> str:
        return "smc"

    def stronger(self):
        return TemperedSMC(MANY_DRAWS) if self.num_draws < MANY_DRAWS else None

    def for_worlds(self, num_draws):
        return TemperedSMC(max(num_draws, 512))

    def discouraged(self, model):
        size = num_params(model)
        return None if size <= MAX_DIM else f"psi has {size} numbers; SMC is for at most {MAX_DIM}."

    def unfit(self, model, data):
        if not has_log_prior(model):
            return f"{type(model).__name__} has no log_prior(params) to weigh its moves by."
        leaves = jax.tree.leaves(params_shape(model))
        if not all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves):
            return "psi has entries that are not floating-point numbers, which cannot be moved in small steps."
        if bound := model.bound_sites():
            return f"the sites {bound} obey an equation (a simplex, say), and small steps would leave it."
        return needs_likelihood(model)

    def draw(self, key, model, data):
        prior_key, climb_key = jr.split(key)
        num_prior = PRIOR_DRAWS * self.num_draws
        params = jax.vmap(model.sample_prior)(jr.split(prior_key, num_prior))
        _, unravel = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], params))

        def densities(flat: Float[Array, "N P"]) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
            def one(vector: Float[Array, " P"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
                p = unravel(vector)
                log_prior = present(model.log_prior(p))
                return jnp.where(jnp.isnan(log_prior), -jnp.inf, log_prior), data_log_likelihood(model, p, data)

            return jax.vmap(one)(flat)

        flat = jax.vmap(lambda p: ravel_pytree(p)[0])(params)
        zero = jnp.zeros(())
        state = State(flat, *densities(flat), jnp.arange(num_prior), zero, zero, zero, jnp.zeros((), int))
        impossible = ~jnp.isfinite(jnp.max(state.log_likelihood))

        def witnesses(state: State) -> Witnesses:
            log_density = state.log_prior + state.log_likelihood
            return choose_witnesses(jax.vmap(unravel)(state.flat), log_density, state.log_likelihood)

        def unfinished(state: State) -> Array:
            return (state.temperature < 1) & (state.num_temperatures < self.max_temperatures) & ~impossible

        def step(state: State) -> State:
            return self._step(jr.fold_in(climb_key, state.num_temperatures), state, densities)

        # The first step takes the many prior draws to the few that are kept.
        first = step(state)
        prior, state = state, jax.lax.while_loop(unfinished, step, first)
        diagnostics = {
            "ess": ancestral_size(state.flat, state.ancestor, num_prior),
            "temperature": state.temperature,
            "num_temperatures": state.num_temperatures,
            "acceptance": state.acceptance,
            "log_evidence": state.log_evidence,
            "impossible": impossible,
        }
        # The prior draws, the first step and the loop are compiled apart.
        seen = join(witnesses(prior), witnesses(first), witnesses(state))
        return Draws(jax.vmap(unravel)(state.flat), jnp.zeros(self.num_draws), diagnostics, seen)

    @property
    def log_prior(self):
        return model_log_prior

    def judge(self, diagnostics):
        warnings = []
        # A small cloud was asked for where worlds are averaged; it is judged by what it can be.
        wanted = min(MIN_ESS, self.num_draws / 8)
        if diagnostics["temperature"] < 1:
            warnings.append(
                f"The draws reached temperature {diagnostics['temperature']:.3g} of 1 within {self.max_temperatures} "
                "steps: they are wider than the posterior. Raise max_temperatures, or check the outcomes."
            )
        elif not diagnostics["ess"] >= wanted or diagnostics["acceptance"] < MIN_ACCEPTANCE:
            warnings.append(
                f"The draws are worth {diagnostics['ess']:.0f} independent ones ({wanted:.0f} are wanted), and "
                f"{diagnostics['acceptance']:.0%} of the moves are accepted: averages and the weights of separate modes "
                "are rough. Raise num_draws or num_moves."
            )
        return tuple(warnings)

    def _step(self, key: Key[Array, ""], state: State, densities) -> State:
        """One temperature: reweigh, resample, move."""
        resample_key, move_key = jr.split(key)
        increment = self._increment(state)
        temperature = jnp.where(increment >= 1 - state.temperature, 1.0, state.temperature + increment)
        log_weights = increment * state.log_likelihood
        evidence = jax.nn.logsumexp(log_weights) - jnp.log(log_weights.size)
        cloud = _cloud(state.flat, log_weights)
        chosen = systematic(resample_key, log_weights, self.num_draws)
        start = tuple(leaf[chosen] for leaf in (state.flat, state.log_prior, state.log_likelihood))
        num_moves = jnp.where(temperature >= 1, 2 * self.num_moves, self.num_moves)
        initial = (start, jnp.asarray(2.38 / state.flat.shape[1] ** 0.5), jnp.zeros(2))

        def move(i, carry):
            return self._move(jr.fold_in(move_key, i), i, carry, cloud, temperature, densities)

        moved, _, accepted = jax.lax.fori_loop(0, num_moves, move, initial)
        return State(
            *moved,
            ancestor=state.ancestor[chosen],
            temperature=temperature,
            log_evidence=state.log_evidence + evidence,
            # The better of the two kinds: one that fits is enough.
            acceptance=jnp.max(accepted) / (num_moves / 2),
            num_temperatures=state.num_temperatures + 1,
        )

    def _increment(self, state: State) -> Float[Array, ""]:
        """The largest step in temperature that keeps `ess_share` of `num_draws` effective draws, by bisection."""
        wanted = self.ess_share * self.num_draws

        def halve(_, bounds):
            low, high = bounds
            middle = (low + high) / 2
            enough = effective_size(middle * state.log_likelihood) >= wanted
            return jnp.where(enough, middle, low), jnp.where(enough, high, middle)

        rest = 1 - state.temperature
        # The upper end is never zero, so every step makes progress, if only out of the impossible draws.
        _, high = jax.lax.fori_loop(0, 30, halve, (jnp.zeros(()), rest))
        return jnp.where(effective_size(rest * state.log_likelihood) >= wanted, rest, high)

    def _move(self, key, i, carry, cloud: Cloud, temperature: Float[Array, ""], densities):
        """One Metropolis step of every draw: independent for even i, a random walk for odd i."""
        (flat, log_prior, log_likelihood), scale, accepted = carry
        shape_key, tail_key, spread_key, uniform_key = jr.split(key, 4)
        normal = jr.normal(shape_key, flat.shape)
        chi2 = jnp.sum(jr.normal(tail_key, (FREEDOM, flat.shape[0])) ** 2, axis=0)
        # The independent proposal has the covariance of the cloud: a Student t has FREEDOM / (FREEDOM - 2) times its own.
        heavy = normal * jnp.sqrt((FREEDOM - 2) / chi2)[:, None]
        # Steps of different lengths: whatever the best one is, some are near it.
        lengths = scale * jnp.exp(0.7 * jr.normal(spread_key, (flat.shape[0], 1)))
        independent = i % 2 == 0
        proposal = jnp.where(independent, cloud.mean + heavy @ cloud.root.T, flat + lengths * normal @ cloud.root.T)
        new_prior, new_likelihood = densities(proposal)
        # log of target(new) q(old) / (target(old) q(new)); the random walk is symmetric.
        log_ratio = new_prior - log_prior + temperature * (new_likelihood - log_likelihood)
        log_ratio += jnp.where(independent, _log_student(cloud, flat) - _log_student(cloud, proposal), 0.0)
        accept = jnp.log(jr.uniform(uniform_key, log_ratio.shape)) < log_ratio
        rate = jnp.mean(accept)
        flat = jnp.where(accept[:, None], proposal, flat)
        log_prior = jnp.where(accept, new_prior, log_prior)
        log_likelihood = jnp.where(accept, new_likelihood, log_likelihood)
        scale = jnp.where(independent, scale, scale * jnp.exp(rate - 0.3))
        accepted = accepted.at[i % 2].add(rate)
        return (flat, log_prior, log_likelihood), scale, accepted


def ancestral_size(flat: Float[Array, "N P"], ancestor: Int[Array, " N"], num_ancestors: int) -> Float[Array, ""]:
    """How many independent draws would give means as precise as these, for the worst coordinate of psi.

    Families are independent, draws within one are not: Var(mean z) = sum over ancestors of ((1/N) sum of its z)^2.
    """
    standard = (flat - jnp.mean(flat, axis=0)) / (jnp.std(flat, axis=0) + 1e-30)
    families = jax.ops.segment_sum(standard, ancestor, num_ancestors) / flat.shape[0]
    return 1 / jnp.maximum(jnp.max(jnp.sum(families**2, axis=0)), 1 / flat.shape[0])


def _cloud(flat: Float[Array, "N P"], log_weights: Float[Array, " N"]) -> Cloud:
    weights = jax.nn.softmax(log_weights)
    mean = weights @ flat
    centred = flat - mean
    scales = jnp.sqrt(weights @ centred**2) + 1e-6 * (jnp.abs(mean) + 1e-6)
    correlations = (centred / scales).T @ (weights[:, None] * centred / scales)
    # A small ridge in units of each coordinate: draws may lie in a plane.
    root = jnp.linalg.cholesky(correlations + 1e-5 * jnp.eye(mean.size))
    # Inverted once for all moves: a triangular solve of every proposal would cost more than the rest of the move.
    inverse = jax.scipy.linalg.solve_triangular(root, jnp.eye(mean.size), lower=True)
    return Cloud(mean, scales[:, None] * root, inverse / scales)


def _log_student(cloud: Cloud, flat: Float[Array, "N P"]) -> Float[Array, " N"]:
    """log density, up to a constant, of the independent proposal."""
    distance = jnp.sum(((flat - cloud.mean) @ cloud.inverse_root.T) ** 2, axis=1)
    # x = mean + root z sqrt((v - 2) / chi2_v): a Student t of v degrees with scale matrix root root^T (v - 2) / v
    return -(FREEDOM + flat.shape[1]) / 2 * jnp.log1p(distance / (FREEDOM - 2))
