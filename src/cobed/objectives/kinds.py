"""The objectives by name. One file and one registration each; `auto` walks them in the order of registration."""

import abc
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr

from cobed.budget import Budget
from cobed.errors import BudgetError
from cobed.objectives.base import AbstractObjective
from cobed.objectives.simulation import About
from cobed.policies import Temperature
from cobed.problem import Problem
from cobed.registry import Registry
from cobed.types import Array, Key


class Task(NamedTuple):
    """What an objective is built for. `network` says how to build its network; None leaves that to the objective."""

    key: Key[Array, ""]
    problem: Problem
    budget: Budget
    about: About
    network: Any

    @property
    def simulation_key(self) -> Key[Array, ""]:
        return jr.split(self.key, 3)[1]

    @property
    def temperature(self) -> Temperature:
        """As arrays: another schedule is not another program."""
        return jax.tree.map(jnp.asarray, self.budget.temperature)


class AbstractKind(abc.ABC):
    """An objective as the user asks for it."""

    name: ClassVar[str]
    # What `auto` must find to take it: the end of "Not this one, which needs ...".
    needs: ClassVar[str] = "nothing"
    # What `network=` may be; () where it has none.
    networks: ClassVar[tuple[type, ...]] = ()
    # What it can tell about.
    abouts: ClassVar[tuple[About, ...]] = ("max-values",)

    def applies(self, problem: Problem, about: About) -> str | None:
        """Why `auto` takes it for this problem, in a sentence; None where it does not."""
        return None

    @abc.abstractmethod
    def build(self, task: Task) -> AbstractObjective:
        """The objective for a problem. `NoDensityError` where only the draws tell that it has none."""

    def method(self, about: About) -> str:
        """What a design by it is called in results."""
        return f"CO-BED ({self.name})"


OBJECTIVES: Registry[AbstractKind] = Registry("objective", "cobed.objectives", BudgetError)


def register(kind: AbstractKind) -> AbstractKind:
    """Make an objective known by its name. `auto` tries later ones later."""
    return OBJECTIVES.add(kind.name, kind)
