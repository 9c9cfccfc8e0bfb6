"""What many tests share: problems, compiled programs, a way to give commands."""

import atexit
import gc
import os
import shutil
import subprocess
import sys
import tempfile

# Most tests run a function once or twice: compiling it well costs more than it saves. Processes they start do the same.
# Set before JAX is imported, here and there.
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
# Without them the compiler takes a third of the time. `test_compilation` switches them on again.
os.environ["XLA_FLAGS"] = f"--xla_cpu_use_fusion_emitters=false {os.environ.get('XLA_FLAGS', '')}"
# There is a worker for each core: more threads would wait for each other, and linear algebra waits by computing.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
# Workers, and the processes that tests start, take programs that another has compiled in this run.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="cobed-compiled-")
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    # XLA complains at length about its own files.
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import jax.numpy as jnp
import numpy as np
import pytest

import cobed
from cobed import cli
from cobed.models import LinearGaussian, continuous, discrete


def pytest_collection_finish():
    # What is imported stays: the garbage collector need not walk through it again and again.
    gc.freeze()
    gc.set_threshold(20_000)


def oracle_features(context, action):
    """phi of the linear-Gaussian oracle: experiments measure the coefficient the action names, targets both kinds."""
    is_target, which = context[0], context[1]
    target_row = jnp.stack([1 - which, which])
    return jnp.where(is_target > 0.5, target_row, action)


def oracle_problem(num_units: int = 3) -> cobed.Problem:
    """Coefficients with sds (1, 1.5), noise 1. At the targets the reward is a coefficient, whatever the action, so that
    m* is linear in psi and I(m*; y) has a closed form: 1/2 ln 11 for one look at the first and two at the second."""
    model = LinearGaussian(oracle_features, [0.0, 0.0], [1.0, 2.25], cobed.Discrete(["first", "second"]), 2, 1.0)
    contexts = np.zeros((num_units, 2), np.float32)
    return cobed.Problem(model, contexts, np.array([[1.0, 0.0], [1.0, 1.0]], np.float32))


@pytest.fixture(scope="session")
def make_linear_problem():
    return oracle_problem


@pytest.fixture(scope="session")
def linear_problem() -> cobed.Problem:
    return oracle_problem()


@pytest.fixture(scope="session")
def discrete_problem() -> cobed.Problem:
    contexts = discrete.contexts()
    return cobed.Problem(cobed.models.DiscreteExample(), contexts, -contexts)


@pytest.fixture(scope="session")
def continuous_problem() -> cobed.Problem:
    return cobed.Problem(cobed.models.ContinuousExample(), continuous.contexts(6), continuous.targets(6))


@pytest.fixture
def run_command(monkeypatch, capsys):
    """A command in this process, which has JAX already: its exit code and what it said, as of a process of its own."""

    def run(*arguments, cwd):
        monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "argv", ["cobed", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capsys.readouterr()
        code = end.value.code
        if isinstance(code, str):
            code, err = 1, f"{err}{code}\n"
        return subprocess.CompletedProcess(arguments, code or 0, out, err)

    return run
