"""Every public model keeps the contract of its kind: shapes, one key one number, batches as single values, compiled once."""

import functools
import inspect

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from cobed import compilation, models
from cobed.errors import ModelError
from cobed.models.contract import check_model
from cobed.models.glm import LinearFeatures
from cobed.spaces import Box, Discrete

OFFERS = Discrete(["none", "mail"])
FEATURES = LinearFeatures(OFFERS, 1)
NUM_FEATURES = FEATURES.by_kind(0, 0, 0, 0).size
ROWS = np.array([[1.0], [2.0]], np.float32)
NUM_DRAWS = 4


def program(contexts, actions):
    effects = numpyro.sample("effects", dist.Normal(jnp.zeros(2), 1.0))
    numpyro.sample("y", dist.Normal(actions @ effects * contexts[:, 0], 0.5))


def simulate(key, psi, context, action):
    return psi @ action * context[0] + jnp.sin(jr.normal(key))


# A model and the width of its contexts.
MODELS = {
    "LinearBandit": (lambda: models.LinearBandit(np.ones((2, 3, 2)), prior_cov=np.ones(2), noise_std=0.5), 1),
    "CausalGraph": (lambda: models.CausalGraph(2), 8),
    "ContinuousExample": (models.ContinuousExample, 1),
    "DiscreteExample": (models.DiscreteExample, 1),
    "GaussianProcess": (lambda: models.GaussianProcess(models.RBF(0.5), Box(-1, 1), 1, 0.1, num_features=16), 1),
    "LinearGaussian": (
        lambda: models.LinearGaussian(FEATURES, np.zeros(NUM_FEATURES), np.ones(NUM_FEATURES), OFFERS, 1, 0.5), 1
    ),
    "GeneralisedLinear": (
        lambda: models.GeneralisedLinear(FEATURES, np.zeros(NUM_FEATURES), np.full(NUM_FEATURES, 0.3), "poisson"), 1
    ),
    "NetReward": (lambda: models.NetReward(models.DiscreteExample(), worth=2.0, costs=np.arange(4.0)), 1),
    "from_numpyro": (lambda: models.from_numpyro(program, OFFERS, context_dim=1), 1),
    "from_simulator": (
        lambda: models.from_simulator(
            lambda key: jr.normal(key, (2,)), simulate, OFFERS, 1, mean_reward=lambda psi, c, a: psi @ a * c[0]
        ),
        1,
    ),
}  # fmt: skip


@functools.cache
def key_pairs():
    return jr.split(jr.key(0), NUM_DRAWS), jr.split(jr.key(1), NUM_DRAWS)


@compilation.quick_jit
def drawn(model, keys, contexts, actions):
    """Draws of psi, and with each the rewards and outcomes of all rows."""
    draws = jax.vmap(model.sample_prior)(keys)
    rewards = jax.vmap(lambda psi: jax.vmap(functools.partial(model.mean_reward, psi))(contexts, actions))(draws)
    outcomes = jax.vmap(lambda key, psi: model.sample_outcomes(key, psi, contexts, actions))(keys, draws)
    return draws, rewards, outcomes


def test_no_public_model_is_left_out():
    public = {name: getattr(models, name) for name in models.__all__}
    classes = {n for n, thing in public.items() if inspect.isclass(thing) and issubclass(thing, models.AbstractModel)}
    makers = {name for name in public if name.startswith("from_")}
    assert {name for name in classes | makers if not name.startswith("Abstract")} == set(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_models_draw_and_reward_in_batches_repeatably_and_without_compiling_again(name):
    make, width = MODELS[name]
    model, (keys, other_keys) = make(), key_pairs()
    contexts = np.tile(ROWS, (1, width))
    actions = np.asarray(model.action_space.grid(4), np.float32)[[0, -1]]
    draws, rewards, outcomes = drawn(model, keys, contexts, actions)
    assert rewards.shape == outcomes.shape == (NUM_DRAWS, len(ROWS))
    assert np.isfinite(rewards).all()
    assert np.isfinite(outcomes).all()
    # The same keys give the same numbers, others give others, and neither compiles again.
    before = compilation.num_compiled
    again, other = drawn(model, keys, contexts, actions), drawn(model, other_keys, contexts, actions)
    assert compilation.num_compiled == before
    np.testing.assert_array_equal(again[2], outcomes)
    assert not np.array_equal(other[2], outcomes)
    # One row of one draw alone.
    last = jax.tree.map(lambda leaf: leaf[-1], draws)
    alone = compilation.quick_jit(model.mean_reward)(last, contexts[-1], actions[-1])
    np.testing.assert_allclose(rewards[-1, -1], alone, rtol=1e-4, atol=1e-5)
    with pytest.raises(ModelError, match=rf"contexts have {width + 1} column\(s\) and the model expects {width}"):
        check_model(model, jnp.ones((2, width + 1)))
