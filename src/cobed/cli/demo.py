"""`cobed demo`: from a problem to a design, a table and a figure."""

from pathlib import Path

from rich.console import Console
from rich.table import Table

import cobed
from cobed.budget import estimate_cost, find_budget
from cobed.critics import Separable
from cobed.models import discrete
from cobed.progress import ConsoleReporter, format_seconds
from cobed.report.figures import design_figure, write_html


def run(out: Path, seed: int, budget: str) -> None:
    """Design, print, save."""
    console = Console()
    contexts = discrete.contexts()
    problem = cobed.Problem(cobed.models.DiscreteExample(), contexts=contexts, targets=-contexts)
    spent = find_budget(budget)
    if budget == "quick":
        # A first look: fewer starts, settled less long. `cobed.design` has the whole budget.
        spent = spent.replace(num_starts=3, settle_steps=200)
    cost = estimate_cost(problem, spent, Separable())
    console.print(f"Ten units with contexts from -3 to -1, deployment at contexts from 1 to 3. This takes {cost}.")
    console.print("Actions 1 and 2 look equally good, 1 is less certain; 3 and 4 are known to be poor.\n")
    result = cobed.design(problem, seed=seed, budget=spent, objective="infonce", progress=ConsoleReporter())
    table = Table("context", "action to try")
    for context, action in zip(result.contexts[:, 0], result.labels, strict=True):
        table.add_row(f"{context:.2f}", str(action))
    console.print(table)
    console.print(f"What the outcomes will tell about the best rewards: at least {result.information}.")
    console.print(result.stop_reason, *result.warnings)
    console.print(
        f"Design {format_seconds(result.seconds_design)}, evaluation {format_seconds(result.seconds_evaluation)}."
    )
    saved = result.save(out / "design")
    figure = write_html(design_figure(result, problem), out / "design.html")
    console.print(f"Saved {saved} and {saved.with_suffix('.npz')}.\nThe figure is {figure.resolve()}", soft_wrap=True)
