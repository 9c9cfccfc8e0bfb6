"""A Gaussian at the mode of the posterior, its draws weighed by the true density: Laplace's approximation, corrected.

Newton's method climbs log p(psi) + log p(y | psi) to its mode; the curvature there is the precision of the proposal, a
Student t of the same centre and shape whose tails are heavier than the posterior's. Joint importance weights make the
draws exact in the limit, and their Pareto shape k says whether they can be trusted: for generalised linear models with
Gaussian priors, whose posteriors have one mode, nearly always. `inference/mode.py` has the algebra.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import chi2

from cobed.errors import ProblemError
from cobed.inference.base import (
    AbstractSampler,
    Draws,
    effective_size,
    model_log_prior,
    needs_likelihood,
)
from cobed.inference.importance import MAX_PARETO_K, MIN_ESS, pareto_k
from cobed.inference.mode import posterior_in_z
from cobed.inference.second_route import choose_witnesses
from cobed.models.base import has_log_prior
from cobed.types import present

# Degrees of freedom of the proposal: tails heavier than a Gaussian prior's, at a loss of about a tenth of the draws.
FREEDOM = 30
NUM_STEPS = 12
# A Newton step that does not go up is halved up to so many times.
NUM_HALVINGS = 6
# The last Newton step, in posterior standard deviations, beyond which the mode was not found.
MAX_LAST_STEP = 0.1


class Laplace(AbstractSampler):
    """For psi with a Gaussian prior and a likelihood without second modes. `num_draws` weighted draws."""

    reason = "the prior is Gaussian, and the weights of draws around the mode pass the checks."
    num_draws: int = eqx.field(static=True, default=8192)

    def __check_init__(self):
        if self.num_draws < 100:
            raise ProblemError(f"Laplace needs at least 100 draws to judge its own weights, got {self.num_draws}.")

    @property
    def name(self) -> str:
        return "laplace"

    def for_worlds(self, num_draws):
        return Laplace(max(num_draws, 1024))

    def unfit(self, model, data):
        problem = needs_likelihood(model)
        if problem is None and (model.prior_moments() is None or not has_log_prior(model)):
            problem = f"the prior of {type(model).__name__} is not known to be Gaussian (prior_moments, log_prior)."
        return problem

    def draw(self, key, model, data):
        posterior = posterior_in_z(model, data)

        def newton(carry, _):
            z, _ = carry
            slope = posterior.slope(z)
            step = posterior.curvature(z).solve(slope[None])[0]
            steps = step * 0.5 ** jnp.arange(NUM_HALVINGS)[:, None]
            before, *values = posterior.value(jnp.concatenate([z[None], z + steps]))
            # The longest step that goes up; near the mode, where rounding decides, the whole one changes nothing.
            up = jnp.stack(values) >= before - 1e-6 * jnp.abs(before)
            chosen = jnp.where(jnp.any(up), jnp.argmax(up), NUM_HALVINGS - 1)
            moved = z + jnp.where(jnp.all(jnp.isfinite(steps[chosen])), steps[chosen], 0.0)
            # The length of the whole step in posterior standard deviations.
            return (moved, jnp.sqrt(slope @ step)), None

        size = present(model.prior_moments())[0].size
        (mode, last), _ = jax.lax.scan(newton, (jnp.zeros(size), jnp.zeros(())), length=NUM_STEPS)
        # The lengths of a Student t's draws are stratified: one at each of N quantiles. They need no random number.
        quantiles = chi2.ppf((np.arange(self.num_draws) + 0.5) / self.num_draws, FREEDOM)
        stretch = np.sqrt(FREEDOM / quantiles).astype(np.float32)
        steps, squared = posterior.curvature(mode).draws(key, self.num_draws)
        z = mode + steps * stretch[:, None]
        # log of target / proposal, a Student t of FREEDOM degrees.
        log_proposal = -(FREEDOM + size) / 2 * jnp.log1p(squared * stretch**2 / FREEDOM)
        likelihoods = posterior.likelihood(z)
        log_weights = posterior.prior(z) + likelihoods - log_proposal
        log_weights = jnp.where(jnp.isnan(log_weights), -jnp.inf, log_weights)
        diagnostics = {
            "ess": effective_size(log_weights),
            "pareto_k": pareto_k(log_weights),
            "last_step": last,
            "impossible": ~jnp.isfinite(jnp.max(log_weights)),
        }
        params = posterior.psi(z)
        witnesses = choose_witnesses(params, likelihoods, log_weights)
        priors = jax.vmap(lambda psi: present(model.log_prior(psi)))(witnesses.params)
        witnesses = witnesses._replace(log_density=witnesses.log_density + priors)
        return Draws(params, log_weights, diagnostics, witnesses)

    @property
    def log_prior(self):
        return model_log_prior

    def judge(self, diagnostics):
        # Fewer draws are asked for where worlds are averaged; they are judged by what they can be.
        ess, k, wanted = diagnostics["ess"], diagnostics["pareto_k"], min(MIN_ESS, self.num_draws / 8)
        warnings = []
        if not diagnostics["last_step"] <= MAX_LAST_STEP:
            warnings.append(
                f"Newton's method did not settle at a mode: its last step was {diagnostics['last_step']:.2g} posterior "
                "standard deviations. Use method='smc' or 'nuts', or check the outcomes and the prior."
            )
        if not ess >= wanted:
            warnings.append(
                f"The {self.num_draws:,} draws around the mode are worth {ess:.0f} ({wanted:.0f} are wanted): the "
                "posterior is far from Gaussian. Use method='smc' or 'nuts', or more draws."
            )
        if not k <= MAX_PARETO_K:
            warnings.append(
                f"The largest weights have Pareto shape k = {k:.2f}, above {MAX_PARETO_K}: the posterior is far from "
                "Gaussian and averages are unreliable. Use method='smc' or 'nuts'."
            )
        return tuple(warnings)
