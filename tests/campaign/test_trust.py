"""What the checks are told of a campaign: who was left to chance, with which probabilities, and what stands in whose tables."""

import json

import numpy as np
import pandas as pd
import pytest

from cobed.campaign import trust as trusted
from cobed.campaign.campaign import Campaign
from cobed.campaign.encoding import Encoding
from cobed.campaign.records import Assignment, Outcome, Planned, Round
from cobed.campaign.spec import parse_spec
from cobed.checks.left_out import log_density_unseen
from cobed.errors import CampaignError, TableError
from cobed.report.campaign import write_report

SPEC = """name = "spring"
[units]
id = "customer"
[context]
recency = "numeric"
city = "categorical"
[action]
{action}
[outcome]
column = "amount"
likelihood = "normal"
typical = 50
spread = 10
{more}
"""
OPTIONS = 'column = "offer"\noptions = ["none", "mail"]'
PRIOR = "[prior]\nbaseline = 10.0"
ENCODING = Encoding({"recency": [3.0, 2.0], "city": ["Bath", "York"]}, {"recency": ["missing"]})


def spec_of(more="", action=OPTIONS):
    return parse_spec(SPEC.format(action=action, more=more), "campaign.toml")


def planned_of(*rows):
    """Rows of (round, unit, city, offer, state, rejected)."""
    return [Planned(r, Assignment(u, {"recency": 3.0, "city": c}, o, s, x), None) for r, u, c, o, s, x in rows]


def rounds_of(*methods):
    return [Round(number, "", "", 0, 1, {"method": method}, num_units=4) for number, method in enumerate(methods)]


def test_units_of_the_random_designer_were_left_to_chance_unless_somebody_decided():
    planned = planned_of(
        (1, "a", "Bath", "none", "planned", ()),
        (1, "b", "Bath", "mail", "pinned", ()),
        (1, "c", "Bath", "mail", "planned", ("none",)),
        (2, "d", "Bath", "mail", "planned", ()),
    )
    rounds = rounds_of(None, "Random", "CO-BED (value)")
    units = trusted.units_of(spec_of(), ENCODING, planned, rounds)
    assert units.at_random.tolist() == [True, False, False, False]
    np.testing.assert_array_equal(units.propensities[0], [0.5, 0.5])
    assert not units.propensities[1:].any()
    # A rule over the whole round takes what is nearest to chance, not chance.
    bound = spec_of("[constraints]\nat_most = { mail = 2 }")
    assert not trusted.units_of(bound, ENCODING, planned, rounds).at_random.any()


def test_who_may_not_get_an_option_gets_the_others_with_their_probability():
    forbid = spec_of('[[constraints.forbid]]\naction = "mail"\ncolumn = "city"\nvalues = ["York"]')
    planned = planned_of((1, "a", "Bath", "none", "planned", ()), (1, "b", "York", "none", "planned", ()))
    units = trusted.units_of(forbid, ENCODING, planned, rounds_of(None, "Random"))
    np.testing.assert_array_equal(units.propensities, [[0.5, 0.5], [1, 0]])
    assert units.could_get_all.tolist() == [True, False]


def test_history_counts_as_left_to_chance_in_the_shares_it_has():
    rows = [(0, f"h{i}", "Bath", "mail" if i < 3 else "none", "planned", ()) for i in range(4)]
    units = trusted.units_of(spec_of(), ENCODING, planned_of(*rows), rounds_of(None))
    np.testing.assert_allclose(units.propensities, [[0.25, 0.75]] * 4)
    assert units.are_guessed.all()
    one = trusted.units_of(spec_of(), ENCODING, planned_of(*rows[:3]), rounds_of(None))
    assert not one.at_random.any()


def test_cells_are_grouped_as_tables_for_people_group_them():
    cells = {"recency": [1.0, 3.0, None, 9.0], "city": ["Bath", "York", "Hull", "Bath"]}
    contexts = np.zeros((4, 4), np.float32)
    recency, city = trusted.columns_of(spec_of(), ENCODING, cells, contexts)
    assert recency.labels == ("recency", "recency (missing)")
    assert recency.groups[2] == "(missing)"
    assert recency.values.tolist() == [1.0, 3.0, 9.0]
    assert city.groups.tolist() == ["Bath", "York", "(new)", "Bath"]
    # A new level is one of its own where levels are compared.
    assert city.values.tolist() == ["Bath", "York", "Hull", "Bath"]


def test_what_a_unit_got_and_what_was_planned_are_kept_apart():
    (entry,) = planned_of((1, "a", "Bath", "none", "planned", ()))
    entry = entry._replace(outcome=Outcome(1, "a", 3.5, "mail"))
    units = trusted.units_of(spec_of(), ENCODING, [entry], rounds_of(None, "Random"))
    np.testing.assert_array_equal(units.planned, [[1, 0]])
    np.testing.assert_array_equal(units.got, [[0, 1]])
    assert units.outcomes.tolist() == [3.5]


def customers(number, first=0, cities=("Bath", "York")):
    rng = np.random.default_rng(first)
    return pd.DataFrame(
        {
            "customer": [f"c{first + i}" for i in range(number)],
            "recency": rng.integers(0, 12, number).astype(float),
            "city": rng.choice(cities, number),
        }
    )


def begin(folder, more=PRIOR, action=OPTIONS):
    (folder / "campaign.toml").write_text(SPEC.format(action=action, more=more))
    return Campaign.create(folder / "campaign.toml")


def with_outcomes(table, seed=7):
    rng = np.random.default_rng(seed)
    offers = rng.choice(["none", "mail"], len(table))
    return table.assign(
        offer=offers, amount=50 + 2 * table["recency"] * (offers == "mail") + rng.normal(0, 10, len(table))
    )


def test_a_campaign_is_checked_from_its_first_table_on(tmp_path):
    campaign = begin(tmp_path)
    with pytest.raises(CampaignError, match="has seen no table yet"):
        campaign.trust()
    assert "Nothing to check yet" in write_report(campaign, tmp_path / "empty.html").read_text()
    campaign.add_outcomes(with_outcomes(customers(60)))
    targets = customers(40, 100, ("Bath", "York", "Hull"))
    answers = {answer.name: answer for answer in campaign.trust(targets)}
    assert answers["returned"].verdict == "open"
    assert answers["drift"].verdict == "look"
    assert "level that no unit has" in answers["drift"].sentence
    assert answers["gains"].verdict == "fine"
    assert "Taking history as assigned at random" in answers["gains"].sentence
    # Nothing is stored, and the same is said again.
    again = {answer.name: answer for answer in campaign.trust(targets)}
    assert [answer.sentence for answer in again.values()] == [answer.sentence for answer in answers.values()]
    with pytest.raises(TableError, match="city"):
        campaign.trust(targets.drop(columns="city"))
    page = write_report(campaign, tmp_path / "report.html").read_text()
    assert "Can these numbers be trusted?" in page
    assert "No targets were given to compare the units with." in page
    campaign.close()


def test_the_command_prints_verdicts_and_json_for_programs(tmp_path, monkeypatch, capsys):
    from cobed.cli import app

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    campaign = begin(tmp_path)
    campaign.add_outcomes(with_outcomes(customers(60)))
    campaign.close()
    customers(40, 100).to_csv("targets.csv", index=False)
    app(["trust", "targets.csv", "--json"], standalone_mode=False)
    told = json.loads(capsys.readouterr().out)["checks"]
    assert [check["name"] for check in told][:2] == ["returned", "balance"]
    assert {*told[0]} == {"name", "verdict", "sentence", "advice", "table"}
    app(["trust", "--details"], standalone_mode=False)
    printed = capsys.readouterr().out
    for word in ("verdict", "what to do", "balance", "No targets were given"):
        assert word in printed


def test_many_rows_are_stood_for_by_some_of_them(tmp_path, monkeypatch):
    monkeypatch.setattr(trusted, "MAX_ROWS", 30)
    campaign = begin(tmp_path)
    campaign.add_outcomes(with_outcomes(customers(60)))
    predicted = next(answer for answer in campaign.trust() if answer.name == "predicted outcomes")
    assert predicted.table[predicted.table["by"] == "action"]["units"].sum() == 30
    campaign.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("action", "more"),
    [
        ("numbers = { price = { low = 0, high = 5 } }", ""),
        (OPTIONS, '[model]\nfamily = "gp"'),
        (OPTIONS, '[model]\nprogram = "program:amounts"'),
    ],
)
def test_numbers_processes_and_programs_are_checked_too(tmp_path, action, more):
    (tmp_path / "program.py").write_text(
        "import jax.numpy as jnp, numpyro, numpyro.distributions as dist\n"
        "def amounts(contexts, actions):\n"
        "    lift = numpyro.sample('lift', dist.Normal(0, 10).expand([2]).to_event(1))\n"
        "    mean = numpyro.deterministic('reward', 50 + actions @ lift)\n"
        "    numpyro.sample('y', dist.Normal(mean, 10.0).to_event(1))\n"
    )
    campaign = begin(tmp_path, more, action)
    table = with_outcomes(customers(40))
    campaign.add_outcomes(table.assign(price=np.linspace(0, 5, 40)))
    verdicts = {answer.name: answer.verdict for answer in campaign.trust(customers(20, 100))}
    assert verdicts["predicted outcomes"] in ("fine", "look")
    assert verdicts["single rows"] in ("fine", "look")
    assert (verdicts["gains"] == "open") == ("numbers" in action)
    campaign.close()


@pytest.mark.slow
def test_leaving_rows_out_agrees_with_the_fit_that_stacks_families(tmp_path):
    """`Scales` has the density of each outcome without its row in closed form; here it is found from its draws alone."""
    campaign = begin(tmp_path, "")
    campaign.add_outcomes(with_outcomes(customers(80)))
    encoding = campaign.encoding()
    posterior = campaign.posterior()[1]
    assert len(np.unique(posterior.family)) > 1
    with campaign.store.reading() as connection:
        planned, rounds = list(trusted.kept.read_planned(connection)), trusted.kept.read_rounds(connection)
    units = trusted.units_of(campaign.spec, encoding, planned, rounds)
    predictions = trusted.predictions_of(campaign.spec, units, None, campaign.posterior())
    assert len(predictions.outcomes) == 80
    density, _ = log_density_unseen(predictions)
    # 80 rows with an error below .01 each by the effective number of draws.
    assert density == pytest.approx(posterior.diagnostics["elpd"], abs=0.8)
    campaign.close()
