"""A simulated mail-order shop, to try everything on: its customers do not exist, and its effects are invented.

The effects are larger than most shops see, so that some hundred customers show them. The truth is a logistic regression: which
offer is best depends on the customer. Vouchers bring back those who have not ordered for long, and give money away to those who
would order anyway; free delivery is for those who buy on the web, advice for those who buy in a store. The city, where the shop
experiments, is younger and more on the web than the region, where it will decide.
"""

import dataclasses
import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from cobed.allocation import allocate
from cobed.campaign.campaign import Campaign
from cobed.campaign.money import budget_limits
from cobed.campaign.spec import CampaignSpec, parse_spec

OFFERS: tuple[str, ...] = ("nothing", "reminder", "10% voucher", "free delivery", "styling advice")
NUM_USED = 3  # so many of them, from the first on, have been in use
# Log-odds of an order, by offer: of a customer of 45 on the web whose last order is six months ago; six months more; fifteen years
# more; who buys in a store.
LOG_ODDS = np.array(
    [
        [-1.8, -0.5, 0.0, 0.0],
        [-1.4, -0.6, 0.1, 0.4],
        [-0.6, 0.4, -0.2, -0.5],
        [-0.6, -0.5, -0.1, -0.9],
        [-1.6, -0.3, 0.2, 1.6],
    ]
)

SPEC = """# A simulated campaign: the customers do not exist, and the effects are invented.
name = "Which offer for whom (simulated)"
seed = {seed}                        # same seed, same design

[units]
id = "customer"

[context]
months = "numeric"              # since the last order
age = "numeric"
buys = {{ type = "categorical", levels = ["web", "store"] }}

[action]
column = "offer"
options = ["nothing", "reminder", "10% voucher", "free delivery", "styling advice"]

[outcome]
column = "ordered"              # within four weeks
likelihood = "bernoulli"
typical = 0.2                   # the share of customers who order

[design]
budget = {budget}

[value]
outcome = 30.0                  # the margin of one order
currency = "EUR"
current = "reminder"            # what every customer gets today

[value.cost]
reminder = 0.1
"10% voucher" = {{ share = 0.25 }}        # 7.50 EUR of the margin of an order
"free delivery" = {{ share = 0.15 }}      # 4.50 EUR of it
"styling advice" = 3.0          # ten minutes of an adviser

[budget]                        # of the policy: the advisers' time
at_most = {{ "styling advice" = {calls} }}
"""


class Population(NamedTuple):
    """Where customers live: the share of those who buy in a store, and how old they are on average."""

    stores: float
    age: float


CITY, REGION = Population(0.3, 38), Population(0.5, 52)
# Of the region, so many may get advice.
SHARE_OF_CALLS = 0.25


class Sizes(NamedTuple):
    """How many customers have a history, are in each of two rounds, and are in the region."""

    history: int = 900
    round: int = 300
    region: int = 10_000


SIZES = Sizes()


@dataclasses.dataclass(frozen=True)
class Shop:
    """The tables of a campaign, and what only a simulation knows: the luck of each customer, by id, the same under every offer."""

    spec_text: str
    history: pd.DataFrame
    rounds: tuple[pd.DataFrame, pd.DataFrame]
    region: pd.DataFrame
    luck: dict[str, float]

    @functools.cached_property
    def spec(self) -> CampaignSpec:
        return parse_spec(self.spec_text)

    def ordered(self, assigned: pd.DataFrame) -> pd.DataFrame:
        """Who orders under the offers of a table: a customer who gets the same offer in another campaign does the same."""
        luck = np.array([self.luck[customer] for customer in assigned["customer"]])
        happens = luck < _of(order_rates(assigned), assigned["offer"].tolist())
        return pd.DataFrame({"customer": assigned["customer"], "ordered": happens.astype(int)})

    def policy_after(self, designer: str, seed: int) -> list[str]:
        """The offers for the region after this campaign with another designer: the same customers, the same luck of each."""
        design = self.spec.design.model_copy(update={"designer": designer})
        with tempfile.TemporaryDirectory() as folder:
            campaign = Campaign.create(
                self.spec.model_copy(update={"seed": seed, "design": design}), Path(folder) / "campaign.db"
            )
            campaign.add_outcomes(self.history)
            for customers in self.rounds:
                campaign.add_outcomes(self.ordered(campaign.recommend(customers, self.region)))
            offers = campaign.deploy(self.region)["offer"].tolist()
            campaign.close()
        return offers

    # What a policy truly earns in the region, in net EUR per customer, on average over luck.

    def earned(self, offers: Sequence[str]) -> float:
        return float(_of(self._net(), offers).mean())

    def singles(self) -> dict[str, float]:
        """Of each offer for all, as far as the budget allows; the others get what they get today."""
        earned = dict(zip(OFFERS, self._net().mean(axis=0).tolist(), strict=True))
        today, most = earned[str(self.spec.value.current)], self.spec.budget.at_most
        shares = {name: min(most.get(name, len(self.region)) / len(self.region), 1.0) for name in OFFERS}
        return {name: shares[name] * earned[name] + (1 - shares[name]) * today for name in OFFERS}

    def best_policy(self) -> list[str]:
        """The offers that earn most within the budget."""
        limits = budget_limits(self.spec, {"customer": list(self.region["customer"])}, None)
        return [OFFERS[number] for number in allocate(self._net(), None, limits).chosen]

    def _net(self) -> np.ndarray:
        """Of each customer and offer, (N, K)."""
        amounts, shares = self.spec.value.amounts(OFFERS)
        return self.spec.value.outcome * (1 - shares) * order_rates(self.region) - amounts


def make_shop(seed: int, budget: str = "quick", sizes: Sizes = SIZES) -> Shop:
    """Customers and their luck by a seed. The spec says the seed and the budget of its designs."""
    rng = np.random.default_rng(seed)
    numbers = [sizes.history, sizes.round, sizes.round]
    starts = np.cumsum([1, *numbers]).tolist()
    history, first, second = (
        customers(rng, number, CITY, start) for number, start in zip(numbers, starts[:-1], strict=True)
    )
    tested = pd.concat([history, first, second])["customer"]
    luck = dict(zip(tested, rng.random(len(tested)).tolist(), strict=True))
    offers = rng.choice(OFFERS[:NUM_USED], len(history))
    # Last, so that the same campaigns are run whatever the size of the region.
    region = customers(rng, sizes.region, REGION, starts[-1])
    text = SPEC.format(seed=seed, budget=f'"{budget}"', calls=int(SHARE_OF_CALLS * sizes.region))
    shop = Shop(text, history, (first, second), region, luck)
    history = history.assign(offer=offers)
    return dataclasses.replace(shop, history=history.assign(ordered=shop.ordered(history)["ordered"]))


def customers(rng: np.random.Generator, number: int, population: Population, first: int = 1) -> pd.DataFrame:
    """A table of customers with ids from `first` on. `newsletter` stands for the columns that a campaign does not use."""
    return pd.DataFrame(
        {
            "customer": [f"C{first + i:05d}" for i in range(number)],
            "months": rng.integers(1, 19, number),
            "age": rng.normal(population.age, 12, number).clip(18, 85).round().astype(int),
            "buys": np.where(rng.random(number) < population.stores, "store", "web"),
            "newsletter": rng.choice(["yes", "no"], number),
        }
    )


def order_rates(table: pd.DataFrame) -> np.ndarray:
    """The true probability that each customer orders after each offer, (N, K)."""
    months, age = table["months"].to_numpy(float), table["age"].to_numpy(float)
    store = (table["buys"] == "store").to_numpy(float)
    features = np.stack([np.ones(len(table)), (months - 6) / 6, (age - 45) / 15, store], axis=1)
    return 1 / (1 + np.exp(-features @ LOG_ODDS.T))


def _of(values: np.ndarray, offers: Sequence[str]) -> np.ndarray:
    """The entries of an array (N, K) by offer, (N,)."""
    return values[np.arange(len(values)), [OFFERS.index(name) for name in offers]]
