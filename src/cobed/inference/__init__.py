"""From data to what is known about psi. `infer` picks the method, says why, and goes on to a stronger one where needed."""

import dataclasses

import jax
import numpy as np
from scipy.stats import norm

from cobed.data import Data
from cobed.inference.base import AbstractInference, AbstractSampler, Draws, Posterior
from cobed.inference.choice import SAMPLERS, choose_sampler, escalate, register
from cobed.inference.conjugate import Conjugate
from cobed.inference.gaussian_process import GaussianProcessPosterior
from cobed.inference.importance import Importance
from cobed.inference.laplace import Laplace
from cobed.inference.nuts import NUTS
from cobed.inference.scales import Scales
from cobed.inference.second_route import ROWS, check_densities, gaussian_witnesses
from cobed.inference.smc import TemperedSMC
from cobed.inference.spike_slab import SpikeAndSlab
from cobed.inference.two_parts import TwoParts
from cobed.keys import Seed, as_key, key_came_first
from cobed.models.base import AbstractModel

# The order in which `auto` walks: exact, Gibbs, around the mode, from the prior, tempered, chains.
for _sampler in (
    Conjugate(), GaussianProcessPosterior(), Scales(), TwoParts(), SpikeAndSlab(), Laplace(), Importance(), TemperedSMC(), NUTS(),
):  # fmt: skip
    register(_sampler)

__all__ = [
    "NUTS",
    "AbstractInference",
    "AbstractSampler",
    "Conjugate",
    "Draws",
    "GaussianProcessPosterior",
    "Importance",
    "Laplace",
    "Posterior",
    "Scales",
    "SpikeAndSlab",
    "TemperedSMC",
    "TwoParts",
    "choose_sampler",
    "infer",
    "register",
]

# A residual that the noise produces with a smaller probability, in any row, is reported.
SURPRISE = 1e-6


@key_came_first
def infer(model: AbstractModel, data: Data, method: str | AbstractInference = "auto", *, seed: Seed) -> Posterior:
    """The posterior of psi given the data. It knows its model, so that `cobed.deploy` needs nothing else.

    `auto` takes the exact posterior where there is one, and Gibbs sampling where psi is sparse (`sparse_prior`);
    where the prior is Gaussian, draws around the mode with joint weights; otherwise, or where these fail, importance
    sampling from the prior while its effective size and Pareto k are good, then tempered SMC (prior density, psi of at
    most 50 numbers), then NUTS; the best of them where none is beyond doubt. What was picked is in
    `Posterior.method`, why in `reason`, and what speaks against it in `warnings`. A sampler with other settings
    can be given itself: `method=TemperedSMC(num_draws=8192)`.
    """
    key, model = as_key(seed), model.for_contexts(data.contexts.shape[1])
    data.check_fits(model)
    if method == "auto":
        posterior = escalate(key, model, data)
    else:
        sampler = SAMPLERS.named(method) if isinstance(method, str) else method
        posterior = dataclasses.replace(sampler.posterior(key, model, data), reason=f"{sampler.name} was asked for.")
    doubts = _doubts(model, data, posterior)
    return dataclasses.replace(posterior, model=model, warnings=(*posterior.warnings, *doubts))


def _doubts(model: AbstractModel, data: Data, posterior: Posterior) -> tuple[str, ...]:
    """What looks wrong with the data themselves, once the model has been fitted to them."""
    doubts = []
    outcomes = np.asarray(data.outcomes)
    if data.num_rows > 2 and (outcomes == outcomes[0]).all():
        doubts.append(
            f"All {data.num_rows} outcomes are equal ({outcomes[0]:g}). If that is not what happened, check the column."
        )
    form, middle = model.linear_form(), jax.tree.map(lambda leaf: leaf.mean(axis=0), posterior.params)
    noise_std = model.noise_in(middle)
    if form is None and noise_std is None:
        return tuple(doubts)
    expected = np.asarray(posterior.mean_outcomes(model, data.contexts, data.actions), np.float64)
    weights = np.asarray(posterior.weights, np.float64)
    if form is not None and (misfit := form.law.misfit(outcomes, weights @ expected)) is not None:
        doubts.append(misfit)
    if noise_std is not None and model.gaussian_noise() is not None:
        # Decisions are made by expected outcomes computed like these.
        rows = np.unique(np.linspace(0, data.num_rows - 1, ROWS).astype(int))
        some = Data(data.contexts[rows], data.actions[rows], data.outcomes[rows])
        seen = gaussian_witnesses(posterior.params, outcomes[rows] - expected[:, rows], noise_std)
        check_densities(posterior.method, model, some, seen)
    if noise_std is not None:
        # y - E_post f is Normal(0, noise^2 + Var_post f) when the model is right.
        means = weights @ expected
        spread = np.sqrt(noise_std**2 + weights @ (expected - means) ** 2)
        distances = np.abs(outcomes - means) / spread
        row = int(np.argmax(distances))
        if 2 * norm.sf(distances[row]) * data.num_rows < SURPRISE:
            doubts.append(
                f"Row {row}: the outcome {outcomes[row]:g} is {distances[row]:.1f} standard deviations from what the "
                f"posterior expects there ({means[row]:g}). Check that row, and whether the model allows such outcomes."
            )
    return tuple(doubts)
