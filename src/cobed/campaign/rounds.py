"""One round: what is known goes in, an assignment that satisfies every constraint comes out."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.budget import Budget
from cobed.campaign.constraints import Forbids, repair_numbers, repair_options, round_rule
from cobed.campaign.encoding import action_vectors, action_words
from cobed.campaign.engine import Batch, candidate_actions, design_batch
from cobed.campaign.records import Assignment
from cobed.campaign.spec import CampaignSpec
from cobed.decide import mean_rewards
from cobed.inference.base import Posterior
from cobed.models.base import AbstractModel
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
) -> tuple[list[Assignment], dict[str, Any]]:
    """Assignments of all units, and a summary as JSON can hold it. Fixed units keep their actions."""
    fixed, waiting = units.is_fixed, ~units.is_done
    actions = np.zeros((len(units.rows), model.action_space.dim), np.float32)
    if fixed.any():
        actions[fixed] = action_vectors(
            spec, [row.action for row, keep in zip(units.rows, fixed, strict=True) if keep]
        )  # fmt: skip
    # Constraints that cannot be satisfied are told before the work, not after it.
    _repaired(
        spec, model, posterior, units, np.where(fixed[:, None], actions, candidate_actions(model.action_space)[-1])
    )
    summary: dict[str, Any] = {"posterior": posterior.method, "score": None, "warnings": [*posterior.warnings]}
    if not fixed.all():
        # What done units taught is in the posterior already.
        batch = Batch(units.contexts[waiting], fixed[waiting], actions[waiting], units.forbids)
        rule = round_rule(spec, _forbidden(spec, units), actions, fixed, waiting)
        result = design_batch(spec, model, posterior, batch, targets, seed, budget, progress, rule)
        designed = np.zeros_like(actions)
        designed[waiting] = result.actions
        actions = np.where(fixed[:, None], actions, designed)
        summary["warnings"] += result.warnings
        summary["score"] = None if result.score is None else list(result.score)
        summary["method"], summary["reason"], summary["stop_reason"] = result.method, result.reason, result.stop_reason
    words = action_words(spec, _repaired(spec, model, posterior, units, actions))
    planned = [
        # What was fixed keeps the user's own digits.
        row if keep else row._replace(action=word)
        for row, word, keep in zip(units.rows, words, fixed, strict=True)
    ]
    return planned, summary


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
