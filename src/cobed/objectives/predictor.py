"""The value of an experiment for linear predictors with normal, binary or count outcomes, from the information matrix.

The design enters by N = I + sum_d w_d phi_d phi_d^T alone, in coordinates where the belief is standard normal: the belief
after the experiment has covariance N^-1, and its mean is N(0, I - N^-1) before it. A decision earns
E[y] = g(m, s^2) for a predictor N(m, s^2), so the value E[ mean_j max_a g ] needs no simulated outcome, no critic and no
gradient through a 0 or a 1. The cost of a design grows with the coefficients, not with the units.
"""

from typing import Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from cobed.linalg import lower_root, whitener
from cobed.models.base import AbstractModel
from cobed.models.predictor import PredictorBelief, predictor_features
from cobed.objectives.base import AbstractObjective, largest
from cobed.objectives.value import normal_points
from cobed.policies import Temperature
from cobed.types import Array, Float, Key

NUM_POINTS = 256
# So many targets stand for all: the value is an average over them.
MAX_TARGETS = 256
# How many values decisions are taken among, by how many numbers there are; else three of each.
GRID = {1: 21, 2: 81}


@runtime_checkable
class HasGains(Protocol):
    """An objective that knows at once what each action of each unit would add."""

    def gains(self, shares: Float[Array, "D K"]) -> tuple[Float[Array, ""], Float[Array, "D K"]]:
        """The objective of a design of these shares of named actions, and its slope in every share."""
        ...


class PredictorValue(AbstractObjective):
    """The value of a design under a Gaussian belief about coefficients, above that of the best decisions of now.

    `units` (D, K, P) and `weights` (D, K) are the features and the information of every named action; None for numbers,
    whose features follow the design. `rows` (T, K, P) are those of the decisions at the targets.
    """

    belief: PredictorBelief
    units: Float[Array, "D K P"] | None
    weights: Float[Array, "D K"] | None
    rows: Float[Array, "T K P"]
    means: Float[Array, "T K"]
    points: Float[Array, "N Z"]
    temperature: Temperature
    numbers: tuple[AbstractModel, Float[Array, "D C"]] | None

    @classmethod
    def build(
        cls,
        key: Key[Array, ""],
        model: AbstractModel,
        contexts: Float[Array, "D C"],
        targets: Float[Array, "T C"],
        belief: PredictorBelief,
        temperature: Temperature,
    ) -> "PredictorValue":
        """Of experiments on `contexts` for decisions at `targets`. Also inside compiled code."""
        space = model.action_space
        if len(targets) > MAX_TARGETS:
            targets = targets[jr.choice(key, len(targets), (MAX_TARGETS,), replace=False)]
        num_numbers = len(space.continuous)
        choices = jnp.asarray(space.grid(GRID.get(num_numbers, 3**num_numbers)))
        rows, means, _ = belief.whitened(_features(model, targets, choices))
        if space.continuous:
            points = normal_points(NUM_POINTS, rows.shape[-1])
            return cls(belief, None, None, rows, means, jnp.asarray(points), temperature, (model, contexts))
        units, unit_means, variances = belief.whitened(_features(model, contexts, choices))
        weights = belief.information(unit_means, variances)
        points = jnp.asarray(normal_points(NUM_POINTS, len(choices)))
        # Without the model nothing but arrays is left: rounds of one shape share one compiled program.
        return cls(belief, units, weights, rows, means, points, temperature, None)

    @property
    def name(self) -> str:
        return "value"

    @property
    def unit(self) -> str:
        return "reward"

    def __call__(self, trainable, key, progress):
        actions = trainable.design.sample(key, *self.temperature(progress))
        if self.units is not None:
            return self.of_shares(actions)
        assert self.numbers is not None
        model, contexts = self.numbers
        features = jax.vmap(lambda context, action: predictor_features(model, context, action))(contexts, actions)
        white, means, variances = self.belief.whitened(features)
        return self.of_information((white * self.belief.information(means, variances)[:, None]).T @ white)

    def of_shares(self, shares: Float[Array, "D K"]) -> Float[Array, ""]:
        """The value where each unit gets each named action in these shares; a mixture informs as its parts do."""
        assert self.units is not None
        assert self.weights is not None
        flat = self.units.reshape(-1, self.units.shape[-1])
        return self.of_information((flat * (shares * self.weights).reshape(-1, 1)).T @ flat)

    def gains(self, shares):
        """See `HasGains`."""
        return jax.value_and_grad(self.of_shares)(shares)

    def of_information(self, information: Float[Array, "P P"]) -> Float[Array, ""]:
        """The value of sum_d w_d phi_d phi_d^T."""
        size = information.shape[0]
        white = whitener(jnp.eye(size) + information)
        left = self.rows @ white.T
        before, after = jnp.sum(self.rows**2, axis=-1), jnp.sum(left**2, axis=-1)
        if self.units is not None:
            # The K means at one target move with this covariance; K is small.
            moves = self.rows @ jnp.swapaxes(self.rows, 1, 2) - left @ jnp.swapaxes(left, 1, 2)
            moved = jnp.einsum(
                "tkl,nl->ntk", jax.vmap(lower_root)(moves, _rounding(jnp.max(before, axis=1))), self.points
            )
        else:
            moved = jnp.einsum(
                "tkp,np->ntk", self.rows @ lower_root(jnp.eye(size) - white.T @ white, _rounding(1.0)), self.points
            )
        later = self.belief.expected(self.means + moved, after)
        now = self.belief.expected(self.means, before)
        return jnp.mean(largest(later) - largest(now))

    def initial_network(self, key):
        return None

    def resized(self, batch_size):
        return self


@eqx.filter_jit
def _features(
    model: AbstractModel, contexts: Float[Array, "N C"], actions: Float[Array, "K A"]
) -> Float[Array, "N K P"]:
    def one(context, action):
        return predictor_features(model, context, action)

    return jax.vmap(jax.vmap(one, (None, 0)), (0, None))(contexts, actions)


def _rounding(scale: Float[Array, "..."] | float) -> Float[Array, "..."] | float:
    """What lifts a difference of matrices of size `scale` above its rounding error."""
    return 4e-6 * scale + 1e-12
