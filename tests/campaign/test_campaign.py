"""A campaign from a table to a policy. Most tests draw their designs at random: what is tested is what happens around them.

Rounds have 8 units and deployments 20 targets wherever the number does not matter: the same shapes are compiled once.
"""

import jax
import jax.random as jr
import numpy as np
import pandas as pd
import pytest

import cobed
from cobed.campaign.campaign import Campaign
from cobed.designers.result import DesignResult
from cobed.errors import CampaignError, SpecError, TableError

# For the tests that design in earnest.
TINY = cobed.Budget(
    num_steps=2, batch_size=8, num_starts=1, settle_steps=0, settle_batch_size=8, num_evaluation_batches=2,
    pool_size=64, num_samples=1,
)  # fmt: skip

SPEC = """
name = "spring"
[units]
id = "customer"
[context]
recency = "numeric"
channel = "categorical"
new = "binary"
[action]
column = "offer"
options = ["none", "5%", "10%"]
[outcome]
column = "amount"
likelihood = "normal"
typical = 50
spread = 10
"""
CONSTRAINTS = """
[constraints]
at_most = { "10%" = 2 }
at_least = { none = 3 }
cost = { "5%" = 1, "10%" = 2 }
max_cost = 6
[[constraints.forbid]]
action = "10%"
column = "new"
values = ["yes"]
"""
BINARY = SPEC.replace('"amount"', '"visit"').replace('"normal"\ntypical = 50\nspread = 10', '"bernoulli"')
COUNTS = SPEC.replace('"amount"', '"orders"').replace('"normal"\ntypical = 50\nspread = 10', '"poisson"\ntypical = 2.0')
PRICE = SPEC.replace('options = ["none", "5%", "10%"]', "numbers = { price = { low = 0, high = 10 } }")


def people(number, start=0):
    rng = np.random.default_rng(start)
    return pd.DataFrame(
        {
            "customer": [f"{start + i:04d}" for i in range(number)],
            "recency": rng.normal(5, 3, number).round(2),
            "channel": (["Web", "Phone", "Shop"] * number)[:number],
            "new": (["yes", "no"] * number)[:number],
            "note": [f"extra, {i}" for i in range(number)],
        },
        index=[f"row {i}" for i in range(number)],
    )


@pytest.fixture(autouse=True)
def random_designs(request, monkeypatch):
    """In the place of a design, actions at random: a design compiles for many seconds. Marked tests have real ones."""
    if "in_earnest" in request.fixturenames:
        return

    def draw(spec, model, posterior, batch, seed, budget=None, progress=None):
        assert np.isfinite(batch.contexts).all()
        assert np.isfinite(batch.targets).all()
        keys = jr.split(jr.key(seed), len(batch.contexts))
        actions = np.asarray(jax.vmap(model.action_space.sample)(keys))
        names = [model.action_space.label(action) for action in actions]
        return DesignResult("Random", actions, names, batch.contexts, None, [], "", seed, 0.0, 0.0)

    monkeypatch.setattr("cobed.campaign.rounds.design_batch", draw)


@pytest.fixture
def in_earnest():
    """Asks for real designs."""


@pytest.fixture
def start(tmp_path):
    """Starts a campaign of a spec in SQLite; as often as asked."""
    opened = []

    def begin(text=SPEC, name="campaign"):
        path = tmp_path / f"{name}.toml"
        path.write_text(text)
        opened.append(Campaign.create(path, tmp_path / f"{name}.db"))
        return opened[-1]

    yield begin
    for campaign in opened:
        campaign.close()


def outcomes(assigned, column="amount", values=None):
    rng = np.random.default_rng(1)
    return assigned[["customer"]].assign(**{column: rng.normal(50, 10, len(assigned)) if values is None else values})


@pytest.mark.parametrize(
    ("text", "column", "values"),
    [(SPEC, "amount", [40.0, 60.0]), (BINARY, "visit", ["yes", "no"]), (COUNTS, "orders", [0, 3])],
)
def test_from_a_table_to_a_policy_with_every_kind_of_outcome(start, text, column, values):
    campaign, units, targets = start(text), people(8), people(20, 100)
    assigned = campaign.recommend(units, targets)
    pd.testing.assert_frame_equal(assigned[units.columns], units)
    assert set(assigned["offer"]) <= {"none", "5%", "10%"}
    receipt = campaign.add_outcomes(outcomes(assigned, column, values * 4))
    assert (receipt.added, receipt.corrected, receipt.unplanned) == (8, 0, 0)
    policy = campaign.deploy(targets)
    pd.testing.assert_frame_equal(policy[targets.columns], targets)
    assert (policy["low"] <= policy["expected"]).all()
    assert (policy["expected"] <= policy["high"]).all()
    assert policy["p_best"].between(0, 1).all()
    second = campaign.recommend(people(8, 50), targets)
    assert len(second) == 8
    assert campaign.status().rounds["units"].tolist() == [8, 8]
    assert campaign.status().num_waiting == 8


def test_a_round_is_designed_in_earnest_from_outcomes(start, in_earnest):
    campaign = start(BINARY)
    campaign.add_outcomes(people(6, 500).assign(offer=["none", "5%"] * 3, visit=[0, 1] * 3))
    assigned = campaign.recommend(people(5), budget=TINY)
    assert set(assigned["offer"]) <= {"none", "5%", "10%"}
    summary = campaign.rounds()[-1].summary
    assert summary["method"] == "CO-BED (value)"
    assert np.isfinite(summary["score"][:2]).all()


@pytest.mark.slow
@pytest.mark.parametrize("text", [BINARY, COUNTS, PRICE])
def test_rounds_are_designed_before_and_after_outcomes_and_around_pins(start, in_earnest, text):
    campaign, units = start(text), people(5)
    assigned = campaign.recommend(units, budget=TINY)
    numbers = text is PRICE
    campaign.pin({"0001": {"price": 2.5}} if numbers else {"0001": "10%"})
    campaign.add_outcomes(pd.DataFrame({"customer": ["0004"], campaign.spec.outcome.column: [1]}))
    again = campaign.recommend(units, budget=TINY)
    column = "price" if numbers else "offer"
    assert again[column].iloc[1] == (2.5 if numbers else "10%")
    assert again[column].iloc[4] == assigned[column].iloc[4]
    assert np.isfinite(campaign.rounds()[-1].summary["score"][:2]).all()


def test_numbers_are_chosen_within_their_bounds_and_the_cost(start):
    campaign = start(PRICE + "[constraints]\ncost = { price = 2 }\nmax_cost = 30\n")
    assigned = campaign.recommend(people(8))
    assert assigned["price"].between(0, 10).all()
    assert 2 * assigned["price"].sum() <= 30
    campaign.add_outcomes(outcomes(assigned))
    policy = campaign.deploy(people(20, 100))
    assert policy["price"].between(0, 10).all()


def test_constraints_hold_exactly(start):
    campaign = start(SPEC + CONSTRAINTS)
    assigned = campaign.recommend(people(8))
    counts = assigned["offer"].value_counts()
    assert counts.get("10%", 0) <= 2
    assert counts["none"] >= 3
    assert counts.get("5%", 0) + 2 * counts.get("10%", 0) <= 6
    assert not ((assigned["offer"] == "10%") & (assigned["new"] == "yes")).any()
    campaign.add_outcomes(outcomes(assigned))
    policy = campaign.deploy(people(20, 100))
    assert not ((policy["offer"] == "10%") & (policy["new"] == "yes")).any()


def test_impossible_constraints_are_told_before_the_design(start, monkeypatch):
    monkeypatch.setattr("cobed.campaign.rounds.design_batch", None)
    with pytest.raises(
        CampaignError, match=r"No assignment has at least 9 units of 'none': .* 4 units may get .* and 4 at most"
    ):
        start(SPEC + "[constraints]\nat_least = { none = 9 }\n").recommend(people(4))
    with pytest.raises(CampaignError, match="No batch of these actions has a total cost of at most -1"):
        start(PRICE + "[constraints]\ncost = { price = 1 }\nmax_cost = -1\n", "price").recommend(people(4))


def test_a_target_without_any_option_left_is_told(start):
    rules = ", ".join(f'{{ action = "{offer}", column = "new", values = ["no"] }}' for offer in ("none", "5%", "10%"))
    campaign = start(SPEC + f"[constraints]\nforbid = [{rules}]\n")
    campaign.add_outcomes(people(8).assign(offer=["none", "5%"] * 4, amount=50.0))
    with pytest.raises(CampaignError, match=r"targets, row row 1: constraints\.forbid leaves this unit no option"):
        campaign.deploy(people(3, 100))
    # Before the design, not after the experiment.
    with pytest.raises(CampaignError, match=r"targets, row row 1: constraints\.forbid leaves this unit no option"):
        campaign.recommend(people(1, 50), people(3, 100))
    with pytest.raises(CampaignError, match="Unit '0101' may get no option at all"):
        campaign.recommend(people(3, 100), people(1, 50))


def test_the_same_round_is_not_designed_twice_until_outcomes_are_in(start):
    campaign, units = start(), people(8)
    first = campaign.recommend(units)
    pd.testing.assert_frame_equal(campaign.recommend(units), first)
    assert [(r.id, r.version) for r in campaign.rounds()] == [(1, 1)]
    campaign.recommend(units.assign(recency=1.0), people(3, 70))
    assert [(r.id, r.version) for r in campaign.rounds()] == [(1, 2)]
    assert (campaign.export()["recency"] == 1.0).all()
    campaign.add_outcomes(outcomes(first).iloc[:2])
    with pytest.raises(CampaignError, match="2 have an outcome, 6 wait for one"):
        campaign.recommend(units)
    campaign.recommend(units.assign(recency=1.0), people(3, 70), again=True)
    assert [(r.id, r.version) for r in campaign.rounds()] == [(1, 2), (2, 1)]


def test_a_round_is_designed_anew_when_the_constraints_have_changed(start, tmp_path):
    campaign, units = start(), people(8)
    campaign.recommend(units)
    campaign.close()
    path = tmp_path / "campaign.toml"
    path.write_text(SPEC + "[constraints]\nat_least = { none = 8 }\n")
    again = Campaign.open(tmp_path / "campaign.db", path)
    assert (again.recommend(units)["offer"] == "none").all()
    assert [(r.id, r.version) for r in again.rounds()] == [(1, 2)]
    again.close()


def test_pinned_units_keep_their_action_and_rejected_ones_get_another(start):
    campaign, units = start(), people(8)
    first = campaign.recommend(units).set_index("customer")["offer"]
    campaign.pin({"0001": "10%"})
    campaign.reject(["0003"])
    campaign.add_outcomes(pd.DataFrame({"customer": ["0004", "0005"], "amount": [49.0, 51.0]}))
    second = campaign.recommend(units).set_index("customer")["offer"]
    assert second["0001"] == "10%"
    assert second["0003"] != first["0003"]
    assert second["0005"] == first["0005"]
    assert [(r.id, r.version) for r in campaign.rounds()] == [(1, 2)]
    with pytest.raises(CampaignError, match="'0005' has an outcome already"):
        campaign.reject(["0005"])
    with pytest.raises(CampaignError, match="'nobody' is not in round 1"):
        campaign.pin({"nobody": "none"})
    with pytest.raises(TableError, match=r"column 'offer': '20%' is not allowed\. Allowed: none, 5%, 10%"):
        campaign.pin({"0001": "20%"})


def test_late_corrected_and_repeated_outcomes(start):
    campaign = start()
    assigned = campaign.recommend(people(4))
    partial = outcomes(assigned, values=["41", "", "n/a", "44"])
    assert campaign.add_outcomes(partial).added == 2
    assert campaign.add_outcomes(partial).duplicate
    receipt = campaign.add_outcomes(outcomes(assigned, values=[41.0, 42.0, 43.0, 44.5]))
    assert (receipt.added, receipt.corrected, receipt.unchanged) == (2, 1, 1)
    # A table that comes again counts again: the last word is the user's.
    assert campaign.add_outcomes(partial).corrected == 1
    assert campaign.export()["amount"].tolist() == [41.0, 42.0, 43.0, 44.0]


def test_an_outcome_of_another_action_counts_for_what_was_done(start):
    campaign = start()
    assigned = campaign.recommend(people(8))
    other = "none" if assigned["offer"].iloc[0] != "none" else "5%"
    told = outcomes(assigned).assign(offer=[other, "", *assigned["offer"].iloc[2:]])
    assert campaign.add_outcomes(told).other_action == 1
    table = campaign.export()
    assert table["offer"].tolist() == [other, *assigned["offer"].tolist()[1:]]
    assert table["as_planned"].tolist() == [False, *[True] * 7]


def test_history_is_round_zero_and_a_round_is_designed_from_it(start):
    campaign = start()
    history = people(8, 500).assign(offer=["none", "5%"] * 4, amount=50.0)
    assert campaign.add_outcomes(history).unplanned == 8
    assert campaign.add_outcomes(history).duplicate
    campaign.recommend(people(8))
    assert campaign.status().rounds["what"].tolist() == ["history", "designed"]
    assert campaign.rounds()[-1].summary["posterior"] == "scales"
    assert campaign.data().num_rows == 8
    with pytest.raises(TableError, match="no column 'recency', needed for 1 unit"):
        campaign.add_outcomes(pd.DataFrame({"customer": ["new one"], "amount": [1.0]}))
    assert campaign.data().num_rows == 8


def test_the_numbers_of_a_stored_context_are_those_of_the_table(start):
    """Encoded when it comes and encoded when it is read back: the same."""
    from cobed.campaign.encoding import encode_contexts
    from cobed.campaign.tables import read_table

    campaign, units = start(), people(8)
    campaign.add_outcomes(outcomes(campaign.recommend(units)))
    encoded, _ = encode_contexts(campaign.spec, campaign.encoding(), read_table(units))
    np.testing.assert_allclose(campaign.data().contexts, encoded, atol=1e-6)
    assert campaign.encoding().names(campaign.spec) == [
        "recency", "channel=Phone", "channel=Shop", "channel=Web", "new",
    ]  # fmt: skip


def test_a_campaign_is_opened_by_another_process_and_on_postgresql(tmp_path, store_url):
    path = tmp_path / "campaign.toml"
    path.write_text(SPEC)
    campaign = Campaign.create(path, store_url)
    campaign.add_outcomes(people(8).assign(offer=["none", "5%"] * 4, amount=range(40, 48)))
    policy = campaign.deploy(people(20, 100))
    campaign.close()
    opened = cobed.Campaign.open(store_url)
    pd.testing.assert_frame_equal(opened.deploy(people(20, 100)), policy)
    assert len(opened.policies()) == 2
    opened.close()


def test_a_changed_spec_is_taken_unless_stored_data_depend_on_it(start, tmp_path):
    campaign = start()
    campaign.add_outcomes(people(6).assign(offer=["none", "5%"] * 3, amount=50.0))
    path, store = tmp_path / "campaign.toml", tmp_path / "campaign.db"
    path.write_text(SPEC + CONSTRAINTS)
    assert Campaign.open(store, path).spec.constraints.max_cost == 6
    assert Campaign.open(store).spec.constraints.max_cost == 6
    path.write_text(SPEC.replace('"5%"', '"6%"'))
    with pytest.raises(SpecError, match=r"campaign.toml: \[action\] was changed after the campaign"):
        Campaign.open(store, path)


def test_what_cannot_be_done_yet_is_told(start):
    campaign = start()
    with pytest.raises(CampaignError, match="No outcome has come back yet"):
        campaign.deploy(people(3))
    with pytest.raises(CampaignError, match="no round yet"):
        campaign.pin({"0001": "none"})
    with pytest.raises(CampaignError, match="seen no table yet"):
        campaign.posterior()
    with pytest.raises(TableError, match="has a column 'offer' already"):
        campaign.recommend(people(3).assign(offer="none"))
    assert campaign.rounds() == []
    limited = start(SPEC + '[constraints]\nat_most = { "5%" = 3 }\n', "limited")
    with pytest.raises(CampaignError, match=r"6,000 units, and a round of this spec takes at most 5,000.*--take 5000"):
        limited.recommend(people(6000))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("likelihood", "law"), [("bernoulli", "Bernoulli(logits=eta)"), ("poisson", "Poisson(jnp.exp(eta))")]
)
def test_a_program_with_binary_outcomes_or_counts_goes_through_a_whole_campaign(
    in_earnest, start, tmp_path, likelihood, law
):
    (tmp_path / f"{likelihood}_model.py").write_text(
        "import jax.numpy as jnp, numpyro, numpyro.distributions as dist\n"
        "def visits(contexts, actions):\n"
        "    effect = numpyro.sample('effect', dist.Normal(jnp.zeros(3), jnp.array([.01, .01, 1.])).to_event(1))\n"
        f"    numpyro.sample('y', dist.{law.replace('eta', 'actions @ effect')}.to_event(1))\n"
    )
    text, column = (BINARY, "visit") if likelihood == "bernoulli" else (COUNTS, "orders")
    campaign = start(text + f'[model]\nprogram = "{likelihood}_model:visits"\n')
    assignments = campaign.recommend(people(12), targets=people(5, 100))
    assert (assignments["offer"] == "10%").sum() >= 10
    campaign.add_outcomes(assignments.assign(**{column: [0, 1] * 6}))
    assert len(campaign.deploy(people(4, 100))) == 4


def test_a_numpyro_program_is_a_model(start, tmp_path):
    (tmp_path / "mymodels.py").write_text(
        "import jax.numpy as jnp, numpyro, numpyro.distributions as dist\n"
        "def amount(contexts, actions):\n"
        "    effect = numpyro.sample('effect', dist.Normal(0, 5).expand([3]).to_event(1))\n"
        "    mean = numpyro.deterministic('reward', 50 + actions @ effect)\n"
        "    numpyro.sample('y', dist.Normal(mean, 10).to_event(1))\n"
    )
    campaign = start(SPEC + '[model]\nprogram = "mymodels:amount"\n')
    campaign.add_outcomes(people(30).assign(offer=["none", "5%", "10%"] * 10, amount=[50.0, 45.0, 70.0] * 10))
    assert (campaign.deploy(people(4, 100))["offer"] == "10%").all()
    other = start(SPEC + '[model]\nprogram = "mymodels:nothing"\n', "other")
    other.add_outcomes(people(3).assign(offer="none", amount=1.0))
    with pytest.raises(SpecError, match=r"'mymodels:nothing' cannot be loaded: .* no attribute 'nothing'"):
        other.deploy(people(2, 100))
