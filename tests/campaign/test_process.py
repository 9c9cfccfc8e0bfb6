"""Campaigns of the family "gp": from the spec through design, outcomes and policy, with closed forms to compare with."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from cobed.campaign.campaign import Campaign
from cobed.campaign.encoding import fit_encoding
from cobed.campaign.engine import build_model
from cobed.campaign.plan import PlanSettings, make_plan, start_from
from cobed.campaign.spec import parse_spec
from cobed.campaign.tables import read_table
from cobed.errors import SpecError
from cobed.models.kernels import RBF

SPEC = """name = "spring"
[units]
id = "customer"
[context]
recency = "numeric"
channel = "categorical"
[action]
{action}
[outcome]
column = "amount"
likelihood = "normal"
typical = 50
spread = 4
[model]
family = "gp"
deviation = 10
{model}
[design]
budget = "smoke"
max_targets = 5
"""
OPTIONS = 'column = "offer"\noptions = ["none", "mail"]'
NUMBERS = "numbers = { price = { low = 5, high = 15 } }"
UNITS = pd.DataFrame({"customer": range(12), "recency": np.arange(12) % 6, "channel": ["Web", "Shop"] * 6})


def history(number=40):
    """A bump at price 10, the mail good for the web alone, and noise."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "customer": [f"h{i}" for i in range(number)],
            "recency": rng.integers(0, 6, number),
            "channel": rng.choice(["Web", "Shop"], number),
            "offer": rng.choice(["none", "mail"], number),
            "price": rng.uniform(5, 15, number).round(2),
        }
    )
    mailed = (table["offer"] == "mail").to_numpy()
    web = (table["channel"] == "Web").to_numpy()
    return table, mailed, web, rng.normal(0, 1, number)


def begin(tmp_path, action, model=""):
    (tmp_path / "campaign.toml").write_text(SPEC.format(action=action, model=model))
    return Campaign.create(tmp_path / "campaign.toml")


def test_lengths_are_in_scaled_units():
    text = SPEC.format(action=NUMBERS, model='kernel = "rbf"\nlengths = { recency = 3, price = 0.5 }')
    spec = parse_spec(text)
    model = build_model(spec, fit_encoding(spec, [read_table(UNITS, "units")]))
    # Two context columns: 2 sqrt(2) for both levels of the channel; half of half the range of the price.
    np.testing.assert_allclose(model.kernel.lengthscale, [3, 8**0.5, 8**0.5, 2.5], rtol=1e-6)
    assert isinstance(model.kernel, RBF)
    assert float(model.kernel.variance) == 100
    assert (model.noise_std, model.mean) == (4, 50)


@pytest.mark.slow
def test_history_then_a_round_then_a_policy_that_has_learned_who_wants_mail(tmp_path):
    campaign = begin(tmp_path, OPTIONS)
    table, mailed, web, noise = history()
    campaign.add_outcomes(table.drop(columns="price").assign(amount=50 + np.where(web, 15, -15) * mailed + noise))
    assignments = campaign.recommend(UNITS)
    assert set(assignments["offer"]) <= {"none", "mail"}
    summary = campaign.rounds()[-1].summary
    assert summary["method"] == "CO-BED (value)"
    campaign.add_outcomes(assignments.assign(amount=50.0)[["customer", "amount"]].iloc[:3])
    policy = campaign.deploy(UNITS)
    assert (policy["offer"] == np.where(UNITS["channel"] == "Web", "mail", "none")).all()
    # Draws come in mirrored pairs: what is expected is the posterior mean of the process, to rounding.
    model, posterior = campaign.posterior()
    assert posterior.method == "gaussian process"
    contexts = campaign.data().contexts[:2]
    rewards = posterior.mean_rewards(model, contexts, jnp.eye(2)).mean(axis=0)
    np.testing.assert_allclose(rewards, model.moments(contexts, jnp.eye(2))[0], rtol=1e-4)
    campaign.close()


def test_a_number_is_chosen_where_the_outcomes_were_best(tmp_path):
    campaign = begin(tmp_path, NUMBERS, "fit = true")
    table, _, _, noise = history(60)
    campaign.add_outcomes(table.drop(columns="offer").assign(amount=60 - (table["price"] - 10) ** 2 + noise))
    assert "were fitted to 60 outcomes" in campaign.posterior()[1].reason
    policy = campaign.deploy(UNITS)
    # The noise of one outcome is 1, and 60 of them are within 5 of the best price: half a unit is many errors.
    assert (policy["price"].astype(float) - 10).abs().max() < 0.5
    campaign.close()


@pytest.mark.slow
def test_a_round_of_a_process_obeys_counts_and_pins_and_keeps_its_closed_form(tmp_path):
    (tmp_path / "campaign.toml").write_text(
        SPEC.format(action=OPTIONS, model="") + "[constraints]\nat_most = { mail = 3 }\n"
    )
    campaign = Campaign.create(tmp_path / "campaign.toml")
    assignments = campaign.recommend(UNITS)
    assert (assignments["offer"] == "mail").sum() <= 3
    campaign.pin({"4": "mail"})
    again = campaign.recommend(UNITS)
    assert again["offer"].iloc[4] == "mail"
    assert (again["offer"] == "mail").sum() <= 3
    assert "jointly Gaussian" in campaign.rounds()[-1].summary["reason"]
    campaign.close()


@pytest.mark.slow
def test_prices_of_a_process_obey_a_cost_around_pins(tmp_path):
    (tmp_path / "campaign.toml").write_text(
        SPEC.format(action=NUMBERS, model="") + "[constraints]\ncost = { price = 1 }\nmax_cost = 80\n"
    )
    campaign = Campaign.create(tmp_path / "campaign.toml")
    assert campaign.recommend(UNITS)["price"].sum() <= 80
    campaign.pin({"4": {"price": 14.5}})
    again = campaign.recommend(UNITS)
    assert again["price"].iloc[4] == 14.5
    assert again["price"].between(5, 15).all()
    # The design makes use of what may be spent: the cheapest prices cost 11 * 5 + 14.5 = 69.5.
    assert 75 < again["price"].sum() <= 80
    campaign.close()


def test_few_outcomes_leave_the_lengths_of_the_spec(tmp_path):
    campaign = begin(tmp_path, OPTIONS, "fit = true")
    table, *_ = history(5)
    campaign.add_outcomes(table.drop(columns="price").assign(amount=50.0))
    model, posterior = campaign.posterior()
    assert "fitting them needs 35 outcomes" in posterior.reason
    assert model.noise_std == 4
    campaign.close()


@pytest.mark.slow
def test_a_process_is_planned_from_its_outcomes(tmp_path):
    campaign = begin(tmp_path, OPTIONS)
    table, mailed, _, noise = history()
    campaign.add_outcomes(table.drop(columns="price").assign(amount=50 + 5 * mailed + noise))
    units = read_table(UNITS, "units")
    plan = make_plan(start_from(campaign.spec, campaign, [units], None), units, units, PlanSettings([6], 20, seed=0))  # fmt: skip
    assert 0 <= plan.sizes[0].designed[0] < 10
    campaign.close()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '"normal"\ntypical = 50\nspread = 4',
            '"bernoulli"',
            r'"gp" has normal outcomes only, and outcome\.likelihood is bernoulli; use family = "linear"',
        ),
        ("[design]", "[prior]\naction = 1\n[design]", r"\[prior\] belongs to the linear family"),
        ("deviation = 10", "lengths = { age = 1 }", r"model\.lengths names 'age'; allowed: recency, channel, offer"),
        ("deviation = 10", "lengths = { recency = 0 }", r"model\.lengths\.recency: 0 is not allowed"),
        ('family = "gp"', 'family = "linear"', r'model\.deviation belongs to family = "gp"'),
        ('family = "gp"', 'family = "gaussian"', r".gaussian. is not allowed"),
        ("deviation = 10", 'kernel = "cosine"', r".cosine. is not allowed\. Allowed: 'matern'"),
    ],
)
def test_what_a_process_cannot_be_is_said(old, new, message):
    text = SPEC.format(action=OPTIONS, model="")
    assert old in text
    with pytest.raises(SpecError, match=message):
        parse_spec(text.replace(old, new))
