"""Do compiled programs compute what they say? Large batches, jitted, against small chunks in NumPy, double precision.

jaxlib 0.10.2 fails here with errors of the size of the values themselves.
"""

import itertools
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import jax.random as jr
import jaxlib
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.special
from jax.scipy.linalg import cho_solve

import cobed
from cobed import compilation
from cobed.errors import CompilerError
from cobed.inference.base import Posterior
from cobed.models import GaussianProcess, LinearGaussian, from_numpyro
from cobed.models.kernels import RBF

# As users run them: the tests as a whole compile with fewer optimisations, which these options take back.
DEFAULT = {
    "xla_backend_optimization_level": 3,
    "xla_llvm_disable_expensive_passes": False,
    "xla_cpu_use_fusion_emitters": True,
}
LEAN = {**DEFAULT, "xla_backend_optimization_level": 1, **compilation.NO_EMITTERS}
OPTIONS = {"default": DEFAULT, "lean": LEAN, "quick": compilation.QUICK}

NUM_DRAWS = [4000, 1, 10_000, 3276, 7, 3277, 4096, 1000]
NUM_ROWS = [10, 1, 64]
WIDTHS = [3, 16, 1, 2, 5]
# With the error allowed, in units of the largest number that enters a sum.
PRECISION = {"float32": 1e-5, "float64": 1e-13, "bfloat16": 0.05, "int32": 0.0}


def predictor(xp, psi, row, offset):
    return xp.sum(row * psi, -1) + offset


# One draw of psi and one row, in the array library `xp`; NumPy takes many at once by broadcasting.
EXPRESSIONS = {
    "sum of products": predictor,
    "product of context and action": lambda xp, psi, row, offset: xp.sum(row * psi, -1) + 3 * offset * row[..., 0],
    "squared residual": lambda xp, psi, row, offset: (predictor(xp, psi, row, 0) - offset) ** 2,
    "logistic": lambda xp, psi, row, offset: -xp.logaddexp(0, xp.sign(offset) * predictor(xp, psi, row, 1)),
    "Poisson": lambda xp, psi, row, offset: (
        offset * predictor(xp, psi, row, 0) - xp.exp(xp.tanh(predictor(xp, psi, row, 0)))
    ),
    "kernel": lambda xp, psi, row, offset: offset * xp.exp(-xp.sum((row - psi) ** 2, -1) / 2),
    "quadratic": lambda xp, psi, row, offset: offset * xp.sum(row * psi, -1) - xp.sum(row * psi**2, -1),
}
# What becomes of the values (..., rows) of one draw.
REDUCTIONS = {
    "each": lambda xp, values: values,
    "sum": lambda xp, values: xp.sum(values, -1),
    "mean": lambda xp, values: xp.mean(values, -1),
    "logsumexp": lambda xp, values: (jax.nn.logsumexp if xp is jnp else scipy.special.logsumexp)(values, -1),
    "softmax": lambda xp, values: (jax.nn.softmax if xp is jnp else scipy.special.softmax)(values, -1),
    "best": lambda xp, values: xp.max(values, -1),
    "reward of the best": lambda xp, values: xp.take_along_axis(values, xp.argmax(values, -1)[..., None], -1)[..., 0],
}
# Whole numbers stay whole, and within 32 bits.
WHOLE = ("sum of products", "product of context and action", "squared residual", "quadratic")
WHOLE_REDUCTIONS = ("each", "sum", "best")


def shares_of_the_largest_error(expression, reduction, dtype, sizes, options):
    """The largest difference between compiled values and NumPy's, as a share of the largest number involved."""
    (num_draws, num_rows, width), one, reduce = sizes, EXPRESSIONS[expression], REDUCTIONS[reduction]
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape) for shape in ((num_draws, width), (num_rows, width), (num_rows,))]
    with jax.enable_x64(dtype == "float64"):
        if dtype == "int32":
            arrays = [np.rint(3 * array) for array in arrays]
        draws, rows, offsets = (jnp.asarray(array, dtype) for array in arrays)

        def batch(draws):
            each = jax.vmap(lambda psi, row, offset: one(jnp, psi, row, offset), in_axes=(None, 0, 0))
            return jax.vmap(lambda psi: reduce(jnp, each(psi, rows, offsets)))(draws)

        computed = jax.jit(batch).lower(draws).compile(options)(draws)
        computed, draws, rows, offsets = (np.asarray(array, np.float64) for array in (computed, draws, rows, offsets))
    errors, sizes = [], []
    for start in range(0, num_draws, 500):
        values = one(np, draws[start : start + 500, None], rows, offsets)
        errors.append(np.abs(computed[start : start + 500] - reduce(np, values)).max())
        sizes.append(np.abs(values).max() * (num_rows if reduction == "sum" else 1))
    return max(errors) / (width + max(sizes))


def cases(many: bool):
    """Many or few settings of each expression with each reduction, such that all sizes, types and options occur."""
    settings = list(itertools.product(NUM_DRAWS, NUM_ROWS, WIDTHS, PRECISION, OPTIONS))
    for turn, (expression, reduction) in enumerate(itertools.product(EXPRESSIONS, REDUCTIONS)):
        whole = expression in WHOLE and reduction in WHOLE_REDUCTIONS
        # Steps without a common divisor, so that going round the settings meets every combination in time.
        chosen = settings[turn % 29 :: 29] if many else [settings[turn * 89 % len(settings)]]
        if reduction in ("each", "sum"):
            chosen.append((4000, 10, 3, "float32", list(OPTIONS)[turn % 3]))
        for num_draws, num_rows, width, dtype, options in chosen:
            if dtype != "int32" or whole:
                yield expression, reduction, dtype, (num_draws, num_rows, width), options


def wrong_cases(many: bool) -> list[str]:
    wrong = []
    for expression, reduction, dtype, sizes, options in cases(many):
        error = shares_of_the_largest_error(expression, reduction, dtype, sizes, OPTIONS[options])
        if not error <= PRECISION[dtype]:
            wrong.append(f"{expression}, {reduction}, {dtype}, {sizes}, {options}: {error:.2g} of the largest")
    return wrong


def test_jitted_batches_equal_small_chunks_in_numpy():
    assert wrong_cases(many=False) == []


@pytest.mark.slow
def test_jitted_batches_of_every_size_equal_small_chunks_in_numpy():
    assert wrong_cases(many=True) == []


def test_the_reproducing_program_of_the_compilers_fault_is_right():
    """jax issue 39103, as it was met: rows from 3,276 on were wrong by up to 10.8."""
    num_draws, num_rows = 4000, 10
    rng = np.random.default_rng(0)
    shapes = (num_draws, 3), (num_rows, 3), (num_rows, 1)
    draws, actions, contexts = (rng.normal(size=shape).astype(np.float32) for shape in shapes)

    def mean(psi, context, action):
        return jnp.sum(action * psi, -1) + 0.3 * context[:, 0] * action[:, 0]

    def rewards(draws):
        return jax.vmap(lambda psi: jax.vmap(lambda c, a: mean(psi, c[None], a[None])[0])(contexts, actions))(draws)

    exact = draws.astype(np.float64) @ actions.T.astype(np.float64) + 0.3 * contexts[:, 0] * actions[:, 0]
    for options in OPTIONS.values():
        np.testing.assert_allclose(jax.jit(rewards, compiler_options=options)(draws), exact, atol=1e-5)
    assert compilation.sum_of_products_error() < 1e-5


@pytest.mark.parametrize("options", OPTIONS)
def test_batches_of_small_systems_sorts_and_sums_by_group_equal_numpy(options):
    """What the engine compiles besides expressions of a draw and a row."""
    rng = np.random.default_rng(0)
    num, size = 10_000, 4
    roots = rng.normal(size=(num, size, size))
    matrices, right = roots @ roots.swapaxes(1, 2) + 2 * np.eye(size), rng.normal(size=(num, size))
    groups, noise = rng.integers(0, 50, num), rng.gumbel(size=(num, 3))

    def programs(matrices, right, groups, noise):
        solve = jax.vmap(lambda matrix, vector: cho_solve((jnp.linalg.cholesky(matrix), True), vector))
        weights = jax.nn.softmax(right[:, 0])
        return (
            solve(matrices, right),
            jax.vmap(lambda x, g: jax.nn.softmax((x[:3] + g) / 0.5) @ jnp.arange(3.0))(right, noise),
            jax.ops.segment_sum(right, groups, 50),
            jnp.cumsum(weights),
            jnp.sort(right[:, 1]),
            # The slope of a mean over draws in one psi: what an ascent follows.
            jax.grad(lambda w: jnp.mean(jnp.tanh(jax.vmap(lambda x: jnp.sum(x * w))(right))))(right[0]),
            right.T @ right / num,
        )

    single = [jnp.asarray(array, jnp.float32) for array in (matrices, right, noise)]
    computed = jax.jit(programs, compiler_options=OPTIONS[options])(*single[:2], jnp.asarray(groups), single[2])
    sums = np.zeros((50, size))
    np.add.at(sums, groups, right)
    expected = (
        np.linalg.solve(matrices, right[..., None])[..., 0],
        scipy.special.softmax((right[:, :3] + noise) / 0.5, axis=1) @ np.arange(3.0),
        sums,
        np.cumsum(scipy.special.softmax(right[:, 0])),
        np.sort(right[:, 1]),
        np.mean(right / np.cosh(right @ right[0])[:, None] ** 2, axis=0),
        right.T @ right / num,
    )
    for ours, theirs in zip(computed, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)


def treatment_program(contexts, actions):
    effects = numpyro.sample("effects", dist.Normal(0, 1).expand([3]))
    mean = numpyro.deterministic("reward", jnp.sum(actions * effects, -1) + 0.3 * contexts[:, 0] * actions[:, 0])
    numpyro.sample("y", dist.Normal(mean, 0.5))


MODELS = {
    "numpyro": lambda space: from_numpyro(treatment_program, space, context_dim=2),
    "linear": lambda space: LinearGaussian(
        lambda context, action: jnp.concatenate([action, context[0] * action]), np.zeros(6), np.ones(6), space, 2, 0.5
    ),
    "gaussian process": lambda space: GaussianProcess(RBF(1.0), space, context_dim=2, noise_std=0.5),
}


@pytest.mark.parametrize("name", MODELS)
def test_mean_rewards_of_many_draws_are_those_of_each_draw_alone(name, monkeypatch):
    """By the function that decisions are made with, also with a compiler that cobed refuses."""
    monkeypatch.setattr(compilation, "RIGHT", {jaxlib.__version__})
    compilation.check_compiler.cache_clear()
    space = cobed.Discrete(["none", "mail", "call"])
    model = MODELS[name](space)
    num_draws, num_rows = 4000, 10
    draws = jax.jit(jax.vmap(model.sample_prior))(jr.split(jr.key(0), num_draws))
    contexts = jr.normal(jr.key(1), (num_rows, 2))
    actions = jax.vmap(space.sample)(jr.split(jr.key(2), num_rows))
    batch = np.asarray(Posterior(draws, jnp.zeros(num_draws), "test").mean_rewards(model, contexts, actions))

    @jax.jit
    def alone(draw):
        psi = jax.tree.map(lambda leaf: leaf[draw], draws)
        return jax.vmap(lambda context, action: model.mean_reward(psi, context, action))(contexts, actions)

    for draw in [0, 1, 1999, 3275, *range(3276, num_draws, 37), num_draws - 1]:
        np.testing.assert_allclose(batch[draw], alone(draw), atol=1e-4, err_msg=f"draw {draw}")


def test_models_are_refused_where_the_compiler_is_known_to_be_wrong(monkeypatch):
    """Without the flag, no program is run: some of these versions crash."""
    monkeypatch.setattr(compilation, "RIGHT", set())
    monkeypatch.setattr(compilation, "WRONG", {jaxlib.__version__})
    monkeypatch.setattr(compilation, "sum_of_products_error", None)
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    compilation.check_compiler.cache_clear()
    with pytest.raises(CompilerError, match=r"computes wrong numbers.*pip install.*XLA_FLAGS=--xla_cpu_experimental"):
        cobed.models.DiscreteExample()
    compilation.check_compiler.cache_clear()


def test_a_compiler_of_an_unknown_version_is_judged_by_what_it_computes(monkeypatch):
    monkeypatch.setattr(compilation, "RIGHT", set())
    monkeypatch.setattr(compilation, "WRONG", set())
    compilation.check_compiler.cache_clear()
    cobed.models.DiscreteExample()
    compilation.check_compiler.cache_clear()
    monkeypatch.setattr(compilation, "sum_of_products_error", lambda: 10.8)
    with pytest.raises(CompilerError, match=jaxlib.__version__):
        cobed.models.DiscreteExample()


def test_a_wrong_version_is_accepted_with_the_fusion_switched_off_and_right_results(monkeypatch):
    monkeypatch.setattr(compilation, "RIGHT", set())
    monkeypatch.setattr(compilation, "WRONG", {jaxlib.__version__})
    monkeypatch.setenv("XLA_FLAGS", f"--xla_cpu_enable_fast_math=false {compilation.FUSION_FLAG}")
    compilation.check_compiler.cache_clear()
    cobed.models.DiscreteExample()
    compilation.check_compiler.cache_clear()


MANY_SHAPES = """
import sys
from pathlib import Path
import jax.numpy as jnp, numpy as np
from cobed import compilation

@compilation.lean_jit
def program(x):
    return jnp.sin(x) * jnp.cumsum(x) @ x

def num_maps():
    return Path("/proc/self/maps").read_bytes().count(b"\\n")

def compile_shapes(sizes):
    for size in sizes:
        program(np.ones(size, np.float32))
"""


def run(lines: str, *arguments: str) -> list[int]:
    """The whole numbers that a new process prints."""
    done = subprocess.run(
        [sys.executable, "-c", MANY_SHAPES + lines, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [int(word) for word in done.stdout.split()]


@pytest.mark.skipif(not compilation.MAX_MAPS.exists(), reason="only Linux limits memory maps this way")
def test_compiled_programs_are_forgotten_at_half_of_the_memory_maps_allowed(tmp_path):
    """30 programs keep some 450 maps. The limit is lowered so that they are more than half of it, less than all."""
    lines = """
compilation.MAX_MAPS, compilation.PROGRAMS_PER_COUNT = Path(sys.argv[1]), 1
start = num_maps()
compilation.MAX_MAPS.write_text("65530")
compile_shapes(range(1, 31))
kept = num_maps()
compilation.MAX_MAPS.write_text(str(2 * kept - 200))
compile_shapes(range(31, 33))
print(start, kept, num_maps())
"""
    start, kept, after = run(lines, str(tmp_path / "limit"))
    assert kept > start + 300
    assert after < kept - 200


@pytest.mark.slow
@pytest.mark.skipif(not compilation.MAX_MAPS.exists(), reason="only Linux limits memory maps this way")
def test_a_process_survives_thousands_of_shapes():
    """Without dropping programs it crashes after about 4,300."""
    (maps,) = run("compile_shapes(range(1, 6000))\nprint(num_maps())")
    assert maps < int(compilation.MAX_MAPS.read_text())
