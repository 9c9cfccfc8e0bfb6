"""Experiments of one size in many worlds drawn from what is known now: designed, in several rounds, and with actions at random.

In each world the experiment is run, its outcomes update the model, and the action of the largest expected outcome is deployed.
All experiments meet the same units, worlds and noise. Of several rounds the first is designed from what is known now, and each
later one, in every world by itself, from what the earlier ones brought there: by the gains of a real round, under the Gaussian with
the mean and covariance of that world's posterior.
"""

import dataclasses
import functools
import time
from collections.abc import Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.budget import Budget
from cobed.campaign.encoding import Encoding
from cobed.campaign.engine import Batch, design_batch
from cobed.campaign.parts import DEFAULTS
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.verdict import Rounds, Size
from cobed.compilation import lean_jit
from cobed.data import Data
from cobed.designers.baselines import RandomUniform
from cobed.designers.closed_form import FEW_UNITS
from cobed.inference import choose_sampler
from cobed.inference.base import AbstractSampler, Posterior
from cobed.linalg import covariance_root
from cobed.metrics import Score, Scores, evaluate, paired_difference, play, world_keys
from cobed.models.base import AbstractModel
from cobed.objectives import Predictor, PredictorValue
from cobed.policies import Temperature
from cobed.problem import Problem
from cobed.progress import Reporter
from cobed.search import Found, Session, exchange, exchange_together
from cobed.types import Array, Float, Key, present

# Random assignment is the average of so many of them.
NUM_RANDOM = 3
# Draws of a world's posterior to decide by, and to design the next round from.
WORLD_DRAWS, ROUND_DRAWS = 128, 4_096
# Several rounds are designed anew in each world: so many worlds are enough, fewer where this is a larger share of all.
SHARE_OF_WORLDS, FEWEST_WORLDS = 0.2, 20


@dataclasses.dataclass(frozen=True)
class Known:
    """Where an experiment starts from: the spec, its model, what is known of psi, the outcomes that this rests on."""

    spec: CampaignSpec
    encoding: Encoding
    model: AbstractModel
    posterior: Posterior
    data: Data | None

    @property
    def one_round_only(self) -> str | None:
        """Why several rounds cannot be planned; None where they can."""
        design, model = self.spec.design, self.model
        if model.linear_form() is None or model.action_space.options is None:
            return "they are planned for named options of the linear family"
        by_value = design.objective in (DEFAULTS["objective"], "value") and design.about == "max-values"
        if design.designer not in (DEFAULTS["designer"], RandomUniform().name) or not by_value:
            return "they are planned for designs by the value of the experiment, which [design] does not ask for"
        return None


@dataclasses.dataclass(frozen=True)
class Trial:
    """In how many worlds experiments are tried, from which seed, and how long a design may take."""

    num_worlds: int
    seed: int
    budget: Budget

    @property
    def num_worlds_of_rounds(self) -> int:
        return min(self.num_worlds, max(FEWEST_WORLDS, round(SHARE_OF_WORLDS * self.num_worlds)))


def try_size(
    known: Known, batch: Batch, rounds: Mapping[int, Sequence[Batch]], trial: Trial, progress: Reporter | None = None
) -> Size:
    """Expected regret after experiments on a batch: in one round, designed and at random, and in several rounds by their number."""
    world_key, *keys = jr.split(jr.key(trial.seed), 1 + NUM_RANDOM)
    session = Session(progress)
    designed = _designed(known, batch, trial, progress)
    problem = batch.problem(known.model)
    designs = [designed, *(np.asarray(RandomUniform().allowed_actions(key, problem)) for key in keys)]
    replay = Replay.of(known, problem, designed, world_key)
    scores = [replay.score(actions, trial.num_worlds) for actions in designs]
    one, random = scores[0].regret, Score(np.mean([score.regret.per_world for score in scores[1:]], axis=0))
    fewer, several = trial.num_worlds_of_rounds, []
    for number, parts in rounds.items():
        first = _designed(known, parts[0], trial, progress)
        score = replay.score(play_rounds(replay, first, parts, fewer, session), fewer)
        difference = _pair(paired_difference(score.regret, Score(one.per_world[:fewer])))
        several.append(Rounds(number, difference, fewer))
        scores.append(score)
    return Size(
        len(batch.contexts),
        _pair(one),
        _pair(random),
        _pair(paired_difference(one, random)),
        # Posteriors after other designs are doubtful for the same reason, in about as many worlds.
        next((score.warnings for score in scores if score.warnings), ()),
        tuple(several),
    )


def _designed(known: Known, batch: Batch, trial: Trial, progress: Reporter | None) -> np.ndarray:
    spec = known.spec
    if spec.design.designer == RandomUniform().name:
        # A plan says what designing would bring, also where random assignment was chosen.
        design = spec.design.model_copy(update={"designer": DEFAULTS["designer"]})
        spec = spec.model_copy(update={"design": design})
    result = design_batch(spec, known.model, known.posterior, batch, trial.seed, trial.budget, progress)
    if result.interrupted:
        raise KeyboardInterrupt
    return result.actions


def _pair(score: Score) -> tuple[float, float]:
    return score.mean, score.standard_error


@dataclasses.dataclass(frozen=True)
class Replay:
    """The worlds that all experiments on a batch meet: where they come from, and how they are learned about."""

    problem: Problem
    truth: AbstractModel
    design: Data  # an allowed one, without outcomes
    history: Data | None
    key: Key[Array, ""]

    @classmethod
    def of(cls, known: Known, problem: Problem, actions: np.ndarray, key: Key[Array, ""]) -> "Replay":
        truth = known.model if known.data is None else known.model.given(known.posterior)
        return cls(problem, truth, Data(problem.contexts, actions, np.zeros(len(actions))), known.data, key)

    def sampler(self, num_draws: int) -> AbstractSampler:
        """What learns from the outcomes of a world, and from those there were before."""
        chosen = choose_sampler(self.problem.model, self.design, num_draws)
        return chosen if self.history is None else Learning(chosen, self.history)

    def score(self, actions: np.ndarray, num_worlds: int) -> Scores:
        """Actions (D, A), or (W, D, A) of each world."""
        worlds, sampler = None if self.history is None else self.truth, self.decider
        return evaluate(
            self.problem, actions, num_worlds, num_draws=WORLD_DRAWS, sampler=sampler, worlds=worlds, seed=self.key
        )

    @functools.cached_property
    def decider(self) -> AbstractSampler:
        return self.sampler(WORLD_DRAWS)


def play_rounds(
    replay: Replay, first: np.ndarray, parts: Sequence[Batch], num_worlds: int, session: Session
) -> Float[np.ndarray, "W D A"]:
    """The actions of all rounds in each of the first worlds. `first` (D1, A) is the design of the first round."""
    problem, sampler, models = replay.problem, replay.sampler(ROUND_DRAWS), (replay.truth, replay.problem.model)
    start_key, value_key = jr.split(jr.fold_in(replay.key, 1))
    keys = world_keys(replay.key, num_worlds)
    actions = np.zeros((num_worlds, problem.num_contexts, problem.action_dim), np.float32)
    actions[:, : len(first)] = first
    done = len(first)
    session.expect(num_worlds * (len(parts) - 1))
    for number, part in enumerate(parts[1:], start=2):
        batch = part.problem(problem.model)
        means, roots = _learned(keys, jnp.asarray(actions), done, models, replay.design, sampler)
        start = RandomUniform().allowed_actions(jr.fold_in(start_key, number), batch)
        report = session.report(f"round {number} of {len(parts)}, worlds", num_worlds)
        for world in range(num_worlds):
            began = time.perf_counter()
            value = _value(value_key, batch, means[world], roots[world])
            session.follow(value)
            designed, history = _climbed(value, batch, start)
            actions[world, done : done + len(designed)] = designed
            report(world + 1, float(history[-1]), time.perf_counter() - began, world == 0)
        done += len(part.contexts)
    return actions


def _climbed(value: PredictorValue, batch: Problem, start: Float[Array, "D K"]) -> Found:
    """As a real round is designed, from one start."""
    session, key, budget = Session(), jr.key(0), Budget()
    (best,) = exchange_together(session, key, value, start[None], batch.feasible, budget)
    if not batch.feasible.is_limited and batch.num_contexts < FEW_UNITS:
        (best,) = exchange(session, key, value, jnp.asarray(best.actions)[None], batch.feasible, budget)
    if session.interrupted:
        raise KeyboardInterrupt
    return best


@lean_jit
def _learned(
    keys: Key[Array, " W"],
    actions: Float[Array, "W D A"],
    done: int,
    models: tuple[AbstractModel, AbstractModel],
    design: Data,
    sampler: AbstractSampler,
) -> tuple[Float[Array, "W P"], Float[Array, "W P P"]]:
    """Mean and root of the covariance of psi in each world, after the outcomes of the first `done` units."""
    truth, model = models

    def one(arguments):
        key, played = arguments
        _, data = play(key, truth, design.with_actions(played))
        draws = sampler.draw(jr.fold_in(key, done), model, data.rows(slice(done)))
        weights = jax.nn.softmax(draws.log_weights)
        mean = weights @ draws.params
        away = draws.params - mean
        return mean, covariance_root((away.T * weights) @ away, jnp)

    return jax.lax.map(one, (keys, actions))


@lean_jit
def _value(key: Key[Array, ""], batch: Problem, mean: Float[Array, " P"], root: Float[Array, "P P"]) -> PredictorValue:
    """What designs of a batch are worth where psi ~ N(mean, root root^T). The belief is an argument: one program for all worlds."""
    form = present(batch.model.linear_form())
    predictor = Predictor(mean, root, jnp.asarray(form.scale), form.law)
    return PredictorValue.build(key, batch.model, batch.contexts, batch.places, predictor, Temperature())


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
