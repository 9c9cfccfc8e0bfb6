"""The paper's continuous example: one real action per unit, 20, 40 or 60 units, deployment at the midpoints."""

from collections.abc import Iterator, Sequence

from cobed.budget import BUDGETS, Budget
from cobed.designers.baselines import UCB, RandomNormal, Thompson
from cobed.inference.smc import TemperedSMC
from cobed.models import ContinuousExample, continuous
from cobed.optimum import Grid
from cobed.problem import Problem
from cobed.report.page import Page
from cobed.reproduce.experiment import Effort, Experiment, Setting, baselines, cobed_method, same_for_all_seeds
from cobed.reproduce.figures import add_calibration, curves_figure, designs_figure
from cobed.reproduce.study import Record
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


def make_problem(num_contexts: int) -> Problem:
    return Problem(ContinuousExample("released"), continuous.contexts(num_contexts), continuous.targets(num_contexts))


def settings(budget: str, effort: Effort) -> Iterator[Setting]:
    for size in SIZES:
        ours = cobed_method("CO-BED", work=size / 15, objective="infonce", budget=effort.design)
        yield Setting({"D": size}, same_for_all_seeds(make_problem, size), [*baselines(BASELINES, size / 40), ours])


def report(page: Page, records: Sequence[Record], budget: str) -> None:
    for size in SIZES:
        groups = by_method(records, D=size)
        for protocol in ("exact", "paper"):
            page.heading(f"{size} units, {size - 1} targets, protocol {protocol}")
            page.table(comparison_table(groups, protocol, published(f"continuous-{size}")))
        page.figure(designs_figure(groups, make_problem(size)))
    page.heading("Training")
    trained = by_method(records)["CO-BED"]
    page.figure(curves_figure({f"D={record.setting['D']}, seed {record.seed}": record for record in trained}))
    actions = by_method(records, D=20)["CO-BED"][0].actions
    add_calibration(page, make_problem(20), actions, TemperedSMC(512), 100 if budget == "smoke" else 500)


EXPERIMENT = Experiment(
    name="continuous",
    title="CO-BED, the continuous example",
    about="The reward is a bump over the action whose place depends on the context; the model is the one of the authors' code "
    "(variant `released`), which made the printed tables.",
    choices=(
        "Two protocols. `paper`: as the printed tables were made, by importance sampling from 10,000 prior draws, of which one "
        "to five carry all the weight, each number of psi resampled by itself, deploying the posterior mean of a*. `exact`: a "
        "calibrated joint posterior (tempered SMC), deploying the action of the largest posterior expected reward.",
    ),
    efforts=EFFORTS,
    settings=settings,
    report=report,
)
