"""Rules that people can read: from a campaign to sentences, a policy that follows them, JSON and SQL."""

import json

import numpy as np
import pandas as pd
import pytest

from cobed.campaign.campaign import Campaign
from cobed.campaign.readable import read_tree, rules_sentences
from cobed.cli import campaign as commands
from cobed.errors import CampaignError

SPEC = """name = "spring"
[units]
id = "id"
[context]
age = "numeric"
city = "categorical"
member = "binary"
[action]
column = "offer"
options = ["none", "mail"]
[outcome]
column = "sales"
likelihood = "normal"
typical = 5.0
spread = 1.0
[prior]
action = 2.0
[value]
cost = { mail = 0.5 }
"""


def people(number, start=0):
    rng = np.random.default_rng(start)
    return pd.DataFrame(
        {
            "id": [f"u{i}" for i in range(start, start + number)],
            "age": rng.integers(20, 70, number),
            "city": rng.choice(["A", "B", "C"], number),
            "member": rng.choice(["Yes", "no"], number),
        }
    )


def begun(folder, text=SPEC):
    """Mail brings 3 to members and costs others 3."""
    (folder / "campaign.toml").write_text(text)
    campaign = Campaign.create(folder / "campaign.toml", folder / "campaign.db")
    rows = people(80, 1_000)
    mailed = np.arange(80) % 2 == 1
    effect = np.where(rows["member"] == "Yes", 3.0, -3.0) * mailed
    noise = 0.3 * np.random.default_rng(1).normal(size=80)
    campaign.add_outcomes(rows.assign(offer=np.where(mailed, "mail", "none"), sales=5 + effect + noise))
    return campaign


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    return begun(tmp_path_factory.mktemp("rules"))


def test_every_policy_comes_with_rules_in_short(campaign):
    frame = campaign.deploy(people(40))
    rules = campaign.deployed["rules"]
    assert not rules["deployed"]
    tree = read_tree(campaign.deployed)
    assert "member" in {question.column for path, _ in tree.leaves() for question, _ in path}
    # Nearly everything that matters is who is a member.
    assert 0.9 * rules["free"] <= rules["value"] <= rules["free"]
    assert rules["free"] == pytest.approx(frame["gain"].mean(), abs=1e-4)
    said = rules_sentences(campaign.spec, campaign.deployed)
    assert said[0] == "As rules, in short:"
    assert any("member is yes" in line and ": mail. " in line for line in said)
    assert sum(leaf["units"] for leaf in rules["leaves"]) == 40


def test_a_policy_by_rules_follows_them(campaign):
    rows = people(40)
    frame = campaign.deploy(rows, rules=1)
    summary = campaign.deployed
    assert (frame["offer"] == np.where(rows["member"] == "Yes", "mail", "none")).all()
    assert summary["rules"]["deployed"]
    assert summary["rules"]["value"] == pytest.approx(summary["over_single"]["mean"], abs=1e-4)
    np.testing.assert_allclose(
        frame["expected"], [row[f"expected_{row['offer']}"] for _, row in frame.iterrows()], rtol=1e-4
    )
    assert rules_sentences(campaign.spec, summary)[0] == "The policy follows these rules:"


def test_rules_keep_a_budget_and_say_what_it_is_used_for(tmp_path):
    campaign = begun(tmp_path, SPEC + "[budget]\nat_most = { mail = 6 }\n")
    frame = campaign.deploy(people(40), rules=2)
    mailed = int((frame["offer"] == "mail").sum())
    assert 0 < mailed <= 6
    assert campaign.deployed["budget"]["limits"][0]["used"] == mailed
    assert campaign.deployed["budget"]["value"] == pytest.approx(frame["expected"].sum(), rel=1e-4)


def test_units_that_may_not_get_what_the_rules_say_get_what_is_best_otherwise(tmp_path):
    forbid = '[[constraints.forbid]]\ncolumn = "city"\nvalues = ["A"]\naction = "mail"\n'
    campaign = begun(tmp_path, SPEC + forbid)
    rows = people(40)
    frame = campaign.deploy(rows, rules=1)
    mailed = (rows["member"] == "Yes") & (rows["city"] != "A")
    assert (frame["offer"] == np.where(mailed, "mail", "none")).all()


def prices(folder):
    """Members spend as much more as the price is higher, others as much less."""
    text = SPEC.replace(
        'column = "offer"\noptions = ["none", "mail"]', "numbers = { price = { low = 0.0, high = 4.0 } }"
    )
    text = text[: text.index("[value]")]
    (folder / "campaign.toml").write_text(text)
    campaign = Campaign.create(folder / "campaign.toml", folder / "campaign.db")
    rows = people(60, 1_000)
    price = np.random.default_rng(2).uniform(0, 4, 60)
    way = np.where(rows["member"] == "Yes", 1.0, -1.0)
    campaign.add_outcomes(rows.assign(price=price, sales=5 + way * price))
    return campaign


def test_rules_of_numbers_choose_among_few(tmp_path):
    campaign = prices(tmp_path)
    frame = campaign.deploy(people(40), rules=1)
    expected = np.where(people(40)["member"] == "Yes", 4.0, 0.0)
    np.testing.assert_allclose(frame["price"], expected)
    assert "price 4" in "\n".join(rules_sentences(campaign.spec, campaign.deployed))


def test_the_command_writes_the_rules_for_programs_and_takes_old_ones_away(tmp_path, monkeypatch, capsys):
    begun(tmp_path).close()
    people(40).to_csv(tmp_path / "targets.csv", index=False)
    monkeypatch.chdir(tmp_path)
    commands.deploy(tmp_path / "targets.csv", rules=1)
    said = capsys.readouterr().out
    assert "If member is yes: mail." in said
    assert json.loads((tmp_path / "policy-rules.json").read_text())["tree"]["names"] in (["yes"], ["no"])
    assert (tmp_path / "policy-rules.sql").read_text().startswith('CASE WHEN LOWER(CAST("member" AS VARCHAR)) IN (')
    commands.deploy(tmp_path / "targets.csv")
    assert not (tmp_path / "policy-rules.json").exists()
    assert not (tmp_path / "policy-rules.sql").exists()


@pytest.mark.parametrize("depth", [0, 5])
def test_rules_nobody_can_read_are_refused(campaign, depth):
    with pytest.raises(CampaignError, match=f"1 to 4 questions in a row, got {depth}"):
        campaign.deploy(people(3), rules=depth)


def test_what_moves_a_decision_is_the_column_that_matters(campaign):
    rows = people(40)
    told = campaign.why(rows, ["u3", "u4"])
    known = campaign.deploy(rows).set_index("id")
    margins = known["expected_mail"] - known["expected_none"]
    assert list(told.columns) == ["id", "action", "instead_of", "margin", "column", "cell", "moves"]
    assert len(told) == 2 * 3
    for unit, part in told.groupby("id", sort=False):
        first = part.iloc[0]
        way = 1 if first["action"] == "mail" else -1
        member = rows.set_index("id")["member"][unit] == "Yes"
        assert (first["action"], first["instead_of"]) == (("mail", "none") if member else ("none", "mail"))
        assert first["column"] == "member"
        assert first["margin"] == pytest.approx(way * margins[unit], abs=1e-4)
        # Margins are linear in the columns: what these move adds up to the distance from the average target.
        assert part["moves"].sum() == pytest.approx(way * (margins[unit] - margins.mean()), abs=1e-4)
        assert (part["moves"].abs().diff().dropna() <= 1e-6).all()


def test_of_a_number_the_one_that_is_best_for_all_stands_beside_it(tmp_path):
    campaign = prices(tmp_path)
    rows = people(40).assign(member=["Yes"] * 30 + ["no"] * 10)
    told = campaign.why(rows, ["u0", "u35"])
    best = told.groupby("id", sort=False).first()
    assert [action["price"] for action in best["action"]] == [4.0, 0.0]
    assert [action["price"] for action in best["instead_of"]] == [0.0, 4.0]
    assert (best["column"] == "member").all()


def test_units_that_are_not_there_are_told(campaign, tmp_path, monkeypatch, capsys):
    with pytest.raises(CampaignError, match=r"targets has no unit 'u99'. Give ids as they stand in 'id'"):
        campaign.why(people(3), ["u1", "u99"])
    with pytest.raises(CampaignError, match="Name 1 to 1,000 units to be told about, got 0"):
        campaign.why(people(3), [])
    begun(tmp_path).close()
    people(40).to_csv(tmp_path / "targets.csv", index=False)
    monkeypatch.chdir(tmp_path)
    commands.why(tmp_path / "targets.csv", ["u1"])
    said = capsys.readouterr().out.splitlines()
    assert "expected to bring" in said[0]
    assert said[1].startswith("  member = ")
