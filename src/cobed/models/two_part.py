"""Amounts with many zeros in two parts, each with a linear predictor of its own: whether there is any, and how much.

E[y | a, c, psi] = sigmoid(phi . psi_1) exp(phi . psi_2)
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.beliefs import AbstractBelief
from cobed.beliefs.base import moments_of
from cobed.models.base import AbstractBeliefModel, AbstractLikelihoodModel
from cobed.models.effects import EffectModel
from cobed.spaces import AbstractSpace

MATCHING_DRAWS = 4_096


class Both(AbstractBelief):
    """Two independent beliefs: psi is the pair of their draws."""

    first: AbstractBelief
    second: AbstractBelief

    def sample(self, key):
        first_key, second_key = jr.split(key)
        return self.first.sample(first_key), self.second.sample(second_key)

    def scaled(self):
        return self.first.scaled()


class TwoPart(AbstractBeliefModel, AbstractLikelihoodModel):
    """Of outcomes at least 0: `occurrence` says how probably one is above 0, `amount` how large it is then.

    psi is the pair of both. `stand_in` has one predictor for their product, of the same features, for designs and plans.
    """

    occurrence: EffectModel
    amount: EffectModel
    stand_in: EffectModel
    belief: AbstractBelief
    action_space: AbstractSpace
    context_dim: int = eqx.field(static=True)

    def __init__(self, occurrence: EffectModel, amount: EffectModel, stand_in: EffectModel):
        self.occurrence, self.amount, self.stand_in = occurrence, amount, stand_in
        self.belief = Both(occurrence.belief, amount.belief)
        self.action_space, self.context_dim = stand_in.action_space, stand_in.context_dim

    def parts(self):
        return self.occurrence, self.amount

    def mean_reward(self, params, context, action):
        whether, how_much = params
        return self.occurrence.mean_reward(whether, context, action) * self.amount.mean_reward(
            how_much, context, action
        )

    def sample_outcome(self, key, params, context, action):
        whether_key, amount_key = jr.split(key)
        whether = self.occurrence.sample_outcome(whether_key, params[0], context, action)
        return whether * self.amount.sample_outcome(amount_key, params[1], context, action)

    def log_likelihood(self, params, context, action, outcome):
        is_any = outcome > 0
        whether = self.occurrence.log_likelihood(params[0], context, action, is_any.astype(jnp.float32))
        amount = self.amount.log_likelihood(params[1], context, action, jnp.where(is_any, outcome, 1.0))
        return whether + jnp.where(is_any, amount, 0.0)

    def matched(self):
        """d log E[y] = (1 - p) d eta_1 + d eta_2, with p of an average unit: one predictor with the moments of that sum."""
        if self.unknown_scales() is not None:
            return self.stand_in.matched()
        draws = jax.vmap(self.belief.sample)(jr.split(jr.key(0), MATCHING_DRAWS))
        whether, how_much = (np.asarray(part, np.float64) for part in draws)
        share = 1 / (1 + np.exp(-whether[:, 0].mean()))
        sums = (1 - share) * whether + how_much
        # log E[y] of an average unit, not its slope; and the scale is that of the stand-in, which is taken for known.
        sums[:, 0] = np.log(1 / (1 + np.exp(-whether[:, 0]))) + how_much[:, 0]
        sums[:, -1] = np.log(self.stand_in.scale)
        return self.stand_in.without_curves(moments_of(sums))
