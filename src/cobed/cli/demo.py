"""`cobed demo`: a whole campaign on simulated customers, by the commands an analyst gives, left in a folder to go on with."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from cobed.budget import find_budget
from cobed.campaign.simulated import EMAILS, SPEC, customers, rates_of, visit_rates
from cobed.cli import campaign, prepare
from cobed.errors import StorageError
from cobed.storage import make_folder

NUM_CUSTOMERS, NUM_OTHERS = 300, 10_000


def run(out: Path, seed: int, budget: str) -> None:
    """Make up the tables and the spec, then give the commands one after the other."""
    find_budget(budget)
    folder = _free(out)
    rng = np.random.default_rng(seed)
    units, others = customers(rng, NUM_CUSTOMERS), customers(rng, NUM_OTHERS, NUM_CUSTOMERS + 1)
    print(
        "A simulated e-mail campaign: which e-mail brings which customer to the shop? The customers do not exist; the\n"
        f"effect sizes are those of a real campaign. {NUM_CUSTOMERS} customers to experiment on, {NUM_OTHERS:,} others to "
        "decide for.\n"
        f"In {folder}:"
    )
    with contextlib.chdir(folder):
        Path("campaign.toml").write_text(SPEC.format(seed=seed, budget=json.dumps(budget)))
        units.to_csv("customers.csv", index=False)
        others.to_csv("others.csv", index=False)
        design, outcomes = Path("assignments.csv"), Path("outcomes.csv")
        _step("check customers.csv others.csv", lambda: prepare.check([Path("customers.csv"), Path("others.csv")]))
        _step(
            "design customers.csv --targets others.csv",
            lambda: campaign.design(Path("customers.csv"), Path("others.csv")),
        )
        # Who visits depends on the customer and the e-mail alone: another design meets the same customers.
        assigned = pd.read_csv(design)
        assigned["visit"] = (rng.random(len(assigned)) < rates_of(assigned, list(assigned["email"]))).astype(int)
        assigned[["customer", "visit"]].to_csv(outcomes, index=False)
        print("\nThe e-mails are sent, and simulated customers visit the shop or not: outcomes.csv")
        _step("observe outcomes.csv", lambda: campaign.observe(outcomes))
        _step("deploy others.csv", lambda: campaign.deploy(Path("others.csv")))
        _tell_truth(others, list(pd.read_csv("policy.csv")["email"]))
        _step("report", campaign.report)
    print(f"\nGo on with this campaign: cd {folder} && cobed status")


def _step(command: str, act: Callable[[], None]) -> None:
    print(f"\n$ cobed {command}", flush=True)
    act()


def _tell_truth(table: pd.DataFrame, policy: list[str]) -> None:
    rates = visit_rates(table)
    singles = ", ".join(f"{name} for all {rate:.1%}" for name, rate in zip(EMAILS, rates.mean(axis=0), strict=True))
    print(
        f"\nOnly a simulation knows the truth: this policy brings {rates_of(table, policy).mean():.1%} of these customers "
        f"to the shop, the best one {rates.max(axis=1).mean():.1%}.\n{singles}, at random {rates.mean():.1%}."
    )


def _free(out: Path) -> Path:
    """The folder, or the next one that holds nothing: nobody's work is written over."""
    out = out.resolve()
    for name in [out, *(out.with_name(f"{out.name}-{number}") for number in range(2, 1_000))]:
        if name.is_dir() and any(name.iterdir()):
            continue
        try:
            return make_folder(name)
        except StorageError:
            if not name.exists():
                raise
    raise StorageError(f"{out} and 998 folders like it are taken. Give another --out.")
