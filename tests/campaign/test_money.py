"""From [value] and [budget] to a policy in net money: what the spec says, what is told, what is refused."""

import re

import numpy as np
import pandas as pd
import pytest

from cobed.campaign.campaign import Campaign
from cobed.campaign.spec import parse_spec
from cobed.cli import campaign as commands
from cobed.errors import ProblemError, SpecError, TableError
from cobed.models import NetReward

SPEC = """name = "spring"
[units]
id = "id"
[context]
age = "numeric"
city = "categorical"
[action]
column = "offer"
options = ["none", "mail", "coupon"]
[outcome]
column = "sales"
likelihood = "normal"
typical = 5.0
spread = 2.0
[design]
budget = "smoke"
"""
MONEY = (
    SPEC
    + """[value]
outcome = 2.0
currency = "EUR"
current = "none"
cost = { mail = 0.4, coupon = { share = 0.2 } }
"""
)
BUDGET = """[budget]
total = 20.0
at_most = { mail = 6 }
[[budget.groups]]
action = "coupon"
column = "city"
values = ["A"]
at_least = 0.5
"""


def people(number, start=0):
    rng = np.random.default_rng(start)
    return pd.DataFrame(
        {
            "id": [f"u{i}" for i in range(start, start + number)],
            "age": rng.integers(20, 70, number),
            "city": np.array(["A", "B", "C"])[rng.integers(0, 3, number)],
        }
    )


def history(number=60):
    """Mail adds 2, more for the old; a coupon adds 1 in A."""
    rows = people(number, 1000)
    offer = np.array(["none", "mail", "coupon"])[np.arange(number) % 3]
    effect = np.where(offer == "mail", 2 + (rows["age"] - 45) / 10, 0) + np.where(
        (offer == "coupon") & (rows["city"] == "A"), 1, 0
    )
    noise = np.random.default_rng(1).normal(size=number)
    return rows.assign(offer=offer, sales=5 + effect + noise)


def begun(folder, text):
    folder.mkdir(exist_ok=True)
    (folder / "campaign.toml").write_text(text)
    campaign = Campaign.create(folder / "campaign.toml", folder / "campaign.db")
    campaign.add_outcomes(history())
    return campaign


def test_without_a_value_the_policy_is_as_before_and_says_more(tmp_path):
    campaign = begun(tmp_path, SPEC)
    frame = campaign.deploy(people(20))
    summary = campaign.deployed
    assert summary is not None
    assert "over_current" not in summary
    names = np.array(["none", "mail", "coupon"])
    best = frame[[f"expected_{name}" for name in names]].to_numpy()
    assert names[best.argmax(axis=1)].tolist() == frame["offer"].tolist()
    np.testing.assert_allclose(frame["expected"], best.max(axis=1), rtol=1e-4)
    # Gains are over the best single action, from the same draws: it gains nothing over itself, without an interval.
    single = summary["single"]
    assert not frame[[f"gain_{single}", f"gain_low_{single}", f"gain_high_{single}"]].to_numpy().any()
    np.testing.assert_allclose(frame["gain"], frame["expected"] - frame[f"expected_{single}"], atol=1e-4)
    np.testing.assert_allclose(frame["gain"].mean(), summary["over_single"]["mean"], atol=1e-4)
    chances = frame[[f"p_best_{name}" for name in ("none", "mail", "coupon")]]
    np.testing.assert_allclose(chances.sum(axis=1), 1, atol=1e-3)
    np.testing.assert_allclose(
        frame["p_best"], [row[f"p_best_{row['offer']}"] for _, row in frame.iterrows()], atol=1e-5
    )


def test_net_money_follows_from_expected_outcomes_and_gains_are_over_today(tmp_path):
    outcomes = begun(tmp_path / "gross", SPEC).deploy(people(20))
    campaign = begun(tmp_path / "net", MONEY)
    frame = campaign.deploy(people(20))
    np.testing.assert_allclose(frame["expected_none"], 2 * outcomes["expected_none"], rtol=1e-4)
    np.testing.assert_allclose(frame["expected_mail"], 2 * outcomes["expected_mail"] - 0.4, rtol=1e-4)
    np.testing.assert_allclose(frame["expected_coupon"], 1.6 * outcomes["expected_coupon"], rtol=1e-4)
    np.testing.assert_allclose(frame["gain"], frame["expected"] - frame["expected_none"], atol=1e-4)
    summary = campaign.deployed
    assert summary is not None
    assert summary["over_current"]["mean"] == pytest.approx(frame["gain"].mean(), abs=1e-4)
    assert isinstance(campaign.posterior()[0], NetReward)
    # Joint draws: the interval of a gain is narrower than the difference of two intervals.
    numbers = {name: frame[name].to_numpy() for name in ("gain_low", "gain_high", "low", "high")}
    assert (numbers["gain_high"] - numbers["gain_low"] < 2 * (numbers["high"] - numbers["low"])).all()


def test_a_column_says_what_each_unit_gets_today(tmp_path):
    campaign = begun(tmp_path, SPEC + '[value]\ncurrent_column = "today"\n')
    rows = people(6).assign(today=["none", "mail", "coupon"] * 2)
    frame = campaign.deploy(rows)
    today = [row[f"expected_{row['today']}"] for _, row in frame.iterrows()]
    np.testing.assert_allclose(frame["gain"], frame["expected"] - today, atol=1e-4)
    with pytest.raises(TableError, match=r"row 3, column 'today': 'post'.*Allowed: none, mail, coupon"):
        campaign.deploy(rows.assign(today=["none", "post"] * 3))
    with pytest.raises(TableError, match="today"):
        campaign.deploy(people(6))
    good, rejected = campaign.split(rows.assign(today=["none", "post", "mail"] * 2))
    assert (len(good), len(rejected)) == (4, 2)


def test_a_budget_is_kept_and_told(tmp_path, monkeypatch, capsys):
    campaign = begun(tmp_path, MONEY + BUDGET)
    rows = people(30)
    rows.to_csv(tmp_path / "targets.csv", index=False)
    campaign.close()
    monkeypatch.chdir(tmp_path)
    commands.deploy(tmp_path / "targets.csv")
    said = capsys.readouterr().out
    frame = pd.read_csv("policy.csv", keep_default_na=False)
    mails, coupons, in_a = (
        (frame[column] == word).to_numpy() for column, word in (("offer", "mail"), ("offer", "coupon"), ("city", "A"))
    )
    # The coupon costs a quarter of the four fifths that it leaves.
    spent = 0.4 * mails.sum() + 0.25 * frame["expected_coupon"].to_numpy()[coupons].sum()
    assert mails.sum() <= 6
    assert spent <= 20.0 + 1e-3
    assert (coupons & in_a).sum() >= in_a.sum() / 2
    assert re.search(r"We expect [\d,]+ EUR more per 1,000 \w+ than today, between", said)
    assert "In all we expect" in said
    assert "the best single action" in said
    assert "Budget: at most 6 units of 'mail'; 6 used. Loosened by one, it would bring" in said
    assert "Budget: a total cost of at most 20;" in said
    assert "No policy within the budget is expected to bring more than" in said
    np.testing.assert_allclose(
        frame["expected"], [row[f"expected_{row['offer']}"] for _, row in frame.iterrows()], rtol=1e-4
    )
    low, expected, high = (frame[name].to_numpy() for name in ("low", "expected", "high"))
    assert ((low < expected) & (expected < high)).all()
    commands.report()
    page = (tmp_path / "report.html").read_text()
    assert "gain over today" in page
    assert "Loosened by one" in page


def test_a_budget_that_nothing_can_keep_is_told_before_anything_is_learned(tmp_path, monkeypatch):
    campaign = begun(tmp_path, MONEY + "[budget]\nat_least = { mail = 25 }\nat_most = { none = 3 }\n")
    monkeypatch.setattr(Campaign, "_posterior", lambda *_: pytest.fail("the posterior was computed"))
    with pytest.raises(ProblemError, match=r"No choice has at least 25 units of 'mail': what the 20 rows may get"):
        campaign.deploy(people(20))


def test_binary_outcomes_pay_their_share(tmp_path):
    text = MONEY.replace('"normal"\ntypical = 5.0\nspread = 2.0', '"bernoulli"').replace(
        "outcome = 2.0", "outcome = 50.0"
    )
    (tmp_path / "campaign.toml").write_text(text)
    campaign = Campaign.create(tmp_path / "campaign.toml", tmp_path / "campaign.db")
    rows = history()
    campaign.add_outcomes(rows.assign(sales=(rows["sales"] > 6).astype(int)))
    frame = campaign.deploy(people(12))
    # A sale is worth 50, of which a coupon leaves 40; no chance is below 0 or above 1.
    for name, most in (("coupon", 40), ("none", 50)):
        expected = frame[f"expected_{name}"].to_numpy()
        assert 0 <= expected.min() <= expected.max() <= most
    assert not frame["gain_none"].to_numpy().any()


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ('[value]\ncurrent = "post"', r"value.current names 'post', which is no action; allowed: none, mail, coupon"),
        ("[value]\ncost = { post = 1.0 }", "value.cost names 'post', which is no action"),
        ("[value]\ncost = { mail = { share = 1.5 } }", r"value.cost.mail.share: 1.5 is not allowed"),
        ('[value]\ncurrent = "none"\ncurrent_column = "x"', "give current or current_column, not both"),
        ("[budget]\ntotal = 5.0", r"\[value\] says of none what it costs: give value.cost"),
        ("[budget]\nat_most = { mail = 3 }\nat_least = { mail = 5 }", "at least 5 and at most 3 units of 'mail'"),
        (
            '[[budget.groups]]\naction = "mail"\ncolumn = "age"\nvalues = ["3"]\nat_least = 0.2',
            "allowed are context columns .* city",
        ),
        ('[[budget.groups]]\naction = "mail"\ncolumn = "city"\nvalues = ["A"]', "give at_least or at_most"),
    ],
)
def test_what_does_not_fit_is_told(section, message):
    with pytest.raises(SpecError, match=message):
        parse_spec(f"{SPEC}{section}\n")


def test_numbers_have_costs_and_a_today_and_no_counts():
    numbers = SPEC.replace('options = ["none", "mail", "coupon"]', "numbers = { price = { low = 5.0, high = 20.0 } }")
    spec = parse_spec(numbers + "[value]\ncost = { price = 0.5 }\ncurrent = { price = 10.0 }\n")
    assert spec.value.amounts(("price",))[0].tolist() == [0.5]
    for section, message in (
        ("[value]\ncurrent = { price = 30.0 }", "price is 30; allowed: from 5 to 20"),
        ('[value]\ncurrent = "none"', "needs a number for each of price"),
        ("[value]\ncost = { price = 1.0 }\n[budget]\nat_most = { price = 3 }", "price|is about options"),
    ):
        with pytest.raises(SpecError, match=message):
            parse_spec(f"{numbers}{section}\n")


def test_what_numbers_cost_stays_within_a_total(tmp_path):
    """Sales rise with the bonus; each wants the largest one, and the total allows about half of it."""
    numbers = SPEC.replace('options = ["none", "mail", "coupon"]', "numbers = { bonus = { low = 0.0, high = 10.0 } }")
    (tmp_path / "campaign.toml").write_text(numbers + "[value]\ncost = { bonus = 0.1 }\n[budget]\ntotal = 12.0\n")
    campaign = Campaign.create(tmp_path / "campaign.toml", tmp_path / "campaign.db")
    rows, bonus = people(60), np.linspace(0, 10, 60)
    campaign.add_outcomes(rows.assign(bonus=bonus, sales=5 + bonus * (1 + (rows["age"] > 45))))
    policy = campaign.deploy(people(20, start=100))
    assert 11.5 < 0.1 * policy["bonus"].sum() <= 12.0
    (limit,) = campaign.deployed["budget"]["limits"]
    assert limit["more"] > 0
    # The bonus goes to those it moves most.
    assert policy["bonus"][policy["age"] > 45].mean() > policy["bonus"][policy["age"] <= 45].mean()
    (tmp_path / "campaign.toml").write_text(numbers + "[value]\ncost = { bonus = 0.1 }\n[budget]\ntotal = -1.0\n")
    opened = Campaign.open(tmp_path / "campaign.db", tmp_path / "campaign.toml")
    with pytest.raises(ProblemError, match="a total cost of at most -1"):
        opened.deploy(people(20))
