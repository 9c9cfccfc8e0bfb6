"""A design of every kind of model, as a program of its own: run, killed in the middle, run again by another process.

python resumable.py fingerprints              prints the fingerprint of every model
python resumable.py KIND [FOLDER [CHUNK]]     prints a design; with CHUNK it kills itself when that chunk is done
"""

import functools
import json
import os
import signal
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro
import numpyro.distributions as dist

import cobed
from cobed.identity import joined, parts_of
from cobed.models import bandit, causal, continuous, discrete
from cobed.spaces import AbstractSpace

SCALE = np.array([1.0, 0.5], np.float32)
TINY = cobed.Budget(
    optimiser="adam", num_steps=150, closed_form_steps=150, warm_steps=0, batch_size=32, num_starts=1, settle_steps=60,
    settle_batch_size=32, num_evaluation_batches=2, pool_size=64,
)  # fmt: skip
CRITIC = cobed.Separable(hidden=(8,), embedding=4)
OFFERS = cobed.Discrete(["none", "5%"])


def lift(weights):
    return weights * (1 + SCALE[-1])


def revenue(contexts, actions):
    weights = numpyro.sample("weights", dist.Normal(jnp.zeros(2), 1.0))
    numpyro.sample("y", dist.Normal(actions @ lift(weights) * contexts[:, 0], 0.5))


def simulate(key, psi, context, action, noise):
    return psi @ action * context[0] + noise * jnp.sin(jr.normal(key))


def make_features(power):
    def features(context, action):
        return jnp.outer(action, context**power).ravel()

    return features


class Table:
    """A callable class, which holds itself."""

    def __init__(self, rows):
        self.rows, self.itself = rows, self

    def __call__(self, context, action):
        return self.rows * action * context[0]

    def features(self, context, action):
        return self(context, action)


class Own(cobed.models.AbstractGaussianModel):
    reward: object = eqx.field(static=True)
    action_space: AbstractSpace = OFFERS
    context_dim: int = eqx.field(static=True, default=1)
    noise_std: float = eqx.field(static=True, default=0.5)

    def sample_prior(self, key):
        return jr.normal(key, (2,))

    def mean_reward(self, params, context, action):
        return self.reward(params, action) * context[0]


def linear(features, actions=OFFERS):
    return cobed.models.LinearGaussian(features, np.zeros(2), np.ones(2), actions, 1, 0.5)


def simulator(function):
    return cobed.models.from_simulator(
        lambda key: jr.normal(key, (2,)), function, OFFERS, 1, mean_reward=lambda psi, c, a: psi @ a * c[0]
    )


ROWS = np.linspace(1, 2, 3, dtype=np.float32)[:, None]
MODELS = {
    "numpyro": lambda: cobed.models.from_numpyro(revenue, OFFERS),
    "dose": lambda: linear(lambda context, action: lift(action) * context[0], cobed.Box([-1.0, -1.0], [1.0, 1.0])),
    "simulator": lambda: simulator(functools.partial(simulate, noise=0.3)),
    "features": lambda: linear(make_features(2)),
    "own": lambda: Own(lambda params, action: params @ action * SCALE[0]),
    "jitted": lambda: linear(jax.jit(make_features(1))),
    "callable": lambda: linear(Table(SCALE)),
    "method": lambda: linear(Table(SCALE).features),
    "filter jit": lambda: Own(eqx.filter_jit(lambda params, action: params @ action)),
    "process": lambda: cobed.models.GaussianProcess(cobed.models.RBF(), OFFERS, 1, 0.5, seed=3),
}
PAPER = {
    "discrete": (cobed.models.DiscreteExample, discrete.contexts(3), -discrete.contexts(3)),
    "continuous": (cobed.models.ContinuousExample, continuous.contexts()[:3], continuous.contexts()[:2]),
    "bandit": (lambda: bandit.paper_bandit(jr.key(0)), bandit.targets(), bandit.targets()[1:]),
    "causal": (functools.partial(causal.CausalGraph, 4), causal.targets()[:3], causal.targets()[4:6]),
}


def problem(kind):
    model, contexts, targets = PAPER[kind] if kind in PAPER else (MODELS[kind], ROWS, -ROWS[:2])
    return cobed.Problem(model(), contexts, targets)


KINDS = [*MODELS, *PAPER]


def main(kind, folder=None, chunk=None):
    if kind == "fingerprints":
        models = {**MODELS, **{kind: model for kind, (model, *_) in PAPER.items()}}
        return print(json.dumps({kind: joined(parts_of(model=make())) for kind, make in models.items()}))
    seen = []

    def dies(progress):
        seen.append(progress)
        if len(seen) == int(chunk or 0):
            os.kill(os.getpid(), signal.SIGKILL)

    # Nothing to train compiles in a third of the time.
    asked = {"objective": "value"} if kind == "dose" else {"objective": "infonce", "network": CRITIC}
    result = cobed.design(problem(kind), seed=0, budget=TINY, **asked, progress=dies, checkpoint=folder)
    num_chunks = sum(p.stage.endswith("design") for p in seen)
    print(json.dumps([result.actions.tolist(), result.history.tolist(), list(result.score), num_chunks]))


if __name__ == "__main__":
    main(*sys.argv[1:])
