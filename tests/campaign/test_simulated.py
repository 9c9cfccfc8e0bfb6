"""The simulated e-mail campaign: its effect sizes are those it claims."""

import numpy as np

from cobed.campaign.simulated import EMAILS, SPEC, customers, rates_of, visit_rates
from cobed.campaign.spec import parse_spec


def test_the_visit_rates_are_those_of_the_real_campaign():
    """.18, .15 and .11: the average over 100,000 customers has an error below .0005."""
    rates = visit_rates(customers(np.random.default_rng(0), 100_000)).mean(axis=0)
    np.testing.assert_allclose(rates, [0.18, 0.15, 0.11], atol=0.006)


def test_every_customer_has_bought_something_and_the_rates_follow_the_email():
    table = customers(np.random.default_rng(1), 1_000, first=5)
    assert table["customer"].iloc[0] == "C00005"
    assert ((table["mens"] + table["womens"]) >= 1).all()
    emails = table["mens"].map({1: EMAILS[0], 0: EMAILS[2]})
    own = rates_of(table, list(emails))
    assert (own == np.where(table["mens"] == 1, visit_rates(table)[:, 0], visit_rates(table)[:, 2])).all()


def test_its_spec_knows_the_columns_and_emails():
    spec = parse_spec(SPEC.format(seed=3, budget='"smoke"'))
    assert spec.action.options == EMAILS
    assert set(spec.context) < set(customers(np.random.default_rng(0), 2))
