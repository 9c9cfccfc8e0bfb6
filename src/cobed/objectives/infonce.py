"""The paper's objective."""

import equinox as eqx
import jax.numpy as jnp

from cobed.bounds import infonce
from cobed.critics import Joint, Separable
from cobed.objectives.base import AbstractSimulated, Batch, FixedDesign, Simulation
from cobed.types import Array, Float


class InfoNCE(AbstractSimulated):
    """A lower bound on I(m*; y | C, C*, A) with in-batch contrasts, by a critic; at most log(batch_size)."""

    simulation: Simulation
    critic: Separable | Joint = eqx.field(default_factory=Separable)

    @property
    def name(self):
        return "infonce"

    def score(self, network, batch: Batch) -> Float[Array, ""]:
        return infonce(network(batch.outcomes, self.simulation.value_scale(batch.max_values), batch.weights))

    def initial_network(self, key):
        num_contexts, num_discrete = self.simulation.outcome_scale.mean.shape
        return self.critic.build(key, num_contexts, num_discrete, self.simulation.value_scale.num_features)

    def freeze(self, network, key, design: FixedDesign):
        batch = self.simulation.batch(design, key, jnp.ones(()))
        return network.freeze(batch.outcomes, self.simulation.value_scale(batch.max_values), batch.weights)
