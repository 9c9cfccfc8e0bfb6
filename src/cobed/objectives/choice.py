"""Which objective a design climbs: the one asked for, or the first that suits the problem, with the reason in words."""

from typing import Any, NamedTuple

from cobed.budget import Budget
from cobed.errors import BudgetError, NoDensityError
from cobed.objectives.base import AbstractObjective
from cobed.objectives.kinds import OBJECTIVES, AbstractKind, Task
from cobed.objectives.simulation import About
from cobed.problem import Problem
from cobed.types import Array, Key


class Choice(NamedTuple):
    """An objective, what the method is called in results, and why it was taken."""

    objective: AbstractObjective
    method: str
    reason: str


def choose_objective(
    key: Key[Array, ""],
    problem: Problem,
    budget: Budget,
    asked: str | AbstractObjective = "auto",
    about: About = "max-values",
    network: Any = None,
) -> Choice:
    """The objective for `asked`: a name, "auto", or an objective. `network` says how to build its network, where it has one."""
    if isinstance(asked, AbstractObjective):
        return Choice(asked, f"CO-BED ({asked.name})", "It was given.")
    task = Task(key, problem, budget, about, network)
    if asked == "auto":
        return _walk(task)
    kind = OBJECTIVES.named(asked)
    if about not in kind.abouts:
        able = ", ".join(repr(other.name) for other in OBJECTIVES if about in other.abouts)
        raise BudgetError(f"Information about the {about} is measured by {able or 'no objective'}, not by {asked!r}.")
    return _built(kind, task, "It was asked for.")


def _walk(task: Task) -> Choice:
    """The first objective that applies, and why not those before it."""
    passed = []
    for kind in OBJECTIVES:
        reason = kind.applies(task.problem, task.about) if task.about in kind.abouts else None
        if reason is None:
            passed.append(f"Not {kind.name!r}, which needs {kind.needs}.")
            continue
        try:
            return _built(kind, task, " ".join([reason, *passed]))
        except NoDensityError:
            passed.append(f"Not {kind.name!r}, which needs {kind.needs}; these have none.")
    raise BudgetError(f"No objective applies to this problem. {' '.join(passed)}")


def _built(kind: AbstractKind, task: Task, reason: str) -> Choice:
    if task.network is not None and not isinstance(task.network, kind.networks):
        allowed = ", ".join(network.__name__ for network in kind.networks) or "no network"
        others = [other.name for other in OBJECTIVES if isinstance(task.network, other.networks)]
        advice = f" Ask for objective={others[0]!r}, which takes it." if others else ""
        raise BudgetError(f"The objective {kind.name!r} takes {allowed}, got {type(task.network).__name__}.{advice}")
    return Choice(kind.build(task), kind.method(task.about), reason)
