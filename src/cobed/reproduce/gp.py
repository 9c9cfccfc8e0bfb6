"""The paper's Gaussian process example: a process over two context columns and one action, with observational data.

The design is made with the first n of 100 observations; the worlds are drawn from the process given all of them.
"""

import functools
from pathlib import Path
from typing import Literal

import numpy as np

from cobed.budget import BUDGETS, Budget
from cobed.critics import Separable
from cobed.data import Data
from cobed.designers.baselines import RandomUniform, Thompson
from cobed.designers.cobed import design
from cobed.designers.itl import TransductiveInformation
from cobed.designers.local_penalisation import LEVI, ExactUCB, UCBLocalPenalisation
from cobed.errors import ProblemError
from cobed.models import RBF, GaussianProcess
from cobed.optimum import Grid
from cobed.problem import Problem
from cobed.reproduce.gp_report import make_page, verdicts
from cobed.reproduce.study import Effort, Folder, Part, Record
from cobed.spaces import Box
from cobed.storage import write_output

Kind = Literal["confounded", "random"]
KINDS: tuple[Kind, ...] = ("confounded", "random")
NUM_OBSERVATIONS = 100
LENGTHSCALE, NOISE_STD = 1 / 3, 0.1
SPACE = Box(-1.0, 1.0)
GRID = Grid(128, 0)
# The noise of rows that the design does not know: as if they were not there.
UNKNOWN = 1e6

# How many of the observations the design knows.
SIZES = {"smoke": (0, 100), "quick": (0, 25, 50, 75, 100), "paper": (0, 25, 50, 75, 100)}

# The paper's critic; of those tried with few steps it also had the largest bound.
CRITIC = Separable((256,), 32)

EFFORTS = {
    "smoke": Effort(
        BUDGETS["smoke"].replace(pool_size=8_192), BUDGETS["smoke"].replace(pool_size=8_192),
        num_worlds=20, num_paper_worlds=0, num_seeds=1, num_draws=2, network=CRITIC,
    ),
    "quick": Effort(
        # InfoNCE as in the paper, from a random start. A design that moves at 0.05, the default, ends with a smaller bound
        # (5.8 instead of 6.1 nats at n = 100).
        Budget(
            num_steps=1_000, warm_steps=0, batch_size=512, settle_steps=0, num_evaluation_batches=1, pool_size=32_768,
            design_rate=0.02,
        ),
        Budget(num_steps=300, batch_size=512, settle_steps=0, num_evaluation_batches=8, pool_size=32_768),
        num_worlds=1_000, num_paper_worlds=0, num_seeds=1, num_draws=2, network=CRITIC,
    ),
    # The critic that measures a finished design has the quick optimiser: with the paper's 50,000 steps for each of the 550
    # designs, the measurements alone would take weeks.
    "paper": Effort(
        BUDGETS["paper"], BUDGETS["quick"],
        num_worlds=3_000, num_paper_worlds=0, num_seeds=5, num_draws=64, network=CRITIC,
    ),
}  # fmt: skip
# The value of the experiment has nothing to train and is the same in both budgets that count.
VALUE_BUDGETS = {"smoke": BUDGETS["smoke"], "quick": BUDGETS["quick"], "paper": BUDGETS["quick"]}

BASELINES = (
    RandomUniform(), Thompson(GRID), ExactUCB(alpha=0.0), ExactUCB(alpha=1.0), ExactUCB(alpha=2.0), UCBLocalPenalisation(),
    LEVI(), LEVI(penalised=True), TransductiveInformation(num_points=64),
)  # fmt: skip


def observational_data(kind: Kind, seed: int) -> Data:
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
    return Problem(_process(data, n), _square(7, 1.0), _square(4, 0.8), optimum=GRID)


def make_worlds(data: Data) -> GaussianProcess:
    """The process given all rows: what the worlds of the evaluation are drawn from."""
    return _process(data, data.num_rows)


def _process(data: Data, n: int) -> GaussianProcess:
    """Given the first `n` rows. The others stand at zero with boundless noise, which changes nothing: so all n have arrays
    of the same shapes, and what was compiled for one of them serves all."""
    known = np.arange(data.num_rows) < n
    return GaussianProcess(
        RBF(LENGTHSCALE), SPACE, 2, NOISE_STD,
        contexts=known[:, None] * data.contexts, actions=known[:, None] * data.actions, outcomes=known * data.outcomes,
        observation_noise=np.where(known, NOISE_STD, UNKNOWN),
    )  # fmt: skip


def _square(side: int, reach: float) -> np.ndarray:
    """side^2 points on an even grid over [-reach, reach]^2."""
    line = np.linspace(-reach, reach, side)
    return np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)


def make_parts(budget: str, effort: Effort, num_seeds: int) -> list[Part]:
    parts = []
    for kind in KINDS:
        # Drawn once: the same for all seeds, as in the paper.
        data = observational_data(kind, seed=0)
        worlds = make_worlds(data)
        for n in SIZES[budget]:
            problem, setting = make_problem(data, n), {"data": kind, "n": n}
            value = functools.partial(design, budget=VALUE_BUDGETS[budget])
            infonce = functools.partial(design, objective="infonce", budget=effort.design, network=effort.network)
            for seed in range(num_seeds):
                place = (setting, seed, problem)
                parts += [Part(baseline.name, *place, baseline, worlds=worlds) for baseline in BASELINES]
                parts.append(Part("CO-BED (infonce)", *place, infonce, trains=True, work=4.0, worlds=worlds))
                parts.append(Part("CO-BED", *place, value, trains=True, work=4.0, worlds=worlds))
    return parts


def write_report(folder: Folder, records: list[Record]) -> Path:
    """report.html, and the comparisons that matter as plain text in findings.txt."""
    text = "\n".join(verdicts(records)) + "\n"
    write_output(folder.path / "findings.txt", lambda file: file.write(text.encode()))
    observed = {kind: observational_data(kind, seed=0) for kind in KINDS}
    return make_page(folder, records, observed).write(folder.path / "report.html")
