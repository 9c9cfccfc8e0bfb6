"""A policy as a tree of questions about the columns of a table: read by people, applied by programs and databases."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd

from cobed.errors import ProblemError

# By name: numbers, where a missing cell is NaN, or names, where it is None. One row for each unit.
Columns = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Question:
    """Whether the cell of a column is at most `at_most`, or one of `names`. A missing cell is `missing`: None, which counts as no,
    where there was none to decide for."""

    column: str
    at_most: float | None = None
    names: tuple[str, ...] = ()
    missing: bool | None = None

    def holds(self, columns: Columns) -> np.ndarray:
        """The answer of each row, (T,)."""
        cells = columns[self.column]
        if cells.dtype == object:
            absent, said = pd.isna(cells), pd.Series(cells).isin(self.names).to_numpy()
        else:
            absent = np.isnan(cells)
            said = cells <= (-np.inf if self.at_most is None else self.at_most)
        return said | absent if self.missing else said

    def sql(self, spellings: Mapping[str, Sequence[str]]) -> str:
        """A condition; `spellings` has the texts in lower case that mean a name, where there are others than the name itself."""
        column, parts = _quoted(self.column, '"'), []
        if self.at_most is not None:
            parts.append(f"{column} <= {self.at_most!r}")
        if self.names:
            texts = [text for name in self.names for text in spellings.get(name, (name,))]
            cell = f"LOWER(CAST({column} AS VARCHAR))" if spellings else column
            parts.append(f"{cell} IN ({', '.join(_quoted(text) for text in texts)})")
        if self.missing:
            parts.append(f"{column} IS NULL")
        return f"({' OR '.join(parts)})" if len(parts) > 1 else parts[0]


@dataclasses.dataclass(frozen=True)
class Leaf:
    """The position of the action that all units here get."""

    action: int


@dataclasses.dataclass(frozen=True)
class Split:
    """A question and what follows from each answer."""

    question: Question
    yes: "Node"
    no: "Node"


Node = Leaf | Split
# The questions that lead to a leaf, with their answers.
Path = tuple[tuple[Question, bool], ...]


@dataclasses.dataclass(frozen=True)
class Tree:
    """Questions that end in one of `actions`. Build it with `grow_tree`.

    `spellings` has, for columns whose names can be written in several ways, the texts in lower case that mean each name.
    """

    root: Node
    actions: tuple[str, ...]
    spellings: Mapping[str, Mapping[str, Sequence[str]]] = dataclasses.field(default_factory=dict)

    def places(self, columns: Columns) -> np.ndarray:
        """The number of the leaf that each row ends in, (T,), in the order of `leaves`."""
        num_rows = len(next(iter(columns.values())))
        places = np.zeros(num_rows, int)
        for number, (path, _) in enumerate(self.leaves()):
            here = np.ones(num_rows, bool)
            for question, answer in path:
                here &= question.holds(columns) == answer
            places[here] = number
        return places

    def choose(self, columns: Columns) -> np.ndarray:
        """The position of each row's action, (T,)."""
        return np.array([leaf.action for _, leaf in self.leaves()])[self.places(columns)]

    def leaves(self) -> list[tuple[Path, Leaf]]:
        """Every leaf with the questions before it, from the first yes to the last no."""
        return list(_leaves(self.root, ()))

    @property
    def depth(self) -> int:
        """The largest number of questions before an action."""
        return max(len(path) for path, _ in self.leaves())

    def sentences(self) -> list[str]:
        """One for each leaf."""
        return [f"{conditions(path)}: {self.actions[leaf.action]}." for path, leaf in self.leaves()]

    def sql(self) -> str:
        """A CASE expression of standard SQL; cells that are missing are NULL there."""
        return self._sql(self.root, "")

    def _sql(self, node: Node, indent: str) -> str:
        if isinstance(node, Leaf):
            return _quoted(self.actions[node.action])
        deeper = f"{indent}  "
        condition = node.question.sql(self.spellings.get(node.question.column, {}))
        return (
            f"CASE WHEN {condition}\n{deeper}THEN {self._sql(node.yes, deeper)}\n{deeper}ELSE {self._sql(node.no, deeper)}"
            f"\n{indent}END"
        )

    def to_json(self) -> dict[str, Any]:
        """For programs: `tree` is {"action"}, or a question with what follows from "yes" and "no"."""
        document: dict[str, Any] = {"actions": list(self.actions), "tree": self._json(self.root)}
        if self.spellings:
            document["spellings"] = {
                column: {name: list(texts) for name, texts in names.items()} for column, names in self.spellings.items()
            }
        return document

    def _json(self, node: Node) -> dict[str, Any]:
        if isinstance(node, Leaf):
            return {"action": self.actions[node.action]}
        question = node.question
        asked = {"names": list(question.names)} if question.at_most is None else {"at_most": question.at_most}
        ends = {"yes": self._json(node.yes), "no": self._json(node.no)}
        return {"column": question.column, **asked, "missing": question.missing, **ends}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """What `to_json` gave; `ProblemError` where it is anything else."""
        try:
            actions = tuple(document["actions"])
            return cls(_node(document["tree"], actions), actions, document.get("spellings", {}))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ProblemError(f"This is no tree of a policy: {error!r}.") from error


def _leaves(node: Node, path: Path) -> Iterator[tuple[Path, Leaf]]:
    if isinstance(node, Leaf):
        yield path, node
        return
    yield from _leaves(node.yes, (*path, (node.question, True)))
    yield from _leaves(node.no, (*path, (node.question, False)))


def _node(entry: Mapping[str, Any], actions: tuple[str, ...]) -> Node:
    if "action" in entry:
        return Leaf(actions.index(entry["action"]))
    at_most = entry.get("at_most")
    limit = None if at_most is None else float(at_most)
    question = Question(str(entry["column"]), limit, tuple(entry.get("names", ())), entry["missing"])
    return Split(question, _node(entry["yes"], actions), _node(entry["no"], actions))


def conditions(path: Path) -> str:
    """The way to a leaf as the first half of a sentence."""
    if not path:
        return "For all"
    asked: dict[str, list[tuple[Question, bool]]] = {}
    for question, answer in path:
        asked.setdefault(question.column, []).append((question, answer))
    return "If " + " and ".join(f"{column} is {_condition(answers)}" for column, answers in asked.items())


def _condition(answers: list[tuple[Question, bool]]) -> str:
    """What is known of a cell after these answers."""
    above = [q.at_most for q, answer in answers if q.at_most is not None and not answer]
    most = [q.at_most for q, answer in answers if q.at_most is not None and answer]
    among = [q.names for q, answer in answers if q.names and answer]
    others = [name for q, answer in answers if not answer for name in q.names]
    parts = [f"above {max(above):.10g}"] if above else []
    parts += [f"at most {min(most):.10g}"] if most else []
    parts += [" or ".join(among[-1])] if among else [f"not {name}" for name in others]
    text = " and ".join(parts)
    if all(question.missing is None for question, _ in answers):
        return text
    if any(q.at_most is None and not q.names and answer == q.missing for q, answer in answers):
        return "missing"
    if all(bool(question.missing) == answer for question, answer in answers):
        return f"{text} or missing"
    # Other conditions that a missing cell does not satisfy say so by themselves.
    return text if above or most or among else " and ".join([*parts, "not missing"])


def _quoted(text: str, mark: str = "'") -> str:
    return f"{mark}{text.replace(mark, mark * 2)}{mark}"
