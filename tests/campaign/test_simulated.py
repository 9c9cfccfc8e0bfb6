"""The simulated shop: what it says of its customers is so, and policies are compared fairly."""

import numpy as np
import pandas as pd
import pytest

from cobed.campaign.simulated import CITY, NUM_USED, OFFERS, REGION, Sizes, customers, make_shop, order_rates

SMALL = Sizes(history=120, round=40, region=500)


@pytest.fixture(scope="module")
def shop():
    return make_shop(3, "smoke", SMALL)


def test_the_region_is_older_and_buys_more_in_stores():
    """The averages of 100,000 customers have errors below .002 and .05."""
    rng = np.random.default_rng(0)
    for population in (CITY, REGION):
        table = customers(rng, 100_000, population)
        assert abs((table["buys"] == "store").mean() - population.stores) < 0.01
        assert abs(table["age"].mean() - population.age) < 1  # a little less spread where ages are cut off
    assert REGION.age > CITY.age
    assert REGION.stores > CITY.stores


def test_a_rate_is_the_one_worked_out_by_hand():
    """45 years, the web, six months: the first log-odds of each offer."""
    table = pd.DataFrame({"months": [6, 12], "age": [45, 60], "buys": ["web", "store"]})
    rates = order_rates(table)
    assert rates[0, OFFERS.index("reminder")] == pytest.approx(1 / (1 + np.exp(1.4)))
    assert rates[1, OFFERS.index("reminder")] == pytest.approx(1 / (1 + np.exp(1.4 + 0.6 - 0.1 - 0.4)))


def test_every_customer_is_in_one_table_and_only_offers_in_use_have_a_history(shop):
    ids = pd.concat([shop.history, *shop.rounds, shop.region])["customer"]
    assert ids.is_unique
    assert len(ids) == 120 + 2 * 40 + 500
    assert set(shop.history["offer"]) == set(OFFERS[:NUM_USED])


def test_a_customer_who_gets_the_same_offer_does_the_same(shop):
    first = shop.rounds[0]
    both = [shop.ordered(first.assign(offer=offer)) for offer in ("reminder", "styling advice")]
    mixed = shop.ordered(first.assign(offer=np.where(np.arange(40) < 20, "reminder", "styling advice")))
    assert mixed["ordered"].tolist() == [*both[0]["ordered"][:20], *both[1]["ordered"][20:]]


def test_its_spec_knows_the_columns_and_offers(shop):
    assert shop.spec.action.options == OFFERS
    assert shop.spec.seed == 3
    assert set(shop.spec.context) < set(shop.region)


def test_what_a_policy_earns_is_net_and_single_offers_keep_the_budget(shop):
    rates = order_rates(shop.region).mean(axis=0)
    voucher, advice = OFFERS.index("10% voucher"), OFFERS.index("styling advice")
    assert shop.earned(["10% voucher"] * 500) == pytest.approx(30 * 0.75 * rates[voucher])
    # A quarter may get advice; the others get what they get today.
    expected = 0.25 * (30 * rates[advice] - 3) + 0.75 * shop.earned(["reminder"] * 500)
    assert shop.singles()["styling advice"] == pytest.approx(expected)


def test_the_best_policy_keeps_the_budget_and_earns_more_than_every_single_offer(shop):
    best = shop.best_policy()
    assert best.count("styling advice") <= 125
    assert len(set(best)) >= 4
    assert shop.earned(best) > 1.3 * max(shop.singles().values())
    # Two customers who exchange their offers keep the budget, and earn no more.
    rng = np.random.default_rng(0)
    for one, other in rng.integers(0, 500, (50, 2)):
        changed = list(best)
        changed[one], changed[other] = best[other], best[one]
        assert shop.earned(changed) <= shop.earned(best) + 1e-6
