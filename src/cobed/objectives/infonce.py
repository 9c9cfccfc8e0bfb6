"""The paper's objective."""

import equinox as eqx
import jax.numpy as jnp

from cobed.bounds import infonce
from cobed.budget import check_memory, estimate_cost
from cobed.critics import Joint, Separable
from cobed.objectives.base import FixedDesign
from cobed.objectives.kinds import AbstractKind
from cobed.objectives.simulation import AbstractSimulated, Batch, Simulation, make_simulation
from cobed.types import Array, Float


class InfoNCE(AbstractSimulated):
    """A lower bound on I(m*; y | C, C*, A) with in-batch contrasts, by a critic; at most log(batch_size)."""

    saturates = True
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


class InfoNCEKind(AbstractKind):
    name = "infonce"
    networks = (Separable, Joint)
    abouts = ("max-values", "parameters")

    def applies(self, problem, about):
        if about == "parameters":
            return "Information about the parameters is measured by contrasts."
        return "Contrasts need no density of the best rewards."

    def method(self, about):
        return "CO-BED" if about == "max-values" else "EIG"

    def build(self, task):
        critic = task.network or Separable()
        check_memory(estimate_cost(task.problem, task.budget, critic))
        simulation, _ = make_simulation(task.simulation_key, task.problem, task.budget, task.about)
        return InfoNCE(simulation, critic)
