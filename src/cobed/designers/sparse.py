"""A baseline for models whose psi is sparse: confidence bounds on every entry of psi by itself."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cobed.designers.baselines import AbstractBaseline
from cobed.errors import ProblemError
from cobed.models.gaussian import unraveller
from cobed.optimum import choose_optimum


class EntrywiseUCB(AbstractBaseline):
    """UCB_alpha as the paper has it on the causal graph: act as if every entry of psi were at its prior mean plus alpha
    prior standard deviations. Entries with the same prior are treated alike, so a unit gets all activities or none."""

    alpha: float = eqx.field(static=True, default=1.0)

    @property
    def name(self):
        return f"UCB_{self.alpha:g}"

    def actions(self, key, problem):
        model = problem.model
        sparse = model.sparse_prior()
        if sparse is None:
            raise ProblemError(
                f"{type(self).__name__} needs independent entries of psi that are zero or half-normal (sparse_prior), and "
                f"{type(model).__name__} has none. UCB(alpha) bounds the reward of any model."
            )
        inclusion, scale = sparse
        # w = 0 with probability 1 - pi, |N(0, s^2)| else: E w = pi s sqrt(2 / pi), E w^2 = pi s^2
        mean = inclusion * scale * np.sqrt(2 / np.pi)
        std = jnp.sqrt(inclusion * scale**2 - mean**2)
        psi = unraveller(model)(mean + self.alpha * std)
        optimum = choose_optimum(model, problem.contexts)
        return jax.vmap(lambda context: optimum(model, psi, context)[1])(problem.contexts)
