"""A simulated e-mail campaign, to try everything on: its customers do not exist, its effect sizes are those of a real one.

The real one is MineThatData's e-mail challenge of 2008: customers of a shop got an e-mail about men's goods, one about
women's, or none, at random, and .18, .15 and .11 of them visited the shop. The numbers below are a logistic regression of
those visits; no row of the data is here.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

EMAILS = ("Mens E-Mail", "Womens E-Mail", "No E-Mail")
# Log-odds of a visit, by e-mail: at six months since the last purchase, a month more, has bought men's goods, women's
# goods, is new. Men's goods draw most customers, women's about as many of those who have bought only such.
LOG_ODDS = np.array(
    [
        [-2.27, -0.057, 0.79, 0.89, -0.43],
        [-2.41, -0.062, 0.47, 0.95, -0.32],
        [-2.57, -0.086, 0.58, 0.58, -0.63],
    ]
)
# Shares of customers, by months since the last purchase, and by what they have bought: men's goods, women's, both.
RECENCY = np.array([14, 12, 9, 8, 7, 7, 6, 5, 10, 12, 6, 4]) / 100
BOUGHT = (0.45, 0.45, 0.10)

SPEC = """# A simulated campaign: the customers do not exist. Effect sizes are those of a real one (MineThatData, 2008).
name = "E-mail campaign (simulated)"
seed = {seed}                        # same seed, same design

[units]
id = "customer"

[context]
recency = "numeric"             # months since the last purchase
mens = "binary"                 # has bought men's goods
womens = "binary"               # has bought women's goods
newbie = "binary"               # is new

[action]
column = "email"
options = ["Mens E-Mail", "Womens E-Mail", "No E-Mail"]

[outcome]
column = "visit"
likelihood = "bernoulli"
typical = 0.15                  # the share of customers who visit the shop

[design]
budget = {budget}
"""


def customers(rng: np.random.Generator, number: int, first: int = 1) -> pd.DataFrame:
    """A table of customers with ids from `first` on. `city` stands for the columns that a campaign does not use."""
    bought = rng.choice(3, number, p=BOUGHT)
    return pd.DataFrame(
        {
            "customer": [f"C{first + i:05d}" for i in range(number)],
            "recency": rng.choice(np.arange(1, 13), number, p=RECENCY),
            "mens": (bought != 1).astype(int),
            "womens": (bought != 0).astype(int),
            "newbie": rng.integers(0, 2, number),
            "city": rng.choice(["Leeds", "York"], number),
        }
    )


def visit_rates(table: pd.DataFrame) -> np.ndarray:
    """The true probability of a visit of each customer after each e-mail, (N, 3)."""
    recency, *others = (table[name].to_numpy(float) for name in ("recency", "mens", "womens", "newbie"))
    features = np.stack([np.ones(len(table)), recency - 6, *others], axis=1)
    return 1 / (1 + np.exp(-features @ LOG_ODDS.T))


def rates_of(table: pd.DataFrame, emails: Sequence[str]) -> np.ndarray:
    """The true probability of a visit of each customer after the e-mail they get, (N,)."""
    return visit_rates(table)[np.arange(len(table)), [EMAILS.index(name) for name in emails]]
