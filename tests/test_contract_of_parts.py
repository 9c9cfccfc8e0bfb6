"""Every registered objective, sampler and designer keeps the contract of its kind, on problems that all of them share.

Outcome laws have theirs in tests/outcomes/test_laws.py, kinds of columns in tests/campaign/test_columns.py, rules in
tests/rules/test_kinds.py, experiments in tests/reproduce/test_study.py.
"""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import cobed
from cobed import compilation
from cobed.designers.known import DESIGNERS
from cobed.errors import CobedError, NoDensityError
from cobed.inference.base import compiled_draw
from cobed.inference.choice import SAMPLERS
from cobed.inference.conjugate import posterior_moments
from cobed.models import RBF, GaussianProcess, LinearBandit
from cobed.models.causal import CausalGraph
from cobed.models.effects import EffectFeatures, EffectModel
from cobed.models.two_part import TwoPart
from cobed.objectives import FixedDesign, Trainable
from cobed.objectives.kinds import OBJECTIVES, Task
from cobed.optimum import Grid
from cobed.outcomes import BERNOULLI, GAMMA, HURDLE, NORMAL
from cobed.registry import Registry

# Two contexts with three actions each, of which features are known.
TABLE = np.array([[[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], [[0.0, 0.3], [1.0, 1.0], [0.0, 0.0]]])
TINY = cobed.Budget(
    num_steps=2, closed_form_steps=2, batch_size=16, num_starts=1, settle_steps=0, settle_batch_size=16,
    num_evaluation_batches=1, pool_size=64,
)  # fmt: skip
# NUTS takes long to compile.
LONG = {"nuts": pytest.mark.slow}


@pytest.fixture(scope="module")
def problems() -> dict[str, cobed.Problem]:
    bandit = LinearBandit(TABLE, prior_cov=np.array([1.0, 2.0]), noise_std=0.5)
    process = GaussianProcess(RBF(0.5), cobed.Box(-1.0, 1.0), 1, 0.1, num_features=16)
    line = np.linspace(-1, 1, 3)[:, None]
    contexts = np.array([[1.0], [2.0], [2.0]])
    effects = EffectFeatures(cobed.Discrete(["a", "b"]), {"x": 1}, num_frequencies=0)
    learned = EffectModel(effects, NORMAL, effects.prior(0.0, 1.0, (0.0, 0.5)))
    parts = [EffectModel(effects, law, effects.prior(0.0, 1.0, (0.0, 0.5))) for law in (BERNOULLI, GAMMA, HURDLE)]
    return {
        "options": cobed.Problem(bandit, contexts, [[1.0], [2.0]]),
        "a number": cobed.Problem(process, line, line / 2, optimum=Grid(8, 0)),
        "learned deviations": cobed.Problem(learned, contexts, contexts),
        "amounts in two parts": cobed.Problem(TwoPart(*parts), contexts, contexts),
        "a sparse graph": cobed.Problem(CausalGraph(2), np.eye(8)[:4], np.eye(8)[:2]),
    }


def each(registry: Registry, **marks):
    names = list(registry.items())
    return pytest.mark.parametrize("name", [pytest.param(n, marks=marks[n]) if n in marks else n for n in names])


def num_compiled(function, *arguments) -> int:
    """How many programs a call compiles. Counted by the listener that `compilation` has."""
    before = compilation.num_compiled
    function(*arguments)
    return compilation.num_compiled - before


@each(DESIGNERS)
def test_designs_are_valid_repeatable_and_refused_with_a_sentence(name, problems):
    designer, served = DESIGNERS.named(name), 0
    assert designer.name == name
    for problem in problems.values():
        try:
            result = designer(problem, seed=1)
        except CobedError:
            with pytest.raises(CobedError, match="needs"):
                designer(problem, seed=2)
            continue
        served += 1
        assert result.method == name
        problem.check_actions(result.actions)
        assert len(result.labels) == len(result.to_frame()) == problem.num_contexts
        assert result.information is None
        np.testing.assert_array_equal(designer(problem, seed=1).actions, result.actions)
    assert served


@each(OBJECTIVES)
def test_objectives_are_numbers_of_design_and_key_alone_in_compiled_code(name, problems):
    problem, kind = problems["options"], OBJECTIVES.named(name)
    try:
        objective = kind.build(Task(jr.key(0), problem, TINY, kind.abouts[0], None))
    except NoDensityError:
        pytest.skip("m* of this problem has no density")
    assert objective.name == name
    network = objective.initial_network(jr.key(1))
    designs = jnp.asarray(np.eye(3)[[[0, 1, 2], [1, 1, 0], [2, 0, 1]]])

    @jax.jit
    def value(actions, key):
        return objective(Trainable(FixedDesign(actions), network), key, jnp.zeros(()))

    values = [value(actions, jr.key(2)) for actions in designs]
    assert all(np.shape(v) == () and np.isfinite(v) for v in values)
    assert num_compiled(value, designs[1], jr.key(2)) == 0
    assert value(designs[0], jr.key(2)) == values[0]
    np.testing.assert_allclose(jax.vmap(value, in_axes=(0, None))(designs, jr.key(2)), values, rtol=2e-4, atol=2e-4)
    assert objective.unit
    assert objective.resized(8).name == name


@each(SAMPLERS, **LONG)
def test_samplers_draw_the_posterior_again_and_without_compiling_again(name, problems):
    sampler, served = SAMPLERS.named(name), 0
    for problem in problems.values():
        actions = DESIGNERS.named("Random")(problem, seed=0).actions
        data = cobed.Data(problem.contexts, actions, 0.3 * np.arange(problem.num_contexts))
        if (reason := sampler.unfit(problem.model, data)) is not None:
            assert reason.endswith((".", ")"))
            with pytest.raises(CobedError, match=f"by {name} is not possible"):
                sampler.require_fit(problem.model, data)
            continue
        served += 1
        posterior = sampler.posterior(jr.key(0), problem.model, data)
        assert posterior.method == name
        assert len(posterior.log_weights) == len(jax.tree.leaves(posterior.params)[0])
        again = sampler.posterior(jr.key(0), problem.model, data)
        jax.tree.map(np.testing.assert_array_equal, posterior.params, again.params)
        if (compiled := sampler.compiled()) is not None:
            compiled_draw(compiled, jr.key(0), problem.model, data)
            other = data.with_outcomes(data.outcomes + 0.1)
            assert num_compiled(compiled_draw, compiled, jr.key(1), problem.model, other) == 0
        if problem is problems["options"]:
            mean, cov = posterior_moments(problem.model, data)
            weights = np.asarray(posterior.weights)
            error = np.abs(weights @ np.asarray(posterior.params) - mean)
            # 5 standard errors of the effective number of draws, two numbers: false alarm below 1 in 800,000.
            assert (error < 5 * np.sqrt(np.diag(cov) * np.sum(weights**2))).all()
    assert served
