"""A posterior whose densities do not hold up when they are computed again is refused; one that is right never is."""

import sys

import jax
import jax.numpy as jnp
import jax.random as jr
import jaxlib
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import cobed
from cobed import compilation
from cobed.errors import CompilerError
from cobed.inference import NUTS, Importance, TemperedSMC
from cobed.inference.second_route import HARMLESS, NUM_EACH, check_densities, gaussian_witnesses, second_route
from cobed.models import AbstractGaussianModel, LinearGaussian, from_numpyro

SPACE = cobed.Discrete(["none", "mail", "call"])
NOISE, PRIOR = 0.7, 2.0


def three_armed(contexts, actions):
    effects = numpyro.sample("effects", dist.Normal(0, PRIOR).expand([3]).to_event(1))
    mean = numpyro.deterministic("reward", jnp.sum(actions * effects, -1) + 0.3 * contexts[:, 0] * actions[:, 0])
    numpyro.sample("y", dist.Normal(mean, NOISE))


def ten_rows():
    rng = np.random.default_rng(0)
    actions = np.eye(3)[[0, 0, 0, 1, 1, 2, 2, 2, 2, 2]]
    contexts = rng.normal(size=(10, 1))
    offsets = 0.3 * contexts[:, 0] * actions[:, 0]
    outcomes = actions @ [-2.6, -1.7, 0.2] + offsets + NOISE * rng.normal(size=10)
    return cobed.Data(contexts, actions, outcomes), offsets


def test_smc_of_a_conjugate_program_is_the_exact_posterior_to_two_digits(monkeypatch):
    """Where the compiler is wrong and the check of its version is passed by, the posterior is refused and not returned.

    4,096 draws, worth half as many at least: standard errors of at most .011 for means and .008 for deviations, of
    posterior deviations of at most .48. Allowed are four of them: false alarm below 1 in 1,000 for the six numbers.
    """
    monkeypatch.setattr(compilation, "RIGHT", {jaxlib.__version__})
    compilation.check_compiler.cache_clear()
    data, offsets = ten_rows()
    design = np.asarray(data.actions, np.float64)
    cov = np.linalg.inv(np.eye(3) / PRIOR**2 + design.T @ design / NOISE**2)
    mean = cov @ design.T @ (np.asarray(data.outcomes, np.float64) - offsets) / NOISE**2
    posterior = cobed.infer(jr.key(0), from_numpyro(three_armed, SPACE), data, TemperedSMC(4096))
    effects = np.asarray(posterior.params["effects"])
    np.testing.assert_allclose(effects.mean(0), mean, atol=0.044)
    np.testing.assert_allclose(effects.std(0), np.sqrt(np.diagonal(cov)), atol=0.032)


class OtherInBatches(AbstractGaussianModel):
    """A model linear in psi that gives other mean rewards where many draws are computed at once, as a bad compiler does."""

    action_space: cobed.Discrete
    context_dim: int = 1
    noise_std: float = 0.5

    def sample_prior(self, key):
        return jr.normal(key, (3,))

    def log_prior(self, params):
        return jnp.sum(jax.scipy.stats.norm.logpdf(params))

    def prior_moments(self):
        return jnp.zeros(3), jnp.eye(3)

    def mean_reward(self, params, context, action):
        return jnp.sum(action * (params + _error_in_batches(jax.lax.stop_gradient(params))))


@jax.custom_batching.custom_vmap
def _error_in_batches(psi):
    return jnp.zeros_like(psi)


@_error_in_batches.def_vmap
def _rule(axis_size, in_batched, psi):
    # Each draw is taken for its neighbour.
    return (jnp.roll(psi, 1, axis=0) - psi if in_batched[0] and axis_size > 100 else 0 * psi), in_batched[0]


@pytest.mark.parametrize("sampler", [Importance(1000), TemperedSMC(256)])
def test_a_posterior_is_refused_whose_densities_depend_on_how_many_draws_are_computed(sampler):
    data, _ = ten_rows()
    with pytest.raises(CompilerError, match=r"is refused: for \d+ of \d+ draws.*rounding explains.*another version"):
        cobed.infer(jr.key(0), OtherInBatches(SPACE), data, sampler)


def test_rewards_of_draws_are_computed_again_where_a_posterior_is_exact():
    """A closed form needs no densities of draws; decisions need their rewards."""
    data, _ = ten_rows()
    with pytest.raises(CompilerError, match="The posterior by conjugate is refused"):
        cobed.infer(jr.key(0), OtherInBatches(SPACE), data, "conjugate")


def test_the_second_route_counts_every_row_once_and_adds_in_double_precision():
    """More rows than a chunk holds, and not a multiple of it. Rounding of the rows themselves is all that is left."""
    rng = np.random.default_rng(0)
    model = LinearGaussian(lambda context, action: action * context[0], np.zeros(3), np.ones(3), SPACE, 1, 0.5)
    contexts, actions = rng.normal(size=(1000, 1)).astype(np.float32), np.eye(3)[rng.integers(0, 3, 1000)]
    data = cobed.Data(contexts, actions, rng.normal(size=1000))
    psi = rng.normal(size=(5, 3)).astype(np.float32)
    residuals = np.asarray(data.outcomes, np.float64) - psi.astype(np.float64) @ (actions * contexts).T
    exact = -0.5 * ((residuals / 0.5) ** 2).sum(1) - 1000 * np.log(0.5 * np.sqrt(2 * np.pi))
    values, rounding = second_route(model, data, jnp.asarray(psi))
    np.testing.assert_allclose(values, exact, rtol=1e-7)
    assert (rounding < 1e-4 * np.abs(exact)).all()


@pytest.mark.parametrize("num_rows", [10, 1000])
def test_rounding_is_not_taken_for_a_fault(num_rows):
    """Outcomes around a million with a noise of one: single precision knows each residual to .06, so that sums differ."""
    rng = np.random.default_rng(0)
    model = LinearGaussian(
        lambda context, action: jnp.concatenate([1e6 * jnp.ones(1), 1e3 * context, action]),
        np.zeros(5), np.ones(5), SPACE, 1, 1.0,
    )  # fmt: skip
    actions = np.eye(3)[rng.integers(0, 3, num_rows)]
    near = 1 + 1e-6 * rng.normal(size=(64, 1)), 1 + 0.01 * rng.normal(size=(64, 1)), rng.normal(size=(64, 3))
    psi = np.concatenate(near, axis=1).astype(np.float32)
    contexts = rng.normal(size=(num_rows, 1)).astype(np.float32)
    data = cobed.Data(contexts, actions, 1e6 + 1e3 * contexts[:, 0] + rng.normal(size=num_rows))
    # The same numbers in another order of operations: in double precision.
    features = np.concatenate([np.full((num_rows, 1), 1e6), 1e3 * contexts, actions], axis=1)
    residuals = np.asarray(data.outcomes, np.float64) - psi.astype(np.float64) @ features.T
    witnesses = gaussian_witnesses(jnp.asarray(psi), residuals, 1.0)
    plain, rounding = second_route(model, data, witnesses.params)
    assert (np.abs(plain - witnesses.log_density) > HARMLESS + rounding).any()
    check_densities("test", model, data, witnesses)


def hurdle_program(contexts, actions):
    rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
    share = numpyro.sample("share", dist.Uniform(0.1, 0.9))
    effects = numpyro.sample("effects", dist.Normal(0, 1).expand([3]).to_event(1))
    numpyro.sample("y", dist.ZeroInflatedPoisson(share, rate * jnp.exp(actions @ effects)))


def test_chains_on_positive_and_bounded_sites_agree_with_the_second_route():
    """Their densities are those of the whole line, which differ from those of psi by the volume of the map."""
    data, _ = ten_rows()
    counts = cobed.Data(data.contexts, data.actions, [0, 3, 1, 0, 2, 0, 0, 1, 4, 0])
    assert cobed.infer(jr.key(0), from_numpyro(hurdle_program, SPACE), counts, NUTS(50, 50, 2)).num_draws == 100


def test_few_draws_are_computed_again(monkeypatch):
    """The second route costs a few dozen densities, whatever the sampler needs."""
    module = sys.modules[second_route.__module__]
    asked = []
    original = module._in_small_parts
    monkeypatch.setattr(
        module,
        "_in_small_parts",
        lambda *args: (asked.append(jax.tree.leaves(args[3])[0].shape[0]), original(*args))[1],
    )
    data, _ = ten_rows()
    cobed.infer(jr.key(0), from_numpyro(three_armed, SPACE, context_dim=1), data, Importance(1000))
    assert asked == [2 * NUM_EACH]
