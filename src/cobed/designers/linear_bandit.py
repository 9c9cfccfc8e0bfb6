"""Baselines of the linear bandit (Zanette, Dong, Lee & Brunskill 2021).

They read the features of the model and nothing of its prior.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from cobed.compilation import lean_jit
from cobed.designers.baselines import AbstractBaseline
from cobed.errors import ProblemError
from cobed.problem import Problem
from cobed.types import Array, Float, Key


class SamplerPlanner(AbstractBaseline):
    """S-P. The planner goes through `num_offline` contexts, drawn from the experimental ones, and plays in each the action
    its features are most uncertain about, |phi|^2 in the metric R^-1; Sigma = regularisation I + step sum phi phi^T.
    R follows Sigma only when its determinant has doubled. The sampler acts for each unit by the planner of a random moment.
    """

    regularisation: float = eqx.field(static=True, default=1.0)
    step: float = eqx.field(static=True, default=1.0)
    num_offline: int = eqx.field(static=True, default=1000)

    def __check_init__(self):
        if not (self.regularisation > 0 and self.step > 0 and self.num_offline >= 1):
            raise ProblemError(
                "S-P needs a positive regularisation, a positive step and at least one offline context, got "
                f"{self.regularisation!r}, {self.step!r} and {self.num_offline!r}."
            )

    @property
    def name(self):
        return "S-P"

    def actions(self, key, problem):
        return _plan_and_sample(key, feature_table(problem, self.name), self)


class Const(AbstractBaseline):
    """Always the first action."""

    @property
    def name(self):
        return "Const"

    def actions(self, key, problem):
        actions = _discrete_actions(problem, self.name)
        return jnp.broadcast_to(actions[0], (problem.num_contexts, actions.shape[1]))


class LargestNorm(AbstractBaseline):
    """The action with the longest feature vector in the context."""

    @property
    def name(self):
        return "Norm"

    def actions(self, key, problem):
        norms = jnp.linalg.norm(feature_table(problem, self.name), axis=-1)
        return _discrete_actions(problem, self.name)[jnp.argmax(norms, axis=1)]


def feature_table(problem: Problem, name: str) -> Float[Array, "D K P"]:
    """phi of every action in every experimental context."""
    actions = _discrete_actions(problem, name)
    model = problem.model
    form = model.linear_form()
    if form is None or not form.law.gaussian:
        raise ProblemError(
            f"{name} needs a reward linear in known features, and {type(model).__name__} has none. Use "
            "cobed.models.LinearBandit or LinearGaussian, or a baseline that serves every model, such as Thompson()."
        )
    return jax.vmap(lambda context: jax.vmap(lambda action: form.features(context, action))(actions))(problem.contexts)


def _discrete_actions(problem: Problem, name: str) -> Float[Array, "K A"]:
    space = problem.model.action_space
    if space.continuous:
        raise ProblemError(f"{name} needs discrete actions, and got {space}. RandomUniform() serves every space.")
    return jnp.asarray(space.enumerate_discrete())


@lean_jit
def _plan_and_sample(key: Key[Array, ""], table: Float[Array, "D K P"], planner: SamplerPlanner) -> Float[Array, "D K"]:
    context_key, moment_key = jr.split(key)
    num_units, num_actions, size = table.shape
    visits = jr.randint(context_key, (planner.num_offline,), 0, num_units)
    moments = jr.randint(moment_key, (num_units,), 0, planner.num_offline)

    def plan(state, moment):
        inverse, metric, growth, chosen = state
        doubled = growth > jnp.log(2.0)
        metric, growth = jnp.where(doubled, inverse, metric), jnp.where(doubled, 0.0, growth)
        best = jnp.argmax(jnp.einsum("dkp,pq,dkq->dk", table, metric, table), axis=1)
        chosen = jnp.where(moments == moment, best, chosen)
        phi = table[visits[moment], best[visits[moment]]]
        # Sherman-Morrison, and det(Sigma + step phi phi^T) = det(Sigma) (1 + step phi^T Sigma^-1 phi)
        gain = inverse @ phi
        factor = 1 + planner.step * phi @ gain
        inverse = inverse - planner.step / factor * jnp.outer(gain, gain)
        return (inverse, metric, growth + jnp.log(factor), chosen), None

    start = jnp.eye(size) / planner.regularisation
    state = (start, start, jnp.zeros(()), jnp.zeros(num_units, int))
    (*_, chosen), _ = jax.lax.scan(plan, state, jnp.arange(planner.num_offline))
    return jax.nn.one_hot(chosen, num_actions)
