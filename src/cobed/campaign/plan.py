"""How many units an experiment needs, in how many rounds, and whether designing it pays, before anything is spent.

What a policy earns less than the best one, on average over worlds drawn from what is known now and over targets, is the expected
regret. `worlds` has it for experiments of one size, `verdict` says what follows from all of them.
"""

import dataclasses
import itertools
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.allowed import Allowed
from cobed.budget import Budget, find_budget
from cobed.campaign.campaign import Campaign
from cobed.campaign.constraints import check_levels, limits_of, permitted, permitted_at
from cobed.campaign.encoding import Encoding, encode_contexts, fit_encoding, grow_encoding, pick_targets
from cobed.campaign.engine import Batch, allowed_batches, build_model, candidate_actions, posterior_of
from cobed.campaign.sections import MAX_ROUNDS
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.tables import Table
from cobed.campaign.verdict import Pair, Plan, Rounds, Size
from cobed.campaign.worlds import Known, Trial, try_size
from cobed.compilation import lean_jit
from cobed.decide import mean_rewards
from cobed.errors import CampaignError, CobedError
from cobed.identity import joined, parts_of
from cobed.metrics import Score
from cobed.models.base import AbstractModel
from cobed.problem import choices_at
from cobed.progress import Progress, Reporter, within
from cobed.spaces import AbstractSpace
from cobed.storage import write_output

# Sizes by default: the number of rows and so many halvings of it, none below the smallest.
NUM_HALVINGS, SMALLEST = 4, 4
# Larger experiments are hours of designing; regret there can be read off the slope.
MAX_UNITS = 1_000
NUM_WORLDS = 500
# Compiling for another size takes about as long as so many units.
COMPILING = 200
# Draws of what is known now.
NOW_DRAWS = 2_048
# Starts of a design: fewer than in a round, where one unit more or less matters.
NUM_STARTS = 2


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
    """Which experiments a plan compares, and how exactly. Seed and budget are by default those of the spec, and so are the
    numbers of rounds: from one to as many as there can be.

    With `kept`, each size is written to that file when it is done, and a call with the same arguments goes on from there.
    """

    sizes: Sequence[int] | None = None
    num_worlds: int = NUM_WORLDS
    seed: int | None = None
    budget: str | Budget | None = None
    kept: Path | None = None
    rounds: Sequence[int] | None = None


def default_sizes(num_units: int) -> list[int]:
    """The number of rows and its halves, the smallest first."""
    ladder = {round(num_units / 2**step) for step in range(NUM_HALVINGS + 1)}
    return sorted(size for size in ladder if size >= min(SMALLEST, num_units))


@dataclasses.dataclass(frozen=True)
class Rows:
    """The units in the order in which sizes take them, the targets, and which options both may get (None: all)."""

    spec: CampaignSpec
    space: AbstractSpace
    contexts: np.ndarray
    permitted: np.ndarray | None
    targets: np.ndarray
    deployable: np.ndarray | None

    @classmethod
    def read(cls, known: Known, units: Table, targets: Table, seed: int) -> "Rows":
        spec = known.spec
        check_levels(spec, known.encoding)
        contexts, cells = encode_contexts(spec, known.encoding, units)
        target_contexts, target_cells = encode_contexts(spec, known.encoding, targets)
        may, deployable = permitted(spec, cells), permitted_at(spec, targets, target_cells)
        order = np.random.default_rng(seed).permutation(len(contexts))
        return cls(
            spec,
            known.model.action_space,
            contexts[order],
            None if may is None else may[order],
            pick_targets(spec, target_contexts),
            None if deployable is None else pick_targets(spec, deployable),
        )

    def batch(self, part: slice) -> Batch:
        """A round of some of the units; an error where the rules allow none."""
        contexts = self.contexts[part]
        mask = None if self.permitted is None else self.permitted[part]
        allowed = Allowed(units=mask, targets=self.deployable, rules=limits_of(self.spec, len(contexts)))
        allowed_batches(self.space, len(contexts), allowed)
        return Batch(contexts, self.targets, allowed)

    def rounds(self, size: int, number: int) -> list[Batch]:
        """The first units in so many rounds. All but the first have the same size, so that one program designs them."""
        if number > size:
            raise CampaignError(f"{number} rounds need a unit each.")
        each = size // number
        ends = [size - each * later for later in range(number - 1, -1, -1)]
        return [self.batch(slice(start, end)) for start, end in itertools.pairwise([0, *ends])]


@dataclasses.dataclass(frozen=True)
class Experiments:
    """What a plan compares: batches by their size, for each of them its rounds by their number, and what was left out."""

    batches: dict[int, Batch]
    rounds: dict[int, dict[int, list[Batch]]]
    notes: list[str]


def experiments(known: Known, rows: Rows, settings: PlanSettings, name: str) -> Experiments:
    """All sizes and numbers of rounds that are asked for; those by default that are not possible are left out and noted."""
    spec, num_rows = known.spec, len(rows.contexts)
    sizes = settings.sizes or default_sizes(min(num_rows, spec.max_units, MAX_UNITS))
    most = min(num_rows, spec.max_units)
    for size in sizes:
        if not 1 <= size <= most:
            raise CampaignError(
                f"A plan for {size:,} units needs as many rows of contexts, and a round of this spec takes at most "
                f"{spec.max_units:,}; {name} has {num_rows:,} rows. Allowed: sizes from 1 to {most:,}."
            )
    batches: dict[int, Batch] = {}
    rounds: dict[int, dict[int, list[Batch]]] = {}
    notes: list[str] = []
    several = _several_rounds(known, settings, notes)
    for size in sorted(set(sizes)):
        try:
            batches[size] = rows.batch(slice(size))
        except CobedError as error:
            # The largest has the last word where no size is possible.
            if settings.sizes or (not batches and size == max(sizes)):
                raise
            notes.append(f"Left out {size:,} units. {error}")
            continue
        rounds[size] = {}
        for number in several:
            try:
                rounds[size][number] = rows.rounds(size, number)
            except CobedError as error:
                notes.append(f"Left out {number} rounds of {size:,} units together. {error}")
    return Experiments(batches, rounds, notes)


def _several_rounds(known: Known, settings: PlanSettings, notes: list[str]) -> list[int]:
    """The numbers of rounds beside one; where they cannot be planned, a note says why, or an error where they are asked for."""
    asked = settings.rounds or range(1, known.spec.design.rounds + 1)
    if min(asked) < 1 or max(asked) > MAX_ROUNDS:
        raise CampaignError(f"A plan compares 1 to {MAX_ROUNDS} rounds, got {', '.join(map(str, asked))}.")
    several = sorted(set(asked) - {1})
    reason = known.one_round_only if several else None
    if reason is None:
        return several
    if settings.rounds:
        raise CampaignError(f"Several rounds cannot be planned here: {reason}. Leave --rounds out.")
    notes.append(f"One round is planned, and not up to {known.spec.design.rounds}: {reason}.")
    return []


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
    rows = Rows.read(known, units, targets, seed)
    compared = experiments(known, rows, settings, units.name)
    if num_worlds < 2:
        raise CampaignError(f"A plan needs at least 2 worlds, to have a mean and its error; got {num_worlds}.")
    spent = find_budget(settings.budget or spec.design.budget)
    spent = spent if spent.num_starts else spent.replace(num_starts=NUM_STARTS)
    trial = Trial(num_worlds, seed, spent)
    numbers = sorted({number for rounds in compared.rounds.values() for number in rounds})
    mark = _fingerprint(known, rows.contexts, rows.targets, num_worlds, seed, spent, numbers)
    done = _read(kept, mark)
    work = {
        size: (COMPILING + size) * (1 + sum(compared.rounds[size])) for size in compared.batches if size not in done
    }
    left, finished, started = sum(work.values()), 0, time.perf_counter()
    for number, (size, batch) in enumerate(compared.batches.items(), start=1):
        if size in done:
            continue
        stage = f"{size:,} units"
        pace = (time.perf_counter() - started) / finished if finished else float("nan")
        reporter = None if progress is None else within(stage, pace * left, _unfinished(progress))
        done[size] = try_size(known, batch, compared.rounds[size], trial, reporter)
        finished, left = finished + work[size], left - work[size]
        _write(kept, mark, done)
        if progress is not None:
            pace = (time.perf_counter() - started) / finished
            progress(Progress(stage, number, len(compared.batches), done[size].designed[0], pace * left, "regret"))
    now, at_random = _regrets_now(known, rows.targets, rows.deployable, seed)
    sizes = tuple(done[size] for size in compared.batches)
    plan = Plan(now, sizes, num_worlds, at_random, spec.reward_words, tuple(compared.notes))
    _write(kept, mark, done, plan)
    return plan


def _regrets_now(known: Known, targets: np.ndarray, allowed: np.ndarray | None, seed: int) -> tuple[Pair, Pair]:
    """What the best policy of now and actions at random lose, each with its standard error over draws of what is known.

    E[max_a reward] - max_a E[reward], and E[max_a reward] - E[mean_a reward], averaged over the targets.
    """
    draws = known.posterior.equal_draws(NOW_DRAWS, jr.key(seed))
    candidates = jnp.asarray(candidate_actions(known.model.action_space))
    mask = None if allowed is None else jnp.asarray(allowed)
    choices = np.asarray(choices_at((jnp.asarray(targets), mask), candidates))
    shares = np.ones(choices.shape[:2]) if allowed is None else np.asarray(allowed, float)
    shares = shares / shares.sum(axis=1, keepdims=True)
    # Of each draw; a process has fewer than are asked for.
    totals = np.zeros((2, 1))
    for rows in np.array_split(np.arange(len(targets)), -(-len(targets) // 10)):
        lost = _regrets(known.model, draws, targets[rows], choices[rows], jnp.asarray(shares[rows], jnp.float32))
        totals = totals + np.asarray(lost, np.float64)
    now, at_random = (Score(total / len(targets)) for total in totals)
    return (now.mean, now.standard_error), (at_random.mean, at_random.standard_error)


@lean_jit
def _regrets(model, draws, targets, choices, shares):
    """What each draw loses by the best action on average, and by actions in these shares, summed over the targets, (2, N)."""
    rewards = jax.vmap(lambda target, actions: mean_rewards(model, draws, target[None], actions)[0])(targets, choices)
    chosen = jnp.argmax(jnp.mean(rewards, axis=2), axis=1)
    policy = jnp.take_along_axis(rewards, chosen[:, None, None], axis=1)[:, 0]
    best = jnp.max(rewards, axis=1)
    return jnp.stack([jnp.sum(best - other, axis=0) for other in (policy, jnp.einsum("tkn,tk->tn", rewards, shares))])


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
        return {row["units"]: _size(row) for row in document["sizes"]}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _size(row: dict[str, Any]) -> Size:
    pairs = ("designed", "random", "difference", "warnings")
    rounds = (Rounds(each["number"], tuple(each["difference"]), each["num_worlds"]) for each in row["rounds"])
    return Size(row["units"], *(tuple(row[name]) for name in pairs), rounds=tuple(rounds))


def _write(path: Path | None, mark: str, done: dict[int, Size], plan: Plan | None = None) -> None:
    """The sizes so far; of a whole plan, its verdict too."""
    if path is None:
        return
    document: dict[str, Any] = {"schema": 1, "fingerprint": mark}
    if plan is not None:
        document |= {"now": plan.now, "at_random": plan.at_random, "reward": plan.reward, "num_worlds": plan.num_worlds}
        document["verdict"] = dataclasses.asdict(plan.verdict)
    document["sizes"] = [dataclasses.asdict(done[size]) for size in sorted(done)]
    write_output(path, lambda file: file.write(json.dumps(document, indent=1).encode()))


def _unfinished(progress: Reporter) -> Reporter:
    """A reporter for the inner work of one size: the end of a design is not the end of the plan."""
    return lambda inner: progress(inner._replace(step=min(inner.step, inner.num_steps - 1)))
