"""The shop of `cobed demo`, again and again: what policies truly earn after offers by design and at random.

Each replay makes up other customers and other luck; the truth stays. Both campaigns have the same history, the same customers in
two rounds and the same luck of each customer. Net EUR per 1,000 customers of the region, within the budget, by the true
probabilities; today's offer, the truly best single offer and the best policy of all beside them.
Run: python benchmarks/shop.py [--replays 20] [--first 0] [--region 2000]
"""

import argparse

import numpy as np
from replay import table

from cobed.campaign.simulated import SIZES, Shop, make_shop


def one_shop(shop: Shop, seed: int) -> dict[str, float]:
    singles = shop.singles()
    earned = {
        "today": singles[str(shop.spec.value.current)],
        "best single": max(singles.values()),
        "Random": shop.earned(shop.policy_after("Random", seed)),
        "CO-BED": shop.earned(shop.policy_after("CO-BED", seed)),
        "best of all": shop.earned(shop.best_policy()),
    }
    return {name: 1_000 * value for name, value in earned.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replays", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument(
        "--region", type=int, default=2_000, help="customers of the region; the demonstration has 10,000"
    )
    arguments = parser.parse_args()
    rows = []
    for seed in range(arguments.first, arguments.first + arguments.replays):
        rows.append(one_shop(make_shop(seed, sizes=SIZES._replace(region=arguments.region)), seed))
        print(seed, ", ".join(f"{name} {value:,.0f}" for name, value in rows[-1].items()), flush=True)
    earned = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    table(earned, "Random", "net EUR per 1,000", digits=0)
    print(f"CO-BED above Random in {np.sum(earned['CO-BED'] > earned['Random'])} of {len(rows)}.")


if __name__ == "__main__":
    main()
