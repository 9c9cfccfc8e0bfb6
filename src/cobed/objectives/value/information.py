"""The value of an experiment for linear predictors with normal, binary or count outcomes, from the information matrix.

The design enters by N = I + sum_d w_d phi_d phi_d^T alone, in coordinates where the belief is standard normal: the belief
after the experiment has covariance N^-1, and its mean is N(0, I - N^-1) before it. A decision earns
E[y] = g(m, s^2), or what its costs leave of that, for a predictor N(m, s^2), so the value E[ mean_j max_a g ] needs no simulated
outcome, no critic and no gradient through a 0 or a 1. The cost of a design grows with the coefficients, not with the units.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.linalg import covariance_root, lower_root, whitener
from cobed.models.base import AbstractModel, Terms
from cobed.objectives.base import AbstractObjective, largest
from cobed.objectives.value.gaussian import normal_points
from cobed.outcomes import AbstractLaw
from cobed.policies import Temperature
from cobed.problem import choices_at
from cobed.types import Array, Bool, Float, Key, present

NUM_POINTS = 256
# So many targets stand for all: the value is an average over them.
MAX_TARGETS = 256
# How many values decisions are taken among, by how many numbers there are; else three of each.
GRID = {1: 21, 2: 81}


class Predictor(eqx.Module):
    """A Gaussian belief about the coefficients of a linear predictor, and the law of outcomes around it.

        eta = phi(c, a) . psi,   psi ~ N(mean, root root^T),   precision after outcomes = cov^-1 + sum_d w_d phi_d phi_d^T

    w is the Fisher information of one outcome about eta, averaged over the belief: 1 / sigma^2 for normal outcomes, where the
    update is exact, E[p (1 - p)] for binary ones, the rate for counts. It does not depend on the outcomes, so the covariance
    after an experiment is known before it, and the design enters by a sum over units.
    """

    mean: Float[Array, " P"]
    root: Float[Array, "P P"]
    scale: Float[Array, ""]
    law: AbstractLaw = eqx.field(static=True)

    @classmethod
    def of(cls, key: Key[Array, ""], model: AbstractModel) -> "Predictor | None":
        """That of a model with a linear form: the moments of its belief, exact where they are known; None of any other."""
        form = model.linear_form()
        if form is None:
            return None
        mean, cov = model.psi_moments(key)
        mean, root, scale = (jnp.asarray(array, jnp.float32) for array in (mean, covariance_root(cov, np), form.scale))
        return cls(mean, root, scale, form.law)

    def expected(self, mean: Array, variance: Array) -> Array:
        """E[y] where eta ~ N(mean, variance)."""
        return self.law.expected(mean, variance)

    def information(self, mean: Array, variance: Array) -> Array:
        """Fisher information of one outcome about eta, where eta ~ N(mean, variance)."""
        return self.law.information(mean, variance, self.scale)

    def whitened(self, features: Float[Array, "... P"]) -> tuple[Array, Array, Array]:
        """Features of coefficients whose belief is standard normal, and mean and variance of the predictor there."""
        white = features @ self.root
        return white, features @ self.mean, jnp.sum(white**2, axis=-1)


class PredictorValue(AbstractObjective):
    """The value of a design under a Gaussian belief about coefficients, above that of the best decisions of now.

    `units` (D, K, P) and `weights` (D, K) are the features and the information of every named action; None for numbers,
    whose features follow the design. `rows` (T, K, P) are those of the decisions at the targets, `terms` what these earn.
    """

    predictor: Predictor
    units: Float[Array, "D K P"] | None
    weights: Float[Array, "D K"] | None
    rows: Float[Array, "T K P"]
    means: Float[Array, "T K"]
    points: Float[Array, "N Z"]
    temperature: Temperature
    numbers: tuple[AbstractModel, Float[Array, "D C"]] | None
    terms: Terms = Terms()

    @classmethod
    def build(
        cls,
        key: Key[Array, ""],
        model: AbstractModel,
        contexts: Float[Array, "D C"],
        places: tuple[Float[Array, "T C"], Bool[Array, "T K"] | None],
        predictor: Predictor,
        temperature: Temperature,
    ) -> "PredictorValue":
        """Of experiments on `contexts` for decisions at `places`: targets, and what each may get. Also in compiled code."""
        space = model.action_space
        if len(places[0]) > MAX_TARGETS:
            some = jr.choice(key, len(places[0]), (MAX_TARGETS,), replace=False)
            places = jax.tree.map(lambda rows: rows[some], places)
        num_numbers = len(space.continuous)
        choices = jnp.asarray(space.grid(GRID.get(num_numbers, 3**num_numbers)))
        decisions = choices_at(places, choices)
        rows, means, _ = predictor.whitened(_features(model, places[0], decisions))
        terms = jax.vmap(jax.vmap(model.terms))(decisions)
        if space.continuous:
            points = normal_points(NUM_POINTS, rows.shape[-1])
            return cls(predictor, None, None, rows, means, jnp.asarray(points), temperature, (model, contexts), terms)
        every = jnp.broadcast_to(choices, (len(contexts), *choices.shape))
        units, unit_means, variances = predictor.whitened(_features(model, contexts, every))
        weights = predictor.information(unit_means, variances)
        points = jnp.asarray(normal_points(NUM_POINTS, len(choices)))
        # Without the model nothing but arrays is left: rounds of one shape share one compiled program.
        return cls(predictor, units, weights, rows, means, points, temperature, None, terms)

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
        features = jax.vmap(present(model.linear_form()).features)(contexts, actions)
        white, means, variances = self.predictor.whitened(features)
        return self.of_information((white * self.predictor.information(means, variances)[:, None]).T @ white)

    def of_shares(self, shares: Float[Array, "D K"]) -> Float[Array, ""]:
        """The value where each unit gets each named action in these shares; a mixture informs as its parts do."""
        assert self.units is not None
        assert self.weights is not None
        flat = self.units.reshape(-1, self.units.shape[-1])
        return self.of_information((flat * (shares * self.weights).reshape(-1, 1)).T @ flat)

    def with_gains(self):
        return None if self.units is None else self

    def gains(self, shares: Float[Array, "D K"]) -> tuple[Float[Array, ""], Float[Array, "D K"]]:
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
        later = self.terms.net(self.predictor.expected(self.means + moved, after))
        now = self.terms.net(self.predictor.expected(self.means, before))
        return jnp.mean(largest(later) - largest(now))

    def resized(self, batch_size):
        return self


@eqx.filter_jit
def _features(
    model: AbstractModel, contexts: Float[Array, "N C"], actions: Float[Array, "N K A"]
) -> Float[Array, "N K P"]:
    return jax.vmap(jax.vmap(present(model.linear_form()).features, (None, 0)))(contexts, actions)


def _rounding(scale: Float[Array, "..."] | float) -> Float[Array, "..."] | float:
    """What lifts a difference of matrices of size `scale` above its rounding error."""
    return 4e-6 * scale + 1e-12
