"""The designer: climb an objective over the batch of actions, from several starts, keep the best."""

from pathlib import Path

import numpy as np

from cobed.budget import Budget, find_budget
from cobed.critics import Joint, Separable
from cobed.densities import Density
from cobed.designers.closed_form import search
from cobed.designers.result import DesignResult, fingerprint
from cobed.designers.run import Finish, Run
from cobed.designers.training import train
from cobed.designers.without_gradient import needs_exchange, search_without_gradient
from cobed.errors import BudgetError
from cobed.identity import joined
from cobed.information import looseness_warning
from cobed.keys import Seed, as_key, plain_seed
from cobed.objectives import About, AbstractObjective, Choice, Decisions
from cobed.problem import Problem
from cobed.progress import Reporter
from cobed.search import Checkpoint, Session


def design(
    problem: Problem,
    *,
    seed: Seed,
    budget: str | Budget = "quick",
    objective: str | AbstractObjective = "auto",
    about: About = "max-values",
    network: Separable | Joint | Density | Decisions | None = None,
    progress: Reporter | None = None,
    checkpoint: str | Path | None = None,
) -> DesignResult:
    """The batch of actions on `problem.contexts` that tells most about the best rewards at `problem.targets`.

    `objective` is what the design climbs: "infonce" (the paper's bound), "barber-agakov" (a bound without ceiling),
    "linear-gaussian" (its second moments, nothing to train), "value" (what the decisions after the experiment earn);
    "auto" picks by the model, and `DesignResult.reason` says why. `network` says how its network is built.
    Same seed (a whole number or a JAX key), same numbers. `progress` hears how far the work is
    (`cobed.ConsoleReporter()` prints it). With a `checkpoint` directory an interrupted call resumes to the result it would
    have had. Ctrl-C returns the best design so far. The reported score is measured on fresh draws at the hardened design,
    with a network settled there.
    `about="parameters"` asks for information on all of psi instead: the classical objective, which spends units on
    actions that cannot be the best ones. What `problem` does not allow is never tried.

    >>> import cobed
    >>> from cobed.models import discrete
    >>> problem = cobed.Problem(cobed.models.DiscreteExample(), discrete.contexts(), -discrete.contexts())
    >>> result = cobed.design(problem, seed=0, budget="smoke")
    >>> result.actions.shape
    (10, 4)
    """
    key, asked = as_key(seed), find_budget(budget)
    budget = asked.resolved(problem)
    depends_on = fingerprint(
        problem, seed=plain_seed(seed), budget=asked, objective=objective, about=about, network=network
    )
    kept = Checkpoint(checkpoint, depends_on) if checkpoint else None
    run = Run(problem, budget, key, Session(progress, kept))
    choice = run.choose(objective, about, network)
    finish, reason = _carry_out(run, choice, about, asked.num_starts)
    if objective == "auto" and network is None and choice.objective.name == "barber-agakov":
        run, choice, finish, reason = _instead(run, choice, finish, reason)
    actions = finish.best.actions
    return DesignResult(
        method=choice.method,
        actions=actions,
        labels=[problem.model.action_space.label(action) for action in actions],
        contexts=np.asarray(problem.contexts),
        score=finish.score,
        starts=finish.starts,
        stop_reason=run.session.stop_reason,
        seed=plain_seed(seed),
        seconds_design=run.seconds_design,
        seconds_evaluation=run.seconds_evaluation,
        warnings=[*finish.warnings, *filter(None, [looseness_warning(finish.score, choice.objective.name)])],
        settings={"budget": _plain(budget), "objective": choice.objective.name, "network": repr(network)},
        fingerprint=joined(depends_on),
        interrupted=run.session.interrupted,
        reason=reason,
    )


def _carry_out(run: Run, choice: Choice, about: About, num_starts: int | None) -> tuple[Finish, str]:
    """The search that suits the objective, and the reason for it."""
    closed_form = not choice.objective.trains
    if needs_exchange(run.problem, choice.objective, closed_form):
        reason = (
            f"{choice.reason} Outcomes have no gradient in the action to follow: {run.problem.gradient_gap} So the units "
            "exchanged actions by what moments of simulated outcomes say of every change."
        )
        return search_without_gradient(run, choice.objective, about), reason
    if closed_form:
        return search(run, choice.objective, num_starts), choice.reason
    return train(run, choice.objective), choice.reason


def _instead(run: Run, choice: Choice, finish: Finish, reason: str) -> tuple[Run, Choice, Finish, str]:
    """The design by contrasts where a bound by a density is below zero, as its warning says; otherwise what there is."""
    if run.session.interrupted or looseness_warning(finish.score, choice.objective.name) is None:
        return run, choice, finish, reason
    reason += (
        f" Its bound came out at {finish.score}, below zero, and information never is: the best rewards are too far from "
        "Gaussian for it."
    )
    other = run.anew("infonce-")
    try:
        by_contrasts = other.choose("infonce", "max-values", None)
        finished, _ = _carry_out(other, by_contrasts, "max-values", None)
    except BudgetError as error:
        return run, choice, finish, f"{reason} 'infonce', which needs no density, could not take its place: {error}"
    except KeyboardInterrupt:
        run.session.interrupt("Interrupted before 'infonce' had a design; kept the one by 'barber-agakov'.")
        return run, choice, finish, reason
    return other, by_contrasts, finished, f"{reason} So 'infonce', which needs no density, took its place."


def _plain(budget: Budget) -> dict:
    """A budget as JSON can hold it."""
    return {
        name: value if isinstance(value, int | float | str | None) else repr(value)
        for name, value in vars(budget).items()
    }
