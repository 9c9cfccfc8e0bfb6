"""What the replays of campaigns share: learn, design by any method, decide, all inside compiled code; paired tables."""

import time
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

import cobed
from cobed.compilation import lean_jit
from cobed.data import Data
from cobed.decide import mean_rewards
from cobed.inference import Laplace
from cobed.inference.base import systematic
from cobed.metrics import Score
from cobed.models.glm import GeneralisedLinear
from cobed.objectives import Predictor, PredictorValue
from cobed.policies import Temperature
from cobed.search import climb_freely

METHODS = ("CO-BED", "Random", "Thompson", "UCB_1")
SAMPLER = Laplace(1024)
NUM_DRAWS = 512


class Known(NamedTuple):
    """Draws of psi of one weight (N, P), their exact-weight mean and covariance, and how good the weights were."""

    draws: jax.Array
    mean: jax.Array
    cov: jax.Array
    pareto_k: jax.Array


def prior(key, model: GeneralisedLinear) -> Known:
    draws = jax.vmap(model.sample_prior)(jr.split(key, NUM_DRAWS))
    return Known(draws, *model.prior_moments(), jnp.asarray(-jnp.inf))


def learn(key, model: GeneralisedLinear, data: Data) -> Known:
    """The posterior by draws around its mode with joint weights."""
    draw_key, thin_key = jr.split(key)
    found = SAMPLER.draw(draw_key, model, data)
    weights = jax.nn.softmax(found.log_weights)
    mean = weights @ found.params
    centred = found.params - mean
    kept = systematic(thin_key, found.log_weights, NUM_DRAWS)
    return Known(found.params[kept], mean, (centred.T * weights) @ centred, found.diagnostics["pareto_k"])


def design(method: str, key, model: GeneralisedLinear, known: Known, contexts, targets):
    """Actions (D, K) by one method, from what is known."""
    num_units, num_actions = len(contexts), model.action_space.dim
    names = jnp.eye(num_actions)
    if method == "Random":
        return names[jr.randint(key, (num_units,), 0, num_actions)]
    if method == "CO-BED":
        predictor = Predictor(known.mean, jnp.linalg.cholesky(known.cov), jnp.ones(()), model.law)
        value = PredictorValue.build(key, model, contexts, (targets, None), predictor, Temperature())
        # One start: of several hundred units no single one matters.
        return climb_freely(value, names[jr.randint(key, (num_units,), 0, num_actions)]).design
    rewards = mean_rewards(model, known.draws, contexts, names)  # (D, K, N)
    if method == "Thompson":
        own = jr.randint(key, (num_units,), 0, rewards.shape[2])
        return names[jnp.argmax(rewards[jnp.arange(num_units), :, own], axis=1)]
    return names[jnp.argmax(rewards.mean(axis=2) + rewards.std(axis=2), axis=1)]


def decide(model: GeneralisedLinear, known: Known, targets):
    """The action of the largest posterior expected reward at each target, (T,)."""
    rewards = mean_rewards(model, known.draws, targets, jnp.eye(model.action_space.dim))
    return jnp.argmax(rewards.mean(axis=2), axis=1)


def joined(first: Data | None, second: Data) -> Data:
    if first is None:
        return second
    return jax.tree.map(lambda a, b: jnp.concatenate([a, b]), first, second)


def outcomes(template: Data, contexts, actions, potential) -> Data:
    """The rows of an experiment in which each unit shows the outcome, of `potential` (D, K), of the action it got."""
    values = (contexts, actions, jnp.sum(actions * potential, axis=1))
    return eqx.tree_at(lambda data: (data.contexts, data.actions, data.outcomes), template, values)


# Rows are checked when constructed; inside compiled code there is nothing to check.
TEMPLATE = Data([0.0], [0.0], [0.0])


def replays(one: Callable[..., dict[str, jax.Array]], num: int, *arguments, chunk: int = 20) -> dict[str, np.ndarray]:
    """`one(seed, *arguments)` for seeds 0, 1, ..., compiled once, one after the other; a line of progress a chunk.

    `arguments` have one entry a seed in front.
    """
    step = lean_jit(lambda seeds, arguments: jax.lax.map(lambda pair: one(pair[0], *pair[1]), (seeds, arguments)))
    found, started, first = [], time.perf_counter(), 0.0
    chunk = min(chunk, num)
    for start in range(0, num - num % chunk, chunk):
        block = tuple(jnp.asarray(array[start : start + chunk]) for array in arguments)
        found.append(jax.tree.map(np.asarray, step(jnp.arange(start, start + chunk), block)))
        done, seconds = start + chunk, time.perf_counter() - started
        if start == 0:
            first, started = seconds, time.perf_counter()
            print(f"  {done} of {num} in {first:.0f} s, compiling included", flush=True)
        else:
            each = seconds / (done - chunk)
            print(f"  {done} of {num}, {each:.2f} s each, {(num - done) * each:.0f} s left", flush=True)
    return {name: np.concatenate([block[name] for block in found]) for name in found[0]}


def table(found: dict[str, np.ndarray], reference: str, what: str, digits: int = 5) -> dict[str, Score]:
    """Prints each method's mean and its paired difference to the reference."""
    scores = {name: Score(values) for name, values in found.items()}
    for name, score in scores.items():
        difference = cobed.paired_difference(score, scores[reference])
        apart = abs(difference.mean) > 2 * difference.standard_error
        verdict = "" if name == reference else "  differs" if apart else "  not separated by these replays"
        print(
            f"{name:18} {what} {score.mean:.{digits}f} ± {score.standard_error:.{digits}f}   minus {reference}'s "
            f"{difference.mean:+.{digits}f} ± {difference.standard_error:.{digits}f}{verdict}",
            flush=True,
        )
    return scores
