"""The value of an experiment for any model: a network maps outcomes to actions at the targets, trained with the design.

Whatever the network decides earns no more than the best decisions, so its reward is a lower bound on the value.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from cobed.critics import Layers, OutcomeLayer, check_sizes
from cobed.objectives.base import action_rewards
from cobed.objectives.simulation import AbstractSimulated, Batch, Simulation
from cobed.types import Array, Float, Key


class DecisionNetwork(eqx.Module):
    """From scaled outcomes to an unconstrained vector for each target."""

    outcome_layer: OutcomeLayer
    network: Layers
    num_targets: int = eqx.field(static=True)

    def __call__(self, outcomes: Float[Array, "B D"], weights: Float[Array, "D J"]) -> Float[Array, "B T A"]:
        raw = self.network.after_first(self.outcome_layer(outcomes, weights))
        return raw.reshape(len(outcomes), self.num_targets, -1)


class Decisions(eqx.Module):
    """How to build a decision network: its hidden layers."""

    hidden: tuple[int, ...] = eqx.field(static=True, default=(256, 256))

    def __check_init__(self):
        check_sizes(self.hidden)

    def build(
        self, key: Key[Array, ""], num_contexts: int, num_discrete: int, num_targets: int, action_dim: int
    ) -> DecisionNetwork:
        first_key, network_key = jr.split(key)
        first = OutcomeLayer.initial(first_key, num_contexts, num_discrete, self.hidden[0])
        network = Layers.initial(network_key, (1, *self.hidden, num_targets * action_dim))
        # The outcome layer stands in for the first linear map; all decisions begin in the middle of the space.
        weights = (jnp.zeros(0), *network.weights[1:-1], 0.1 * network.weights[-1])
        return DecisionNetwork(first, eqx.tree_at(lambda net: net.weights, network, weights), num_targets)


class DecisionValue(AbstractSimulated):
    """Mean reward of the network's actions at the targets, above that of the best decisions without the experiment.

    Discrete actions are decided by probabilities, so that the reward is smooth; all entries of a mixed action by their
    relaxation.
    """

    simulation: Simulation
    now: Float[Array, ""]
    decisions: Decisions = eqx.field(default_factory=Decisions)

    @property
    def name(self):
        return "value"

    @property
    def unit(self):
        return "reward"

    @property
    def offset(self):
        return -float(self.now), 0.0

    def score(self, network, batch: Batch):
        raw = network(batch.outcomes, batch.weights)
        return jnp.mean(jax.vmap(self._reward)(batch.params, raw))

    def _reward(self, psi, raw: Float[Array, "T A"]) -> Float[Array, " T"]:
        """The reward of the decisions at every target in one world."""
        problem = self.simulation.problem
        model, targets = problem.model, problem.targets
        space = model.action_space
        if not space.continuous:
            rows = jnp.asarray(space.enumerate_discrete())
            chances = jax.nn.softmax(jax.vmap(lambda row: rows @ row)(raw), axis=1)
            return jnp.sum(chances * action_rewards(problem, psi), axis=1)
        keys = jr.split(jr.key(0), len(targets))
        actions = jax.vmap(space.relax, (0, 0, None, None))(keys, raw, jnp.ones(()), jnp.asarray(True))
        return jax.vmap(model.mean_reward, in_axes=(None, 0, 0))(psi, targets, actions)

    def initial_network(self, key):
        num_contexts, num_discrete = self.simulation.outcome_scale.mean.shape
        problem = self.simulation.problem
        return self.decisions.build(key, num_contexts, num_discrete, problem.num_targets, problem.action_dim)
