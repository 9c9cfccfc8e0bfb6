"""Designers by name. `register` adds one, also from another package (entry points `cobed.designers`)."""

from typing import Protocol

from cobed.designers.baselines import UCB, RandomUniform, Thompson
from cobed.designers.itl import TransductiveInformation
from cobed.designers.linear_bandit import Const, LargestNorm, SamplerPlanner
from cobed.designers.local_penalisation import LEVI, UCBLocalPenalisation
from cobed.designers.result import DesignResult
from cobed.errors import ProblemError
from cobed.keys import Seed
from cobed.problem import Problem
from cobed.registry import Registry


class Designer(Protocol):
    """From a problem to a design. Same seed, same design; `ProblemError` says for which problems it is not made."""

    @property
    def name(self) -> str: ...

    def __call__(self, problem: Problem, *, seed: Seed) -> DesignResult: ...


DESIGNERS: Registry[Designer] = Registry("designer", "cobed.designers", ProblemError)


def register(designer: Designer) -> Designer:
    """Make a designer known by its name."""
    return DESIGNERS.add(designer.name, designer)


for _designer in (
    RandomUniform(), Thompson(), UCB(1.0), UCBLocalPenalisation(), LEVI(), LEVI(penalised=True), TransductiveInformation(),
    SamplerPlanner(), LargestNorm(), Const(),
):  # fmt: skip
    register(_designer)
