"""Conditional densities q(m | y): a linear-Gaussian regression by second moments, refined by a network.

The regression is computed from the batch itself, so it follows the design without training. The network starts at zero,
that is at the regression, and learns what is not linear or not Gaussian about the rest.
"""

from typing import Literal, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.critics import Layers, OutcomeLayer, check_sizes
from cobed.errors import BudgetError
from cobed.linalg import whitener
from cobed.types import Array, Float, Key

# Relative to the variance of each outcome: what keeps the regression solvable where outcomes are copies of each other.
RIDGE = 1e-5


class Regression(NamedTuple):
    """m given y is Normal(mean + (y - outcome_mean) @ slopes, S) with W S W^T = I for the lower triangular `whitener` W."""

    outcome_mean: Float[Array, " D"]
    mean: Float[Array, " R"]
    slopes: Float[Array, "D R"]
    whitener: Float[Array, "R R"]

    @classmethod
    def fit(cls, outcomes: Float[Array, "B D"], values: Float[Array, "B R"]) -> "Regression":
        outcome_mean, mean = outcomes.mean(axis=0), values.mean(axis=0)
        centred, wanted = outcomes - outcome_mean, values - mean
        moments = centred.T @ centred / len(outcomes)
        ridge = RIDGE * jnp.trace(moments) / len(moments) + 1e-12
        white = whitener(moments + ridge * jnp.eye(len(moments)))
        slopes = white.T @ (white @ (centred.T @ wanted)) / len(outcomes)
        rest = wanted - centred @ slopes
        spread = rest.T @ rest / len(outcomes)
        spread += (RIDGE * jnp.trace(spread) / len(spread) + 1e-12) * jnp.eye(len(spread))
        return cls(outcome_mean, mean, slopes, whitener(spread))

    def predict(self, outcomes: Float[Array, "B D"]) -> Float[Array, "B R"]:
        return self.mean + (outcomes - self.outcome_mean) @ self.slopes


class ConditionalDensity(eqx.Module):
    """q(m | y): what is left of m after the regression, whitened, is Normal with shift and scale by a network."""

    outcome_layer: OutcomeLayer
    network: Layers
    regression: Regression | None
    full: bool = eqx.field(static=True)

    def __call__(
        self, outcomes: Float[Array, "B D"], values: Float[Array, "B R"], weights: Float[Array, "D J"]
    ) -> Float[Array, " B"]:
        """log q(m | y) for each pair."""
        regression = self.regression or Regression.fit(outcomes, values)
        predicted = regression.predict(outcomes)
        rest = (values - predicted) @ regression.whitener.T
        hidden = self.outcome_layer(outcomes, weights) + predicted @ self.network.weights[0]
        num_entries = values.shape[1]
        shift, log_scale, lower = jnp.split(self.network.after_first(hidden), [num_entries, 2 * num_entries], axis=1)
        # Whitened rests: (I + N)(rest - shift) / scale with N strictly lower triangular.
        whitened = rest - shift
        if self.full:
            rows, columns = np.tril_indices(num_entries, -1)
            whitened = whitened.at[:, rows].add(lower * (rest - shift)[:, columns])
        whitened = whitened * jnp.exp(-log_scale)
        logdet = jnp.sum(log_scale, axis=1) - jnp.sum(jnp.log(jnp.diagonal(regression.whitener)))
        return -0.5 * jnp.sum(whitened**2, axis=1) - logdet - 0.5 * num_entries * np.log(2 * np.pi)

    def freeze(self, outcomes: Float[Array, "B D"], values: Float[Array, "B R"]) -> "ConditionalDensity":
        """The same density with the regression of this batch."""
        return eqx.tree_at(
            lambda q: q.regression, self, Regression.fit(outcomes, values), is_leaf=lambda leaf: leaf is None
        )


class Density(eqx.Module):
    """How to build a conditional density: hidden layers, and a diagonal or full covariance beyond the regression's."""

    hidden: tuple[int, ...] = eqx.field(static=True, default=(128, 128))
    covariance: Literal["full", "diagonal"] = eqx.field(static=True, default="full")

    def __check_init__(self):
        check_sizes(self.hidden)
        if self.covariance not in ("full", "diagonal"):
            raise BudgetError(f"Density.covariance must be 'full' or 'diagonal', got {self.covariance!r}.")

    def build(self, key: Key[Array, ""], num_contexts: int, num_discrete: int, num_entries: int) -> ConditionalDensity:
        first_key, network_key = jr.split(key)
        full = self.covariance == "full"
        num_outputs = 2 * num_entries + (num_entries * (num_entries - 1) // 2 if full else 0)
        network = Layers.initial(network_key, (num_entries, *self.hidden, num_outputs))
        # At zero the density is the regression.
        network = eqx.tree_at(lambda net: net.weights[-1], network, jnp.zeros_like(network.weights[-1]))
        first = OutcomeLayer.initial(first_key, num_contexts, num_discrete, self.hidden[0])
        return ConditionalDensity(first, network, None, full)
