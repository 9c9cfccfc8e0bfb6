"""Information by densities instead of contrasts: H(m*) - H(m* | y), the second bounded by log q(m* | y). No ceiling, O(batch).

    I(m*; y) >= H(m*) + E log q(m* | y)        (Barber and Agakov, 2003)

m* enters by its leading principal components, as many as have a density that draws can determine (`entropy.negentropy`);
a function of m* tells no more than m*, so the bound stays one.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from cobed.critics import ValueScale
from cobed.densities import Density
from cobed.entropy import gaussian_information, negentropy
from cobed.errors import NoDensityError
from cobed.models.gaussian import num_params
from cobed.objectives.base import AbstractObjective, FixedDesign
from cobed.objectives.kinds import AbstractKind, Task
from cobed.objectives.simulation import AbstractSimulated, Batch, Simulation, draw_max_values, make_simulation
from cobed.types import Array, Float, Key

MAX_COMPONENTS = 32
# Below this many experiments for each moment, off-diagonal moments are shrunk.
ROWS_PER_ENTRY = 4


class Components(eqx.Module):
    """The leading principal components of m*, of unit variance under the prior, and what their entropy is."""

    mean: Float[Array, " T"]
    directions: Float[Array, "T R"]
    entropy: Float[Array, ""]
    negentropy: Float[Array, ""]
    entropy_error: Float[Array, ""]

    @classmethod
    def fit(cls, values: np.ndarray, scale: ValueScale, num_params: int) -> "Components":
        """From draws of m* (N, T), and the number of numbers in psi: there are no more components than that."""
        directions = np.asarray(scale.whitening, np.float64)
        components = (values - np.asarray(scale.mean, np.float64)) @ directions
        # Whitening stops at a floor: components that did not reach unit variance are too small to be resolved.
        resolved = np.std(components, axis=0) > 0.99
        num = min(int(resolved.sum()) if resolved.all() else int(np.argmin(resolved)), num_params, MAX_COMPONENTS)
        excess = negentropy(components[:, :num])
        if excess.num_entries == 0:
            raise NoDensityError(
                "The best rewards at the targets have no density under the prior: they take single values, or lie so close "
                "to a surface that draws cannot tell. Use objective='infonce', which needs none."
            )
        kept = components[:, : excess.num_entries]
        log_volume = 0.5 * float(np.linalg.slogdet(np.atleast_2d(np.cov(kept, rowvar=False)))[1])
        entropy = 0.5 * excess.num_entries * np.log(2 * np.pi * np.e) + log_volume - excess.value
        # Arrays, not floats: another estimate is not another program.
        kept = (directions[:, : excess.num_entries], entropy, excess.value, excess.standard_error)
        return cls(scale.mean, *(jnp.asarray(array, jnp.float32) for array in kept))

    @property
    def num(self) -> int:
        return self.directions.shape[1]

    def __call__(self, values: Float[Array, "B T"]) -> Float[Array, "B R"]:
        return (values - self.mean) @ self.directions


class BarberAgakov(AbstractSimulated):
    """The bound with q Gaussian given y, its mean and covariance a regression refined by a network."""

    simulation: Simulation
    components: Components
    density: Density = eqx.field(default_factory=Density)

    @property
    def name(self):
        return "barber-agakov"

    @property
    def offset(self):
        return float(self.components.entropy), float(self.components.entropy_error)

    def score(self, network, batch: Batch):
        return jnp.mean(network(batch.outcomes, self.components(batch.max_values), batch.weights))

    def initial_network(self, key):
        num_contexts, num_discrete = self.simulation.outcome_scale.mean.shape
        return self.density.build(key, num_contexts, num_discrete, self.components.num)

    def fitted_components(self):
        return self.components

    def freeze(self, network, key, design: FixedDesign):
        batch = self.simulation.batch(design, key, jnp.ones(()))
        return network.freeze(batch.outcomes, self.components(batch.max_values))


class LinearGaussianInformation(AbstractSimulated):
    """The same bound from second moments alone: nothing to train."""

    trains = False
    simulation: Simulation
    components: Components

    @property
    def name(self):
        return "linear-gaussian"

    @property
    def offset(self):
        return -float(self.components.negentropy), float(self.components.entropy_error)

    def score(self, network, batch: Batch):
        values = self.components(batch.max_values)
        size = batch.outcomes.shape[1] + values.shape[1]
        shrinkage = min(1.0, size / len(values)) if ROWS_PER_ENTRY * size > len(values) else 0.0
        return gaussian_information(batch.outcomes, values, shrinkage)


class BarberAgakovKind(AbstractKind):
    name = "barber-agakov"
    needs = "best rewards that have a density under the prior"
    networks = (Density,)

    def applies(self, problem, about):
        return "The model is not Gaussian: a density of m* given y is learned with the design."

    def build(self, task):
        return BarberAgakov(*_simulated(task), task.network or Density())


class LinearGaussianKind(AbstractKind):
    name = "linear-gaussian"
    needs = "to be asked for by name"

    def build(self, task):
        return LinearGaussianInformation(*_simulated(task))


def _simulated(task: Task) -> tuple[Simulation, Components]:
    simulation, values = make_simulation(task.simulation_key, task.problem, task.budget, task.about)
    return simulation, Components.fit(values, simulation.value_scale, num_params(task.problem.model))


def by_second_moments(
    key: Key[Array, ""], objective: AbstractObjective, num_params: int
) -> LinearGaussianInformation | None:
    """The bound from second moments of the experiments that another objective simulates; None where it simulates none."""
    simulation = objective.simulated()
    if simulation is None:
        return None
    components = objective.fitted_components()
    if components is not None:
        return LinearGaussianInformation(simulation, components)
    values = draw_max_values(key, simulation.problem, simulation.source)
    # With the scale of these very draws: by that of others, components of unit variance would not be told from smaller ones.
    return LinearGaussianInformation(
        simulation, Components.fit(values, ValueScale.fit(jnp.asarray(values)), num_params)
    )
