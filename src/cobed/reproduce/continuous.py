"""The paper's continuous example: one real action a unit, 20, 40 or 60 units, deployment at the midpoints."""

import functools
from pathlib import Path

from cobed.budget import BUDGETS, Budget
from cobed.designers.baselines import UCB, RandomNormal, Thompson
from cobed.designers.cobed import design
from cobed.inference.calibration import calibrate
from cobed.inference.smc import TemperedSMC
from cobed.models import ContinuousExample, continuous
from cobed.optimum import Grid
from cobed.problem import Problem
from cobed.report.calibration import posterior_check_figure, rank_figure
from cobed.report.page import Page
from cobed.reproduce.figures import curves_figure, designs_figure
from cobed.reproduce.study import Effort, Folder, Part, Record
from cobed.reproduce.summary import by_method, comparison_table, published

SIZES = (20, 40, 60)

EFFORTS = {
    "smoke": Effort(BUDGETS["smoke"], BUDGETS["smoke"], num_worlds=20, num_paper_worlds=20, num_seeds=1),
    "quick": Effort(
        Budget(settle_steps=0, num_evaluation_batches=1),
        Budget(num_steps=500, settle_steps=0),
        num_worlds=200, num_paper_worlds=300, num_seeds=1,
    ),
    "paper": Effort(BUDGETS["paper"], BUDGETS["paper"], num_worlds=4_000, num_paper_worlds=4_000, num_seeds=6),
}  # fmt: skip

# The authors look for the actions of UCB and Thompson on 500 points of [-4, 4].
GRID = Grid(num_points=500, num_refinements=0)
BASELINES = (
    RandomNormal(0.2), RandomNormal(1.0), RandomNormal(2.0),
    UCB(0.0, optimum=GRID), UCB(1.0, optimum=GRID), UCB(2.0, optimum=GRID), Thompson(GRID),
)  # fmt: skip

WHY_PROTOCOLS = (
    "Two protocols. `paper`: as the printed tables were made, by importance sampling from 10,000 prior draws, of which one "
    "to five carry all the weight, each number of psi resampled by itself, deploying the posterior mean of a*. `exact`: a "
    "calibrated joint posterior (tempered SMC), deploying the action of the largest posterior expected reward."
)


def make_problem(num_contexts: int) -> Problem:
    return Problem(ContinuousExample("released"), continuous.contexts(num_contexts), continuous.targets(num_contexts))


def make_parts(budget: str, effort: Effort, num_seeds: int) -> list[Part]:
    parts = []
    for size in SIZES:
        problem, setting = make_problem(size), {"D": size}
        for seed in range(num_seeds):
            parts += [Part(baseline.name, setting, seed, problem, baseline, work=size / 40) for baseline in BASELINES]
            designer = functools.partial(design, objective="infonce", budget=effort.design)
            parts.append(Part("CO-BED", setting, seed, problem, designer, trains=True, work=size / 15))
    return parts


def write_report(folder: Folder, records: list[Record]) -> Path:
    page = Page("CO-BED, the continuous example")
    num_seeds = len({record.seed for record in records})
    page.text(
        f"Budget {folder.budget}, {num_seeds} seed(s). The reward is a bump over the action whose place depends on the "
        "context; the model is the one of the authors' code (variant `released`), which made the printed tables."
    )
    page.text(WHY_PROTOCOLS)
    for size in SIZES:
        groups = by_method(records, D=size)
        for protocol in ("exact", "paper"):
            page.heading(f"{size} units, {size - 1} targets, protocol {protocol}")
            page.table(comparison_table(groups, protocol, published(f"continuous-{size}")))
        page.figure(designs_figure(groups, make_problem(size)))
    page.text(
        "± is one standard error: over seeds where there are at least 3, else over worlds. CMV-EIG is a lower bound, by a "
        "critic trained for each finished design, on fresh draws. MSE(m*) is of the posterior mean of m*.",
        note=True,
    )
    page.heading("Training")
    trained = [record for record in records if record.method == "CO-BED"]
    page.figure(curves_figure({f"D={record.setting['D']}, seed {record.seed}": record for record in trained}))
    page.heading("Is the posterior right?")
    problem = make_problem(20)
    actions = by_method(records, D=20)["CO-BED"][0].actions
    num_worlds = 100 if folder.budget == "smoke" else 500
    calibration = calibrate(problem, actions, TemperedSMC(512), num_worlds=num_worlds, seed=0)
    page.figure(rank_figure(calibration))
    page.figure(posterior_check_figure(calibration))
    return page.write(folder.path / "report.html")
