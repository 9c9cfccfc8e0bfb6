"""The paper's discrete example: four actions, ten units, deployment on the other side of the context axis."""

import functools
from pathlib import Path

from cobed.budget import BUDGETS, Budget
from cobed.designers.baselines import UCB, RandomUniform, Thompson
from cobed.designers.cobed import design
from cobed.inference.calibration import calibrate
from cobed.inference.conjugate import Conjugate
from cobed.models import DiscreteExample, discrete
from cobed.problem import Problem
from cobed.report.calibration import posterior_check_figure, rank_figure
from cobed.report.page import Page
from cobed.reproduce.figures import curves_figure, designs_figure
from cobed.reproduce.study import Effort, Folder, Part, Record
from cobed.reproduce.stylised import stylised_figure
from cobed.reproduce.summary import by_method, comparison_table, published

EFFORTS = {
    "smoke": Effort(BUDGETS["smoke"], BUDGETS["smoke"], num_worlds=200, num_paper_worlds=20, num_seeds=1),
    # Designs are ranked with a critic settled for 100 steps; every method then gets a critic of its own.
    "quick": Effort(
        Budget(num_starts=5, settle_steps=100, num_evaluation_batches=8),
        Budget(num_steps=1_000, batch_size=512, settle_steps=0),
        num_worlds=20_000, num_paper_worlds=1_000, num_seeds=1,
    ),
    "paper": Effort(BUDGETS["paper"], BUDGETS["paper"], num_worlds=20_000, num_paper_worlds=2_000, num_seeds=10),
}  # fmt: skip

BASELINES = (UCB(0.0), UCB(1.0), UCB(2.0), Thompson(), RandomUniform())

WHY_PROTOCOLS = (
    "Two protocols. `paper`: as the printed table was made, where the deployed action comes from the prior and not from "
    "the posterior; the two best actions are tied there, so every design deploys one of them and loses 1.15 with a hit "
    "rate of one half, whatever it learned. `exact`: the closed-form Gaussian posterior, which separates the methods."
)


def make_problem() -> Problem:
    contexts = discrete.contexts()
    return Problem(DiscreteExample(), contexts, -contexts)


def make_parts(budget: str, effort: Effort, num_seeds: int) -> list[Part]:
    problem = make_problem()
    parts = []
    for seed in range(num_seeds):
        parts += [Part(baseline.name, {}, seed, problem, baseline) for baseline in BASELINES]
        # Information about psi has fewer local optima: two starts are enough.
        classical = functools.partial(
            design, objective="infonce", budget=effort.design.replace(num_starts=2), about="parameters"
        )
        parts.append(Part("EIG", {}, seed, problem, classical, trains=True, work=3.0))
        ours = functools.partial(design, objective="infonce", budget=effort.design)
        parts.append(Part("CO-BED", {}, seed, problem, ours, trains=True, work=10.0))
    return parts


def write_report(folder: Folder, records: list[Record]) -> Path:
    problem = make_problem()
    groups = by_method(records)
    page = Page("CO-BED, the discrete example")
    page.text(
        f"Budget {folder.budget}, {len(groups['CO-BED'])} seed(s). Which of four actions to try on ten units "
        "with contexts from -3 to -1, to decide for contexts from 1 to 3?"
    )
    page.text(WHY_PROTOCOLS)
    for protocol in ("exact", "paper"):
        page.heading(f"Protocol {protocol}")
        page.table(comparison_table(groups, protocol, published("discrete")))
    page.text(
        "± is one standard error: over seeds where there are at least 3, else over worlds. CMV-EIG is a lower bound, by a "
        "critic trained for each finished design, on fresh draws: where ours is above the printed one, its critic was trained "
        "further, and of two lower bounds the larger is nearer the truth. MSE(m*) is of the posterior mean of m*. EIG is the "
        "classical objective, information about all of psi.",
        note=True,
    )
    page.figure(designs_figure(groups, problem))
    trained = [record for record in records if record.method in ("CO-BED", "EIG")]
    page.figure(curves_figure({f"{record.method}, seed {record.seed}": record for record in trained}))
    page.heading("Why m* and not psi")
    page.text(
        "Three units, two actions, one target context. A is the less certain one, and known to be worse where we will "
        "deploy. With B for every unit the outcomes tell least about all of psi, and most about the best reward at the target."
    )
    page.figure(stylised_figure())
    page.heading("Is the posterior right?")
    actions = groups["CO-BED"][0].actions
    calibration = calibrate(problem, actions, Conjugate(), num_worlds=1_000, seed=0)
    page.figure(rank_figure(calibration))
    page.figure(posterior_check_figure(calibration))
    return page.write(folder.path / "report.html")
