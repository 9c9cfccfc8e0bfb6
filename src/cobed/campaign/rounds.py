"""One round: what is known goes in, an assignment that satisfies every constraint comes out.

Units of other rounds that wait for their outcomes are part of the design as fixed rows: what they will tell need not be
learned a second time. They are not counted in rules over the round.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.budget import Budget
from cobed.campaign.constraints import Forbids, RoundRule, repair_numbers, repair_options, round_rule
from cobed.campaign.encoding import action_vectors, action_words
from cobed.campaign.engine import Batch, candidate_actions, design_batch
from cobed.campaign.records import Assignment
from cobed.campaign.selection import Field
from cobed.campaign.spec import CampaignSpec
from cobed.decide import mean_rewards
from cobed.inference.base import Posterior
from cobed.models.base import AbstractModel
from cobed.policies import CostLimit
from cobed.progress import Reporter

# Enough to rank options by where the constraints force a change.
REPAIR_DRAWS = 64


@dataclasses.dataclass(frozen=True)
class RoundUnits:
    """The units of a round in the user's order. Those in `done` have an outcome; contexts are encoded."""

    rows: list[Assignment]
    done: set[str]
    contexts: np.ndarray
    forbids: Forbids | None
    field: Field | None = None

    @property
    def is_done(self) -> np.ndarray:
        return np.array([row.unit in self.done for row in self.rows], bool)

    @property
    def is_fixed(self) -> np.ndarray:
        """Whose action is decided: by the user, or because it was done."""
        return self.is_done | np.array([row.state == "pinned" for row in self.rows], bool)


def design_round(
    spec: CampaignSpec,
    model: AbstractModel,
    posterior: Posterior,
    units: RoundUnits,
    targets: np.ndarray,
    seed: int,
    budget: str | Budget | None = None,
    progress: Reporter | None = None,
) -> tuple[np.ndarray, dict[str, Any]]:
    """The actions of all units (D, A), which `assign` takes to the constraints, and a summary as JSON can hold it."""
    fixed, waiting = units.is_fixed, ~units.is_done
    actions = _fixed_actions(spec, model, units)
    # Constraints that cannot be satisfied are told before the work, not after it.
    _repaired(
        spec, model, posterior, units, np.where(fixed[:, None], actions, candidate_actions(model.action_space)[-1])
    )
    summary: dict[str, Any] = {"posterior": posterior.method, "score": None, "warnings": [*posterior.warnings]}
    if not fixed.all():
        # What done units taught is in the posterior already.
        batch = Batch(units.contexts[waiting], fixed[waiting], actions[waiting], units.forbids)
        rule = round_rule(spec, _forbidden(spec, units), actions, fixed, waiting)
        if units.field is not None:
            summary["field"] = len(units.field)
            summary["warnings"] += [units.field.warning] if units.field.warning else []
        if units.field is not None and len(units.field):
            batch, rule = _with_field(batch, units.field), _beside_field(rule, units.field)
        result = design_batch(spec, model, posterior, batch, targets, seed, budget, progress, rule)
        designed = np.zeros_like(actions)
        designed[waiting] = result.actions[: waiting.sum()]
        actions = np.where(fixed[:, None], actions, designed)
        summary["warnings"] += result.warnings
        summary["score"] = None if result.score is None else list(result.score)
        summary["method"], summary["reason"], summary["stop_reason"] = result.method, result.reason, result.stop_reason
    return actions, summary


def assign(
    spec: CampaignSpec, model: AbstractModel, posterior: Posterior, units: RoundUnits, actions: np.ndarray
) -> list[Assignment]:
    """Each unit with its action. Fixed units keep theirs; every constraint and rejection is satisfied exactly."""
    fixed = units.is_fixed
    actions = np.where(fixed[:, None], _fixed_actions(spec, model, units), actions)
    words = action_words(spec, _repaired(spec, model, posterior, units, actions))
    return [
        # What was fixed keeps the user's own digits.
        row if keep else row._replace(action=word)
        for row, word, keep in zip(units.rows, words, fixed, strict=True)
    ]


def _fixed_actions(spec: CampaignSpec, model: AbstractModel, units: RoundUnits) -> np.ndarray:
    """The actions of fixed units, zeros for the others, (D, A)."""
    fixed = units.is_fixed
    actions = np.zeros((len(units.rows), model.action_space.dim), np.float32)
    if fixed.any():
        decided = [row.action for row, keep in zip(units.rows, fixed, strict=True) if keep]
        actions[fixed] = action_vectors(spec, decided)
    return actions


def _with_field(batch: Batch, field: Field) -> Batch:
    """The batch with the units in the field after its own, as decided ones."""
    return Batch(
        np.concatenate([batch.contexts, field.contexts]),
        np.concatenate([batch.pinned, np.ones(len(field), bool)]),
        np.concatenate([batch.actions, field.actions]),
        batch.forbids,
    )


def _beside_field(rule: RoundRule | CostLimit | None, field: Field) -> "FieldRule | CostLimit | None":
    """The rule for a batch that has the units in the field after its own."""
    if isinstance(rule, CostLimit):
        free = jnp.zeros_like(jnp.asarray(field.actions))
        padded = [jnp.concatenate([part, free]) for part in (rule.costs, rule.cheapest)]
        return eqx.tree_at(lambda limit: (limit.costs, limit.cheapest), rule, tuple(padded))
    return None if rule is None else FieldRule(rule, np.argmax(field.actions, axis=1))


class FieldRule:
    """A rule over the first units of a batch; those after them are in the field, with `options` (N,) as they are."""

    def __init__(self, rule: RoundRule, options: np.ndarray):
        self.rule, self.options = rule, options

    def __call__(self, gains: np.ndarray, current: np.ndarray | None = None, num_changes: int = 0) -> np.ndarray:
        own = slice(0, len(gains) - len(self.options))
        chosen = self.rule(gains[own], None if current is None else current[own], num_changes)
        return np.concatenate([chosen, self.options])


def _repaired(
    spec: CampaignSpec, model: AbstractModel, posterior: Posterior, units: RoundUnits, actions: np.ndarray
) -> np.ndarray:
    """The design with every constraint and rejection satisfied exactly."""
    fixed = units.is_fixed
    if spec.action.options is None:
        return repair_numbers(spec, actions.astype(np.float64), ~fixed)
    draws = posterior.equal_draws(REPAIR_DRAWS, jr.key(spec.seed))
    candidates = jnp.asarray(candidate_actions(model.action_space))
    rewards = np.asarray(mean_rewards(model, draws, jnp.asarray(units.contexts), candidates)).mean(axis=2)
    wanted = np.argmax(actions, axis=1)
    names = [row.unit for row in units.rows]
    chosen = repair_options(spec, wanted, rewards, _forbidden(spec, units), np.where(fixed, wanted, -1), names)
    return np.eye(len(spec.action.options), dtype=np.float32)[chosen]


def _forbidden(spec: CampaignSpec, units: RoundUnits) -> np.ndarray:
    """Which options which units must not get, by their context or because the user rejected them, (D, J)."""
    options = list(spec.action.options or ())
    forbidden = np.zeros((len(units.rows), len(options)), bool)
    if units.forbids is not None:
        forbidden |= units.forbids.at(units.contexts)
    for place, row in enumerate(units.rows):
        for action in row.rejected:
            forbidden[place, options.index(action)] = True
    return forbidden
