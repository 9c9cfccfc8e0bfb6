"""The value of an experiment from moments of simulated rewards and outcomes, for outcomes that have no gradient in the action.

Under draws of psi, the mean rewards of units and targets move along a few principal components u, of mean zero and unit variance:

    reward = mean + phi . u,    outcome = mean + phi . u + rest,    v = Var[rest],

where the rest is the noise of the outcome and what is not linear in u. One outcome so adds phi phi^T / v to the precision of u, as
it does in a linear predictor with normal outcomes, and `PredictorValue` says what that is worth. Only draws are needed: no
likelihood, no derivative, and each action of each unit is simulated once for all designs.
"""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from cobed.objectives.base import AbstractObjective
from cobed.objectives.value.gaussian import normal_points
from cobed.objectives.value.information import GRID, NUM_POINTS, Predictor, PredictorValue
from cobed.outcomes import NORMAL
from cobed.policies import Temperature
from cobed.problem import Problem, choices_at
from cobed.types import Array, Float, Key, Params

NUM_DRAWS = 2048
# So many targets, units and components stand for all; so many columns of rewards give the components.
MAX_TARGETS, MAX_UNITS, MAX_COMPONENTS, MAX_COLUMNS = 64, 32, 48, 256
# Of the variance of an outcome: noise below that is rounding.
LEAST_NOISE = 1e-4


class PredictorInformation(PredictorValue):
    """Information about the components of psi, in nats, in the place of the value."""

    @property
    def name(self):
        return "information"

    @property
    def unit(self):
        return "nats"

    def of_information(self, information):
        return 0.5 * jnp.linalg.slogdet(jnp.eye(len(information)) + information)[1]


class MomentValue(AbstractObjective):
    """The value of a design by moments; or, about the parameters, what it tells about psi."""

    problem: Problem
    about: Literal["max-values", "parameters"] = eqx.field(static=True, default="max-values")

    @property
    def name(self):
        return "value" if self.about == "max-values" else "information"

    @property
    def unit(self):
        return "reward" if self.about == "max-values" else "nats"

    def __call__(self, trainable, key, progress):
        actions = trainable.design.harden()
        return self.of_candidates(key, actions[:, None]).of_shares(jnp.ones((len(actions), 1)))

    def resized(self, batch_size):
        return self

    def of_candidates(self, key: Key[Array, ""], candidates: Float[Array, "D J A"]) -> PredictorValue:
        """The value of every design that gives each unit one of its `candidates`."""
        model, contexts, places = self.problem.model, self.problem.contexts, self.problem.places
        prior_key, target_key, noise_key = jr.split(key, 3)
        params = jax.vmap(model.sample_prior)(jr.split(prior_key, NUM_DRAWS))
        if len(places[0]) > MAX_TARGETS:
            seen = jr.choice(target_key, len(places[0]), (MAX_TARGETS,), replace=False)
            places = jax.tree.map(lambda rows: rows[seen], places)
        decisions = jnp.asarray(model.action_space.grid(GRID.get(len(model.action_space.continuous), MAX_COMPONENTS)))
        rows = jax.lax.map(
            lambda at: self._rewards(params, *at), (places[0], choices_at(places, decisions))
        )  # (T, N, K)
        some = jnp.linspace(0, len(contexts) - 1, min(len(contexts), MAX_UNITS)).round().astype(int)
        near = jax.lax.map(
            lambda unit: self._over_draws(model.mean_outcome, params, contexts[unit], candidates[unit]), some
        )
        components = _components([_flat(params)] if self.about == "parameters" else [_columns(rows), _columns(near)])

        def unit(arguments):
            key, context, actions = arguments
            expected = self._over_draws(self.problem.model.mean_outcome, params, context, actions)
            keys = jr.split(key, NUM_DRAWS)
            outcomes = jax.vmap(lambda k, psi: self._outcomes(k, psi, context, actions))(keys, params)
            features = (expected - expected.mean(axis=0)).T @ components / NUM_DRAWS
            rest = outcomes - outcomes.mean(axis=0) - components @ features.T
            noise = jnp.maximum(jnp.mean(rest**2, axis=0), LEAST_NOISE * jnp.var(outcomes, axis=0))
            # An action whose outcome never varies tells nothing.
            return features, jnp.where(noise > 0, 1 / jnp.where(noise > 0, noise, 1.0), 0.0)

        units, weights = jax.lax.map(unit, (jr.split(noise_key, len(contexts)), contexts, candidates))
        means = rows.mean(axis=1)
        row_features = jnp.einsum("tnk,nr->tkr", rows - means[:, None], components) / NUM_DRAWS
        size = components.shape[1]
        predictor = Predictor(jnp.zeros(size), jnp.eye(size), jnp.ones(()), NORMAL)
        points = jnp.asarray(normal_points(NUM_POINTS, len(decisions)))
        kind = PredictorValue if self.about == "max-values" else PredictorInformation
        return kind(predictor, units, weights, row_features, means, points, Temperature(), None)

    def _rewards(self, params: Params, context: Array, actions: Float[Array, "J A"]) -> Float[Array, "N J"]:
        return self._over_draws(self.problem.model.mean_reward, params, context, actions)

    def _over_draws(
        self, function, params: Params, context: Array, actions: Float[Array, "J A"]
    ) -> Float[Array, "N J"]:
        over_actions = jax.vmap(function, in_axes=(None, None, 0))
        return jax.vmap(over_actions, in_axes=(0, None, None))(params, context, actions)

    def _outcomes(self, key, psi: Params, context: Array, actions: Float[Array, "J A"]) -> Float[Array, " J"]:
        sample = self.problem.model.sample_outcome
        return jax.vmap(lambda action: sample(key, psi, context, action))(actions)


def _columns(rewards: Float[Array, "M N J"]) -> Float[Array, "N Q"]:
    """At most `MAX_COLUMNS` of them, evenly spread."""
    flat = jnp.moveaxis(rewards, 1, 0).reshape(rewards.shape[1], -1)
    chosen = jnp.linspace(0, flat.shape[1] - 1, min(flat.shape[1], MAX_COLUMNS)).round().astype(int)
    return flat[:, chosen]


def _flat(params: Params) -> Float[Array, "N P"]:
    """psi as columns of unit variance."""
    leaves = [leaf.reshape(NUM_DRAWS, -1).astype(jnp.float32) for leaf in jax.tree.leaves(params)]
    flat = jnp.concatenate(leaves, axis=1)
    std = flat.std(axis=0)
    return flat / jnp.where(std > 0, std, 1.0)


def _components(columns: list[Float[Array, "N Q"]]) -> Float[Array, "N R"]:
    """The leading principal components, of mean zero and unit variance; zero where there are fewer."""
    together = jnp.concatenate(columns, axis=1)
    centred = together - together.mean(axis=0)
    sizes, directions = jnp.linalg.eigh(centred.T @ centred / NUM_DRAWS)
    sizes, directions = sizes[::-1][:MAX_COMPONENTS], directions[:, ::-1][:, :MAX_COMPONENTS]
    kept = sizes > 1e-5 * sizes[0]
    return centred @ directions * jnp.where(kept, 1 / jnp.sqrt(jnp.where(kept, sizes, 1.0)), 0.0)
