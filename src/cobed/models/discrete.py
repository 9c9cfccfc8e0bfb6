"""The paper's discrete example: four actions, each a quadratic in the context pinned at c = -3 and c = 3."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from cobed.beliefs import AbstractBelief, Gaussian
from cobed.models.base import AbstractBeliefModel, AbstractGaussianModel
from cobed.spaces import Discrete

# Prior means and standard deviations of (psi_k1, psi_k2); rows are actions. The paper prints variances 9, 2.25, 1.21, 1.21.
PRIOR_MEAN = np.array([[5.0, 15.0], [5.0, 15.0], [-2.0, -1.0], [-7.0, 3.0]], dtype=np.float32)
PRIOR_STD = np.array([[3.0, 3.0], [1.5, 1.5], [1.1, 1.1], [1.1, 1.1]], dtype=np.float32)


class DiscreteExample(AbstractBeliefModel, AbstractGaussianModel):
    """f = 9 - c^2 + psi_k1 (3 - c)/6 + psi_k2 (3 + c)/6 for action k: linear in psi, so the posterior is Gaussian."""

    belief: AbstractBelief
    action_space: Discrete
    context_dim: int = eqx.field(static=True)
    noise_std: float = eqx.field(static=True)

    def __init__(self, noise_std: float = 0.1):
        self.belief = Gaussian(PRIOR_MEAN, PRIOR_STD.ravel() ** 2, np.diag(PRIOR_STD.ravel()))
        self.action_space = Discrete(4)
        self.context_dim = 1
        self.noise_std = noise_std

    def mean_reward(self, params, context, action):
        c = context[0]
        ends = jnp.stack([(3 - c) / 6, (3 + c) / 6])
        return 9 - c**2 + action @ params @ ends


def contexts(num: int = 10) -> np.ndarray:
    """Experimental contexts of the paper, shape (num, 1). The targets are their negatives."""
    return np.linspace(-3, -1, num, dtype=np.float32)[:, None]
