"""The paper's experiments, one file each; `reproduce` runs one of them and writes results.json and report.html."""

import dataclasses
import importlib
from pathlib import Path

from cobed.errors import BudgetError
from cobed.progress import Reporter
from cobed.reproduce.study import Folder, run_study

EXPERIMENTS = ("discrete", "continuous", "ablation", "gp", "bandit", "causal")


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
    if name not in EXPERIMENTS:
        raise BudgetError(f"Unknown experiment {name!r}. Allowed: {', '.join(EXPERIMENTS)}.")
    module = importlib.import_module(f"cobed.reproduce.{name}")
    if budget not in module.EFFORTS:
        raise BudgetError(f"Unknown budget {budget!r}. Allowed: {', '.join(map(repr, module.EFFORTS))}.")
    effort = module.EFFORTS[budget]
    if num_seeds is None:
        num_seeds = int(effort.num_seeds)
    if num_seeds < 1:
        raise BudgetError(f"--seeds must be at least 1, got {num_seeds}.")
    if num_worlds is not None:
        if num_worlds < 2:
            raise BudgetError(f"--worlds must be at least 2, to have a mean and its error; got {num_worlds}.")
        paper_worlds = num_worlds if effort.num_paper_worlds else 0
        effort = dataclasses.replace(effort, num_worlds=num_worlds, num_paper_worlds=paper_worlds)
    folder = Folder(Path(out), name, budget, effort)
    records = run_study(module.make_parts(budget, effort, num_seeds), folder, effort, progress)
    return module.write_report(folder, records)
