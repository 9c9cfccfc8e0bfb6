"""Parts by name: one `Registry` for each kind of part, which other packages can add to.

A package adds a part by calling `register` of its kind, and is imported by itself where it names its module as an entry point:

    [project.entry-points."cobed.outcomes"]
    exponential = "waiting_times.exponential"
"""

from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from cobed.errors import CobedError

Part = TypeVar("Part")


class Registry(Generic[Part]):
    """The parts of one kind, in the order in which they were added. `kind` is what messages call one of them, `group` the name
    of the entry points by which other packages offer theirs; `error` is raised for names that are unknown or taken."""

    def __init__(self, kind: str, group: str, error: type[CobedError]):
        self.kind, self.group, self.error = kind, group, error
        self._parts: dict[str, Part] = {}
        self._complete = False

    def add(self, name: str, part: Part) -> Part:
        """Make the part known by a name that no other has."""
        if not name or name in self._parts:
            raise self.error(
                f"Each {self.kind} needs a name of its own; got {name!r}, and these are taken: {', '.join(self._parts)}."
            )
        self._parts[name] = part
        return part

    def named(self, name: str) -> Part:
        """The part of this name; an error that lists all names where there is none."""
        self._load()
        if name not in self._parts:
            raise self.error(f"There is no {self.kind} {name!r}. Allowed: {', '.join(self._parts)}.")
        return self._parts[name]

    def items(self) -> dict[str, Part]:
        """All parts by name, those of other packages last."""
        self._load()
        return dict(self._parts)

    def __iter__(self) -> Iterator[Part]:
        return iter(self.items().values())

    def _load(self) -> None:
        """Import the modules that other packages offer, once, when a part is first asked for."""
        if self._complete:
            return
        # Set before the imports, because a module may look up parts while it adds its own.
        self._complete = True
        for entry in entry_points(group=self.group):
            try:
                entry.load()
            except Exception as problem:
                self._complete = False
                package = entry.dist.name if entry.dist is not None else "a package"
                raise self.error(
                    f"{package} offers the {self.kind} {entry.name!r} in {entry.value!r}, which cannot be imported "
                    f"({type(problem).__name__}: {problem}). Repair that package or uninstall it."
                ) from problem
