"""What policies are worth by outcomes alone: from a campaign's store to the table, by every policy one may ask for."""

import json

import numpy as np
import pandas as pd
import pytest

from cobed.campaign import records
from cobed.campaign.campaign import Campaign
from cobed.campaign.records import Assignment, Round
from cobed.cli import main
from cobed.errors import CampaignError, TableError

SPEC = """name = "spring"
[units]
id = "customer"
[context]
age = "numeric"
[action]
column = "offer"
options = ["none", "mail"]
[outcome]
column = "amount"
likelihood = "normal"
typical = 10.0
spread = 2.0
[prior]
baseline = 5.0
[design]
budget = "smoke"
history_shares = { none = 0.5, mail = 0.5 }
[value]
outcome = 2.0
currency = "EUR"
cost = { mail = 1.0 }
current = "none"
"""
NUMBER = 80


def history(seed=0):
    rng = np.random.default_rng(seed)
    age, mail = rng.normal(size=NUMBER).round(3), rng.integers(0, 2, NUMBER)
    amount = 10 + age + mail * (0.5 + age) + rng.normal(size=NUMBER)
    names = [f"{i:03d}" for i in range(NUMBER)]
    offers = np.array(["none", "mail"])[mail]
    return pd.DataFrame({"customer": names, "age": age, "offer": offers, "amount": amount.round(4)})


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    folder = tmp_path_factory.mktemp("campaign")
    (folder / "campaign.toml").write_text(SPEC)
    made = Campaign.create(folder / "campaign.toml")
    made.add_outcomes(history())
    yield made
    made.close()


@pytest.fixture(scope="module")
def evaluated(campaign):
    table = history()[["customer"]].assign(offer="mail")
    return campaign.evaluate(table, table.iloc[:30])


def test_every_policy_is_valued_in_net_money_beside_the_model(evaluated):
    table = evaluated.to_frame().set_index("policy")
    assert table.index.tolist() == [
        "cobed's policy", "the best single action", "what is done today", "policy 1", "policy 2", "at random",
    ]  # fmt: skip
    assert evaluated.unit == "net EUR"
    assert evaluated.reference == "what is done today"
    rows = history()
    # The fixed policies by hand: self-normalised residuals cannot be far from plain means of who got that.
    for policy, offer, cost in (("what is done today", "none", 0.0), ("policy 1", "mail", 1.0)):
        mean = 2 * rows.loc[rows["offer"] == offer, "amount"].mean() - cost
        assert abs(table.loc[policy, "value"] - mean) < 1.5
        assert table.loc[policy, "matched"] == (rows["offer"] == offer).sum()
        assert table.loc[policy, "low"] < table.loc[policy, "value"] < table.loc[policy, "high"]
    assert (table["low"] < table["model"]).all()
    assert table.loc["policy 2", "units"] == 30
    assert np.isnan(table.loc["what is done today", "gain"])
    assert table.loc["cobed's policy", "gain"] > 0
    assert any("judged on the 30 of 80 units" in note for note in evaluated.notes)
    assert any("A table is judged as it is" in note for note in evaluated.notes)


def test_inverse_propensity_of_one_option_is_the_mean_of_who_got_it(campaign):
    rows = history()
    table = campaign.evaluate(method="inverse propensity").to_frame().set_index("policy")
    assert table.loc["what is done today", "value"] == pytest.approx(
        2 * rows.loc[rows["offer"] == "none", "amount"].mean(), rel=1e-5
    )
    net = 2 * rows["amount"] - (rows["offer"] == "mail")
    assert table.loc["at random", "value"] == pytest.approx(net.mean(), rel=1e-5)


def test_the_same_campaign_gives_the_same_numbers_and_json(campaign, evaluated, capsys, monkeypatch):
    folder = campaign.directory
    text = history()[["customer"]].assign(offer="mail")
    text.to_csv(folder / "policy.csv", index=False)
    text.assign(customer=lambda frame: "X" + frame["customer"]).to_csv(folder / "region.csv", index=False)
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.argv", ["cobed", "evaluate", "policy.csv", "region.csv", "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    told = json.loads(capsys.readouterr().out)
    (mine,) = [row for row in told["policies"] if row["policy"] == "cobed's policy"]
    assert mine["value"] == evaluated.to_frame()["value"][0]
    (region,) = [row for row in told["policies"] if row["policy"] == "region.csv"]
    assert region["value"] is None
    assert any("region.csv decides for none of the 80 units" in note for note in told["notes"])


def test_what_cannot_be_asked_is_told(campaign, tmp_path):
    with pytest.raises(
        CampaignError, match=r"method = 'magic' is unknown\. Allowed: doubly robust, inverse propensity"
    ):
        campaign.evaluate(method="magic")
    with pytest.raises(CampaignError, match="weights = 'none' is unknown"):
        campaign.evaluate(weights="none")
    with pytest.raises(CampaignError, match="No outcome in round 1 is of a unit whose action was random"):
        campaign.evaluate(round=1)
    with pytest.raises(TableError, match="offer"):
        campaign.evaluate(history()[["customer"]])
    (tmp_path / "campaign.toml").write_text(SPEC.replace("history_shares = { none = 0.5, mail = 0.5 }\n", ""))
    plain = Campaign.create(tmp_path / "campaign.toml")
    plain.add_outcomes(history())
    with pytest.raises(CampaignError, match=r"random_share = 0\.1 under \[design\]"):
        plain.evaluate()
    plain.close()


def test_numbers_are_judged_by_units_near_what_a_policy_says(tmp_path):
    """The value of a price is E[10 - (price - 6)^2 / 4]; drawn uniformly between 0 and 10."""
    numbers = "numbers = { price = { low = 0.0, high = 10.0 } }"
    spec = SPEC.replace('column = "offer"\noptions = ["none", "mail"]', numbers).split("[design]")[0]
    (tmp_path / "campaign.toml").write_text(spec + '[design]\nbudget = "smoke"\nrandom_share = 0.5\n')
    made = Campaign.create(tmp_path / "campaign.toml")
    rng = np.random.default_rng(0)
    prices, age = rng.uniform(0, 10, (2, 120))
    amounts = 10 - (prices - 6) ** 2 / 4 + rng.normal(size=120)
    names = [f"{i:03d}" for i in range(120)]
    made.add_outcomes(pd.DataFrame({"customer": ["x", "y"], "age": [0.0, 10.0], "price": 5.0, "amount": 10.0}))
    rows = [
        Assignment(*row, chance={"share": 0.5, "density": 0.1})
        for row in zip(names, [{"age": float(a)} for a in age], [{"price": float(p)} for p in prices], strict=True)
    ]
    with made.store.transaction() as connection:
        records.write_round(connection, Round(1, "now", "hash", 0, 1, {}), rows)
    made.add_outcomes(pd.DataFrame({"customer": names, "amount": amounts}))
    found = made.evaluate(pd.DataFrame({"customer": names, "price": 6.0}))
    table = found.to_frame().set_index("policy")
    assert found.num_units == 120
    # Prices within one of 6; the model of a line with a square fits what lies within.
    assert table.loc["policy 1", "low"] < 10 < table.loc["policy 1", "high"]
    assert table.loc["at random", "value"] == pytest.approx(amounts.mean(), abs=0.2)
    assert table.loc["cobed's policy", "gain" if found.reference == "what is done today" else "value"] > 8
    assert any("within a tenth of its range" in note for note in found.notes)
    made.close()
