"""`cobed demo`: a whole campaign on simulated customers, by the commands an analyst gives, left in a folder to go on with."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from cobed.budget import find_budget
from cobed.campaign.simulated import NUM_USED, OFFERS, SIZES, Shop, Sizes, make_shop
from cobed.cli import campaign, prepare
from cobed.errors import StorageError
from cobed.storage import make_folder

# Campaigns with offers at random that stand for all: one alone may be lucky.
NUM_RANDOM = 3


def run(out: Path, seed: int, budget: str, sizes: Sizes = SIZES, num_random: int = NUM_RANDOM) -> None:
    """Make up the tables and the spec, then give the commands one after the other."""
    find_budget(budget)
    folder, shop = _free(out), make_shop(seed, budget, sizes)
    limits = ", ".join(f"{name} for at most {most:,}" for name, most in shop.spec.budget.at_most.items())
    print(
        "A simulated mail-order shop: which offer for which customer? The customers do not exist; the effects are invented.\n"
        f"Offers in use: {', '.join(OFFERS[:NUM_USED])}; new: {', '.join(OFFERS[NUM_USED:])}.\n"
        f"To experiment on: twice {sizes.round:,} customers of a city, most of them young and on the web.\n"
        f"To decide for: {sizes.region:,} customers of the region, older, more of them in stores.\n"
        f"What an order earns and an offer costs stands in campaign.toml, and a budget: {limits}.\n"
        f"In {folder}:"
    )
    with contextlib.chdir(folder):
        _go_through(shop)
        offers = pd.read_csv("policy.csv")["offer"].tolist()
    _tell_who(shop.region, offers)
    _tell_truth(shop, offers, num_random)
    print(f"\nGo on with this campaign: cd {folder} && cobed status")


def _go_through(shop: Shop) -> None:
    """All commands of the campaign, in the folder it stays in."""
    Path("campaign.toml").write_text(shop.spec_text, encoding="utf-8")
    history, region, waves = Path("history.csv"), Path("region.csv"), (Path("wave1.csv"), Path("wave2.csv"))
    for path, table in zip((history, region, *waves), (shop.history, shop.region, *shop.rounds), strict=True):
        table.to_csv(path, index=False)
    _step(
        "Are the tables in order?",
        f"check {history} {waves[0]} {waves[1]} {region}",
        lambda: prepare.check([history, *waves, region]),
    )
    _step(
        "What came of the offers in use is known.",
        f"observe {history}",
        lambda: campaign.observe(history),
    )
    whys = (
        "Which offer to try on whom, to decide well in the region? What is known already need not be tried on many.",
        "The second wave is designed from all outcomes so far: it goes where the decision is still open.",
    )
    for number, (why, wave) in enumerate(zip(whys, waves, strict=True), 1):
        assigned, outcomes = Path(f"assignments{number}.csv"), Path(f"outcomes{number}.csv")
        _step(
            why,
            f"design {wave} --targets {region} --out {assigned}",
            lambda wave=wave, assigned=assigned: campaign.design(wave, region, out=assigned),
        )
        shop.ordered(pd.read_csv(assigned)).to_csv(outcomes, index=False)
        _step(
            f"The offers are made, and simulated customers order or not: {outcomes}.",
            f"observe {outcomes}",
            lambda outcomes=outcomes: campaign.observe(outcomes),
        )
    _step(
        "The best offer for each customer of the region, within the budget.",
        f"deploy {region}",
        lambda: campaign.deploy(region),
    )
    _step("One page for everybody.", "report", campaign.report)


def _step(why: str, command: str, act: Callable[[], None]) -> None:
    print(f"\n{why}\n$ cobed {command}", flush=True)
    act()


def _tell_who(region: pd.DataFrame, offers: list[str]) -> None:
    """Which share of some groups of customers gets which offer."""
    buys = np.where(region["buys"] == "web", "on the web", "in a store").astype(object)
    groups = buys + np.where(region["months"] <= 6, ", ordered in the last 6 months", ", ordered longer ago").astype(
        object
    )
    shares = pd.crosstab(groups, np.array(offers, object), normalize="index")
    table = shares.reindex(columns=list(OFFERS), fill_value=0.0).map("{:.0%}".format)
    print(f"\nWho gets what by this policy:\n{table.rename_axis(index=None, columns=None).to_string()}")


def _tell_truth(shop: Shop, offers: list[str], num_random: int) -> None:
    """What the policy earns beside others, by the truth of the simulation."""
    singles, today = shop.singles(), str(shop.spec.value.current)
    single, num_tried = max(singles, key=singles.__getitem__), sum(map(len, shop.rounds))
    limited = shop.spec.budget.at_most
    times = f"{num_random} times" if num_random > 1 else "once"
    print(f"\nThe same campaign with offers at random, {times}: the same customers, with the same luck ...", flush=True)
    seeds = range(shop.spec.seed, shop.spec.seed + num_random)
    at_random = sum(shop.earned(shop.policy_after("Random", seed)) for seed in seeds) / num_random
    ours, best = shop.earned(offers), shop.earned(shop.best_policy())
    rows = {
        f"today: {today} for all": singles[today],
        f"best single offer: {single} for {'as many as allowed' if single in limited else 'all'}": singles[single],
        f"policy after {num_tried:,} offers at random": at_random,
        f"policy after {num_tried:,} offers by design (policy.csv)": ours,
        "best policy of all": best,
    }
    print("\nOnly a simulation knows the truth: net EUR per 1,000 customers of the region, all within the budget")
    for name, value in rows.items():
        print(f"  {name:<50} {1_000 * value:>7,.0f}")
    print(comparison(ours, at_random, singles[single], best, len(shop.region)))


def comparison(ours: float, at_random: float, single: float, best: float, num_customers: int) -> str:
    """What came out, in words: net EUR per customer after a design, at random, of the best single offer and of the best policy."""
    gain, possible = ours - single, best - single
    return (
        f"The policy earns {1_000 * abs(gain):,.0f} EUR {'more' if gain >= 0 else 'less'} per 1,000 customers than the best "
        f"single offer: {gain * num_customers:+,.0f} EUR in the region.\n"
        f"Of what the best policy would add, it reaches {gain / possible:.0%}, offers at random "
        f"{(at_random - single) / possible:.0%}. One campaign is luck: another --seed makes up other customers."
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
