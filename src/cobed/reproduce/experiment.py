"""What an experiment is declared as: settings with a problem and methods, what is spent on them, and what they are to show.

One file for each; `register` makes it known to `cobed reproduce`, also from another package (entry points `cobed.experiments`).
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cobed.budget import Budget
from cobed.critics import Separable
from cobed.designers.baselines import AbstractBaseline
from cobed.designers.cobed import design
from cobed.designers.result import DesignResult
from cobed.errors import BudgetError
from cobed.problem import Problem
from cobed.registry import Registry
from cobed.reproduce.protocol import Keys, Worlds, both_protocols

if TYPE_CHECKING:
    from cobed.report.page import Page
    from cobed.reproduce.study import Record

# Records by method, in the order they were made.
Groups = Mapping[str, "Sequence[Record]"]


@dataclass(frozen=True)
class Effort:
    """What a study spends: on CO-BED's designs, on a critic for each finished design, which is a `network`, on worlds and on
    posterior draws in each of them."""

    design: Budget
    critic: Budget
    num_worlds: int
    num_paper_worlds: int
    num_seeds: int
    num_draws: int = 256
    network: Separable = Separable()  # noqa: RUF009 - frozen


class Method(NamedTuple):
    """A designer as a study names it. Those that train take the `progress` and the `checkpoint` of `cobed.design`. `work` is a
    guess of its share of the time; `num_seeds`, where it is given, says that only the first seeds are designed for."""

    name: str
    design: Callable[..., DesignResult]
    trains: bool = False
    work: float = 1.0
    num_seeds: int | None = None


def baselines(designers: Iterable[AbstractBaseline], work: float = 1.0) -> list[Method]:
    """Designers under their own names."""
    return [Method(designer.name, designer, work=work) for designer in designers]


def cobed_method(name: str, *, work: float, num_seeds: int | None = None, **options: Any) -> Method:
    """`cobed.design` with these options."""
    return Method(name, functools.partial(design, **options), trains=True, work=work, num_seeds=num_seeds)


def same_for_all_seeds(make: Callable[..., Problem], *arguments: Any) -> Callable[[int], Problem]:
    """One problem whatever the seed, made when it is first asked for."""
    made = functools.cache(functools.partial(make, *arguments))
    return lambda seed: made()


@dataclass(frozen=True)
class Setting:
    """The values of the symbols a study varies, the problem of each seed there, the methods compared, and how their designs are
    scored. `num_measured`, where it is given, says that the CMV-EIG is measured on the first seeds only, which costs the work
    of `critic_work` designs."""

    symbols: dict[str, Any]
    problem: Callable[[int], Problem]
    methods: Sequence[Method]
    scores: Callable[[Keys, Problem, np.ndarray, Effort], Worlds] = both_protocols
    num_measured: int | None = None
    critic_work: float = 0.0


class Claim(NamedTuple):
    """A sentence about a setting and a protocol, whether it is made there, and whether the records show it."""

    sentence: str
    holds: Callable[[Groups, str], bool]
    applies: Callable[[Mapping[str, Any], str], bool] = lambda symbols, protocol: True


@dataclass(frozen=True)
class Experiment:
    """`efforts` and `settings(budget, effort)` are what is run; the page begins with `about` and `choices` and has the figures
    and tables that `report(page, records, budget)` adds."""

    name: str
    title: str
    about: str
    efforts: Mapping[str, Effort]
    settings: Callable[[str, Effort], Iterable[Setting]]
    report: Callable[["Page", "Sequence[Record]", str], None]
    choices: Sequence[str] = ()
    claims: Sequence[Claim] = field(default=())


EXPERIMENTS: Registry[Experiment] = Registry("experiment", "cobed.experiments", BudgetError)


def register(experiment: Experiment) -> Experiment:
    """Make an experiment known to `cobed reproduce`."""
    return EXPERIMENTS.add(experiment.name, experiment)
