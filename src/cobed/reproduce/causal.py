"""The paper's unknown causal graph: 200 units, actions in [0, 1]^l, deployment in all 255 contexts."""

import jax.random as jr

from cobed.models import CausalGraph, causal
from cobed.problem import Problem

SIZES = (5, 10, 15, 20, 25)
NUM_CONTEXTS = 200
# The paper draws the contexts once, for all methods and seeds.
CONTEXT_SEED = 0


def make_problem(num_actions: int, num_contexts: int = NUM_CONTEXTS) -> Problem:
    """The paper's problem with l = `num_actions` activities."""
    contexts = causal.contexts(jr.key(CONTEXT_SEED), num_contexts)
    return Problem(CausalGraph(num_actions), contexts, causal.targets())
