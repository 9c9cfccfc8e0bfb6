"""What the ascent climbs: functions of a design and a critic, estimated from one batch of simulated experiments."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.bounds import infonce
from cobed.compilation import quick_jit
from cobed.critics import AbstractCritic, OutcomeScale, ValueScale
from cobed.errors import ModelError
from cobed.policies import FreeDesign, Temperature
from cobed.pool import AbstractSource, ParameterDraws
from cobed.problem import Problem
from cobed.types import Array, Bool, Float, Key


class FixedDesign(eqx.Module):
    """A design that is not trained: for the critic to settle on, and for baselines."""

    actions: Float[Array, "D A"]

    def sample(self, key: Key[Array, ""], temperature: Float[Array, ""], hard: Bool[Array, ""]) -> Float[Array, "D A"]:
        return jax.lax.stop_gradient(self.actions)

    def harden(self) -> Float[Array, "D A"]:
        return self.actions


class Trainable(eqx.Module):
    """What the gradient moves."""

    design: FreeDesign | FixedDesign
    critic: AbstractCritic


class InfoNCE(eqx.Module):
    """The paper's objective: a lower bound on I(m*; y | C, C*, A) with in-batch contrasts, at most log(batch_size).

    A random design is sampled `num_samples` times a step, each sample with a batch of its own: the bound is their mean.
    """

    problem: Problem
    source: AbstractSource
    outcome_scale: OutcomeScale
    value_scale: ValueScale
    temperature: Temperature
    batch_size: int = eqx.field(static=True)
    num_samples: int = eqx.field(static=True, default=1)

    def __call__(self, trainable: Trainable, key: Key[Array, ""], progress: Float[Array, ""]) -> Float[Array, ""]:
        """The bound on fresh batches, at `progress` in [0, 1) of the training."""

        def one(key):
            return infonce(trainable.critic(*self.simulate(trainable.design, key, progress)))

        return one(key) if self.num_samples == 1 else jnp.mean(jax.vmap(one)(jr.split(key, self.num_samples)))

    def simulate(
        self, design: FreeDesign | FixedDesign, key: Key[Array, ""], progress: Float[Array, ""]
    ) -> tuple[Float[Array, "B D"], Float[Array, "B F"], Float[Array, "D J"]]:
        """What the critic sees of a batch of experiments: scaled outcomes, features of m*, shares of discrete actions."""
        draw_key, noise_key, design_key = jr.split(key, 3)
        params, values = self.source.batch(draw_key, self.batch_size)
        actions = design.sample(design_key, *self.temperature(progress))
        keys = jr.split(noise_key, self.batch_size)
        outcomes = jax.vmap(self.problem.sample_outcomes, in_axes=(0, 0, None))(keys, params, actions)
        weights = jax.vmap(self.problem.model.action_space.discrete_weights)(actions)
        return self.outcome_scale(outcomes, weights), self.value_scale(values), weights


@quick_jit
def outcome_scale(key: Key[Array, ""], problem: Problem, num_draws: int = 512) -> OutcomeScale:
    """Prior mean and standard deviation of y at each context, under random continuous and every discrete action."""
    space = problem.model.action_space
    entries = jnp.asarray(space.continuous, dtype=int)

    def outcomes(key, row):
        prior_key, action_key, noise_key = jr.split(key, 3)
        actions = jax.vmap(space.sample)(jr.split(action_key, problem.num_contexts))
        actions = jnp.broadcast_to(row, actions.shape).at[:, entries].set(actions[:, entries])
        return problem.sample_outcomes(noise_key, problem.model.sample_prior(prior_key), actions)

    keys = jr.split(key, num_draws)
    rows = jnp.asarray(space.enumerate_discrete())
    draws = jax.lax.map(lambda row: jax.vmap(lambda k: outcomes(k, row))(keys), rows)  # (J, N, D)
    std = draws.std(axis=1).T
    # An action whose outcome never varies would divide by zero; its outcome carries nothing, at any scale.
    return OutcomeScale(draws.mean(axis=1).T, jnp.where(std > 1e-9 * jnp.max(std), std, 1.0))


def value_scale(key: Key[Array, ""], problem: Problem, source: AbstractSource, num_draws: int = 4096) -> ValueScale:
    """Statistics under the prior of what the design is to tell about."""
    # The decomposition costs num_draws x T x min(num_draws, T).
    num_draws = min(num_draws if problem.num_targets <= 512 else 1024, getattr(source, "size", num_draws))
    values = np.asarray(_max_values(source, key, num_draws))
    bad = np.argwhere(~np.isfinite(values))
    num_bad = len(np.unique(bad[:, 0]))
    if len(bad) and isinstance(source, ParameterDraws):
        raise ModelError(f"The prior gives parameters that are not finite numbers in {num_bad} of {num_draws} draws.")
    if len(bad):
        row = int(bad[0, 1])
        raise ModelError(
            f"The best reward at target row {row}, context {np.asarray(problem.targets)[row].tolist()}, is not a finite number "
            f"in {num_bad} of {num_draws} draws of the prior. Check the model's mean reward there."
        )
    return ValueScale.fit(jnp.asarray(values))


@quick_jit
def _max_values(source: AbstractSource, key: Key[Array, ""], num_draws: int) -> Float[Array, "N T"]:
    return source.batch(key, num_draws)[1]
