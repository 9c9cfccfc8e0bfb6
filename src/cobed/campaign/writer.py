"""The end of a long design: stored whole, whatever people and servers did meanwhile."""

import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from cobed.campaign import records as kept
from cobed.campaign import unsaved
from cobed.campaign.encoding import Encoding
from cobed.campaign.observe import stored_encoding
from cobed.campaign.records import Assignment, Round
from cobed.campaign.selection import Selection
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.store import Store
from cobed.errors import CampaignError, StorageError

# The assignments of a finished design under other pins, rejections and outcomes.
Assign = Callable[[dict[str, Assignment], set[str]], list[Assignment]]


@dataclasses.dataclass
class RoundWriter:
    """Stores a round once it is designed. `chosen` is what was in the store when the design began.

    Nothing that came meanwhile is lost. Another round there: the design is refused. Pins, rejections or outcomes in this
    round: they stay, the others are assigned around them, and with new pins the next `recommend` designs the round anew.
    """

    store: Store
    spec: CampaignSpec
    folder: Path
    chosen: Selection
    encoding: Encoding
    units_hash: str
    seed: int
    known: tuple[int, int]  # `outcomes_mark` when the design began

    @property
    def _designed_from(self) -> dict[str, Any]:
        rounds = [(r.id, r.version, r.revision) for r in self.chosen.rounds]
        return {"store": self.store.label, "units": self.units_hash, "rounds": rounds, "outcomes": self.known}

    def unsaved(self) -> tuple[list[Assignment], dict[str, Any]] | None:
        """The same design where it was finished before and could not be stored."""
        return unsaved.find(self.folder, self._designed_from)

    def write(self, rows: list[Assignment], summary: dict[str, Any], assign: Assign | None) -> list[Assignment]:
        """Store the round and return it as stored; with `assign` in a form that respects what came meanwhile."""
        made = Round(self.chosen.number, kept.now(), self.units_hash, self.seed, self.chosen.version, summary)
        seen = self.chosen.rounds[-1].revision if self.chosen.states else None
        try:
            while True:
                stored = self.store.write(partial(self._try, made, rows, seen))
                if stored is None:
                    unsaved.forget(self.folder)
                    return rows
                # Somebody was faster: what they changed is read, and the rest is assigned around it.
                seen, states, done = stored
                if assign is None:
                    raise CampaignError("The round was changed meanwhile. Give the same command again.")
                rows = assign(states, done)
                if _wishes(states) != _wishes(self.chosen.states):
                    made = made._replace(summary={**summary, "stale": True})
        except StorageError as error:
            path = unsaved.keep(self.folder, self._designed_from, rows, summary)
            raise StorageError(
                f"{error} The finished design is kept in {path}: the same command stores it once the database answers."
            ) from error

    def _try(
        self, made: Round, rows: list[Assignment], seen: int | None, connection: Any
    ) -> tuple[int, dict[str, Assignment], set[str]] | None:
        """Write the round; or return its revision, assignments and done units where it was changed since `seen`."""
        now = [r for r in kept.read_rounds(connection) if r.id > 0]
        if now and now[-1][:5] == made[:5]:
            return None  # by an attempt whose connection broke at its end
        if [r[:5] for r in now] != [r[:5] for r in self.chosen.rounds]:
            raise CampaignError(
                f"Another process wrote a round to {self.store.label} meanwhile. Look at it with `cobed status`, "
                "and design again if you still want to."
            )
        if seen is not None and now[-1].revision != seen:
            planned = list(kept.read_planned(connection, kept.in_round(made.id)))
            done = {entry.row.unit for entry in planned if entry.outcome is not None}
            return now[-1].revision, {entry.row.unit: entry.row for entry in planned}, done
        stored = stored_encoding(connection, self.spec)
        contexts = {name: [row.context[name] for row in rows] for name in self.spec.context}
        grown = (stored or self.encoding).learning(self.spec, contexts)
        if grown != stored:
            kept.write_meta(connection, "encoding", grown.to_json())
        kept.write_round(connection, made, rows)
        return None


def _wishes(states: dict[str, Assignment]) -> dict[str, Any]:
    """What the user decided about each unit."""
    return {
        unit: (row.rejected, row.action if row.state == "pinned" else None)
        for unit, row in states.items()
        if row.state == "pinned" or row.rejected
    }
