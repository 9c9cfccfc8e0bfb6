"""What every inference gives: joint draws of psi with weights, and what is known about their quality.

A sampler's `draw` is a pure function of a key and arrays, so it is compiled and vmapped over thousands of worlds.
A `Posterior` is the checked value for one data set, with diagnostics and warnings in words.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed import beliefs
from cobed.compilation import lean_jit
from cobed.data import Data
from cobed.errors import ModelError, ProblemError
from cobed.inference.second_route import Witnesses, check_densities
from cobed.models.base import AbstractModel, over_draws
from cobed.notebook import card
from cobed.types import Array, Float, Int, Key, Params, present


class Draws(NamedTuple):
    """Joint draws of psi, stacked N, their log-weights up to a constant, and scalars about how they were made."""

    params: Params
    log_weights: Float[Array, " N"]
    diagnostics: dict[str, Array]
    # Some draws with the log-densities that the sampler went by, to be computed again.
    witnesses: Witnesses | None = None


class AbstractInference(eqx.Module):
    """A way from one data set to its posterior."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """What the method is called in results, and by the user."""

    @abc.abstractmethod
    def unfit(self, model: AbstractModel, data: Data) -> str | None:
        """Why it cannot take the model and the design, in words; None where it can. Not for compiled code."""

    @abc.abstractmethod
    def posterior(self, key: Key[Array, ""], model: AbstractModel, data: Data) -> "Posterior":
        """The posterior for one data set, with what is wrong with it in its warnings."""

    @abc.abstractmethod
    def judge(self, diagnostics: dict[str, float]) -> tuple[str, ...]:
        """What is wrong with a posterior of these diagnostics, one sentence each; empty where it can be trusted."""

    # What `auto` asks.

    # Why a posterior without warnings is right: the end of a sentence.
    reason: ClassVar[str] = "it applies, and finds nothing wrong with its draws."
    # Whether the posterior is exact for the model as written: then warnings are about the data, and no other way is tried.
    exact: ClassVar[bool] = False
    # Whether all others are to be preferred where each has something wrong with it.
    last_resort: ClassVar[bool] = False

    def discouraged(self, model: AbstractModel) -> str | None:
        """Why `auto` leaves it out though it could run, in words; None where it does not."""
        return None

    def stronger(self) -> "AbstractInference | None":
        """The same with more effort, to be tried where this has something wrong with it."""
        return None

    def for_worlds(self, num_draws: int) -> "AbstractSampler | None":
        """With settings for thousands of worlds, of which at least so many draws each are wanted; None where it has no such."""
        return None

    def compiled(self) -> "AbstractSampler | None":
        """Itself where it runs inside compiled code."""
        return None

    def require_fit(self, model: AbstractModel, data: Data) -> None:
        """Raise `ModelError` where `unfit` has a reason."""
        problem = self.unfit(model, data)
        if problem is not None:
            raise ModelError(f"Inference by {self.name} is not possible: {problem} With method='auto' cobed chooses.")


class AbstractSampler(AbstractInference):
    """A way to the posterior that runs inside compiled code."""

    num_draws: eqx.AbstractVar[int]
    # So many worlds are computed at once, memory against speed; None: as many as rewards of them fit a processor's cache.
    num_together: ClassVar[int | None] = None

    @abc.abstractmethod
    def draw(self, key: Key[Array, ""], model: AbstractModel, data: Data) -> Draws:
        """`num_draws` draws of psi given the data. Pure: callers vmap over keys and `data.outcomes`."""

    @property
    def log_prior(self) -> Callable[[Any, Params], Float[Array, ""]] | None:
        """What the log-densities of the witnesses hold besides the likelihood: a function of the model and psi."""
        return None

    def for_worlds(self, num_draws):
        return self

    def compiled(self):
        return self

    def posterior(self, key, model, data):
        self.require_fit(model, data)
        draws = compiled_draw(self, key, model, data)
        diagnostics = {name: float(value) for name, value in draws.diagnostics.items()}
        if diagnostics.get("impossible"):
            raise impossible(model, data, draws.params)
        if draws.witnesses is not None:
            check_densities(self.name, model, data, draws.witnesses, self.log_prior)
        return Posterior(draws.params, draws.log_weights, self.name, diagnostics, self.judge(diagnostics))


@lean_jit
def compiled_draw(sampler: AbstractSampler, key: Key[Array, ""], model: AbstractModel, data: Data) -> Draws:
    return sampler.draw(key, model, data)


@dataclasses.dataclass(frozen=True)
class Posterior:
    """Joint draws of psi given data. `params` is a pytree whose leaves are stacked N; `log_weights` (N,) up to a constant.

    `reason` says why this method was picked, `warnings` what speaks against trusting it. `model` is the one it is of, where
    `cobed.infer` made it. `belief` is the posterior itself where it is known exactly, of which `params` are draws. `family` (N,)
    says which of several models each draw is of, where these are mixed in shares that are not their probabilities.
    """

    params: Params
    log_weights: Float[Array, " N"]
    method: str
    diagnostics: dict[str, float] = dataclasses.field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    reason: str = ""
    model: AbstractModel | None = None
    belief: beliefs.AbstractBelief | None = None
    family: np.ndarray | None = None

    def __post_init__(self):
        lengths = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(self.params)}
        if lengths != {np.shape(self.log_weights)}:
            raise ProblemError(
                f"A posterior needs one weight a draw: the weights have shape {np.shape(self.log_weights)} and the "
                f"draws are stacked {sorted(lengths)}."
            )
        log_weights = np.asarray(self.log_weights)
        if np.isnan(log_weights).any() or not np.isfinite(log_weights.max()):
            raise ProblemError(
                "No draw of this posterior has a positive, finite weight, so it says nothing about psi. "
                "Check the outcomes and the likelihood, or use cobed.infer, which says which row is at fault."
            )

    @property
    def num_draws(self) -> int:
        return self.log_weights.shape[0]

    @property
    def weights(self) -> Float[Array, " N"]:
        """The weights, summing to one."""
        return jax.nn.softmax(self.log_weights)

    @property
    def ess(self) -> float:
        """Effective number of draws: what the method measured, otherwise 1 / sum of squared weights."""
        return self.diagnostics.get("ess", float(effective_size(self.log_weights)))

    def _repr_html_(self) -> str:
        facts = {
            "method": f"{self.method}: {self.reason}" if self.reason else self.method,
            "draws of what is known": f"{self.num_draws:,}, as good as {self.ess:,.0f} independent ones",
        }
        notes = [f"Warning: {warning}" for warning in self.warnings] or ["Nothing speaks against trusting it."]
        return card("Posterior: what is known after the outcomes", facts, notes=notes)

    def mean_rewards(
        self, model: AbstractModel, contexts: Float[Array, "T C"], actions: Float[Array, "T A"]
    ) -> Float[Array, "N T"]:
        """What the actions earn under every draw: E[y | a_t, c_t, psi], or what the model's terms leave of it."""
        actions = jnp.asarray(actions)
        return jax.vmap(model.terms)(actions).net(self.mean_outcomes(model, contexts, actions))

    def mean_outcomes(
        self, model: AbstractModel, contexts: Float[Array, "T C"], actions: Float[Array, "T A"]
    ) -> Float[Array, "N T"]:
        """E[y | a_t, c_t, psi] for every draw."""
        return _mean_outcomes(model, self.params, jnp.asarray(contexts), jnp.asarray(actions))

    def as_belief(self) -> beliefs.AbstractBelief:
        """What takes the place of a model's prior: the exact posterior where there is one, otherwise the weighted draws."""
        return self.belief or beliefs.Draws(self.params, self.log_weights)

    def equal_draws(self, num_draws: int, key: Key[Array, ""]) -> Params:
        """At most so many draws of equal weight, stacked. Evenly spaced ones where all weigh alike, so the key is not used then."""
        if np.ptp(np.asarray(self.log_weights)) == 0:
            return thinned(self.params, num_draws)
        chosen = systematic(key, self.log_weights, num_draws)
        return jax.tree.map(lambda leaf: leaf[chosen], self.params)

    def resample(self, key: Key[Array, ""], num_draws: int) -> "Posterior":
        """`num_draws` draws of equal weight, each independent given this posterior."""
        if num_draws < 1:
            raise ProblemError(f"num_draws must be at least 1, got {num_draws}.")
        chosen = jr.categorical(key, self.log_weights, shape=(num_draws,))
        params = jax.tree.map(lambda leaf: leaf[chosen], self.params)
        family = None if self.family is None else self.family[np.asarray(chosen)]
        return dataclasses.replace(self, params=params, log_weights=jnp.zeros(num_draws), family=family)


@lean_jit
def _mean_outcomes(
    model: AbstractModel, params: Params, contexts: Float[Array, "T C"], actions: Float[Array, "T A"]
) -> Float[Array, "N T"]:
    rows = jax.vmap(model.mean_outcome, in_axes=(None, 0, 0))
    return over_draws(model, lambda psi: rows(psi, contexts, actions), params)


def data_log_likelihood(model: AbstractModel, params: Params, data: Data) -> Float[Array, ""]:
    """log p(y | C, A, psi) of all rows; minus infinity where it is not a number."""
    log_likelihood = present(model.likelihood())
    total = jnp.sum(jax.vmap(log_likelihood, (None, 0, 0, 0))(params, data.contexts, data.actions, data.outcomes))
    return jnp.where(jnp.isnan(total), -jnp.inf, total)


def model_log_prior(model: Any, params: Params) -> Float[Array, ""]:
    """The log-density of the prior, by the model's own method."""
    return model.log_prior(params)


def effective_size(log_weights: Float[Array, " N"]) -> Float[Array, ""]:
    """(sum w)^2 / sum w^2; zero where all weights are."""
    # The largest weight is 1 after the shift, so the sums can neither overflow nor vanish.
    largest = jnp.max(log_weights)
    weights = jnp.where(jnp.isfinite(largest), jnp.exp(log_weights - largest), 0.0)
    return jnp.sum(weights) ** 2 / jnp.maximum(jnp.sum(weights**2), 1e-30)


def systematic(key: Key[Array, ""], log_weights: Float[Array, " N"], num_draws: int) -> Int[Array, " M"]:
    """Positions of `num_draws` draws in proportion to the weights, with the least added noise: one uniform for all."""
    # Where all weights are zero, all draws are alike: the caller says so in its diagnostics.
    log_weights = jnp.where(jnp.isfinite(jnp.max(log_weights)), log_weights, 0.0)
    heights = jnp.cumsum(jax.nn.softmax(log_weights))
    points = (jnp.arange(num_draws) + jr.uniform(key)) / num_draws
    # Rounding may leave the last height below 1: scale by it rather than run past the end.
    chosen = jnp.searchsorted(heights, points * heights[-1], side="right")
    return jnp.clip(chosen, 0, log_weights.shape[0] - 1)


def thinned(draws: Params, num_draws: int) -> Params:
    """At most so many of the draws, evenly spaced, so that mirrored pairs stay together."""
    total = jax.tree.leaves(draws)[0].shape[0]
    return jax.tree.map(lambda leaf: leaf[:: max(1, total // num_draws)][:num_draws], draws)


def needs_likelihood(model: AbstractModel) -> str | None:
    """Why the model cannot be fitted to data at all; None where it can."""
    if model.likelihood() is not None:
        return None
    return (
        f"{type(model).__name__} has no likelihood. Subclass cobed.models.AbstractLikelihoodModel, or write the model "
        "as a NumPyro program."
    )


def impossible(model: AbstractModel, data: Data, params: Params) -> ProblemError:
    """The error for data of likelihood zero at every draw: it names the row that the fewest draws can explain."""
    rows = jax.vmap(present(model.likelihood()), in_axes=(None, 0, 0, 0))
    each = jax.vmap(rows, in_axes=(0, None, None, None))(params, data.contexts, data.actions, data.outcomes)
    possible = np.isfinite(np.asarray(each))
    row = int(np.argmin(possible.sum(0)))
    return ProblemError(
        f"No draw of the prior, of {len(possible):,}, gives the data a positive likelihood. Row {row}, outcome "
        f"{float(data.outcomes[row]):g}, is possible under {int(possible[:, row].sum()):,} of them. "
        "Correct or drop it, or widen the prior or the noise of the model."
    )
