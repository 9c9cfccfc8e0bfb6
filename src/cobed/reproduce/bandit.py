"""The paper's linear bandit: which of ten actions to try in three contexts, when few of them can earn anything."""

import jax.random as jr

from cobed.models import bandit
from cobed.problem import Problem
from cobed.types import Array, Key

SIZES = (2, 5, *range(10, 61, 5))


def make_problem(key: Key[Array, ""], num_contexts: int, noise_std: float = 0.1) -> Problem:
    """`num_contexts` units in contexts 1, 2 or 3; deployment in each of the three. The key draws features and contexts.

    The paper does not state the noise.
    """
    feature_key, context_key = jr.split(key)
    model = bandit.paper_bandit(feature_key, noise_std)
    return Problem(model, bandit.contexts(context_key, num_contexts), bandit.targets())
