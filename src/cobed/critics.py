"""Critics: learned scores U(y, m*) whose differences measure how well outcomes and max-values fit together.

Inputs are standardised by fixed statistics of the prior before a network sees them; the m* also whitened, since their
small principal components carry much of the information. Where actions are discrete the first layer is chosen by the
action each unit took, so that one critic serves every design the Gumbel-Softmax tries.
"""

import abc
import itertools
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.errors import BudgetError
from cobed.types import Array, Float, Key

# Principal components of m* below this fraction of the largest are not amplified further; at most so many are kept.
WHITENING_FLOOR = 5e-3
MAX_COMPONENTS = 64


class OutcomeScale(eqx.Module):
    """Mean and standard deviation of y at each context, for each discrete action (one column where there are none)."""

    mean: Float[Array, "D J"]
    std: Float[Array, "D J"]

    def __call__(self, outcomes: Float[Array, "B D"], weights: Float[Array, "D J"]) -> Float[Array, "B D"]:
        """`weights` are the (relaxed) shares of the discrete actions in the design."""
        mean, std = jnp.sum(weights * self.mean, axis=1), jnp.sum(weights * self.std, axis=1)
        return (outcomes - mean) / std


class ValueScale(eqx.Module):
    """m* standardised entry by entry, beside its whitened principal components."""

    mean: Float[Array, " T"]
    std: Float[Array, " T"]
    whitening: Float[Array, "T R"]

    @classmethod
    def fit(cls, values: Float[Array, "N T"]) -> "ValueScale":
        centred = np.asarray(values, dtype=np.float64)
        mean = centred.mean(axis=0)
        centred = (centred - mean) / np.sqrt(len(centred))
        _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
        sizes, directions = sizes[:MAX_COMPONENTS], directions[:MAX_COMPONENTS]
        std = _floored(np.sqrt((centred**2).sum(axis=0)))
        whitening = directions.T / np.maximum(_floored(sizes), WHITENING_FLOOR * max(sizes.max(), 1e-12))
        return cls(*(jnp.asarray(array, jnp.float32) for array in (mean, std, whitening)))

    @property
    def num_features(self) -> int:
        return sum(self.whitening.shape)

    def __call__(self, values: Float[Array, "B T"]) -> Float[Array, "B F"]:
        centred = values - self.mean
        return jnp.concatenate([centred / self.std, centred @ self.whitening], axis=1)


def _floored(stds: np.ndarray) -> np.ndarray:
    """Standard deviations with 1 where there is no spread at all: a constant stays a constant instead of becoming NaN."""
    return np.where(stds > 1e-9 * max(float(np.max(stds)), 1e-30), stds, 1.0)


class Layers(eqx.Module):
    """A ReLU network, optionally with batch norm between linear map and ReLU (never on the output)."""

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    gains: tuple[Array, ...] | None
    statistics: tuple[tuple[Array, Array], ...] | None

    @classmethod
    def initial(cls, key: Key[Array, ""], sizes: Sequence[int], batch_norm: bool = False) -> "Layers":
        """He initialisation; `sizes` from input to output."""
        keys = jr.split(key, len(sizes) - 1)
        weights = tuple(
            jr.normal(k, (fan_in, fan_out)) * np.float32(np.sqrt(2 / fan_in))
            for k, fan_in, fan_out in zip(keys, sizes[:-1], sizes[1:], strict=True)
        )
        biases = tuple(jnp.zeros(size) for size in sizes[1:])
        return cls(weights, biases, tuple(jnp.ones(size) for size in sizes[1:-1]) if batch_norm else None, None)

    def after_first(self, hidden: Float[Array, "B H"]) -> Float[Array, "B E"]:
        """The output, given what the first linear map (without bias) makes of the input."""
        return self._run(hidden)[0]

    def freeze(self, hidden: Float[Array, "B H"]) -> "Layers":
        """The same network with the batch statistics of this input fixed."""
        if self.gains is None:
            return self
        return eqx.tree_at(lambda net: net.statistics, self, self._run(hidden)[1], is_leaf=lambda leaf: leaf is None)

    def _run(self, hidden):
        seen = []
        for i, bias in enumerate(self.biases):
            if i > 0:
                hidden = jax.nn.relu(hidden) @ self.weights[i]
            if self.gains is not None and i < len(self.gains):
                mean, std = self.statistics[i] if self.statistics else (hidden.mean(axis=0), hidden.std(axis=0) + 1e-5)
                seen.append((mean, std))
                hidden = self.gains[i] * (hidden - mean) / std
            hidden = hidden + bias
        return hidden, tuple(seen)


class AbstractCritic(eqx.Module):
    """Scores of every outcome vector against every vector of max-values."""

    @abc.abstractmethod
    def __call__(
        self, outcomes: Float[Array, "B D"], values: Float[Array, "B2 F"], weights: Float[Array, "D J"]
    ) -> Float[Array, "B B2"]:
        """Scores of scaled outcomes and features of m*, for a design with these shares of the discrete actions."""

    @abc.abstractmethod
    def freeze(
        self, outcomes: Float[Array, "B D"], values: Float[Array, "B F"], weights: Float[Array, "D J"]
    ) -> "AbstractCritic":
        """The critic with all batch statistics fixed to those of this batch, so that it is a function of one pair."""


class OutcomeLayer(eqx.Module):
    """The first linear map of the outcome encoder: sum_d y_d W[d, a_d] + V[d, a_d], linear in the shares of actions."""

    slopes: Float[Array, "DJ H"]
    shifts: Float[Array, "DJ H"] | None

    @classmethod
    def initial(cls, key: Key[Array, ""], num_contexts: int, num_discrete: int, width: int) -> "OutcomeLayer":
        slopes = jr.normal(key, (num_contexts * num_discrete, width)) * np.float32(np.sqrt(2 / num_contexts))
        return cls(slopes, jnp.zeros_like(slopes) if num_discrete > 1 else None)

    def __call__(self, outcomes: Float[Array, "B D"], weights: Float[Array, "D J"]) -> Float[Array, "B H"]:
        if self.shifts is None:
            return outcomes @ self.slopes
        slopes = jnp.einsum("dj,djh->dh", weights, self.slopes.reshape(*weights.shape, -1))
        return outcomes @ slopes + weights.ravel() @ self.shifts


class SeparableCritic(AbstractCritic):
    """U = E1(y) . E2(m*): two networks, so that B^2 scores cost one matrix product."""

    outcome_layer: OutcomeLayer
    outcome_network: Layers
    value_network: Layers

    def __call__(self, outcomes, values, weights):
        left = self.outcome_network.after_first(self.outcome_layer(outcomes, weights))
        right = self.value_network.after_first(values @ self.value_network.weights[0])
        return left @ right.T

    def freeze(self, outcomes, values, weights):
        return SeparableCritic(
            self.outcome_layer,
            self.outcome_network.freeze(self.outcome_layer(outcomes, weights)),
            self.value_network.freeze(values @ self.value_network.weights[0]),
        )


class JointCritic(AbstractCritic):
    """U = network(y, m*): sees both at once, and costs B^2 runs of the network. For small batches."""

    outcome_layer: OutcomeLayer
    network: Layers

    def __call__(self, outcomes, values, weights):
        # The first linear map of (y_i, m_j) is a sum of two, so only what follows is done for all pairs.
        left = self.outcome_layer(outcomes, weights)
        right = values @ self.network.weights[0]
        pairs = left[:, None, :] + right[None, :, :]
        scores = self.network.after_first(pairs.reshape(-1, pairs.shape[-1]))
        return scores.reshape(outcomes.shape[0], values.shape[0])

    def freeze(self, outcomes, values, weights):
        return self


class Separable(eqx.Module):
    """How to build a separable critic: hidden layers of both encoders, length of their outputs, batch norm."""

    hidden: tuple[int, ...] = eqx.field(static=True, default=(128, 128))
    embedding: int = eqx.field(static=True, default=32)
    batch_norm: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        check_sizes((*self.hidden, self.embedding))

    def build(self, key: Key[Array, ""], num_contexts: int, num_discrete: int, num_features: int) -> SeparableCritic:
        first_key, outcome_key, value_key = jr.split(key, 3)
        width = (*self.hidden, self.embedding)[0]
        first = OutcomeLayer.initial(first_key, num_contexts, num_discrete, width)
        outcome = Layers.initial(outcome_key, (1, *self.hidden, self.embedding), self.batch_norm)
        value = Layers.initial(value_key, (num_features, *self.hidden, self.embedding), self.batch_norm)
        # The outcome layer stands in for the first linear map.
        outcome = eqx.tree_at(lambda net: net.weights, outcome, (jnp.zeros(0), *outcome.weights[1:]))
        return SeparableCritic(first, outcome, value)

    def work(self, batch: int, num_inputs: int) -> tuple[int, int]:
        """Multiplications and stored numbers of a batch of pairs."""
        # Two encoders, then the product of their outputs for each pair.
        encoder = sum(a * b for a, b in itertools.pairwise((num_inputs, *self.hidden, self.embedding)))
        multiplications = batch * encoder * 2 + batch**2 * self.embedding
        return multiplications, batch * (2 * num_inputs + 2 * sum(self.hidden)) + 2 * batch**2


class Joint(eqx.Module):
    """How to build a joint critic."""

    hidden: tuple[int, ...] = eqx.field(static=True, default=(64, 64))

    def __check_init__(self):
        check_sizes(self.hidden)

    def build(self, key: Key[Array, ""], num_contexts: int, num_discrete: int, num_features: int) -> JointCritic:
        first_key, network_key = jr.split(key)
        first = OutcomeLayer.initial(first_key, num_contexts, num_discrete, self.hidden[0])
        return JointCritic(first, Layers.initial(network_key, (num_features, *self.hidden, 1)))

    def work(self, batch: int, num_inputs: int) -> tuple[int, int]:
        """Multiplications and stored numbers of a batch of pairs: all but the first layer run for each pair."""
        inner = sum(a * b for a, b in zip(self.hidden, (*self.hidden[1:], 1), strict=True))
        return batch * num_inputs * self.hidden[0] + batch**2 * inner, batch**2 * sum(self.hidden) * 2


def check_sizes(sizes: Sequence[int]) -> None:
    if not sizes or min(sizes) < 1:
        raise BudgetError(f"A critic needs layers of at least one unit each, got {tuple(sizes)}.")
