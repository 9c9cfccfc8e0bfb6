"""How many units an experiment needs: regret by size, designed and at random, from what is known now."""

import jax.random as jr
import numpy as np
import pandas as pd
import pytest

from cobed.campaign import plan as planning
from cobed.campaign import worlds
from cobed.campaign.campaign import Campaign
from cobed.campaign.engine import build_model
from cobed.campaign.plan import PlanSettings, default_sizes, make_plan, start_from
from cobed.campaign.spec import parse_spec
from cobed.campaign.tables import read_table
from cobed.campaign.verdict import Plan, Size
from cobed.campaign.worlds import Learning
from cobed.data import Data
from cobed.errors import CampaignError
from cobed.inference import Conjugate
from cobed.metrics import evaluate
from cobed.report.plan import plan_table, write_plan

SPEC = """name = "spring"
[units]
id = "customer"
[context]
recency = "numeric"
new = "binary"
[action]
column = "offer"
options = ["none", "5%"]
[outcome]
column = "amount"
likelihood = {likelihood}
[design]
budget = "smoke"
max_targets = 5
"""
NORMAL = SPEC.format(likelihood='"normal"\ntypical = 50\nspread = 10')
UNITS = pd.DataFrame(
    {"customer": range(32), "recency": np.arange(32) % 7, "new": np.arange(32) // 2 % 2}
)  # contexts of all kinds, so that halves are alike


def plan_of(text, sizes, num_worlds, **options):
    spec = parse_spec(text)
    table = read_table(UNITS, "units")
    known = start_from(spec, None, [table], None)
    return make_plan(known, table, table, PlanSettings(sizes, num_worlds, seed=0, **options))


@pytest.mark.slow
def test_more_units_leave_less_regret_and_done_sizes_are_not_done_again(tmp_path, monkeypatch):
    """Regret falls from no units to 2 to 32, by more than 4 standard errors each (false alarm below 1 in 10,000)."""
    kept = tmp_path / "plan.json"
    plan = plan_of(NORMAL, [32, 2], 400, kept=kept)
    assert [size.units for size in plan.sizes] == [2, 32]
    small, large = plan.sizes
    for (more, first), (less, second) in ((plan.now, small.designed), (small.designed, large.designed)):
        assert more - less > 4 * np.hypot(first, second)
    assert small.random[0] > large.random[0]
    assert large.difference[0] == pytest.approx(large.designed[0] - large.random[0], abs=1e-6)
    monkeypatch.setattr(worlds, "design_batch", None)
    assert plan_of(NORMAL, [2, 32], 400, kept=kept) == plan
    with pytest.raises(TypeError):  # other worlds are another plan
        plan_of(NORMAL, [2, 32], 399, kept=kept)
    page = write_plan(parse_spec(NORMAL), plan, tmp_path / "plan.html").read_text()
    assert "without an experiment" in page
    assert 'src="http' not in page


@pytest.mark.slow
def test_a_plan_starts_from_the_outcomes_there_are(tmp_path):
    """With 32 outcomes there is less to lose than before any."""
    (tmp_path / "campaign.toml").write_text(NORMAL)
    campaign = Campaign.create(tmp_path / "campaign.toml")
    campaign.add_outcomes(UNITS.assign(offer=["none", "5%"] * 16, amount=np.linspace(40, 60, 32)))
    table = read_table(UNITS, "units")
    known = start_from(campaign.spec, campaign, [table], None)
    plan = make_plan(known, table, table, PlanSettings([8], 50, seed=0))
    assert plan.now[0] < plan_of(NORMAL, [2], 10).now[0]
    assert plan.sizes[0].designed[0] < plan.now[0] + 4 * plan.now[1]
    campaign.close()


def test_history_is_part_of_what_a_world_learns_from():
    spec = parse_spec(NORMAL + "[prior]\naction = 5.0\n")
    known = start_from(spec, None, [read_table(UNITS, "units")], None)
    model = build_model(spec, known.encoding)
    rng = np.random.default_rng(0)
    old, new = (
        Data(rng.normal(size=(6, 2)), np.eye(2)[rng.integers(0, 2, 6)], rng.normal(50, 10, 6)) for _ in range(2)
    )
    both = Data(
        *(np.concatenate([getattr(d, name) for d in (old, new)]) for name in ("contexts", "actions", "outcomes"))
    )
    inner = Conjugate(64)
    with_history = Learning(inner, old).draw(jr.key(0), model, new)
    np.testing.assert_array_equal(with_history.params, inner.draw(jr.key(0), model, both).params)


RULES = """[constraints]
at_most = { "5%" = 3 }
at_least = { "5%" = 3 }
forbid = [{ action = "5%", column = "new", values = ["yes"] }]
"""


@pytest.fixture
def evaluated(monkeypatch):
    """Contexts and actions of every design that a plan evaluates."""
    seen = []

    def spy(problem, actions, *rest, **options):
        seen.append((np.asarray(problem.contexts), np.asarray(actions)))
        return evaluate(problem, actions, *rest, **options)

    monkeypatch.setattr(worlds, "evaluate", spy)
    return seen


def test_a_plan_obeys_the_constraints(evaluated):
    """Every design that is evaluated has three units of 5%, all of them old customers; so do those at random."""
    plan = plan_of(NORMAL + RULES, [16], 20)
    assert len(evaluated) == 4
    for contexts, actions in evaluated:
        assert actions[:, 1].sum() == 3
        assert not np.any(actions[:, 1] * contexts[:, 1])
    assert len({actions.tobytes() for _, actions in evaluated}) == 4
    # New customers, half of the targets, cannot get 5%: nothing is lost there.
    assert 0 < plan.now[0] < 0.7 * plan_of(NORMAL, [2], 10).now[0]


def test_sizes_that_constraints_make_impossible_are_left_out_or_refused(monkeypatch):
    def unplanned(known, batch, *rest):
        return Size(len(batch.contexts), (0.1, 0.0), (0.2, 0.0), (-0.1, 0.0))

    monkeypatch.setattr(planning, "try_size", unplanned)
    with pytest.raises(
        CampaignError, match="No assignment has at least 3 units of '5%': what each of the 4 units may get"
    ):
        plan_of(NORMAL + RULES, [4], 10)
    plan = plan_of(NORMAL + RULES.replace("= 3", "= 12"), None, 10)
    assert [size.units for size in plan.sizes] == [32]
    assert len(plan.warnings) == 3
    assert plan.warnings[0].startswith("Left out 4 units. No assignment has at least 12 units of")


@pytest.mark.slow
def test_a_plan_of_numbers_obeys_the_cost(evaluated):
    text = NORMAL.replace('column = "offer"\noptions = ["none", "5%"]', "numbers = { price = { low = 0, high = 2 } }")
    plan_of(text + "[constraints]\ncost = { price = 1.0 }\nmax_cost = 6.0\n", [12], 10)
    totals = [float(np.sum(actions)) for _, actions in evaluated]
    assert len(totals) == 4
    assert max(totals) <= 6 + 1e-4
    assert min(totals) > 5


def test_what_random_assignment_needs_is_read_off_its_curve():
    def size(units, designed, random):
        return Size(units, (designed, 0.01), (random, 0.01), (designed - random, 0.01))

    plan = Plan((1.0, 0.0), (size(3, 0.6, 0.8), size(15, 0.4, 0.4), size(63, 0.1, 0.2)), 100)
    # From 3 to 15 units, log2 of 1 + units goes from 2 to 4; .6 is half-way between .8 and .4.
    assert plan.random_needs(plan.sizes[0]) == pytest.approx(7)
    assert plan.random_needs(plan.sizes[1]) == pytest.approx(15)
    assert plan_table(plan)["random needs"].tolist() == ["7", "15", "more than 63"]
    assert plan.sentences()[0] == "CO-BED with 3 units reaches what random assignment needs about 7 for."
    assert "no difference beyond the noise" in plan.sentences()[1]


def test_sizes_are_halves_of_the_rows():
    assert default_sizes(300) == [19, 38, 75, 150, 300]
    assert default_sizes(24) == [6, 12, 24]
    assert default_sizes(3) == [3]


@pytest.mark.parametrize(
    ("sizes", "num_worlds", "message"),
    [
        ([33], 10, "Allowed: sizes from 1 to 32"),
        ([0], 10, "Allowed: sizes from 1 to 32"),
        ([2], 1, "at least 2 worlds"),
    ],
)
def test_what_cannot_be_planned_is_said(sizes, num_worlds, message):
    with pytest.raises(CampaignError, match=message):
        plan_of(NORMAL, sizes, num_worlds)


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["bernoulli", "poisson"])
def test_binary_outcomes_and_counts_are_planned_too(likelihood):
    plan = plan_of(SPEC.format(likelihood=f'"{likelihood}"'), [8], 20)
    assert plan.sizes[0].designed[0] >= 0
    assert plan.now[0] > 0
