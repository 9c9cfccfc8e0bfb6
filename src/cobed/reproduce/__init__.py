"""The paper's experiments, one file each; `reproduce` runs one of them and writes results.json, findings.txt and report.html."""

import dataclasses
from pathlib import Path

from cobed.errors import BudgetError
from cobed.progress import Reporter
from cobed.report.page import Page
from cobed.reproduce import ablation, bandit, causal, continuous, discrete, gp
from cobed.reproduce.experiment import EXPERIMENTS, Experiment, register
from cobed.reproduce.study import Folder, Record, parts_of_study, run_study
from cobed.reproduce.summary import findings
from cobed.storage import write_output

for _experiment in (discrete, continuous, ablation, gp, bandit, causal):
    register(_experiment.EXPERIMENT)

__all__ = ["EXPERIMENTS", "Experiment", "register", "reproduce", "write_report"]

ERRORS = (
    "± is one standard error: over seeds where there are at least 3, else over worlds; differences are taken world by world. "
    "CMV-EIG is a lower bound, by a critic trained for each finished design, on fresh draws that all methods share: of two "
    "lower bounds the larger is nearer the truth, and where ours is above the printed one its critic was trained further. "
    "MSE(m*) is of the posterior mean of m*."
)


def reproduce(
    name: str,
    out: str | Path,
    *,
    budget: str = "quick",
    num_seeds: int | None = None,
    num_worlds: int | None = None,
    progress: Reporter | None = None,
) -> Path:
    """Run the experiment `name` into the folder `out`, going on where an earlier run stopped. Returns the report's path.

    `num_seeds` and `num_worlds` take the place of the budget's: more of them, smaller errors.
    """
    experiment = EXPERIMENTS.named(name)
    if budget not in experiment.efforts:
        raise BudgetError(f"Unknown budget {budget!r}. Allowed: {', '.join(map(repr, experiment.efforts))}.")
    effort = experiment.efforts[budget]
    num_seeds = effort.num_seeds if num_seeds is None else num_seeds
    if num_seeds < 1:
        raise BudgetError(f"--seeds must be at least 1, got {num_seeds}.")
    if num_worlds is not None:
        if num_worlds < 2:
            raise BudgetError(f"--worlds must be at least 2, to have a mean and its error; got {num_worlds}.")
        paper_worlds = num_worlds if effort.num_paper_worlds else 0
        effort = dataclasses.replace(effort, num_worlds=num_worlds, num_paper_worlds=paper_worlds)
    folder = Folder(Path(out), name, budget, effort)
    parts = parts_of_study(experiment.settings(budget, effort), num_seeds)
    return write_report(experiment, folder, run_study(parts, folder, effort, progress))


def write_report(experiment: Experiment, folder: Folder, records: list[Record]) -> Path:
    """report.html, and what the study found as plain text in findings.txt."""
    lines = findings(experiment.claims, records)
    write_output(folder.path / "findings.txt", lambda file: file.write(("\n".join(lines) + "\n").encode()))
    page = Page(experiment.title)
    page.text(f"Budget {folder.budget}, {len({record.seed for record in records})} seed(s). {experiment.about}")
    for text in experiment.choices:
        page.text(text)
    page.heading("Findings")
    for line in lines:
        page.text(line)
    page.text(ERRORS, note=True)
    experiment.report(page, records, folder.budget)
    return page.write(folder.path / "report.html")
