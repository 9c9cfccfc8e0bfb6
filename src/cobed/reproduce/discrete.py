"""The paper's discrete example: four actions, ten units, deployment on the other side of the context axis."""

from collections.abc import Iterator, Sequence

from cobed.budget import BUDGETS, Budget
from cobed.designers.baselines import UCB, RandomUniform, Thompson
from cobed.inference.conjugate import Conjugate
from cobed.models import DiscreteExample, discrete
from cobed.problem import Problem
from cobed.report.page import Page
from cobed.reproduce.experiment import Effort, Experiment, Setting, baselines, cobed_method, same_for_all_seeds
from cobed.reproduce.figures import add_calibration, curves_figure, designs_figure
from cobed.reproduce.study import Record
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


def make_problem() -> Problem:
    contexts = discrete.contexts()
    return Problem(DiscreteExample(), contexts, -contexts)


def settings(budget: str, effort: Effort) -> Iterator[Setting]:
    options = {"objective": "infonce", "budget": effort.design}
    # Information about psi has fewer local optima: two starts are enough.
    classical = options | {"budget": effort.design.replace(num_starts=2), "about": "parameters"}
    methods = [
        *baselines(BASELINES), cobed_method("EIG", work=3.0, **classical), cobed_method("CO-BED", work=10.0, **options)
    ]  # fmt: skip
    yield Setting({}, same_for_all_seeds(make_problem), methods)


def report(page: Page, records: Sequence[Record], budget: str) -> None:
    problem, groups = make_problem(), by_method(records)
    for protocol in ("exact", "paper"):
        page.heading(f"Protocol {protocol}")
        page.table(comparison_table(groups, protocol, published("discrete")))
    page.text("EIG is the classical objective, information about all of psi.", note=True)
    page.figure(designs_figure(groups, problem))
    trained = [record for record in records if record.method in ("CO-BED", "EIG")]
    page.figure(curves_figure({f"{record.method}, seed {record.seed}": record for record in trained}))
    page.heading("Why m* and not psi")
    page.text(
        "Three units, two actions, one target context. A is the less certain one, and known to be worse where we will "
        "deploy. With B for every unit the outcomes tell least about all of psi, and most about the best reward at the target."
    )
    page.figure(stylised_figure())
    add_calibration(page, problem, groups["CO-BED"][0].actions, Conjugate(), 1_000)


EXPERIMENT = Experiment(
    name="discrete",
    title="CO-BED, the discrete example",
    about="Which of four actions to try on ten units with contexts from -3 to -1, to decide for contexts from 1 to 3?",
    choices=(
        "Two protocols. `paper`: as the printed table was made, where the deployed action comes from the prior and not from "
        "the posterior; the two best actions are tied there, so every design deploys one of them and loses 1.15 with a hit "
        "rate of one half, whatever it learned. `exact`: the closed-form Gaussian posterior, which separates the methods.",
    ),
    efforts=EFFORTS,
    settings=settings,
    report=report,
)
