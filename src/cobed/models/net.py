"""What is left of an outcome once the action is paid for: another model, whose rewards are net money."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from cobed.errors import ModelError
from cobed.models.base import AbstractModel, Terms
from cobed.spaces import AbstractSpace
from cobed.tables import read_amounts
from cobed.types import Array, Float


class NetReward(AbstractModel):
    """The beliefs and outcomes of a model, with rewards worth * (1 - shares . a) * E[y | a, c, psi] - costs . a.

    One unit of the outcome is worth `worth`. An action costs an amount and a share of what its outcome is worth: a coupon of 20%
    costs the share 0.2. Both by name, or (A,): of numbers, what one of each costs.

    >>> import cobed, numpy as np
    >>> sales = cobed.models.LinearGaussian(lambda c, a: a, np.ones(2), np.ones(2), cobed.Discrete(["none", "mail"]), 1, 1.0)
    >>> profit = cobed.models.NetReward(sales, worth=5.0, costs={"mail": 0.5})
    >>> float(profit.mean_reward(np.array([1.0, 2.0]), np.zeros(1), np.array([0.0, 1.0])))
    9.5
    """

    model: AbstractModel
    worth: Float[Array, ""]
    costs: Float[Array, " A"]
    shares: Float[Array, " A"]
    action_space: AbstractSpace
    context_dim: int | None = eqx.field(static=True)

    def __init__(
        self,
        model: AbstractModel,
        worth: float = 1.0,
        costs: Mapping[str, float] | Any = None,
        shares: Mapping[str, float] | Any = None,
    ):
        space = model.action_space
        if not (np.isfinite(worth) and worth > 0):
            raise ModelError(f"worth is what one unit of the outcome is worth, a positive number; got {worth!r}.")
        read = {"costs": costs, "shares": shares}
        read = {name: read_amounts(values, space.entry_names, f"NetReward.{name}") for name, values in read.items()}
        if space.options is not None and not ((read["shares"] >= 0) & (read["shares"] <= 1)).all():
            raise ModelError(f"NetReward.shares are parts of the outcome, from 0 to 1; got {read['shares'].tolist()}.")
        self.model, self.worth = model, jnp.asarray(worth, jnp.float32)
        self.costs, self.shares = (jnp.asarray(values, jnp.float32) for values in read.values())
        self.action_space, self.context_dim = space, model.context_dim

    def terms(self, action):
        return Terms(self.worth, action @ self.shares, action @ self.costs)

    def mean_outcome(self, params, context, action):
        return self.model.mean_outcome(params, context, action)

    def mean_reward(self, params, context, action):
        return self.terms(action).net(self.mean_outcome(params, context, action))

    def for_contexts(self, context_dim):
        return NetReward(self.model.for_contexts(context_dim), float(self.worth), self.costs, self.shares)

    def given(self, known):
        return eqx.tree_at(lambda net: net.model, self, self.model.given(known))

    def matched(self):
        return eqx.tree_at(lambda net: net.model, self, self.model.matched())

    # With costs another action is best, and rewards scatter otherwise than outcomes do.

    def best_action(self, params, context):
        return None

    def moments(self, contexts, actions):
        return None

    def covariance(self, points, others):
        return None

    # Everything about psi and the outcomes is as it was.

    def sample_prior(self, key):
        return self.model.sample_prior(key)

    def log_prior(self, params):
        return self.model.log_prior(params)

    def prior_moments(self):
        return self.model.prior_moments()

    def prior_root(self):
        return self.model.prior_root()

    def sparse_prior(self):
        return self.model.sparse_prior()

    def prior_bounds(self):
        return self.model.prior_bounds()

    def unknown_scales(self):
        return self.model.unknown_scales()

    def parts(self):
        return self.model.parts()

    def psi_moments(self, key):
        return self.model.psi_moments(key)

    def sample_prior_of(self, key, contexts, actions):
        return self.model.sample_prior_of(key, contexts, actions)

    def bound_sites(self):
        return self.model.bound_sites()

    def log_volume(self, params):
        return self.model.log_volume(params)

    def linear_form(self):
        return self.model.linear_form()

    def average_params(self, draws, weights):
        return self.model.average_params(draws, weights)

    def shared_params(self, params):
        return self.model.shared_params(params)

    def posterior_mean(self, contexts, actions, surprise):
        return self.model.posterior_mean(contexts, actions, surprise)

    def process(self):
        return self.model.process()

    def sample_outcome(self, key, params, context, action):
        return self.model.sample_outcome(key, params, context, action)

    def sample_outcomes(self, key, params, contexts, actions):
        return self.model.sample_outcomes(key, params, contexts, actions)

    def likelihood(self):
        return self.model.likelihood()

    def conditioned(self, contexts, actions, outcomes):
        return self.model.conditioned(contexts, actions, outcomes)

    def gaussian_noise(self):
        return self.model.gaussian_noise()

    def noise_in(self, params):
        return self.model.noise_in(params)
