"""The paper's ablation: how the temperature of the Gumbel-Softmax, and annealing it, change what is found."""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from cobed.budget import BUDGETS, Budget
from cobed.policies import Temperature
from cobed.report.page import Page
from cobed.reproduce.discrete import make_problem
from cobed.reproduce.experiment import Effort, Experiment, Setting, cobed_method, same_for_all_seeds
from cobed.reproduce.figures import curves_figure, metric_figure
from cobed.reproduce.study import Record
from cobed.reproduce.summary import published, summarise, table_over

TEMPERATURES = {"paper": (0.1, 0.5, 1.0, 2.0, 5.0, 10.0), "quick": (0.1, 0.5, 2.0, 10.0), "smoke": (0.1, 10.0)}

EFFORTS = {
    "smoke": Effort(BUDGETS["smoke"], BUDGETS["smoke"], num_worlds=200, num_paper_worlds=0, num_seeds=1),
    "quick": Effort(
        Budget(num_steps=400, batch_size=512, num_starts=1, num_samples=1, settle_steps=0, num_evaluation_batches=1),
        Budget(num_steps=600, batch_size=512, settle_steps=0),
        num_worlds=2_000, num_paper_worlds=0, num_seeds=2,
    ),
    "paper": Effort(BUDGETS["paper"], BUDGETS["paper"], num_worlds=20_000, num_paper_worlds=0, num_seeds=22),
}  # fmt: skip


def settings(budget: str, effort: Effort) -> Iterator[Setting]:
    problem = same_for_all_seeds(make_problem)
    for tau in TEMPERATURES[budget]:
        for annealing in (True, False):
            # The paper's schedule: halved at each fifth of the training, hard in the last one.
            temperature = Temperature(tau, 0.5 if annealing else 1.0, 5, 0.2)
            tempered = effort.design.replace(temperature=temperature)
            ours = cobed_method("CO-BED", work=1.0, objective="infonce", budget=tempered)
            yield Setting({"tau": tau, "annealing": annealing}, problem, [ours])


def report(page: Page, records: Sequence[Record], budget: str) -> None:
    # With and without annealing as if they were two methods.
    named = [dataclasses.replace(r, method="annealed" if r.setting["annealing"] else "fixed") for r in records]
    axes = {"xaxis_title": "temperature", "yaxis_title": "CMV-EIG, nats", "title": "The final, hardened design"}
    figure = metric_figure(named, "tau", "cmv_eig", **axes)
    # The dashed line of the paper's figure: its CO-BED on this problem.
    printed, _ = published("discrete")["CO-BED"]["cmv_eig"]
    page.figure(figure.add_hline(y=printed, line={"dash": "dash", "color": "black"}, annotation_text="printed"))
    tables = {
        "CMV-EIG": lambda of_method, groups: summarise(of_method, "cmv_eig"),
        "Its standard deviation over seeds": lambda of_method, groups: over_seeds_deviation(of_method),
        "Regret (exact)": lambda of_method, groups: summarise(of_method, "regret"),
        "Units on actions 3 or 4": lambda of_method, groups: (
            f"{np.mean([r.actions[:, 2:].sum() for r in of_method]):.1f}"
        ),
    }
    for title, cell in tables.items():
        page.text(title)
        page.table(table_over(named, "tau", cell))
    fixed = {f"tau {r.setting['tau']:g}": r for r in records if r.seed == 0 and not r.setting["annealing"]}
    page.figure(curves_figure(fixed))
    page.text("The paper's text: mean values between 4.7 and 4.9, a larger spread at low temperatures.", note=True)


def over_seeds_deviation(records: Sequence[Record]) -> str | None:
    return f"{np.std([record.cmv_eig for record in records], ddof=1):.3f}" if len(records) > 1 else None


EXPERIMENT = Experiment(
    name="ablation",
    title="CO-BED, the ablation of the temperature",
    about="One start each, soft designs in the first four fifths of the training and hard ones in the last. The information is "
    "measured on fresh draws at the hardened design, by a critic trained for it; the paper reads it off the training batches.",
    efforts=EFFORTS,
    settings=settings,
    report=report,
)
