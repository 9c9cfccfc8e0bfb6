"""How many units an experiment needs: the expected regret of the policy after it, designed and with actions at random.

In each of many worlds drawn from what is known now, the experiment is run, its outcomes update the model, and the action
of the largest expected outcome is deployed. What the policy then earns less than the best one, on average over worlds and
targets, is the expected regret. Both designs meet the same units, worlds and noise.
"""

import dataclasses
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.allowed import Allowed
from cobed.budget import Budget, find_budget
from cobed.campaign.campaign import Campaign
from cobed.campaign.constraints import check_levels, limits_of, permitted, permitted_at
from cobed.campaign.encoding import Encoding, encode_contexts, fit_encoding, grow_encoding, pick_targets
from cobed.campaign.engine import (
    Batch,
    allowed_batches,
    build_model,
    candidate_actions,
    design_batch,
    posterior_of,
)
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.tables import Table
from cobed.compilation import lean_jit
from cobed.data import Data
from cobed.decide import mean_rewards
from cobed.designers.baselines import RandomUniform
from cobed.errors import CampaignError, CobedError
from cobed.identity import joined, parts_of
from cobed.inference import choose_sampler
from cobed.inference.base import AbstractSampler, Posterior
from cobed.metrics import Score, evaluate, paired_difference
from cobed.models.base import AbstractModel
from cobed.problem import choices_at
from cobed.progress import Progress, Reporter, within
from cobed.storage import write_output

# Sizes by default: the number of rows and so many halvings of it, none below the smallest.
NUM_HALVINGS, SMALLEST = 4, 4
# Larger experiments are hours of designing; regret there can be read off the slope.
MAX_UNITS = 1_000
# Random assignment is the average of so many of them.
NUM_RANDOM = 3
NUM_WORLDS = 500
# Compiling for another size takes about as long as so many units.
COMPILING = 200
# Draws of a world's posterior to decide by, and of what is known now.
WORLD_DRAWS, NOW_DRAWS = 128, 2_048
# Starts of a design: fewer than in a round, where one unit more or less matters.
NUM_STARTS = 2


@dataclasses.dataclass(frozen=True)
class Known:
    """Where an experiment starts from: the spec, its model, what is known of psi, the outcomes that this rests on."""

    spec: CampaignSpec
    encoding: Encoding
    model: AbstractModel
    posterior: Posterior
    data: Data | None


@dataclasses.dataclass(frozen=True)
class Size:
    """Expected regret after an experiment on so many units, and the difference designed - random, each with its error."""

    units: int
    designed: tuple[float, float]
    random: tuple[float, float]
    difference: tuple[float, float]
    warnings: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Plan:
    """Expected regret by the number of units. `now` is that of the best policy without an experiment."""

    now: tuple[float, float]
    sizes: tuple[Size, ...]
    num_worlds: int
    notes: tuple[str, ...] = ()

    @property
    def warnings(self) -> list[str]:
        return list(dict.fromkeys([*self.notes, *(warning for size in self.sizes for warning in size.warnings)]))

    def random_needs(self, size: Size) -> float:
        """How many units random assignment needs for the designed regret of this size; infinite beyond the largest.

        Between the sizes of the plan regret is taken to fall linearly with log(1 + units).
        """
        units = np.log1p([0, *(s.units for s in self.sizes)])
        # Regret falls with more units; what noise makes rise is held level.
        regrets = np.minimum.accumulate([self.now[0], *(s.random[0] for s in self.sizes)])
        if size.designed[0] < regrets[-1]:
            return float("inf")
        return float(np.expm1(np.interp(-size.designed[0], -regrets, units)))

    def sentences(self) -> list[str]:
        """What each size saves, in words; where noise hides it, that."""
        lines = []
        for size in self.sizes:
            mean, error = size.difference
            if abs(mean) < 2 * error:
                lines.append(f"{size.units:,} units: no difference beyond the noise of {self.num_worlds:,} worlds.")
                continue
            needs = self.random_needs(size)
            wanted = f"more than {self.sizes[-1].units:,}" if np.isinf(needs) else f"about {needs:,.0f}"
            lines.append(f"CO-BED with {size.units:,} units reaches what random assignment needs {wanted} for.")
        return lines


def start_from(spec: CampaignSpec, campaign: Campaign | None, tables: list[Table], directory: Path | None) -> Known:
    """What is known now: all outcomes of the campaign, or the prior of the spec where there is none or it has no table yet."""
    stored = None if campaign is None else campaign.encoding()
    if campaign is not None and stored is not None:
        encoding = grow_encoding(spec, stored, tables)
        model, posterior = campaign.posterior(encoding)
        if model.unknown_scales() is not None:
            return _from_belief(spec, encoding, model.given(posterior))
        # A Gaussian process holds the outcomes itself.
        data = campaign.data(encoding) if model.process() is None else None
        return Known(spec, encoding, model, posterior, data)
    encoding = fit_encoding(spec, tables)
    model = build_model(spec, encoding, directory)
    if model.unknown_scales() is not None:
        return _from_belief(spec, encoding, model)
    return Known(spec, encoding, model, posterior_of(model, None, spec.seed), None)


def _from_belief(spec: CampaignSpec, encoding: Encoding, model: AbstractModel) -> Known:
    """The Gaussian that stands for what is known, before the next experiment: it holds the outcomes so far."""
    matched = model.matched()
    return Known(spec, encoding, matched, posterior_of(matched, None, spec.seed), None)


@dataclasses.dataclass(frozen=True)
class PlanSettings:
    """Which experiments a plan compares, and how exactly. Seed and budget are by default those of the spec.

    With `kept`, each size is written to that file when it is done, and a call with the same arguments goes on from there.
    """

    sizes: Sequence[int] | None = None
    num_worlds: int = NUM_WORLDS
    seed: int | None = None
    budget: str | Budget | None = None
    kept: Path | None = None


def default_sizes(num_units: int) -> list[int]:
    """The number of rows and its halves, the smallest first."""
    ladder = {round(num_units / 2**step) for step in range(NUM_HALVINGS + 1)}
    return sorted(size for size in ladder if size >= min(SMALLEST, num_units))


def make_plan(
    known: Known,
    units: Table,
    targets: Table,
    settings: PlanSettings,
    progress: Reporter | None = None,
) -> Plan:
    """The plan for experiments on `units`, of which each size takes some at random, and a policy for `targets`."""
    spec, num_worlds, kept = known.spec, settings.num_worlds, settings.kept
    seed = spec.seed if settings.seed is None else settings.seed
    check_levels(spec, known.encoding)
    contexts, cells = encode_contexts(spec, known.encoding, units)
    target_contexts, target_cells = encode_contexts(spec, known.encoding, targets)
    may, deployable = permitted(spec, cells), permitted_at(spec, targets, target_cells)
    target_contexts, deployable = (
        pick_targets(spec, target_contexts),
        None if deployable is None else pick_targets(spec, deployable),
    )
    sizes = settings.sizes or default_sizes(min(len(contexts), spec.max_units, MAX_UNITS))
    most = min(len(contexts), spec.max_units)
    for size in sizes:
        if not 1 <= size <= most:
            raise CampaignError(
                f"A plan for {size:,} units needs as many rows of contexts, and a round of this spec takes at most "
                f"{spec.max_units:,}; {units.name} has {len(contexts):,} rows. Allowed: sizes from 1 to {most:,}."
            )
    if num_worlds < 2:
        raise CampaignError(f"A plan needs at least 2 worlds, to have a mean and its error; got {num_worlds}.")
    order = np.random.default_rng(seed).permutation(len(contexts))
    batches: dict[int, Batch] = {}
    notes: list[str] = []
    for size in sorted(set(sizes)):
        mask = None if may is None else may[order[:size]]
        allowed = Allowed(units=mask, targets=deployable, rules=limits_of(spec, size))
        try:
            allowed_batches(known.model.action_space, size, allowed)
            batches[size] = Batch(contexts[order[:size]], target_contexts, allowed)
        except CobedError as error:
            # The largest has the last word where no size is possible.
            if settings.sizes or (not batches and size == max(sizes)):
                raise
            notes.append(f"Left out {size:,} units. {error}")
    spent = find_budget(settings.budget or spec.design.budget)
    spent = spent if spent.num_starts else spent.replace(num_starts=NUM_STARTS)
    mark = _fingerprint(known, contexts[order], target_contexts, num_worlds, seed, spent)
    done = _read(kept, mark)
    left = sum(COMPILING + size for size in batches if size not in done)
    started, work = time.perf_counter(), 0
    for number, (size, batch) in enumerate(batches.items(), start=1):
        if size in done:
            continue
        stage = f"{size:,} units"
        pace = (time.perf_counter() - started) / work if work else float("nan")
        reporter = None if progress is None else within(stage, pace * left, _unfinished(progress))
        found = _one_size(known, batch, num_worlds, seed, spent, reporter)
        done[size] = found
        work, left = work + COMPILING + size, left - COMPILING - size
        _write(kept, mark, done)
        if progress is not None:
            pace = (time.perf_counter() - started) / work
            progress(Progress(stage, number, len(batches), found.designed[0], pace * left, "regret"))
    now = _regret_now(known, target_contexts, deployable, seed)
    return Plan(now, tuple(done[size] for size in batches), num_worlds, tuple(notes))


def _one_size(
    known: Known,
    batch: Batch,
    num_worlds: int,
    seed: int,
    budget: Budget,
    progress: Reporter | None,
) -> Size:
    problem, contexts = batch.problem(known.model), batch.contexts
    result = design_batch(known.spec, known.model, known.posterior, batch, seed, budget, progress)
    if result.interrupted:
        raise KeyboardInterrupt
    world_key, *keys = jr.split(jr.key(seed), 1 + NUM_RANDOM)
    designs = [result.actions, *(np.asarray(RandomUniform().allowed_actions(key, problem)) for key in keys)]
    sampler = choose_sampler(known.model, Data(contexts, designs[0], np.zeros(len(contexts))), WORLD_DRAWS)
    worlds = None
    if known.data is not None:
        sampler = Learning(sampler, known.data)
        worlds = known.model.given(known.posterior)
    scores = [
        evaluate(problem, actions, num_worlds, num_draws=WORLD_DRAWS, sampler=sampler, worlds=worlds, seed=world_key)
        for actions in designs
    ]
    designed = scores[0].regret
    random = Score(np.mean([score.regret.per_world for score in scores[1:]], axis=0))
    difference = paired_difference(designed, random)
    pairs = {
        name: (score.mean, score.standard_error)
        for name, score in (("designed", designed), ("random", random), ("difference", difference))
    }
    return Size(len(contexts), **pairs, warnings=tuple(warning for score in scores for warning in score.warnings))


class Learning(AbstractSampler):
    """Another sampler that learns from the outcomes there were before, too."""

    inner: AbstractSampler
    history: Data
    num_draws: int = eqx.field(static=True)

    def __init__(self, inner: AbstractSampler, history: Data):
        self.inner, self.history, self.num_draws = inner, history, inner.num_draws

    @property
    def name(self):
        return self.inner.name

    def unfit(self, model, data):
        return self.inner.unfit(model, self._all(data))

    def draw(self, key, model, data):
        return self.inner.draw(key, model, self._all(data))

    def judge(self, diagnostics):
        return self.inner.judge(diagnostics)

    def _all(self, data: Data) -> Data:
        return jax.tree.map(lambda old, new: jnp.concatenate([old, new]), self.history, data)


def _regret_now(known: Known, targets: np.ndarray, allowed: np.ndarray | None, seed: int) -> tuple[float, float]:
    """E[max_a reward] - max_a E[reward] with what is known now, and its standard error over draws."""
    draws = known.posterior.equal_draws(NOW_DRAWS, jr.key(seed))
    candidates = jnp.asarray(candidate_actions(known.model.action_space))
    choices = np.asarray(
        choices_at((jnp.asarray(targets), None if allowed is None else jnp.asarray(allowed)), candidates)
    )
    regrets = 0.0
    for rows in np.array_split(np.arange(len(targets)), -(-len(targets) // 10)):
        regrets = regrets + np.asarray(_regrets(known.model, draws, targets[rows], choices[rows]), np.float64)
    score = Score(np.asarray(regrets) / len(targets))
    return score.mean, score.standard_error


@lean_jit
def _regrets(model, draws, targets, choices):
    """What each draw loses by the best action on average, summed over the targets, (N,)."""
    rewards = jax.vmap(lambda target, actions: mean_rewards(model, draws, target[None], actions)[0])(targets, choices)
    chosen = jnp.argmax(jnp.mean(rewards, axis=2), axis=1)
    own = jnp.take_along_axis(rewards, chosen[:, None, None], axis=1)[:, 0]
    return jnp.sum(jnp.max(rewards, axis=1) - own, axis=0)


def _fingerprint(known: Known, *rest: Any) -> str:
    """What the numbers of a plan depend on: also the code of a program, which the spec only names."""
    data = known.data
    outcomes = None if data is None else (data.contexts, data.actions, data.outcomes)
    return joined(parts_of(spec=known.spec.stated(), model=known.model, outcomes=outcomes, rest=rest))


def _read(path: Path | None, mark: str) -> dict[int, Size]:
    """The sizes that a call with the same arguments has done; none where the file is of another plan."""
    try:
        document = json.loads(path.read_text()) if path is not None and path.exists() else {}
        if document.get("fingerprint") != mark:
            return {}
        pairs = ("designed", "random", "difference", "warnings")
        return {row["units"]: Size(row["units"], *(tuple(row[name]) for name in pairs)) for row in document["sizes"]}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _write(path: Path | None, mark: str, done: dict[int, Size]) -> None:
    if path is None:
        return
    rows = [dataclasses.asdict(done[size]) for size in sorted(done)]
    document = {"schema": 1, "fingerprint": mark, "sizes": rows}
    write_output(path, lambda file: file.write(json.dumps(document, indent=1).encode()))


def _unfinished(progress: Reporter) -> Reporter:
    """A reporter for the inner work of one size: the end of a design is not the end of the plan."""
    return lambda inner: progress(inner._replace(step=min(inner.step, inner.num_steps - 1)))
