"""Linear predictors whose deviations are not known: some settings of these, weighed by their evidence, and families stacked.

`inference/evidence.py` has the Gaussian of the coefficients for each setting, and what each outcome would have been predicted as
without its row. Families of features (with curves, without) are mixed in the shares that predict best (stacking).
"""

import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from scipy.optimize import minimize

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
# Families of a smaller share are not named.
TOLD = 0.01


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
        weights = np.concatenate([shares[name] * _weights(components) for name, components in families.items()])
        parts = [part for components in families.values() for part in components]
        numbers = np.repeat(np.arange(len(families)), [len(components) for components in families.values()])
        kept = weights >= SMALLEST
        weights, parts = weights[kept] / weights[kept].sum(), list(itertools.compress(parts, kept))
        chosen = _chosen(weights, self.num_draws)
        params = _draws(jr.key(seed), chosen, parts)
        mixture = _mixture(params, weights, parts, np.flatnonzero(belief.designed_for))
        check_densities(self.name, model, data, _witnesses(form.law, phi, outcomes, params))
        diagnostics = {
            "ess": float(1 / (weights**2).sum()),
            "elpd": _elpd(left_out, shares),
            **{f"share of {name}": share for name, share in shares.items()},
        }
        reason = self.reason
        if len(shares) > 1:
            told = sorted(((share, name) for name, share in shares.items() if share >= TOLD), reverse=True)
            words = ", ".join(f"{share:.0%} {name}" for share, name in told)
            reason += f" The model is {words}: the shares that predict outcomes best which they have not seen."
        logs, family = jnp.zeros(self.num_draws), np.tile(numbers[kept][chosen], 2)
        return Posterior(params, logs, self.name, diagnostics, (), reason, belief=mixture, family=family)

    def judge(self, diagnostics):
        return ()


def stacked(left_out: dict[str, np.ndarray]) -> dict[str, float]:
    """The shares of families whose average predicts every outcome best that it has not seen.

    Each family has one outcome more that it alone predicts, so that a handful of rows decides for none (a Dirichlet prior).
    """
    logs = np.array(list(left_out.values()))
    densities = np.exp(logs - logs.max(axis=0))
    num_families = len(logs)
    even = np.full(num_families, 1 / num_families)
    if num_families == 1:
        return dict(zip(left_out, map(float, even), strict=True))
    densities = np.concatenate([densities, np.eye(num_families)], axis=1)
    # Concave in the shares, so that there is one maximum.
    answer = minimize(
        lambda shares: -np.log(shares @ densities).mean(),
        even,
        jac=lambda shares: -(densities / (shares @ densities)).mean(axis=1),
        bounds=[(1e-9, 1.0)] * num_families,
        constraints={"type": "eq", "fun": lambda shares: shares.sum() - 1, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-9, "maxiter": 200},
    )
    shares = np.maximum(answer.x, 0) / np.maximum(answer.x, 0).sum()
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


def _chosen(weights: np.ndarray, num_draws: int) -> np.ndarray:
    """The component of each mirrored pair of draws, each in proportion to its weight, (M/2,)."""
    heights, half = np.cumsum(weights), num_draws // 2
    return np.searchsorted(heights / heights[-1], (np.arange(half) + 0.5) / half)


def _draws(key: Any, chosen: np.ndarray, parts: list[Component]) -> Any:
    """Draws in mirrored pairs of these components: averages have little sampling error."""
    normals = np.asarray(jr.normal(key, (len(chosen), len(parts[0].mean))), np.float64)
    above, below = (np.empty(normals.shape, np.float32) for _ in range(2))
    for component in np.unique(chosen):
        rows, part = chosen == component, parts[component]
        away = part.draw(normals[rows])
        above[rows], below[rows] = part.mean + away, part.mean - away
    return jnp.asarray(np.concatenate([above, below]))


def _mixture(params: Any, weights: np.ndarray, parts: list[Component], known: np.ndarray) -> Mixture:
    """The exact mean, and covariance of the entries `known`, of the average of the components."""
    means = np.array([part.mean for part in parts])
    mean = weights @ means
    away = (means - mean)[:, known]
    cov = (away.T * weights) @ away + sum(w * part.cov(known) for w, part in zip(weights, parts, strict=True))
    return Mixture(params, mean, tuple(map(int, known)), cov)


def _witnesses(law: AbstractLaw, phi: np.ndarray, outcomes: np.ndarray, params: Any) -> Witnesses:
    """Some draws with the log-likelihoods that follow from the rows of features the fits went by."""
    some = np.asarray(params)[:: max(1, len(params) // NUM_WITNESSES)]
    eta = some[:, :-1].astype(np.float64) @ phi[:, :-1].T
    logs = log_densities(law, jnp.asarray(outcomes, jnp.float32), jnp.asarray(eta, jnp.float32), some[:, -1:])
    return Witnesses(jnp.asarray(some), np.asarray(logs, np.float64).sum(axis=1), np.zeros(len(some)))


@eqx.filter_jit
def _design_matrix(model: AbstractModel, contexts: jax.Array, actions: jax.Array) -> jax.Array:
    return jax.vmap(present(model.linear_form()).features)(contexts, actions)
