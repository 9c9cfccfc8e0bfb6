"""Experiments in rounds, in simulated worlds: each round is designed from what the earlier ones brought there."""

import json

import jax.random as jr
import numpy as np
import pandas as pd
import pytest

from cobed.budget import find_budget
from cobed.campaign import worlds
from cobed.campaign.campaign import Campaign
from cobed.campaign.plan import PlanSettings, Rows, make_plan, start_from
from cobed.campaign.spec import parse_spec
from cobed.campaign.tables import read_table
from cobed.campaign.worlds import Replay, Trial, play_rounds
from cobed.errors import CampaignError
from cobed.report.plan import plan_figure, plan_table
from cobed.search import Session

OPTIONS = ["none", "mail", "call", "visit"]
SPEC = f"""name = "several"
[units]
id = "customer"
[context]
recency = "numeric"
[action]
column = "offer"
options = {json.dumps(OPTIONS)}
[outcome]
column = "amount"
likelihood = "normal"
typical = 0
spread = 1
[design]
budget = "smoke"
max_targets = 5
rounds = 2
[prior]
action = 1.0
"""
UNITS = pd.DataFrame({"customer": range(24), "recency": np.arange(24) % 5})
TABLE = read_table(UNITS, "units")


def played(text, num_worlds):
    """The actions of two rounds of 12 in each world, and how they are replayed."""
    known = start_from(parse_spec(text), None, [TABLE], None)
    rows = Rows.read(known, TABLE, TABLE, 0)
    parts = rows.rounds(24, 2)
    first = worlds._designed(known, parts[0], Trial(num_worlds, 0, find_budget("smoke").replace(num_starts=1)), None)
    replay = Replay.of(known, rows.batch(slice(24)).problem(known.model), np.concatenate([first, first]), jr.key(1))
    return play_rounds(replay, first, parts, num_worlds, Session()), first


def test_later_rounds_are_designed_from_what_came_back_in_each_world_by_one_program(monkeypatch):
    built = []
    build = worlds.PredictorValue.build
    monkeypatch.setattr(worlds.PredictorValue, "build", lambda *arguments: built.append(0) or build(*arguments))
    actions, first = played(SPEC, 6)
    assert actions.shape == (6, 24, 4)
    np.testing.assert_array_equal(actions.sum(axis=2), 1.0)
    np.testing.assert_array_equal(actions[:, :12], np.broadcast_to(first, (6, 12, 4)))
    assert len({own[12:].tobytes() for own in actions}) == 6
    # What is known in a world is an argument of the program.
    assert len(built) == 1
    again, _ = played(SPEC, 6)
    np.testing.assert_array_equal(actions, again)


def test_rules_hold_in_every_round():
    actions, _ = played(SPEC + "[constraints]\nat_most = { visit = 2 }\nat_least = { none = 1 }\n", 3)
    for part in (actions[:, :12], actions[:, 12:]):
        assert part[:, :, 3].sum(axis=1).max() <= 2
        assert part[:, :, 0].sum(axis=1).min() >= 1


def test_later_rounds_have_one_size():
    known = start_from(parse_spec(SPEC), None, [TABLE], None)
    rows = Rows.read(known, TABLE, TABLE, 0)
    assert [len(part.contexts) for part in rows.rounds(23, 4)] == [8, 5, 5, 5]
    np.testing.assert_array_equal(np.concatenate([part.contexts for part in rows.rounds(23, 4)]), rows.contexts[:23])
    with pytest.raises(CampaignError, match="3 rounds need a unit each"):
        rows.rounds(2, 3)


def test_a_plan_compares_as_many_rounds_as_there_can_be_and_writes_its_verdict(tmp_path):
    known = start_from(parse_spec(SPEC), None, [TABLE], None)
    kept = tmp_path / "plan.json"
    plan = make_plan(known, TABLE, TABLE, PlanSettings([1, 12], 20, seed=0, kept=kept))
    assert [[rounds.number for rounds in size.rounds] for size in plan.sizes] == [[], [2]]
    assert plan.warnings[0].startswith("Left out 2 rounds of 1 units together.")
    (two,) = plan.sizes[1].rounds
    assert two.num_worlds == 20
    assert np.isfinite(two.difference).all()
    document = json.loads(kept.read_text())
    assert document["verdict"]["kind"] == plan.verdict.kind
    assert document["sizes"][1]["rounds"][0]["difference"] == list(two.difference)
    assert make_plan(known, TABLE, TABLE, PlanSettings([1, 12], 20, seed=0, kept=kept)) == plan
    assert plan_table(plan)["2 rounds - one"].tolist()[0] == ""
    assert [trace.name for trace in plan_figure(plan).data] == ["CO-BED", "random assignment", "CO-BED, 2 rounds"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("options", 'numbers = { price = { low = 0, high = 1 } } # "options'), "named options of the linear family"),
        (("[prior]", '[model]\nfamily = "gp"\n#'), "named options of the linear family"),
        (("rounds = 2", 'rounds = 2\nabout = "parameters"'), "which \\[design\\] does not ask for"),
    ],
)
def test_where_rounds_cannot_be_planned_that_is_said(monkeypatch, change, reason):
    from cobed.campaign import plan as planning

    text = SPEC.replace("action = 1.0\n", "") if "gp" in change[1] else SPEC
    known = start_from(parse_spec(text.replace(*change, 1)), None, [TABLE], None)
    seen = []
    monkeypatch.setattr(planning, "try_size", lambda known, batch, rounds, *rest: seen.append(rounds) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        make_plan(known, TABLE, TABLE, PlanSettings([12], 20))
    assert seen == [{}]
    with pytest.raises(CampaignError, match=f"Several rounds cannot be planned here: .*{reason}"):
        make_plan(known, TABLE, TABLE, PlanSettings([12], 20, rounds=[2]))
    with pytest.raises(CampaignError, match="compares 1 to 10 rounds, got 0"):
        make_plan(known, TABLE, TABLE, PlanSettings([12], 20, rounds=[0]))


def test_a_plan_says_what_a_design_would_bring_also_where_random_assignment_was_chosen(monkeypatch):
    designers = []

    def spy(spec, *rest):
        designers.append(spec.design.designer)
        raise KeyboardInterrupt

    monkeypatch.setattr(worlds, "design_batch", spy)
    known = start_from(parse_spec(SPEC.replace("rounds = 2", 'designer = "Random"')), None, [TABLE], None)
    with pytest.raises(KeyboardInterrupt):
        make_plan(known, TABLE, TABLE, PlanSettings([12], 20))
    assert designers == ["CO-BED"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "num_known", "units", "kind"), [(4, 2, 24, "design"), (2, 0, 200, "random is enough")]
)
def test_designing_pays_where_some_options_are_known_and_not_where_all_are_alike(
    tmp_path, options, num_known, units, kind
):
    """Two of four options known from 200 rows: 5 standard errors are expected, and 2 needed (a miss in 1 of 700 seeds).

    Where all are alike, few units gain by being balanced; of many there are as many of each option by themselves.
    """
    text = SPEC.replace(json.dumps(OPTIONS), json.dumps(OPTIONS[:options])).partition("rounds")
    (tmp_path / "campaign.toml").write_text(text[0])
    campaign = Campaign.create(tmp_path / "campaign.toml")
    if num_known:
        rng = np.random.default_rng(0)
        past = pd.DataFrame({"customer": [f"h{i}" for i in range(200)], "recency": np.arange(200) % 5})
        offers = np.resize(OPTIONS[:num_known], 200)
        campaign.add_outcomes(past.assign(offer=offers, amount=rng.normal(0, 1, 200)))
    table = read_table(pd.DataFrame({"customer": range(units), "recency": np.arange(units) % 5}), "units")
    known = start_from(campaign.spec, campaign if num_known else None, [table], None)
    plan = make_plan(known, table, table, PlanSettings([units], 300, seed=0))
    campaign.close()
    assert plan.verdict.kind == kind, plan
