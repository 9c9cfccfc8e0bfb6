"""What a batch of actions must satisfy: one kind of rule per file, registered by its key under [constraints] of campaign.toml.

A rule gives limits over all units of a batch, or says which options a unit must not get because of its context, or both. Searches
and decisions take these from it and never ask for its kind.
"""

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from cobed.errors import ProblemError
from cobed.registry import Registry

_KINDS: "Registry[type[AbstractRule]]" = Registry("kind of rule", "cobed.rules", ProblemError)


class Batch(NamedTuple):
    """What a rule is about: the names of the options or numbers, what one of each costs (A,), and how many units there are."""

    names: tuple[str, ...]
    costs: np.ndarray
    num_units: int

    def weights(self, name: str) -> np.ndarray:
        """Weights (A,) that count this action alone."""
        if name not in self.names:
            raise ProblemError(
                f"A rule names the action {name!r}, which there is not. Allowed: {', '.join(self.names)}."
            )
        return np.array([float(name == other) for other in self.names])


class AbstractRule(abc.ABC):
    """A rule, made of its value in campaign.toml. `for_numbers`: whether it can be about numbers too, not only about options."""

    name: ClassVar[str]
    describes: ClassVar[str]  # for people
    value_type: ClassVar[Any]  # what the value in campaign.toml may be, as pydantic understands it
    for_numbers: ClassVar[bool] = False

    @classmethod
    def parse(cls, value: Any, spec: Any) -> Self:
        """The rule of a value of `value_type`, in a `CampaignSpec`. `ValueError` says why it does not fit the spec."""
        return cls(value)  # pyright: ignore[reportCallIssue]

    def limits(self, batch: Batch) -> "Sequence[Limit]":
        """What holds over all units of a batch together."""
        return ()

    def forbidden(self, cells: Mapping[str, Sequence[Any]], options: Sequence[str]) -> np.ndarray | None:
        """Which of the options (N, K) units and targets with these context columns must not get; None where it forbids none.

        A cell is a text of a categorical column, a number of a numeric one, 1 or 0 of a binary one.
        """
        return None


@dataclasses.dataclass(frozen=True, eq=False)
class Limit(AbstractRule):
    """least <= sum_d weights . a_d <= most over the units of a batch; a_d is one-hot for named actions, else the numbers.

    `weights` are (A,), or (D, A) where units count differently. `words` say the limit to a person.
    """

    words: str
    weights: np.ndarray
    least: float = -np.inf
    most: float = np.inf

    def limits(self, batch):
        return (self,)

    def beside(self, done: np.ndarray, num_units: int, num_uncounted: int) -> "Limit":
        """The same for a batch of `num_units`, beside which `done` (N, A) count too; `num_uncounted` units after it do not."""
        spent = float((done @ self.weights).sum())
        counted = np.arange(num_units + num_uncounted) < num_units
        return Limit(self.words, counted[:, None] * self.weights, self.least - spent, self.most - spent)


def register(kind: type[AbstractRule]) -> type[AbstractRule]:
    """Make a kind of rule known by its key in campaign.toml."""
    return _KINDS.add(kind.name, kind)


def kinds() -> Mapping[str, type[AbstractRule]]:
    """All registered kinds of rules, by their key in campaign.toml."""
    return _KINDS.items()


def known_actions(value: Mapping[str, Any], name: str, spec: Any) -> None:
    """`ValueError` where the value names what is no action of the spec."""
    actions = list(spec.action.options or spec.action.numbers or ())
    for action in value:
        if action not in actions:
            raise ValueError(f"constraints.{name} names {action!r}, which is no action; allowed: {', '.join(actions)}")


def known_values(key: str, entry: Any, spec: Any) -> None:
    """`ValueError` where an entry of `key`, with `column` and `values`, names what no context column of the spec has."""
    column = spec.context.get(entry.column)
    if column is None or not column.has_names:
        allowed = [name for name, column in spec.context.items() if column.has_names]
        raise ValueError(
            f"{key} names the column {entry.column!r}; allowed are context columns whose values have names: "
            f"{', '.join(allowed) or 'there is none'}"
        )
    problem = column.problem_of_values(entry.column, entry.values)
    if problem is not None:
        raise ValueError(f"{key} {problem}")
