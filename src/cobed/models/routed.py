"""A model on rows that cannot get every action: what a row gets in the place of one follows from its context."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp

from cobed.models.base import AbstractModel
from cobed.spaces import AbstractSpace
from cobed.types import Array, Float


class AbstractRoute(eqx.Module):
    """From a context and an action to the context that another model knows, and the action that is really taken there."""

    @abc.abstractmethod
    def __call__(self, context: Float[Array, " X"], action: Float[Array, " A"]) -> tuple[Array, Array]: ...


class Decided(AbstractRoute):
    """Actions of some units are decided: contexts end in 1 where that is so and 0 where not, then that action.

    A design on such contexts knows what the decided units will teach, and spends the others on the rest.
    """

    def __call__(self, context, action):
        dim = action.shape[0]
        return context[: -dim - 1], jnp.where(context[-dim - 1] > 0.5, context[-dim:], action)


class Forbidden(AbstractRoute):
    """Named actions that a context forbids, those with `marks` @ context + `offsets` at 1: the first allowed is taken.

    So the best reward of a context is that of the best action it allows, for every way to it. Contexts may have more columns
    than `marks` (A, C).
    """

    marks: Float[Array, "A C"]
    offsets: Float[Array, " A"]

    def __call__(self, context, action):
        allowed = self.marks @ context[: self.marks.shape[1]] + self.offsets < 0.5
        first = jax.nn.one_hot(jnp.argmax(allowed), len(allowed))
        return context, action * allowed + jnp.sum(action * ~allowed) * first


class Routed(AbstractModel):
    """Another model behind a route: it can do what that model can."""

    model: AbstractModel
    route: AbstractRoute
    action_space: AbstractSpace
    context_dim: int | None = eqx.field(static=True)

    def __init__(self, model: AbstractModel, route: AbstractRoute, context_dim: int | None):
        self.model, self.route, self.action_space, self.context_dim = model, route, model.action_space, context_dim

    def sample_prior(self, key):
        return self.model.sample_prior(key)

    def prior_moments(self):
        return self.model.prior_moments()

    def psi_moments(self, key):
        return self.model.psi_moments(key)

    def mean_reward(self, params, context, action):
        return self.model.mean_reward(params, *self.route(context, action))

    def linear_form(self):
        form = self.model.linear_form()
        if form is None:
            return None
        return form._replace(features=lambda context, action: form.features(*self.route(context, action)))

    def average_params(self, draws, weights):
        return self.model.average_params(draws, weights)

    def shared_params(self, params):
        return self.model.shared_params(params)

    def posterior_mean(self, contexts, actions, surprise):
        return self.model.posterior_mean(*jax.vmap(self.route)(contexts, actions), surprise)

    def sample_outcome(self, key, params, context, action):
        return self.model.sample_outcome(key, params, *self.route(context, action))

    def sample_outcomes(self, key, params, contexts, actions):
        return self.model.sample_outcomes(key, params, *jax.vmap(self.route)(contexts, actions))

    def gaussian_noise(self):
        return self.model.gaussian_noise()


def pin(model: AbstractModel, context_dim: int) -> Routed:
    """The model on contexts that say which actions are decided (`Decided`), with the closed forms it has."""
    return Routed(model, Decided(), context_dim + 1 + model.action_space.dim)


def forbid(model: AbstractModel, marks: Float[Array, "A C"], offsets: Float[Array, " A"]) -> Routed:
    """The model where contexts forbid actions (`Forbidden`), with the closed forms it has."""
    return Routed(model, Forbidden(jnp.asarray(marks), jnp.asarray(offsets)), model.context_dim)
