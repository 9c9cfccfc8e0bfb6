"""The value of an experiment: what the decisions after it earn, by the most exact form that the model has.

`gaussian`: rewards and outcomes jointly Gaussian, exact. `information`: a linear predictor behind any outcome law, from the
information matrix. `moments`: outcomes without a gradient, from moments of simulated ones. `decisions`: any other model, by a
network that is trained to decide.
"""

import jax
import jax.numpy as jnp
import jax.random as jr

from cobed.compilation import lean_jit
from cobed.models.average import AverageReward
from cobed.models.gaussian import find_update, has_posterior_mean, is_affine
from cobed.objectives.kinds import AbstractKind
from cobed.objectives.simulation import About, make_simulation
from cobed.objectives.value.decisions import Decisions, DecisionValue
from cobed.objectives.value.gaussian import ExperimentValue
from cobed.objectives.value.information import Predictor, PredictorValue
from cobed.objectives.value.moments import MomentValue
from cobed.optimum import AbstractOptimum, choose_optimum
from cobed.problem import Problem
from cobed.types import Array, Float, present

# Draws of the prior behind the best decisions without an experiment.
NOW_DRAWS = 4096
# From so many units on, a matrix of the coefficients is smaller than one of the units.
MANY_UNITS = 100


class ValueKind(AbstractKind):
    name = "value"
    needs = (
        "rewards affine in psi with normal outcomes, a linear predictor, or outcomes without a gradient in the action"
    )
    networks = (Decisions,)

    def applies(self, problem: Problem, about: About) -> str | None:
        """The evidence for this is in docs/objectives.md."""
        model, contexts = problem.model, problem.contexts
        if keeps_limits(problem):
            return (
                "The value follows from the information matrix, which says at once what every allowed change would add."
            )
        if has_posterior_mean(model, contexts):
            return "Rewards and outcomes are jointly Gaussian, so the value of the experiment is known exactly."
        if model.gaussian_noise() is not None and is_affine(model, contexts):
            if model.prior_moments() is not None:
                return "Rewards and outcomes are jointly Gaussian, so the value of the experiment is known exactly."
            return "Rewards are affine in psi, so the value of the experiment follows from the moments of the prior."
        if uses_information_matrix(problem):
            return "Outcomes are informative by a linear predictor: the value follows from the information matrix."
        if problem.gradient_gap is not None:
            return "The value follows from moments of simulated rewards and outcomes."
        return None

    def build(self, task):
        """In its most exact form; a `Decisions` network that was given is trained whatever the model."""
        problem, (belief_key, simulation_key, now_key) = task.problem, jr.split(task.key, 3)
        if task.network is None:
            if uses_information_matrix(problem):
                predictor = present(Predictor.of(belief_key, problem.model))
                return PredictorValue.build(
                    belief_key, problem.model, problem.contexts, problem.places, predictor, task.temperature
                )
            has_mean = has_posterior_mean(problem.model, problem.contexts)
            update = None if has_mean else find_update(belief_key, problem.model, problem.contexts)
            if has_mean or update is not None:
                return ExperimentValue.build(problem, update, task.temperature)
            if problem.gradient_gap is not None:
                return MomentValue(problem)
        simulation, _ = make_simulation(simulation_key, problem, task.budget, task.about)
        average_reward = AverageReward(problem.model, NOW_DRAWS)
        optimum = choose_optimum(AverageReward(problem.model, 4), *problem.places)
        return DecisionValue(
            simulation, _value_now(now_key, problem, average_reward, optimum), task.network or Decisions()
        )


def uses_information_matrix(problem: Problem) -> bool:
    """Whether the value is taken from the information matrix: binary outcomes and counts; named actions of many units, or
    under limits."""
    form = problem.model.linear_form()
    large = problem.num_contexts >= MANY_UNITS and not problem.model.action_space.continuous
    return form is not None and (large or not form.law.gaussian or keeps_limits(problem))


def keeps_limits(problem: Problem) -> bool:
    """Whether limits over named actions are kept by the gains of a linear predictor."""
    named = not problem.model.action_space.continuous
    return problem.feasible.is_limited and named and problem.model.linear_form() is not None


@lean_jit
def _value_now(key, problem: Problem, average_reward: AverageReward, optimum: AbstractOptimum) -> Float[Array, ""]:
    """What the best decisions without an experiment earn."""
    params = average_reward.sample_prior(key)
    return jnp.mean(jax.lax.map(lambda target: optimum(average_reward, params, *target)[0], problem.places))
