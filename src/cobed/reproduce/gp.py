"""The paper's Gaussian process example: a process over two context columns and one action, with observational data.

The design is made with the first n of 100 observations; the worlds are drawn from the process given all of them.
"""

from typing import Literal

import numpy as np

from cobed.data import Data
from cobed.errors import ProblemError
from cobed.models import RBF, GaussianProcess
from cobed.optimum import Grid
from cobed.problem import Problem
from cobed.spaces import Box

NUM_OBSERVATIONS = 100
LENGTHSCALE, NOISE_STD = 1 / 3, 0.1
SPACE = Box(-1.0, 1.0)


def observational_data(kind: Literal["confounded", "random"], seed: int) -> Data:
    """100 rows: contexts uniform on the square, actions that follow the first context column or nothing.

    y = 1 + sin(pi (c1 - c2)) - (a - sin(pi (c1 + c2)))^2, without noise; the process takes them to have some.
    """
    rng = np.random.default_rng(seed)
    contexts = rng.uniform(-1, 1, (NUM_OBSERVATIONS, 2))
    if kind == "confounded":
        actions = np.sign(contexts[:, 0]) * rng.uniform(0.8, 1, NUM_OBSERVATIONS)
    elif kind == "random":
        actions = rng.uniform(-1, 1, NUM_OBSERVATIONS)
    else:
        raise ProblemError(f"Unknown kind of observational data {kind!r}. Allowed: 'confounded', 'random'.")
    first, second = contexts.T
    best = np.sin(np.pi * (first + second))
    return Data(contexts, actions, 1 + np.sin(np.pi * (first - second)) - (actions - best) ** 2)


def make_problem(data: Data, n: int) -> Problem:
    """49 units on a grid, 16 targets on a smaller one, and the process given the first `n` rows."""
    if not 0 <= n <= data.num_rows:
        raise ProblemError(f"n is the number of rows the design knows, from 0 to {data.num_rows}; got {n}.")
    return Problem(_process(data, n), _square(7, 1.0), _square(4, 0.8), optimum=Grid(128, 0))


def make_worlds(data: Data) -> GaussianProcess:
    """The process given all rows: what the worlds of the evaluation are drawn from."""
    return _process(data, data.num_rows)


def _process(data: Data, n: int) -> GaussianProcess:
    process = GaussianProcess(RBF(LENGTHSCALE), SPACE, 2, NOISE_STD)
    return process if n == 0 else process.condition(Data(data.contexts[:n], data.actions[:n], data.outcomes[:n]))


def _square(side: int, reach: float) -> np.ndarray:
    """side^2 points on an even grid over [-reach, reach]^2."""
    line = np.linspace(-reach, reach, side)
    return np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
