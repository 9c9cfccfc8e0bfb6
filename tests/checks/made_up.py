"""Evidence made up for tests: contexts of three columns, two or three options, and no campaign."""

import dataclasses

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

import cobed
from cobed.checks import Actions, Column, Evidence, Predictions, Targets, Units
from cobed.data import Data
from cobed.models.linear import LinearGaussian
from cobed.outcomes import NORMAL

CITIES = ("Bath", "Leeds", "York")
OPTIONS = ("none", "mail")
NOISE = 1.0


def make_columns(ages, cities, new):
    """Columns as a campaign encodes them: a number in deviations, names one-hot, and 0/1."""
    ages, cities, new = np.asarray(ages, float), np.asarray(cities, dtype=object), np.asarray(new, float)
    thirds = np.array(["young", "middle", "old"], dtype=object)[np.digitize(ages, [35, 45])]
    one_hot = np.stack([cities == city for city in CITIES], axis=1).astype(float)
    yes_no = np.where(new > 0, "yes", "no").astype(object)
    return (
        Column("age", ("age",), (ages[:, None] - 40) / 10, ages.astype(object), thirds, True),
        Column("city", tuple(f"city={city}" for city in CITIES), one_hot, cities, cities, False),
        Column("new", ("new",), new[:, None], new.astype(object), yes_no, False),
    )


def draw_columns(rng, number, older=0.0, cities=CITIES):
    return make_columns(
        rng.normal(40 + older, 10, number).round(1), rng.choice(cities, number), rng.integers(0, 2, number)
    )


def make_units(rng, number, *, round=1, at_random=True, options=OPTIONS, columns=None, actions=None, outcomes=None):
    """Units whose actions chance gave with equal probabilities, all of which came back."""
    actions = rng.integers(0, len(options), number) if actions is None else actions
    planned = np.eye(len(options), dtype=np.float32)[actions]
    return Units(
        ids=np.array([f"c{row}" for row in range(number)], dtype=object),
        rounds=np.full(number, round),
        columns=columns or draw_columns(rng, number),
        planned=planned,
        got=planned.copy(),
        outcomes=np.zeros(number) if outcomes is None else outcomes,
        at_random=np.full(number, at_random),
        are_guessed=np.full(number, at_random and round == 0),
        propensities=np.full((number, len(options)), 1 / len(options) if at_random else 0.0),
    )


def features(context, action):
    """Lines in age for each option."""
    return jnp.concatenate([action, action * context[0]])


def with_predictions(rng, units, outcome_of, *, options=OPTIONS, targets=None, num_draws=1_024):
    """Evidence with outcomes around `outcome_of(columns, got)`, and what a conjugate model of lines in age says of them."""
    mean = outcome_of(units.columns, units.got)
    units = dataclasses.replace(units, outcomes=mean + NOISE * rng.normal(size=len(units)))
    return learned(units, options=options, targets=targets, num_draws=num_draws)


def learned(units, *, options=OPTIONS, targets=None, num_draws=1_024):
    """The same for outcomes that are there already."""
    model = LinearGaussian(
        features, np.zeros(2 * len(options)), np.full(2 * len(options), 5.0), cobed.Discrete(list(options)), 5, NOISE
    )
    contexts = np.concatenate([column.numbers for column in units.columns], axis=1).astype(np.float32)
    data = Data(contexts, units.got, units.outcomes)
    posterior = cobed.infer(model, data, cobed.Conjugate(num_draws), seed=0)
    where = contexts[:50]
    best = np.asarray(jax.nn.one_hot(np.argmax(_expected(model, posterior, where), axis=1), len(options)))
    params = posterior.equal_draws(num_draws, jr.key(0))

    def learn(part):
        return model, cobed.infer(model, part, cobed.Conjugate(256), seed=0).params

    predictions = Predictions(model, params, data, np.arange(len(units)), (where, best), 0, learn=learn)
    return Evidence(units, Actions(tuple(options)), NORMAL, "spend", "spend", targets, predictions)


def _expected(model, posterior, where):
    from cobed.decide import mean_rewards

    candidates = np.asarray(model.action_space.enumerate_discrete())
    return np.asarray(mean_rewards(model, posterior.params[:64], where, candidates)).mean(axis=2)


def bare(units, *, options=OPTIONS, targets=None):
    """Evidence without a model."""
    targets = None if targets is None else Targets(targets)
    return Evidence(units, Actions(tuple(options)), NORMAL, "spend", "spend", targets)
