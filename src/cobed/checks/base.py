"""What a check of an experiment says: a verdict, what was seen in the user's own units, and what to do. One check per file.

A check is a function of the `Evidence`. Where that is not enough to tell, its verdict is "open", with what is needed.
"""

import abc
import dataclasses
import json
from typing import TYPE_CHECKING, Any, ClassVar

from cobed.checks.evidence import Evidence
from cobed.errors import ModelError
from cobed.registry import Registry

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

# fine: nothing to do. look: somebody should understand it before decisions rest on it. stop: it spoils what rests on it.
# open: it could not be checked.
VERDICTS = ("fine", "look", "stop", "open")

_CHECKS: "Registry[AbstractCheck]" = Registry("check", "cobed.checks", ModelError)


@dataclasses.dataclass(frozen=True)
class Check:
    """What one check says. `verdict` is "fine", "look", "stop", or "open" where it could not be checked."""

    name: str
    verdict: str
    sentence: str
    advice: str
    table: "pd.DataFrame | None" = None
    figure: "go.Figure | None" = None

    def __post_init__(self):
        if self.verdict not in VERDICTS:
            raise ModelError(f"A verdict is one of {', '.join(VERDICTS)}; got {self.verdict!r}.")

    def to_json(self) -> dict[str, Any]:
        """As JSON can hold it, without the figure."""
        rows = [] if self.table is None else json.loads(str(self.table.to_json(orient="records")))
        return {name: getattr(self, name) for name in ("name", "verdict", "sentence", "advice")} | {"table": rows}


class AbstractCheck(abc.ABC):
    """One thing that can be wrong with an experiment, or with what was concluded from it."""

    name: ClassVar[str]
    asks: ClassVar[str]  # the question it answers, for people

    @abc.abstractmethod
    def __call__(self, evidence: Evidence) -> Check:
        """Pure: the same evidence, the same answer."""

    def says(
        self,
        verdict: str,
        sentence: str,
        advice: str,
        table: "pd.DataFrame | None" = None,
        figure: "go.Figure | None" = None,
    ) -> Check:
        """The answer under the name of this check."""
        return Check(self.name, verdict, sentence, advice, table, figure)


def register(check: AbstractCheck) -> AbstractCheck:
    """Make a check known by its name; it comes after those that were registered before."""
    return _CHECKS.add(check.name, check)


def checks() -> tuple[AbstractCheck, ...]:
    """All registered checks in their order."""
    return tuple(_CHECKS)


def run_checks(evidence: Evidence) -> list[Check]:
    """What every registered check says."""
    return [check(evidence) for check in checks()]
