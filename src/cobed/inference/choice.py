"""The samplers by name, in the order in which `auto` walks them, and the walk itself."""

import dataclasses

import jax.random as jr

from cobed.data import Data
from cobed.errors import ModelError, ProblemError
from cobed.inference.base import AbstractInference, AbstractSampler, Posterior
from cobed.models.base import AbstractModel
from cobed.registry import Registry
from cobed.types import Array, Key

SAMPLERS: Registry[AbstractInference] = Registry("sampler", "cobed.samplers", ProblemError)


def register(sampler: AbstractInference) -> AbstractInference:
    """Make a sampler, with its usual settings, known by its name. `auto` tries later ones later."""
    return SAMPLERS.add(sampler.name, sampler)


def choose_sampler(model: AbstractModel, data: Data, num_draws: int | None = None) -> AbstractSampler:
    """The sampler for thousands of worlds: the first that applies, a last resort after all others.

    `num_draws` are wanted of each posterior; some samplers need more to be right.
    """
    reasons = []
    for usual in sorted(SAMPLERS, key=lambda sampler: sampler.last_resort):
        sampler = usual.compiled() if num_draws is None else usual.for_worlds(num_draws)
        if sampler is None:
            continue
        problem = _problem(sampler, model, data)
        if problem is None:
            return sampler
        reasons.append(f"{sampler.name}: {problem}")
    raise ModelError("No inference fits this model. " + " ".join(reasons))


def escalate(key: Key[Array, ""], model: AbstractModel, data: Data) -> Posterior:
    """From the cheapest method that can be right to stronger ones, until one has nothing to complain about."""
    tried: list[tuple[AbstractInference, Posterior]] = []
    reasons: list[str] = []
    for usual in SAMPLERS:
        problem = _problem(usual, model, data)
        if problem is not None:
            reasons.append(f"{usual.name} does not apply: {problem}")
            continue
        sampler = usual
        while sampler is not None:
            key, draw_key = jr.split(key)
            posterior = sampler.posterior(draw_key, model, data)
            if sampler.exact or not posterior.warnings:
                return dataclasses.replace(
                    posterior, reason=" ".join([f"{sampler.name}: {posterior.reason or sampler.reason}", *reasons])
                )  # fmt: skip
            reasons.append(f"{sampler.name} was not good enough: {posterior.warnings[0]}")
            tried.append((sampler, posterior))
            sampler = sampler.stronger()
    if not tried:
        raise ModelError("No inference fits this model. " + " ".join(reasons))
    # All have complaints.
    _, best = max(tried, key=lambda pair: (not pair[0].last_resort, pair[1].ess))
    return dataclasses.replace(best, reason=f"{best.method}: the best of those that apply. " + " ".join(reasons))


def _problem(sampler: AbstractInference, model: AbstractModel, data: Data) -> str | None:
    return sampler.unfit(model, data) or sampler.discouraged(model)
