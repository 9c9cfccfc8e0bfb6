"""How good the decisions after an experiment are, averaged over worlds drawn from the prior.

In each world: psi ~ prior, outcomes of the design, posterior, the action of the largest posterior expected reward. The
worlds, the noise and the luck of the sampler depend on the key alone, so designs compared with one key are paired.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.compilation import lean_jit
from cobed.data import Data
from cobed.decide import Chooser
from cobed.errors import ProblemError
from cobed.inference import choose_sampler
from cobed.inference.base import AbstractSampler, effective_size, systematic
from cobed.keys import Seed, as_key, key_came_first
from cobed.models.base import AbstractModel, over_draws
from cobed.optimum import AbstractOptimum, Best, check_optimum, choose_optimum
from cobed.problem import Problem
from cobed.spaces import AbstractSpace
from cobed.types import Array, Float, Key, Params


@dataclasses.dataclass(frozen=True)
class Score:
    """A mean over worlds with its standard error; `per_world` (W,) is kept for paired differences."""

    per_world: np.ndarray

    @property
    def num_worlds(self) -> int:
        return len(self.per_world)

    @property
    def mean(self) -> float:
        return float(np.mean(self.per_world, dtype=np.float64))

    @property
    def standard_error(self) -> float:
        return float(np.std(self.per_world, ddof=1, dtype=np.float64) / np.sqrt(self.num_worlds))

    def __str__(self) -> str:
        return f"{self.mean:.4g} ± {self.standard_error:.2g}"


@dataclasses.dataclass(frozen=True)
class Scores:
    """What a design earns. Each is averaged over the targets of a world, then over worlds.

    regret: m* minus the true mean reward of the deployed action. mse_m: squared error of the posterior mean of m*.
    mse_m_plug_in: squared error of max_a E_post[reward], the formula of the paper's appendix. hit_rate: share of
    targets with the truly best action (discrete spaces). mse_a: squared error of the action, summed over its continuous
    entries (spaces that have any).
    """

    regret: Score
    mse_m: Score
    mse_m_plug_in: Score
    hit_rate: Score | None
    mse_a: Score | None
    sampler: str
    diagnostics: dict[str, float]
    warnings: tuple[str, ...]

    @classmethod
    def of(
        cls,
        space: AbstractSpace,
        worlds: dict[str, np.ndarray],
        sampler: str,
        diagnostics: dict[str, float],
        warnings: tuple[str, ...],
    ) -> "Scores":
        """From the `scores_of_world` of many worlds, (W,) each. Named actions have no distance, and numbers are never hit."""
        scores: dict[str, Any] = {name: Score(values) for name, values in worlds.items()}
        scores["hit_rate" if space.continuous else "mse_a"] = None
        return cls(**scores, sampler=sampler, diagnostics=diagnostics, warnings=warnings)

    @property
    def num_worlds(self) -> int:
        return self.regret.num_worlds


class Truth(eqx.Module):
    """Where worlds come from, and the way to their max-values."""

    model: AbstractModel
    optimum: AbstractOptimum


class Replay(eqx.Module):
    """How a design is played and decided on in one world."""

    problem: Problem
    truth: Truth
    design: Data
    sampler: AbstractSampler
    chooser: Chooser


@key_came_first
def evaluate(
    problem: Problem,
    design: Any,
    num_worlds: int = 4000,
    *,
    seed: Seed,
    num_draws: int = 256,
    sampler: AbstractSampler | None = None,
    worlds: AbstractModel | None = None,
) -> Scores:
    """Scores of a design, a `DesignResult` or actions (D, A), over `num_worlds` worlds. Same seed, same worlds.

    Actions (W, D, A) are those of each world, for experiments whose later rounds depend on what the earlier ones brought.
    `num_draws` of each world's posterior are used to decide; `sampler` is chosen to fit the model where it is None.
    `worlds` is the model that the truth and the outcomes are drawn from, where that is not the problem's own, by which the
    decisions are always made.
    """
    if num_worlds < 2:
        raise ProblemError(f"num_worlds must be at least 2, to have a mean and its error; got {num_worlds}.")
    if num_draws < 2:
        raise ProblemError(f"num_draws must be at least 2, got {num_draws}.")
    actions, by_world = _actions(problem, design, num_worlds)
    played = Data(problem.contexts, actions, np.zeros(problem.num_contexts))
    if sampler is None:
        sampler = choose_sampler(problem.model, played, num_draws)
    else:
        sampler.require_fit(problem.model, played)
    num_draws = min(num_draws, sampler.num_draws)
    chooser = Chooser(problem.model, problem.targets, num_draws, problem.optimum)
    truth = Truth(problem.model, problem.optimum) if worlds is None else _truth(problem, worlds)
    batch_size = sampler.num_together
    if batch_size is None:
        cost = num_draws * problem.num_targets * chooser.optimum.num_evaluations(chooser.average)
        # About 8 MB of rewards at once: measured on a CPU, larger batches leave its cache and are slower.
        batch_size = int(np.clip(2**21 // cost, 1, 64))
    batch_size = min(batch_size, num_worlds)
    replay = Replay(problem, truth, played, sampler, chooser)
    values = _evaluate(world_keys(as_key(seed), num_worlds), by_world, replay, num_draws, batch_size)
    scores, quality = jax.tree.map(np.asarray, values)
    diagnostics = {name: float(np.mean(value)) for name, value in quality.items()}
    return Scores.of(problem.model.action_space, scores, sampler.name, diagnostics, _doubts(sampler, quality))


def _truth(problem: Problem, worlds: AbstractModel) -> Truth:
    """Worlds of another model, with max-values found as the problem finds them where that fits."""
    if not isinstance(worlds, AbstractModel):
        raise ProblemError(f"worlds is a {type(worlds).__name__}; the model to draw worlds from is expected.")
    space, other, width = problem.model.action_space, worlds.action_space, problem.contexts.shape[1]
    if not eqx.tree_equal(space, other):
        raise ProblemError(
            f"worlds has the actions {other} and the problem {space}. Both must offer the same, in the same order."
        )
    if worlds.context_dim is not None and worlds.context_dim != width:
        raise ProblemError(
            f"worlds has {worlds.context_dim} context column(s) and the problem {width}. Both must describe a unit alike."
        )
    worlds = worlds.for_contexts(width)
    try:
        check_optimum(problem.optimum, worlds, *problem.places)
    except ProblemError:
        return Truth(worlds, choose_optimum(worlds, *problem.places))
    return Truth(worlds, problem.optimum)


def paired_difference(first: Score, second: Score) -> Score:
    """first - second, world by world: far less noisy than the difference of two means, when both had the same key."""
    if first.num_worlds != second.num_worlds:
        raise ProblemError(
            f"The scores are of {first.num_worlds} and {second.num_worlds} worlds. Evaluate both with the same key and num_worlds."
        )
    return Score(first.per_world - second.per_world)


def world_keys(key: Key[Array, ""], num_worlds: int) -> Key[Array, " W"]:
    """The keys of the worlds that `evaluate` plays with this key. Those of fewer worlds are the first of them."""
    return jr.split(key, num_worlds)


def play(key: Key[Array, ""], model: AbstractModel, design: Data) -> tuple[Params, Data]:
    """The world of this key, and the design with the outcomes it has there. That of a unit depends on no other unit."""
    world_key, noise_key, _, _ = jr.split(key, 4)
    world = model.sample_prior(world_key)
    return world, design.with_outcomes(model.sample_outcomes(noise_key, world, design.contexts, design.actions))


def _actions(
    problem: Problem, design: Any, num_worlds: int
) -> tuple[Float[Array, "D A"], Float[Array, "W D A"] | None]:
    """The design, and that of each world where they differ; the first one stands for them then."""
    if np.ndim(getattr(design, "actions", design)) != 3:
        return problem.check_actions(design), None
    if len(design) != num_worlds:
        raise ProblemError(
            f"There are designs of {len(design)} worlds, and {num_worlds} are asked for. Give one of each."
        )
    by_world = jnp.stack([problem.check_actions(actions) for actions in design])
    return by_world[0], by_world


@lean_jit
def _evaluate(
    keys: Key[Array, " W"], by_world: Float[Array, "W D A"] | None, replay: Replay, num_draws: int, batch_size: int
) -> tuple[dict[str, Array], dict[str, Array]]:
    problem, truth, design, sampler = replay.problem, replay.truth, replay.design, replay.sampler

    def one(arguments: tuple[Key[Array, ""], Array | None]) -> tuple[dict[str, Array], dict[str, Array]]:
        key, actions = arguments
        _, _, infer_key, thin_key = jr.split(key, 4)
        world, data = play(key, truth.model, design if actions is None else design.with_actions(actions))
        draws = sampler.draw(infer_key, problem.model, data)
        params, log_weights = draws.params, draws.log_weights
        if num_draws < sampler.num_draws:
            kept = systematic(thin_key, log_weights, num_draws)
            params, log_weights = jax.tree.map(lambda leaf: leaf[kept], params), jnp.zeros(num_draws)
        weights = jax.nn.softmax(log_weights)
        plug_in, chosen = jax.vmap(lambda target: replay.chooser(params, weights, *target))(problem.places)
        # The posterior mean of m* itself: the mean of the draws' own maxima.
        estimate = weights @ over_draws(problem.model, lambda psi: problem.best(psi)[0], params)
        best = jax.vmap(lambda target: truth.optimum(truth.model, world, *target))(problem.places)
        earned = jax.vmap(truth.model.mean_reward, in_axes=(None, 0, 0))(world, problem.targets, chosen)
        scores = scores_of_world(problem.model.action_space, best, (earned, chosen), estimate, plug_in)
        return scores, {"ess": effective_size(draws.log_weights), **draws.diagnostics}

    return jax.lax.map(one, (keys, by_world), batch_size=batch_size)


def scores_of_world(
    space: AbstractSpace, best: Best, deployed: Best, estimate: Float[Array, " T"], plug_in: Float[Array, " T"]
) -> dict[str, Array]:
    """The best rewards (T,) and actions (T, A) of the targets in a world beside what was deployed, and two estimates of m*."""
    (values, actions), (earned, chosen) = best, deployed
    entries = jnp.asarray(space.continuous, dtype=int)
    return {
        "regret": jnp.mean(values - earned),
        "mse_m": jnp.mean((estimate - values) ** 2),
        "mse_m_plug_in": jnp.mean((plug_in - values) ** 2),
        "hit_rate": jnp.mean(jnp.all(jnp.abs(chosen - actions) < 1e-6, axis=1)),
        "mse_a": jnp.mean(jnp.sum((chosen - actions)[:, entries] ** 2, axis=1)),
    }


def _doubts(sampler: AbstractSampler, quality: dict[str, np.ndarray]) -> tuple[str, ...]:
    """In how many worlds the sampler would have warned, with one of its warnings."""
    names = list(quality)
    judged = [
        sampler.judge(dict(zip(names, map(float, row), strict=True))) for row in zip(*quality.values(), strict=True)
    ]
    bad = [warnings for warnings in judged if warnings]
    if not bad:
        return ()
    return (f"In {len(bad)} of {len(judged)} worlds the posterior is doubtful. In one: {bad[0][0]}",)
