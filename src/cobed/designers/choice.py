"""Which objective a design climbs: the one asked for, or the one that suits the model, with the reason in words."""

from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import jax.random as jr

from cobed.budget import Budget, check_memory, estimate_cost
from cobed.compilation import lean_jit
from cobed.critics import Joint, Separable
from cobed.densities import Density
from cobed.errors import BudgetError, NoDensityError
from cobed.information import About, make_simulation
from cobed.models.average import AverageReward
from cobed.models.base import HasGaussianPrior, HasPosteriorMean
from cobed.models.gaussian import find_belief, has_belief, num_params
from cobed.models.glm import GeneralisedLinear
from cobed.models.predictor import core_of, find_predictor_belief
from cobed.objectives import (
    AbstractObjective,
    BarberAgakov,
    Components,
    Decisions,
    DecisionValue,
    ExperimentValue,
    InfoNCE,
    LinearGaussianInformation,
    MomentValue,
    PredictorValue,
)
from cobed.optimum import AbstractOptimum, choose_optimum
from cobed.policies import Temperature
from cobed.problem import Problem
from cobed.types import Array, Float, Key

ObjectiveName = Literal["auto", "value", "barber-agakov", "infonce", "linear-gaussian"]
NAMES = get_args(ObjectiveName)
NETWORKS: dict[ObjectiveName, tuple[type, ...]] = {
    "infonce": (Separable, Joint),
    "barber-agakov": (Density,),
    "value": (Decisions,),
}

# Draws of the prior behind the best decisions without an experiment.
NOW_DRAWS = 4096
# From so many units on, a matrix of the coefficients is smaller than one of the units.
MANY_UNITS = 100


class Choice(NamedTuple):
    """An objective, what the method is called in results, and why it was taken."""

    objective: AbstractObjective
    method: str
    reason: str


def choose_objective(
    key: Key[Array, ""],
    problem: Problem,
    budget: Budget,
    asked: ObjectiveName | AbstractObjective = "auto",
    about: About = "max-values",
    network: Any = None,
) -> Choice:
    """The objective for `asked`. `network` says how to build its network, where it has one."""
    if isinstance(asked, AbstractObjective):
        return Choice(asked, f"CO-BED ({asked.name})", "It was given.")
    if asked not in NAMES:
        raise BudgetError(f"Unknown objective {asked!r}. Allowed: {', '.join(map(repr, NAMES))}, or an objective.")
    if about == "parameters" and asked not in ("auto", "infonce"):
        raise BudgetError(f"Information about the parameters is measured by 'infonce', not by {asked!r}.")
    if asked == "auto":
        picked, reason = _pick(problem, about, network)
        try:
            return choose_objective(key, problem, budget, picked, about, network)._replace(reason=reason)
        except NoDensityError:
            reason = "The best rewards have no density under this prior, and contrasts need none."
            return choose_objective(key, problem, budget, "infonce", about, network)._replace(reason=reason)
    if network is not None and not isinstance(network, NETWORKS.get(asked, ())):
        allowed = ", ".join(kind.__name__ for kind in NETWORKS.get(asked, ())) or "no network"
        raise BudgetError(f"The objective {asked!r} takes {allowed}, got {type(network).__name__}.")
    method = {"infonce": "CO-BED" if about == "max-values" else "EIG"}.get(asked, f"CO-BED ({asked})")
    return Choice(_build(key, problem, budget, asked, about, network), method, "It was asked for.")


def _pick(problem: Problem, about: About, network: Any) -> tuple[ObjectiveName, str]:
    """The evidence for these rules is in docs/objectives.md."""
    model = problem.model
    if about == "parameters":
        return "infonce", "Information about the parameters is measured by contrasts."
    for name, kinds in NETWORKS.items():
        if isinstance(network, kinds):
            return name, f"A {type(network).__name__} network was given."
    if has_belief(model, problem.contexts):
        if isinstance(model, HasPosteriorMean | HasGaussianPrior):
            return (
                "value",
                "Rewards and outcomes are jointly Gaussian, so the value of the experiment is known exactly.",
            )
        return (
            "value",
            "Rewards are affine in psi, so the value of the experiment follows from the moments of the prior.",
        )
    if uses_information_matrix(problem):
        return "value", "Outcomes are informative by a linear predictor: the value follows from the information matrix."
    if problem.gradient_gap is not None:
        return "value", "The value follows from moments of simulated rewards and outcomes."
    return "barber-agakov", "The model is not Gaussian: a density of m* given y is learned with the design."


def uses_information_matrix(problem: Problem) -> bool:
    """Whether the value is taken from the information matrix: binary outcomes and counts; many units of named actions."""
    large = problem.num_contexts >= MANY_UNITS and not problem.model.action_space.continuous
    return isinstance(core_of(problem.model), GeneralisedLinear) or (large and core_of(problem.model) is not None)


def matrix_value(key: Key[Array, ""], problem: Problem, temperature: Temperature) -> PredictorValue | None:
    """The value from the information matrix, which knows gains; None where the model has no linear predictor."""
    belief = find_predictor_belief(key, problem.model)
    if belief is None:
        return None
    return PredictorValue.build(key, problem.model, problem.contexts, problem.targets, belief, temperature)


def _build(
    key: Key[Array, ""], problem: Problem, budget: Budget, name: str, about: About, network: Any
) -> AbstractObjective:
    belief_key, simulation_key, now_key = jr.split(key, 3)
    temperature = jax.tree.map(jnp.asarray, budget.temperature)
    if name == "value" and network is None and uses_information_matrix(problem):
        value = matrix_value(belief_key, problem, temperature)
        if value is not None:
            return value
    if name == "value" and network is None:
        belief = find_belief(belief_key, problem.model, problem.contexts)
        if belief is not None:
            return ExperimentValue.build(problem, belief, temperature)
    if name == "value" and network is None and problem.gradient_gap is not None:
        return MomentValue(problem)
    if name == "infonce":
        check_memory(estimate_cost(problem, budget, network or Separable()))
    simulation, values = make_simulation(simulation_key, problem, budget, about)
    if name == "infonce":
        return InfoNCE(simulation, network or Separable())
    if name == "value":
        hopes = AverageReward(problem.model, NOW_DRAWS)
        optimum = choose_optimum(AverageReward(problem.model, 4), problem.targets)
        return DecisionValue(simulation, _value_now(now_key, problem, hopes, optimum), network or Decisions())
    components = Components.fit(values, simulation.value_scale, num_params(problem.model))
    if name == "linear-gaussian":
        return LinearGaussianInformation(simulation, components)
    return BarberAgakov(simulation, components, network or Density())


@lean_jit
def _value_now(key, problem: Problem, hopes: AverageReward, optimum: AbstractOptimum) -> Float[Array, ""]:
    """What the best decisions without an experiment earn."""
    params = hopes.sample_prior(key)
    return jnp.mean(jax.lax.map(lambda target: optimum(hopes, params, target)[0], problem.targets))
