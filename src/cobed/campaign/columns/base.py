"""What is known of a unit before an action is chosen: one kind of column per file, registered by its word in campaign.toml.

A kind knows everything that depends on it: which cells are allowed, what is kept of the first tables (its `fitted` part, which JSON
can hold), the numbers that the engine sees, and how people read them. Its own settings in the spec are its pydantic fields.
Cells that are missing, and those whose value is new, never reach `read` and `encode`: they count as an average unit, and have
numbers of their own beside it (`cobed.campaign.encoding`).
"""

import abc
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from cobed.campaign.near import nearest
from cobed.campaign.tables import Complaints, Table
from cobed.campaign.toml import shown
from cobed.errors import SpecError
from cobed.registry import Registry

Name = Annotated[str, Field(min_length=1)]

_KINDS: "Registry[type[Column]]" = Registry("kind of context column", "cobed.columns", SpecError)


class Column(BaseModel, abc.ABC):
    """One column of [context]. `age = "numeric"` is short for `age = { type = "numeric" }`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: ClassVar[str]  # in campaign.toml
    describes: ClassVar[str]  # for people
    is_number: ClassVar[bool] = False  # whether cells lie on a line, such as the axis of a figure
    has_names: ClassVar[bool] = False  # whether rules can name its values
    # By the name of a group, the texts in lower case that mean it, where there are others than the name.
    spellings: ClassVar[dict[str, tuple[str, ...]]] = {}

    type: str = Field(description="The kind of the column.")

    @classmethod
    @abc.abstractmethod
    def suits(cls, table: Table, column: str) -> bool:
        """Whether a column of a table looks like this kind."""

    def fit(self, column: str, tables: Sequence[Table]) -> Any:
        """What is kept of the first tables that a campaign sees, to encode by. Bad cells are left out: `read` complains."""
        return None

    def refit(self, old: Any, new: Any) -> Any:
        """The same where tables are fitted a second time, before any outcome."""
        return new

    def grow(self, fitted: Any, cells: Sequence[Any]) -> Any:
        """`fitted` with what later cells bring, where the kind can learn it. The numbers of cells known before stay."""
        return fitted

    def missing(self, column: str, table: Table, fitted: Any) -> np.ndarray:
        """Which cells hold nothing, (N,)."""
        return table.missing(column)

    def new(self, column: str, table: Table, fitted: Any, *, strict: bool) -> np.ndarray:
        """Which cells hold a value that `fitted` does not know, and can be used all the same, (N,). `strict` where they are
        stored: what may be a typing error is then left to `read`, which complains."""
        return np.zeros(len(table), bool)

    def knows(self, cells: Sequence[Any], fitted: Any) -> np.ndarray:
        """Which of the stored cells, none of them missing, `fitted` knows, (N,)."""
        return np.ones(len(cells), bool)

    def typical(self, fitted: Any) -> np.ndarray:
        """The numbers of an average unit, which stand for cells that are missing or new, (W,)."""
        return np.zeros(len(self.labels("", fitted)))

    @abc.abstractmethod
    def read(self, column: str, table: Table, fitted: Any, complaints: Complaints) -> list[Any]:
        """The cells as they are stored, of a kind that JSON can hold. Bad cells are complained about; theirs mean nothing."""

    @abc.abstractmethod
    def encode(self, cells: Sequence[Any], fitted: Any) -> np.ndarray:
        """Stored cells as the engine's numbers, (N, W). An error of Python's own where a cell or `fitted` cannot be that."""

    def labels(self, column: str, fitted: Any) -> list[str]:
        """What each of the W numbers stands for."""
        return [column]

    def groups(self, cells: Sequence[Any]) -> Any:
        """For each stored cell the name of the group that a table for people counts it in, (N,)."""
        return np.array(cells, dtype=object)

    # Rules that name values of the column, where these have names.

    def problem_of_values(self, column: str, values: Sequence[str], fitted: Any = None) -> str | None:
        """Why a rule cannot name these values, before the first table or with what was fitted to it; None where it can."""
        return None

    def holds(self, cells: Sequence[Any], values: Sequence[str]) -> np.ndarray:
        """Which of the stored cells are one of these values, (N,)."""
        return np.array([cell in values for cell in cells], bool)

    # What a person should look at, each a sentence.

    def unvarying(self, column: str, tables: Sequence[Table]) -> str | None:
        """The column is the same in all of the first tables."""
        return None

    def far(self, column: str, fitted: Any, table: Table) -> str | None:
        """The cells of a table are unlike those of the first one."""
        return None

    def unseen(self, column: str, first: Table, later: Table) -> str | None:
        """Cells of a table that the campaign would not know had it begun with the first one alone."""
        return None

    def unused(self, column: str, fitted: Any, values: Sequence[str]) -> str | None:
        """A rule names values that no unit has."""
        return None


def register(kind: type[Column]) -> type[Column]:
    """Make a kind of column known by its name. Those that come later are asked earlier when `cobed init` looks at a table."""
    return _KINDS.add(kind.name, kind)


def kinds() -> tuple[type[Column], ...]:
    """All registered kinds, the last registered first: special kinds come later and are to be asked earlier."""
    return tuple(_KINDS)[::-1]


def kind_named(name: str) -> type[Column]:
    """The kind of this name; `SpecError` where there is none."""
    return _KINDS.named(name)


def read_column(value: Any) -> Column:
    """A column as a spec describes it: by its kind alone, or by a table with the kind as `type`."""
    match value:
        case Column():
            return value
        case dict():
            # A spec that was stored as JSON has a null for each setting that was left out.
            settings = {key: setting for key, setting in value.items() if setting is not None}
        case list():
            raise ValueError(
                "a list is not allowed. Give the kind of the column in quotes; the names that a categorical column may hold are "
                'its levels, { type = "categorical", levels = ["...", "..."] }'
            )
        case _:
            settings = {"type": value}
    names, word = [kind.name for kind in kinds()], settings.get("type")
    if word not in names:
        problem = (
            "its type is missing." if word is None else f"{shown(word)} is not allowed.{nearest(str(word), names)}"
        )
        allowed = ", ".join(f"{kind.name} ({kind.describes})" for kind in kinds())
        raise ValueError(f"{problem} Allowed types of a column: {allowed}")
    kind = kind_named(str(word))
    valid = list(kind.model_fields)
    for key in settings:
        if key not in valid:
            raise ValueError(
                f"a {kind.name} column has no {key!r}.{nearest(str(key), valid)} Allowed here: {', '.join(valid)}"
            )
    return kind.model_validate(settings)
