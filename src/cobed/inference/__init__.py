"""From data to what is known about psi. `infer` picks the method, says why, and goes on to a stronger one where needed."""

import dataclasses
from typing import Literal

import jax.random as jr
import numpy as np
from scipy.stats import norm

from cobed.data import Data
from cobed.errors import ModelError, ProblemError
from cobed.inference.base import AbstractSampler, Draws, Posterior
from cobed.inference.conjugate import Conjugate
from cobed.inference.gaussian_process import GaussianProcessPosterior
from cobed.inference.importance import Importance
from cobed.inference.laplace import Laplace
from cobed.inference.nuts import NUTS
from cobed.inference.second_route import ROWS, check_densities, gaussian_witnesses
from cobed.inference.smc import TemperedSMC
from cobed.inference.spike_slab import SpikeAndSlab
from cobed.keys import Seed, as_key, key_came_first
from cobed.models.base import AbstractGaussianModel, AbstractModel
from cobed.models.contract import bind_context_dim
from cobed.models.gaussian import num_params
from cobed.models.gaussian_process import GaussianProcess
from cobed.types import Array, Key

__all__ = [
    "NUTS",
    "AbstractSampler",
    "Conjugate",
    "Draws",
    "GaussianProcessPosterior",
    "Importance",
    "Laplace",
    "Posterior",
    "SpikeAndSlab",
    "TemperedSMC",
    "choose_sampler",
    "infer",
]

Method = Literal["auto", "conjugate", "gaussian process", "spike_slab", "laplace", "importance", "smc", "nuts"]
METHODS = {
    "conjugate": Conjugate,
    "gaussian process": GaussianProcessPosterior,
    "spike_slab": SpikeAndSlab,
    "laplace": Laplace,
    "importance": Importance,
    "smc": TemperedSMC,
    "nuts": NUTS,
}
# Above this many numbers in psi a cloud of draws says too little about their covariance.
MAX_SMC_DIM = 50
# A residual that the noise produces with a smaller probability, in any row, is reported.
SURPRISE = 1e-6


@key_came_first
def infer(
    model: AbstractModel, data: Data, method: Method | AbstractSampler | NUTS = "auto", *, seed: Seed
) -> Posterior:
    """The posterior of psi given the data. It knows its model, so that `cobed.deploy` needs nothing else.

    `auto` takes the exact posterior where there is one, and Gibbs sampling where psi is sparse (`HasSparsePrior`);
    where the prior is Gaussian, draws around the mode with joint weights; otherwise, or where these fail, importance
    sampling from the prior while its effective size and Pareto k are good, then tempered SMC (prior density, psi of at
    most 50 numbers), then NUTS; the best of them where none is beyond doubt. What was picked is in
    `Posterior.method`, why in `reason`, and what speaks against it in `warnings`. A sampler with other settings
    can be given itself: `method=TemperedSMC(num_draws=8192)`.
    """
    key, model = as_key(seed), bind_context_dim(model, data.contexts.shape[1])
    data.check_fits(model)
    if method == "auto":
        posterior = _escalate(key, model, data)
    elif isinstance(method, AbstractSampler | NUTS):
        posterior = dataclasses.replace(method.posterior(key, model, data), reason=f"{method.name} was asked for.")
    elif method in METHODS:
        chosen = METHODS[method]().posterior(key, model, data)
        posterior = dataclasses.replace(chosen, reason=f"{method} was asked for.")
    else:
        raise ProblemError(
            f"Unknown inference method {method!r}. Allowed: 'auto', {', '.join(map(repr, METHODS))}, or a sampler."
        )
    doubts = _doubts(model, data, posterior)
    return dataclasses.replace(posterior, model=model, warnings=(*posterior.warnings, *doubts))


def choose_sampler(model: AbstractModel, data: Data, num_draws: int | None = None) -> AbstractSampler:
    """The sampler for thousands of worlds: exact, else Gibbs, around the mode, tempered SMC, importance sampling.

    `num_draws` are wanted of each posterior. Draws around the mode are at least 1,024, the moves of SMC need a cloud of at
    least 512, importance sampling 20,000.
    """
    exact = _exact(model)
    candidates: list[AbstractSampler] = [exact(), SpikeAndSlab(), Laplace(), TemperedSMC()]
    if num_draws is not None:
        # Four chains: what is spent on burn-in is not averaged over.
        sparse = SpikeAndSlab(4 * max(-(-num_draws // 4), 16), num_chains=4, num_burn=50)
        around = Laplace(max(num_draws, 1024))
        candidates = [exact(2 * -(-num_draws // 2)), sparse, around, TemperedSMC(max(num_draws, 512))]
    reasons = []
    for sampler in [*candidates, Importance()]:
        problem = sampler.unfit(model, data)
        if problem is None and isinstance(sampler, TemperedSMC) and num_params(model) > MAX_SMC_DIM:
            problem = f"psi has {num_params(model)} numbers, more than {MAX_SMC_DIM}."
        if problem is None:
            return sampler
        reasons.append(f"{sampler.name}: {problem}")
    raise ModelError("No inference fits this model. " + " ".join(reasons))


def _escalate(key: Key[Array, ""], model: AbstractModel, data: Data) -> Posterior:
    """From the cheapest method that can be right to stronger ones, until one has nothing to complain about."""
    tried: list[Posterior] = []
    reasons: list[str] = []
    for sampler, why in [
        (_exact(model)(), "the posterior is Gaussian and known in closed form."),
        (SpikeAndSlab(), "each number in psi is zero or half-normal, and the chains agree."),
        (
            SpikeAndSlab(16_384, num_burn=1_000),
            "each number in psi is zero or half-normal; short chains did not agree.",
        ),
        (Laplace(), "the prior is Gaussian, and the weights of draws around the mode pass the checks."),
        (Importance(), "the weights of the prior draws pass the checks of effective size and Pareto k."),
        (TemperedSMC(), "the prior has a density and psi is small; the draws reached the posterior and moved freely."),
        (TemperedSMC(16_384), "the prior has a density and psi is small; 2,048 draws were too few."),
        (NUTS(), "the chains agree."),
    ]:
        problem = sampler.unfit(model, data)
        if problem is None and isinstance(sampler, TemperedSMC) and num_params(model) > MAX_SMC_DIM:
            problem = f"psi has {num_params(model)} numbers; SMC is for at most {MAX_SMC_DIM}."
        if problem is not None:
            reasons.append(f"{sampler.name} does not apply: {problem}")
            continue
        key, own = jr.split(key)
        posterior = sampler.posterior(own, model, data)
        exact = isinstance(sampler, Conjugate | GaussianProcessPosterior)
        if exact or not posterior.warnings:
            return dataclasses.replace(posterior, reason=" ".join([f"{sampler.name}: {why}", *reasons]))
        reasons.append(f"{sampler.name} was not good enough: {posterior.warnings[0]}")
        tried.append(posterior)
    if not tried:
        raise ModelError("No inference fits this model. " + " ".join(reasons))
    # All have complaints. The effective size of prior draws means little when their weights have collapsed, so they come last.
    best = max(tried, key=lambda posterior: (posterior.method != "importance", posterior.ess))
    return dataclasses.replace(best, reason=f"{best.method}: the best of those that apply. " + " ".join(reasons))


def _exact(model: AbstractModel) -> type[Conjugate] | type[GaussianProcessPosterior]:
    """The exact posterior that could fit the model."""
    return GaussianProcessPosterior if isinstance(model, GaussianProcess) else Conjugate


def _doubts(model: AbstractModel, data: Data, posterior: Posterior) -> tuple[str, ...]:
    """What looks wrong with the data themselves, once the model has been fitted to them."""
    doubts = []
    outcomes = np.asarray(data.outcomes)
    if data.num_rows > 2 and (outcomes == outcomes[0]).all():
        doubts.append(
            f"All {data.num_rows} outcomes are equal ({outcomes[0]:g}). If that is not what happened, check the column."
        )
    if isinstance(model, AbstractGaussianModel):
        # y - E_post f is Normal(0, noise^2 + Var_post f) when the model is right.
        rewards = np.asarray(posterior.mean_rewards(model, data.contexts, data.actions), np.float64)
        weights = np.asarray(posterior.weights, np.float64)
        # Decisions are made by rewards computed like these.
        rows = np.unique(np.linspace(0, data.num_rows - 1, ROWS).astype(int))
        some = Data(data.contexts[rows], data.actions[rows], data.outcomes[rows])
        seen = gaussian_witnesses(posterior.params, outcomes[rows] - rewards[:, rows], model.noise_std)
        check_densities(posterior.method, model, some, seen)
        means = weights @ rewards
        spread = np.sqrt(model.noise_std**2 + weights @ (rewards - means) ** 2)
        distances = np.abs(outcomes - means) / spread
        row = int(np.argmax(distances))
        if 2 * norm.sf(distances[row]) * data.num_rows < SURPRISE:
            doubts.append(
                f"Row {row}: the outcome {outcomes[row]:g} is {distances[row]:.1f} standard deviations from what the "
                f"posterior expects there ({means[row]:g}). Check that row, and whether the model allows such outcomes."
            )
    return tuple(doubts)
