"""The contextual linear bandit: a known feature vector for every action in every context, and the paper's choice of them."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.errors import ModelError
from cobed.models.linear import AbstractLinearGaussian
from cobed.spaces import Discrete
from cobed.types import Array, Float, Key

# The paper's features, counted from 1: the only entry that is not zero, of actions 1, 2 and 3 in contexts 1, 2 and 3.
PAPER_ENTRIES = ((1, 2, 3), (4, 1, 5), (6, 7, 1))
# Actions whose feature is along the last entry, where psi is close to zero.
PAPER_DECOYS = (6, 7)
NUM_PAPER_ACTIONS, NUM_PAPER_ENTRIES = 10, 20
# psi_1..psi_19 ~ Normal(0, 1), psi_20 ~ Normal(0, 0.1): standard deviations.
PAPER_STD = np.array([1.0] * 19 + [0.1], dtype=np.float32)


class LinearBandit(AbstractLinearGaussian):
    """y = phi(a, c) . psi + noise with phi read from a table: contexts and actions are numbers, counted from 1.

    A context is one column with its number. A number that is not in the table has rewards that are not a number.
    """

    table: Float[Array, "N K P"]

    def __init__(
        self,
        table: Array | np.ndarray,
        prior_mean: Array | np.ndarray | None = None,
        prior_cov: Array | np.ndarray | None = None,
        noise_std: float = 0.1,
        actions: Discrete | None = None,
    ):
        """`table` (contexts, actions, P). psi is standard normal where no prior is given; `prior_cov` (P,) or (P, P)."""
        features = np.asarray(table, dtype=np.float32)
        if features.ndim != 3 or 0 in features.shape:
            raise ModelError(
                f"The features of a linear bandit have shape {features.shape}; a table of shape (contexts, actions, P), "
                "one vector for every action in every context, is expected."
            )
        if not np.isfinite(features).all():
            raise ModelError("The features of a linear bandit hold numbers that are not finite. Correct the table.")
        actions = Discrete(features.shape[1]) if actions is None else actions
        if actions.dim != features.shape[1]:
            raise ModelError(
                f"The table has {features.shape[1]} actions a context and {actions} has {actions.dim}. Give one name an action."
            )
        mean = np.zeros(features.shape[2]) if prior_mean is None else np.asarray(prior_mean)
        if mean.shape != features.shape[2:]:
            raise ModelError(
                f"prior_mean has shape {mean.shape}; features of length {features.shape[2]} need {features.shape[2:]}."
            )
        cov = np.ones(features.shape[2]) if prior_cov is None else np.asarray(prior_cov)
        super().__init__(mean, cov, actions, 1, noise_std)
        self.table = jnp.asarray(features)

    def features(self, context: Float[Array, " 1"], action: Float[Array, " K"]) -> Float[Array, " P"]:
        """phi(a, c): linear in the one-hot action."""
        numbers = 1 + jnp.arange(self.table.shape[0])
        known = jnp.any(context[0] == numbers)
        index = jnp.where(known, context[0] - 1, 0).astype(int)
        return jnp.where(known, action @ self.table[index], jnp.nan)


def paper_features(key: Key[Array, ""]) -> Float[Array, "3 10 20"]:
    """The paper's features: one standard normal entry for actions 1-3 and for the decoys 6 and 7; all others are zero.

    The paper draws the other entries with variance 1e-9, and does not say which features the decoys have in which context.
    """
    values = jr.normal(key, (len(PAPER_ENTRIES), NUM_PAPER_ACTIONS))
    places = np.zeros((*values.shape, NUM_PAPER_ENTRIES), dtype=np.float32)
    for context, entries in enumerate(PAPER_ENTRIES):
        places[context, np.arange(len(entries)), np.array(entries) - 1] = 1
        places[context, np.array(PAPER_DECOYS) - 1, -1] = 1
    return values[:, :, None] * places


def paper_bandit(key: Key[Array, ""], noise_std: float = 0.1) -> LinearBandit:
    """The paper's bandit, with features drawn from the key."""
    return LinearBandit(paper_features(key), prior_cov=PAPER_STD**2, noise_std=noise_std)


def contexts(key: Key[Array, ""], num: int) -> np.ndarray:
    """Experimental contexts of the paper: `num` draws, each 1, 2 or 3 alike, shape (num, 1)."""
    return np.asarray(jr.randint(key, (num, 1), 1, 1 + len(PAPER_ENTRIES)), dtype=np.float32)


def targets() -> np.ndarray:
    """The paper deploys in each context once: 1, 2, 3, shape (3, 1)."""
    return np.arange(1, 1 + len(PAPER_ENTRIES), dtype=np.float32)[:, None]
