"""The paper's unknown causal graph: which activities drive which revenue streams, and how strongly."""

import itertools

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.beliefs import AbstractBelief, Sparse
from cobed.errors import ModelError
from cobed.models.base import AbstractBeliefModel, AbstractGaussianModel
from cobed.spaces import Box
from cobed.types import Array, Key

NUM_CAUSES = 8


class CausalGraph(AbstractBeliefModel, AbstractGaussianModel):
    """y = sum_i c_i sum_j w_ij a_j - sum_j a_j + noise, w = G * theta; G_ij ~ Bernoulli(inclusion), theta_ij ~ |N(0, scale^2)|.

    A context says which of `num_causes` areas a unit is active in (0 or 1 each), an action how much of each of
    `num_actions` activities it gets, in [0, 1]. psi is w (num_causes, num_actions); G_ij is w_ij > 0.
    """

    belief: AbstractBelief
    action_space: Box
    context_dim: int = eqx.field(static=True)
    num_actions: int = eqx.field(static=True)
    noise_std: float = eqx.field(static=True)

    def __init__(
        self,
        num_actions: int,
        num_causes: int = NUM_CAUSES,
        inclusion: float | None = None,
        scale: float = 1.0,
        noise_std: float = 0.25,
    ):
        """`inclusion` is the prior probability of an edge. Left out, an action has 1.5 causes on average, as in the paper."""
        if num_actions < 1 or num_causes < 1:
            raise ModelError(
                f"A causal graph needs at least one action and one cause, got num_actions={num_actions} and "
                f"num_causes={num_causes}."
            )
        inclusion = 1.5 / num_causes if inclusion is None else inclusion
        if not 0 < inclusion < 1:
            raise ModelError(
                f"inclusion is the probability of an edge, strictly between 0 and 1; got {inclusion!r}. Where it is left "
                "out it is 1.5 / num_causes."
            )
        if not (scale > 0 and noise_std > 0):
            raise ModelError(f"scale and noise_std must be positive, got {scale!r} and {noise_std!r}.")
        self.action_space = Box(np.zeros(num_actions), 1.0)
        shape = (num_causes, num_actions)
        self.belief = Sparse(jnp.full(shape, float(inclusion)), jnp.full(shape, float(scale)))
        self.context_dim, self.num_actions = num_causes, num_actions
        self.noise_std = float(noise_std)

    def mean_reward(self, params, context, action):
        return (context @ params - 1) @ action

    def sample_outcomes(self, key, params, contexts, actions):
        # One product for all units: thousands of worlds are simulated a step.
        means = jnp.sum((contexts @ params - 1) * actions, axis=1)
        return means + self.noise_std * jr.normal(key, means.shape)

    def best_action(self, params, context):
        # u_j = sum_i c_i w_ij - 1 is what activity j earns beyond its cost.
        return jnp.where(context @ params > 1, 1.0, 0.0)


def contexts(key: Key[Array, ""], num: int = 200, num_causes: int = NUM_CAUSES) -> np.ndarray:
    """Experimental contexts of the paper: each entry 0 or 1 alike, shape (num, num_causes)."""
    return np.asarray(jr.bernoulli(key, 0.5, (num, num_causes)), dtype=np.float32)


def targets(num_causes: int = NUM_CAUSES) -> np.ndarray:
    """All binary contexts but zero, shape (2^num_causes - 1, num_causes)."""
    return np.array(list(itertools.product((0.0, 1.0), repeat=num_causes))[1:], dtype=np.float32)
