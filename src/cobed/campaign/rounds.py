"""One round: what is known goes in, an assignment that satisfies every constraint comes out.

Units of other rounds that wait for their outcomes are part of the design as fixed rows: what they will tell need not be
learned a second time. They are not counted in rules over the round.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.allowed import Allowed, Feasible
from cobed.budget import Budget
from cobed.campaign.chance import NOTHING_DRAWN, Drawn, Room, draw, lost_sentences, share_of
from cobed.campaign.constraints import check_each, limits_of
from cobed.campaign.engine import Batch, allowed_batches, candidate_actions, design_batch
from cobed.campaign.records import Assignment
from cobed.campaign.selection import Field
from cobed.campaign.spec import CampaignSpec
from cobed.decide import mean_rewards
from cobed.errors import CampaignError
from cobed.inference.base import Posterior
from cobed.models.base import AbstractModel
from cobed.progress import Reporter

# Enough to rank options by where a rule forces a change.
TIE_DRAWS = 64


class Targets(NamedTuple):
    """Encoded contexts of the targets, and which options each may get (None: all may get all)."""

    contexts: np.ndarray
    permitted: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class RoundUnits:
    """The units of a round in the user's order. Those in `done` have an outcome; contexts are encoded."""

    rows: list[Assignment]
    done: set[str]
    contexts: np.ndarray
    by_context: np.ndarray | None  # the options that contexts leave to each unit; None where they leave all
    targets: Targets
    field: Field | None = None

    @property
    def is_done(self) -> np.ndarray:
        return np.array([row.unit in self.done for row in self.rows], bool)

    @property
    def is_fixed(self) -> np.ndarray:
        """Whose action is decided: by the user, or because it was done."""
        return self.is_done | np.array([row.state == "pinned" for row in self.rows], bool)

    def permitted(self, options: Sequence[str] | None) -> np.ndarray | None:
        """The options that each unit may get, by its context and what the user rejected; None where all may get all."""
        rejected = [(row, list(options or ()).index(o)) for row, unit in enumerate(self.rows) for o in unit.rejected]
        if self.by_context is None and not rejected:
            return None
        mask = (
            np.ones((len(self.rows), len(options or ())), bool) if self.by_context is None else self.by_context.copy()
        )
        for row, option in rejected:
            mask[row, option] = False
        check_each(
            mask[~self.is_fixed], [row.unit for row, keep in zip(self.rows, self.is_fixed, strict=True) if not keep]
        )
        mask[self.is_fixed] = True
        return mask


@dataclasses.dataclass(frozen=True)
class RoundDesign:
    """All that a round is designed from: the spec, the model and what is known about its psi, the units, and for how long."""

    spec: CampaignSpec
    model: AbstractModel
    posterior: Posterior
    units: RoundUnits
    seed: int
    budget: str | Budget | None = None
    progress: Reporter | None = None
    drawn: Drawn = NOTHING_DRAWN

    def with_chance(self) -> "RoundDesign":
        """The same with actions by chance for the share of the units that the spec says; the others are designed around them."""
        if share_of(self.spec) == 0:
            return self
        units, fixed = self.units, self.units.is_fixed
        num_actions, given = self.spec.action.space.dim, self._fixed_actions()
        # Rules that cannot be satisfied are told before anything is drawn.
        self._feasible(given)
        mask = units.permitted(self.spec.action.options)
        mask = np.ones((len(units.rows), num_actions), bool) if mask is None else mask
        names = [row.unit for row in units.rows]
        # Whoever refused an action of a unit has steered it.
        free = ~fixed & np.array([not row.rejected for row in units.rows], bool)
        room = Room(self.spec, mask, limits_of(self.spec, len(names)), np.where(fixed[:, None], given, np.nan))
        return dataclasses.replace(self, drawn=draw(self.spec, names, free, mask, room, self.seed))

    def design(self) -> tuple[np.ndarray, dict[str, Any]]:
        """The actions of all units (D, A), and a summary as JSON can hold it."""
        units, fixed, waiting, actions = self.units, self._is_decided, ~self.units.is_done, self._fixed_actions()
        # Rules that cannot be satisfied are told before the work, not after it.
        self._feasible(actions)
        warnings = [*self.posterior.warnings]
        summary: dict[str, Any] = {"posterior": self.posterior.method, "score": None, "warnings": warnings}
        if share_of(self.spec) > 0:
            summary["by_chance"] = int(self._is_drawn.sum())
            warnings += lost_sentences(self.drawn)
        if not fixed.all():
            # What done units taught is in the posterior already.
            if units.field is not None:
                summary["field"] = len(units.field)
                warnings += [units.field.warning] if units.field.warning else []
            batch = self._batch(actions, waiting)
            result = design_batch(
                self.spec, self.model, self.posterior, batch, self.seed, self.budget, self.progress
            )  # fmt: skip
            designed = np.zeros_like(actions)
            designed[waiting] = result.actions[: waiting.sum()]
            actions = np.where(fixed[:, None], actions, designed)
            warnings += result.warnings
            summary["score"] = None if result.score is None else list(result.score)
            summary |= {name: getattr(result, name) for name in ("method", "reason", "stop_reason")}
        return actions, summary

    def assign(self, actions: np.ndarray) -> list[Assignment]:
        """Each unit with its action. Fixed units keep theirs; every constraint and rejection is satisfied exactly."""
        fixed, drawn = self.units.is_fixed, self._is_drawn
        actions = np.where(self._is_decided[:, None], self._fixed_actions(), actions)
        try:
            feasible, rewards = self._feasible(actions), None
        except CampaignError:
            if not drawn.any():
                raise
            # What was decided meanwhile leaves no room for the draws.
            return dataclasses.replace(self, drawn=NOTHING_DRAWN).assign(actions)
        if self.spec.action.options is not None and feasible.binds:
            # Of assignments that are equally near, the one of the largest expected reward.
            draws = self.posterior.equal_draws(TIE_DRAWS, jr.key(self.spec.seed))
            candidates = jnp.asarray(candidate_actions(self.model.action_space))
            contexts = jnp.asarray(self.units.contexts)
            rewards = np.asarray(mean_rewards(self.model, draws, contexts, candidates)).mean(axis=2)
        words = self.spec.action.words(feasible.nearest(actions, rewards))
        return [
            # What was fixed keeps the user's own digits.
            row if keep else row._replace(action=word, chance=self.drawn.units[row.unit][1] if by_chance else None)
            for row, word, keep, by_chance in zip(self.units.rows, words, fixed, drawn, strict=True)
        ]

    @property
    def _is_drawn(self) -> np.ndarray:
        """Whose action chance decided, and nobody since."""
        drawn = [row.unit in self.drawn.units and not row.rejected for row in self.units.rows]
        return ~self.units.is_fixed & np.array(drawn, bool)

    @property
    def _is_decided(self) -> np.ndarray:
        return self.units.is_fixed | self._is_drawn

    def _fixed_actions(self) -> np.ndarray:
        """The actions of decided units, zeros for the others, (D, A)."""
        decided, drawn = self._is_decided, self._is_drawn
        rows = zip(self.units.rows, decided, drawn, strict=True)
        given = [self.drawn.units[row.unit][0] if by_chance else row.action for row, keep, by_chance in rows if keep]
        actions = np.zeros((len(decided), self.spec.action.space.dim), np.float32)
        actions[decided] = self.spec.action.space.parse_all(given)
        return actions

    def _batch(self, actions: np.ndarray, waiting: np.ndarray) -> Batch:
        """The `waiting` units (D,), then those in the field, and what they may get. `actions` (D, A) holds those of fixed ones."""
        units, mask = self.units, self.units.permitted(self.spec.action.options)
        fixed = np.where(self._is_decided[:, None], actions, np.nan)[waiting]
        contexts, num_field = units.contexts[waiting], 0 if units.field is None else len(units.field)
        if units.field is not None and num_field:
            contexts = np.concatenate([contexts, units.field.contexts])
            fixed = np.concatenate([fixed, units.field.actions])
        if mask is not None:
            mask = np.concatenate([mask[waiting], np.ones((num_field, mask.shape[1]), bool)])
        # Done units count, those in the field do not.
        limits = limits_of(self.spec, len(units.rows))
        rules = [limit.beside(actions[~waiting], int(waiting.sum()), num_field) for limit in limits]
        allowed = Allowed(units=mask, targets=units.targets.permitted, fixed=fixed, rules=rules)
        return Batch(contexts, units.targets.contexts, allowed)

    def _feasible(self, actions: np.ndarray) -> Feasible:
        """The assignments of the whole round that are allowed, done units included; fixed ones have their `actions` (D, A)."""
        units, num_units = self.units, len(self.units.rows)
        fixed = np.where(self._is_decided[:, None], actions, np.nan)
        mask, limits = units.permitted(self.spec.action.options), limits_of(self.spec, num_units)
        return allowed_batches(self.model.action_space, num_units, Allowed(units=mask, fixed=fixed, rules=limits))
