"""Linear predictors whose deviations are not known: some settings of these, weighed by their evidence, and families stacked.

`inference/evidence.py` has the Gaussian of the coefficients for each setting, and what each outcome would have been predicted as
without its row. Families of features (with curves, without) are mixed in the shares that predict best (stacking).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.beliefs import Mixture
from cobed.inference.base import AbstractInference, Posterior, needs_likelihood
from cobed.inference.evidence import Component, Fit, log_densities
from cobed.inference.second_route import Witnesses, check_densities
from cobed.models.base import AbstractModel
from cobed.outcomes import AbstractLaw
from cobed.types import present

# Components of a smaller weight are left out.
SMALLEST = 1e-3
NUM_WITNESSES = 16


class Scales(AbstractInference):
    """For linear predictors with deviations to be learned (`model.unknown_scales`)."""

    reason = "deviations and noise are learned with the coefficients, and averaged over."
    num_settings: int = eqx.field(static=True, default=32)
    num_draws: int = eqx.field(static=True, default=2048)

    @property
    def name(self):
        return "scales"

    def unfit(self, model, data):
        problem = needs_likelihood(model)
        if problem is None and (model.unknown_scales() is None or model.linear_form() is None):
            problem = f"the deviations of {type(model).__name__} are not to be learned (unknown_scales, linear_form)."
        return problem

    def posterior(self, key, model, data):
        self.require_fit(model, data)
        form, belief = present(model.linear_form()), present(model.unknown_scales())
        phi = np.asarray(_design_matrix(model, jnp.asarray(data.contexts), jnp.asarray(data.actions)), np.float64)
        outcomes = np.asarray(data.outcomes, np.float64)
        seed = int(jr.randint(key, (), 0, 2**31 - 1))
        families = {
            name: Fit(form.law, belief, phi, outcomes, kept).components(self.num_settings, seed)
            for name, kept in belief.families.items()
        }
        left_out = {name: _left_out(components) for name, components in families.items()}
        shares = stacked(left_out)
        weights, parts = [], []
        for name, components in families.items():
            weights.extend(shares[name] * _weights(components))
            parts.extend(components)
        weights = np.where(np.array(weights) < SMALLEST, 0.0, weights)
        parts = [part for part, weight in zip(parts, weights, strict=True) if weight > 0]
        weights = weights[weights > 0] / weights.sum()
        stacks = weights, [part.mean for part in parts], [part.root for part in parts]
        mixture = Mixture(*(jnp.asarray(np.array(stack), jnp.float32) for stack in stacks))
        params = _draws(jr.key(seed), mixture, self.num_draws)
        check_densities(self.name, model, data, _witnesses(form.law, phi, outcomes, params))
        diagnostics = {
            "ess": float(1 / (weights**2).sum()),
            "elpd": _elpd(left_out, shares),
            **{f"share of {name}": share for name, share in shares.items()},
        }
        reason = self.reason
        if len(shares) > 1:
            words = " and ".join(f"{share:.0%} {name}" for name, share in shares.items())
            reason += f" The model is {words}, by what each predicts of outcomes it has not seen."
        return Posterior(params, jnp.zeros(self.num_draws), self.name, diagnostics, (), reason, belief=mixture)

    def judge(self, diagnostics):
        return ()


def stacked(left_out: dict[str, np.ndarray], num_steps: int = 200) -> dict[str, float]:
    """The shares of families whose average predicts every outcome best that it has not seen; by expectation-maximisation."""
    logs = np.array(list(left_out.values()))
    densities = np.exp(logs - logs.max(axis=0))
    shares = np.full(len(logs), 1 / len(logs))
    for _ in range(num_steps):
        mixed = shares[:, None] * densities
        shares = (mixed / mixed.sum(axis=0)).mean(axis=1)
    return dict(zip(left_out, map(float, shares), strict=True))


def _weights(components: list[Component]) -> np.ndarray:
    """Importance weights; no single one above the square root of their number, so that few draws do not decide alone."""
    logs = np.array([component.log_weight for component in components])
    weights = np.exp(logs - logs.max())
    weights = np.minimum(weights / weights.sum(), len(logs) ** -0.5)
    return weights / weights.sum()


def _left_out(components: list[Component]) -> np.ndarray:
    """log p(y_i | all others), (N,): 1 / p = sum_j w_j / p_j, because the weight of a setting without the row is w_j / p_j."""
    logs = np.log(_weights(components))[:, None] - np.array([component.left_out for component in components])
    return -np.logaddexp.reduce(logs, axis=0)


def _elpd(left_out: dict[str, np.ndarray], shares: dict[str, float]) -> float:
    """The log-density of all outcomes, each given the others, under the families in these shares."""
    logs = [np.log(max(shares[name], 1e-300)) + densities for name, densities in left_out.items()]
    return float(np.logaddexp.reduce(logs, axis=0).sum())


def _draws(key: Any, belief: Mixture, num_draws: int) -> Any:
    """Draws in mirrored pairs, each component in proportion to its weight: averages have little sampling error."""
    half = num_draws // 2
    heights = np.cumsum(np.asarray(belief.weights, np.float64))
    chosen = np.searchsorted(heights / heights[-1], (np.arange(half) + 0.5) / half)
    normals = np.asarray(jr.normal(key, (half, belief.roots.shape[2])))
    away = np.empty((half, belief.means.shape[1]), np.float32)
    for component in np.unique(chosen):
        rows = chosen == component
        away[rows] = normals[rows] @ np.asarray(belief.roots[component]).T
    means = np.asarray(belief.means)[chosen]
    return jnp.asarray(np.concatenate([means + away, means - away]))


def _witnesses(law: AbstractLaw, phi: np.ndarray, outcomes: np.ndarray, params: Any) -> Witnesses:
    """Some draws with the log-likelihoods that follow from the rows of features the fits went by."""
    some = np.asarray(params)[:: max(1, len(params) // NUM_WITNESSES)]
    eta = some[:, :-1].astype(np.float64) @ phi[:, :-1].T
    logs = log_densities(law, jnp.asarray(outcomes, jnp.float32), jnp.asarray(eta, jnp.float32), some[:, -1:])
    return Witnesses(jnp.asarray(some), np.asarray(logs, np.float64).sum(axis=1), np.zeros(len(some)))


@eqx.filter_jit
def _design_matrix(model: AbstractModel, contexts: jax.Array, actions: jax.Array) -> jax.Array:
    return jax.vmap(present(model.linear_form()).features)(contexts, actions)
