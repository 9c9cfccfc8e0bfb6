"""NUTS, by NumPyro: for a NumPyro program as it stands, and for a model with a prior density through its potential.

Psi between finite bounds is reached from the whole line, so that no trajectory runs into a wall. Chains start from the
likeliest of a few prior draws each. NumPyro itself is imported when first used.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.flatten_util import ravel_pytree

from cobed.compilation import lean_jit
from cobed.data import Data
from cobed.errors import ProblemError
from cobed.inference.base import AbstractInference, Posterior, data_log_likelihood, impossible, needs_likelihood
from cobed.inference.second_route import check_densities, choose_witnesses
from cobed.models.base import AbstractModel, has_log_prior, params_shape
from cobed.types import Array, Float, Key, Params

MAX_RHAT = 1.01
MIN_ESS = 400.0
# Prior draws from which each chain takes its likeliest as a start.
STARTS_PER_CHAIN = 64


class NUTS(AbstractInference):
    """`num_chains` chains of `num_warmup` and then `num_draws` steps."""

    reason = "the chains agree."
    num_draws: int = 1000
    num_warmup: int = 1000
    num_chains: int = 4

    def __check_init__(self):
        if self.num_draws < 4 or self.num_warmup < 0 or self.num_chains < 2:
            raise ProblemError(
                f"NUTS needs num_draws >= 4, num_warmup >= 0 and at least 2 chains to compare; got {self}."
            )

    @property
    def name(self) -> str:
        return "nuts"

    def unfit(self, model, data):
        leaves = jax.tree_util.tree_leaves_with_path(params_shape(model))
        for path, leaf in leaves:
            if not jnp.issubdtype(leaf.dtype, jnp.floating):
                name = jax.tree_util.keystr(path) or "psi"
                return f"{name} is {leaf.dtype}, and NUTS follows gradients. Sum or average discrete parts out."
        if not has_log_prior(model):
            return f"{type(model).__name__} is neither a NumPyro program nor has a log_prior(params)."
        return needs_likelihood(model)

    def posterior(self, key, model, data):
        """Draws of all chains, with R-hat and effective size over the coordinates of psi, worst first."""
        self.require_fit(model, data)
        start_key, run_key = jr.split(key)
        starts = self._starts(start_key, model, data)
        chains, log_densities, diverging = _run_chains(run_key, self.num_warmup, self.num_draws, model, data, starts)
        diagnostics = {**chain_diagnostics(chains), "divergences": float(diverging)}
        params = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), chains)
        total = self.num_draws * self.num_chains
        check_densities(
            self.name, model, data, choose_witnesses(params, log_densities.reshape(-1)), log_prior_on_the_line
        )
        return Posterior(params, jnp.zeros(total), self.name, diagnostics, self.judge(diagnostics))

    def judge(self, diagnostics):
        warnings = []
        if not diagnostics["r_hat"] <= MAX_RHAT:
            warnings.append(
                f"The chains disagree: R-hat is {diagnostics['r_hat']:.3f}, above {MAX_RHAT}. Run longer chains, and "
                "look for several modes or coefficients that the data cannot tell apart."
            )
        if not diagnostics["ess"] >= MIN_ESS:
            warnings.append(
                f"The chains are worth {diagnostics['ess']:.0f} independent draws; {MIN_ESS:.0f} are wanted. Run them longer."
            )
        share = diagnostics["divergences"] / (self.num_draws * self.num_chains)
        if share > 0.01:
            warnings.append(
                f"{share:.1%} of the trajectories diverged, so parts of the posterior may be missing. "
                "Rescale psi or write the model without its narrow funnel."
            )
        return tuple(warnings)

    def _starts(self, key: Key[Array, ""], model: Any, data: Data) -> Params:
        """For each chain the likeliest of a few prior draws, stacked."""
        starts, tried, scores = _likeliest(jr.split(key, self.num_chains), model, data)
        if not np.isfinite(scores).any():
            raise impossible(model, data, jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), tried))
        # A chain that found no possible start takes that of another.
        chosen = np.where(np.isfinite(scores), np.arange(self.num_chains), int(np.argmax(scores)))
        return jax.tree.map(lambda leaf: leaf[chosen], starts)


@lean_jit
def _likeliest(keys: Key[Array, " K"], model: Any, data: Data) -> tuple[Params, Params, Float[Array, " K"]]:
    """For each key the likeliest of some prior draws, all of them, and its log-likelihood."""

    def start(key: Key[Array, ""]) -> tuple[Params, Params, Float[Array, ""]]:
        params = jax.vmap(model.sample_prior)(jr.split(key, STARTS_PER_CHAIN))
        scores = jax.vmap(lambda p: data_log_likelihood(model, p, data))(params)
        best = jnp.argmax(scores)
        return jax.tree.map(lambda leaf: leaf[best], params), params, scores[best]

    return jax.vmap(start)(keys)


@lean_jit
def _run_chains(
    key: Key[Array, ""], num_warmup: int, num_draws: int, model: Any, data: Data, starts: Params
) -> tuple[Params, Float[Array, "chains draws"], Array]:
    """Draws, (chains, draws, ...), their log-densities on the whole line, and the number of divergences.

    Compiled once for all data of one shape.
    """
    from numpyro import infer
    from numpyro.infer.util import unconstrain_fn

    conditioned = model.conditioned(data.contexts, data.actions, data.outcomes)
    if conditioned is not None:
        kernel = infer.NUTS(conditioned, init_strategy=infer.init_to_sample())
        finish = lambda chains: {name: chains[name] for name in starts}  # noqa: E731
        initial = jax.vmap(lambda p: unconstrain_fn(conditioned, (), {}, p))(starts)
    else:
        to_psi, to_line = _coordinates(model, starts)

        def potential(line: Float[Array, " P"]) -> Float[Array, ""]:
            params, log_volume = to_psi(line)
            log_prior = model.log_prior(params)
            return -(log_prior + data_log_likelihood(model, params, data) + log_volume)

        kernel = infer.NUTS(potential_fn=potential)
        finish = jax.vmap(jax.vmap(lambda line: to_psi(line)[0]))
        initial = jax.vmap(to_line)(starts)
    num_chains = jax.tree.leaves(starts)[0].shape[0]
    sampler = infer.MCMC(
        kernel,
        num_warmup=num_warmup,
        num_samples=num_draws,
        num_chains=num_chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    sampler.run(key, init_params=initial, extra_fields=("diverging", "potential_energy"))
    fields = sampler.get_extra_fields(group_by_chain=True)
    return finish(sampler.get_samples(group_by_chain=True)), -fields["potential_energy"], jnp.sum(fields["diverging"])


def log_prior_on_the_line(model: Any, params: Params) -> Float[Array, ""]:
    """log p(psi) + log |d psi / d line|: the prior as the chains see it."""
    log_prior, log_volume, bounds = model.log_prior(params), model.log_volume(params), model.prior_bounds()
    if log_volume is not None:
        return log_prior + log_volume
    if bounds is not None:
        low, high = (ravel_pytree(bound)[0] for bound in bounds)
        flat = ravel_pytree(params)[0]
        # psi = low + (high - low) s(line), so that d psi / d line = (psi - low) (high - psi) / (high - low)
        log_prior += jnp.sum(jnp.log(flat - low) + jnp.log(high - flat) - jnp.log(high - low))
    return log_prior


def chain_diagnostics(chains: Params) -> dict[str, float]:
    """The largest split R-hat and the smallest effective size over all numbers in psi; leaves are (chains, draws, ...)."""
    from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

    flat = [np.asarray(leaf, np.float64).reshape(*leaf.shape[:2], -1) for leaf in jax.tree.leaves(chains)]
    values = np.concatenate(flat, axis=-1)
    with np.errstate(all="ignore"):
        r_hat, ess = split_gelman_rubin(values), effective_sample_size(values)
    # A chain that never moved has no variance: not a number, which must not pass for good.
    return {"r_hat": float(np.max(r_hat)), "ess": float(np.min(ess))}


def _coordinates(model: AbstractModel, starts: Params) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Between psi and the whole line: `to_psi(line) -> (psi, log |d psi / d line|)` and `to_line(psi)`."""
    _, unravel = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], starts))
    bounds = model.prior_bounds()
    if bounds is None:
        return lambda line: (unravel(line), jnp.zeros(())), lambda params: ravel_pytree(params)[0]
    low, high = (ravel_pytree(bound)[0] for bound in bounds)

    def to_psi(line: Float[Array, " P"]) -> tuple[Params, Float[Array, ""]]:
        # psi = low + (high - low) s(line), s' = s (1 - s)
        volume = jnp.log(high - low) + jax.nn.log_sigmoid(line) + jax.nn.log_sigmoid(-line)
        # Rounding must not reach the bounds, where a density may end.
        inside = jnp.clip(jax.nn.sigmoid(line), 1e-6, 1 - 1e-6)
        return unravel(low + (high - low) * inside), jnp.sum(volume)

    def to_line(params: Params) -> Float[Array, " P"]:
        share = jnp.clip((ravel_pytree(params)[0] - low) / (high - low), 1e-4, 1 - 1e-4)
        return jnp.log(share) - jnp.log1p(-share)

    return to_psi, to_line
