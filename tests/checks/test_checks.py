"""What the checks say of made-up experiments whose faults are known, and the contract that all registered ones keep."""

import dataclasses
import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2_contingency

sys.path.insert(0, str(Path(__file__).parent))

from made_up import OPTIONS, bare, draw_columns, learned, make_columns, make_units, with_predictions

from cobed.checks import (
    VERDICTS,
    Actions,
    Balance,
    Check,
    Drift,
    GainsByGroup,
    Law,
    LeftOut,
    Overlap,
    Predicted,
    Returned,
    base,
    checks,
    run_checks,
)
from cobed.checks.balance import pillai_test
from cobed.checks.gains import gains_of
from cobed.checks.overlap import far_from
from cobed.checks.psis import fit_generalised_pareto, smoothed_weights
from cobed.checks.returned import ratio_test
from cobed.checks.uplift import toc_curve
from cobed.errors import ModelError
from cobed.inference.importance import generalised_pareto_shape


def lines(columns, got):
    """Mail pays for older units."""
    return 5 + got[:, 1] * columns[0].numbers[:, 0]


@pytest.fixture(scope="module")
def right():
    """The model is right, and chance decided."""
    rng = np.random.default_rng(0)
    return with_predictions(rng, make_units(rng, 300), lines)


def with_units(evidence, **changes):
    return dataclasses.replace(evidence, units=dataclasses.replace(evidence.units, **changes))


def stages(right):
    """An experiment at every stage of it, and some that nobody planned for."""
    rng = np.random.default_rng(1)
    units = make_units(rng, 40)
    nobody = units.is_back & False
    empty = dataclasses.replace(units, **{
        name: value[nobody] for name, value in vars(units).items() if isinstance(value, np.ndarray)
    }, columns=tuple(column.part(nobody) for column in units.columns))  # fmt: skip
    constant = make_units(rng, 40, columns=make_columns(np.full(40, 40.0), ["Bath"] * 40, np.zeros(40)))
    holes = draw_columns(rng, 40)[0]
    holes = dataclasses.replace(holes, cells=np.where(np.arange(40) % 3 == 0, None, holes.cells))
    low = np.zeros(2)
    numbers = dataclasses.replace(units, planned=rng.random((40, 2)), got=rng.random((40, 2)), propensities=None)
    return {
        "nobody": bare(empty),
        "waiting": bare(dataclasses.replace(units, outcomes=np.full(40, np.nan))),
        "one row": learned(make_units(rng, 1, outcomes=np.ones(1))),
        "one row and targets": bare(make_units(rng, 1), targets=draw_columns(rng, 3)),
        "constant columns and outcomes": learned(constant),
        "an option nobody got": learned(make_units(rng, 40, actions=np.zeros(40, int))),
        "missing cells": bare(make_units(rng, 40, columns=(holes, *draw_columns(rng, 40)[1:])), targets=draw_columns(rng, 9)),
        "numbers to choose": dataclasses.replace(bare(numbers), actions=Actions(("price", "length"), low, low + 1)),
        "designed": learned(make_units(rng, 40, at_random=False)),
        "history": learned(make_units(rng, 40, round=0)),
        "right": right,
    }  # fmt: skip


def test_every_check_says_a_verdict_a_sentence_and_what_to_do_at_every_stage(right):
    names = [check.name for check in checks()]
    assert len(set(names)) == len(names) == 8
    for stage, evidence in stages(right).items():
        for check, answer in zip(checks(), run_checks(evidence), strict=True):
            assert answer.name == check.name
            assert check.asks.endswith("?")
            assert answer.verdict in VERDICTS, stage
            for text in (answer.sentence, answer.advice):
                assert text.strip().endswith((".", "`.")), (stage, check.name, text)
                assert not any(word in text for word in ("nan", "None", "inf ", "e+")), (stage, check.name, text)
            json.dumps(answer.to_json(), allow_nan=False)
            again = check(evidence)
            assert (again.verdict, again.sentence) == (answer.verdict, answer.sentence)


def test_a_right_model_of_a_randomised_experiment_is_fine(right):
    answers = {answer.name: answer for answer in run_checks(right)}
    assert {name: answer.verdict for name, answer in answers.items()} == {
        "returned": "fine", "balance": "fine", "overlap": "fine", "drift": "open", "predicted outcomes": "fine",
        "law of outcomes": "fine", "single rows": "fine", "gains": "fine",
    }  # fmt: skip
    assert "did gain more" in answers["gains"].sentence
    assert "the plain average of its action" in answers["single rows"].sentence


def test_a_verdict_that_is_none_is_refused():
    with pytest.raises(ModelError, match="one of fine, look, stop, open; got 'good'"):
        Check("x", "good", "", "")


def test_a_check_of_another_package_is_asked_after_those_of_cobed(right, monkeypatch):
    monkeypatch.setattr(base._CHECKS, "_parts", dict(base._CHECKS._parts))
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "outside")
    monkeypatch.delitem(sys.modules, "enough_units", raising=False)
    importlib.import_module("enough_units")
    assert [check.name for check in checks()][-1] == "enough units"
    assert run_checks(right)[-1].verdict == "fine"


# Balance.


def test_pillai_is_hotelling_for_two_options_and_an_f_test_for_one_column():
    """Two independent ways to the same probability: T^2 of two means, and the analysis of variance."""
    from scipy.stats import f as f_law
    from scipy.stats import f_oneway

    rng = np.random.default_rng(2)
    contexts, two, three = rng.normal(size=(50, 3)), rng.integers(0, 2, 50), rng.integers(0, 3, 50)
    one = np.zeros(50)
    assert pillai_test(contexts[:, :1], np.eye(3)[three], one) == pytest.approx(
        f_oneway(*(contexts[three == option, 0] for option in range(3))).pvalue, abs=1e-10
    )
    first, second = (contexts[two == option] for option in range(2))
    pooled = ((len(first) - 1) * np.cov(first.T) + (len(second) - 1) * np.cov(second.T)) / 48
    away = first.mean(axis=0) - second.mean(axis=0)
    squared = len(first) * len(second) / 50 * away @ np.linalg.solve(pooled, away)
    assert pillai_test(contexts, np.eye(2)[two], one) == pytest.approx(
        f_law.sf(squared * 46 / (3 * 48), 3, 46), abs=1e-10
    )


def test_rounds_with_other_units_and_shares_are_balanced_within_themselves():
    """Older units and more mail in the second round: balanced, though not all together."""
    rng = np.random.default_rng(3)
    contexts = np.concatenate([rng.normal(0, 1, (200, 1)), rng.normal(3, 1, (200, 1))])
    actions = np.eye(2)[np.concatenate([rng.random(200) < 0.2, rng.random(200) < 0.8]).astype(int)]
    rounds = np.repeat([1, 2], 200)
    assert pillai_test(contexts, actions, rounds) > 0.01
    assert pillai_test(contexts, actions, np.zeros(400)) < 1e-9


def test_balance_looks_at_what_was_left_to_chance_alone():
    rng = np.random.default_rng(4)
    columns = draw_columns(rng, 300)
    old = (columns[0].numbers[:, 0] + rng.normal(size=300) > 0).astype(int)
    broken = Balance()(bare(make_units(rng, 300, columns=columns, actions=old)))
    assert broken.verdict == "stop"
    assert "in age" in broken.sentence
    assert "assignment" in broken.advice
    designed = Balance()(bare(make_units(rng, 300, columns=columns, actions=old, at_random=False)))
    assert designed.verdict == "fine"
    assert "unbalanced on purpose" in designed.sentence
    assert designed.table["context"][0] == "age"
    history = Balance()(bare(make_units(rng, 300, columns=columns, actions=old, round=0)))
    assert "history was not assigned at random" in history.advice
    # In the user's own units.
    assert float(designed.table["mail"][0]) == pytest.approx(columns[0].cells[old == 1].astype(float).mean(), abs=0.1)


# Sample-ratio mismatch.


def test_the_ratio_test_is_chi_square_and_its_simulation_agrees():
    planned, back = np.array([[100, 100, 50]]), np.array([[80, 60, 30]])
    exact = chi2_contingency(np.stack([back[0], planned[0] - back[0]]), correction=False).pvalue
    assert ratio_test(planned, back, 0) == pytest.approx(exact, abs=1e-10)
    assert ratio_test(np.array([[5, 5]]), np.array([[5, 5]]), 0) == 1.0
    # Fisher's exact test of 8 of 8 against 1 of 8 counts the same tables here: 2 * (8 * 1 + 0) / choose(16, 9) ...
    from scipy.stats import fisher_exact

    small = ratio_test(np.array([[8, 8]]), np.array([[8, 1]]), 0)
    # 20,000 tables: 5 standard errors of a share near .0014, false alarm below 1 in a million.
    assert small == pytest.approx(fisher_exact([[8, 1], [0, 7]]).pvalue, abs=5 * (0.0014 / 20_000) ** 0.5)


def test_outcomes_that_are_missing_for_one_action_stop():
    rng = np.random.default_rng(5)
    units = make_units(rng, 400)
    lost = (units.planned[:, 1] > 0) & (rng.random(400) < 0.4)
    answer = Returned()(bare(dataclasses.replace(units, outcomes=np.where(lost, np.nan, 1.0))))
    assert answer.verdict == "stop"
    assert "Outcomes are missing for a reason that depends on the action" in answer.advice
    lost_alike = rng.random(400) < 0.4
    assert Returned()(bare(dataclasses.replace(units, outcomes=np.where(lost_alike, np.nan, 1.0)))).verdict == "fine"


def test_units_that_got_something_else_are_counted_and_named():
    rng = np.random.default_rng(6)
    units = make_units(rng, 100)
    got = units.planned.copy()
    got[:10] = got[:10, ::-1]
    answer = Returned()(bare(dataclasses.replace(units, got=got)))
    assert answer.verdict == "look"
    assert "10 of them got another action than planned (10%)" in answer.sentence
    assert "c0, c1, c2 and 7 more" in answer.advice


# Overlap and drift.


def test_far_is_outside_the_ellipse_of_those_tried():
    rng = np.random.default_rng(7)
    tried = rng.normal(size=(200, 2)) * [1, 3]
    targets = np.array([[0.0, 0.0], [0.0, 7.0], [6.0, 0.0], [0.0, 30.0]])
    np.testing.assert_array_equal(far_from(tried, targets), [False, False, True, True])
    assert not far_from(tried, tried).any()
    # A level that none of those tried has.
    levels = np.eye(3)[rng.integers(0, 2, 50)]
    np.testing.assert_array_equal(far_from(levels, np.eye(3)), [False, False, True])


def test_targets_that_nobody_is_like_are_told_by_group():
    rng = np.random.default_rng(8)
    columns = draw_columns(rng, 200, cities=CITIES_TRIED)
    evidence = bare(make_units(rng, 200, columns=columns), targets=draw_columns(rng, 100))
    answer = Overlap()(evidence)
    assert answer.verdict == "look"
    york = answer.table[answer.table["with"] == "York"].iloc[0]
    assert york["far from none"] == york["far from mail"] == "100%"
    # A target that must not get an action cannot be far from those that got it.
    allowed = np.ones((100, 2), bool)
    allowed[:, 0] = False
    targets = dataclasses.replace(evidence.targets, allowed=allowed)
    one = Overlap()(dataclasses.replace(evidence, targets=targets))
    assert set(one.table["far from none"]) == {"none"}
    nobody = Overlap()(bare(make_units(rng, 50, actions=np.zeros(50, int))))
    assert nobody.verdict == "look"
    assert "Nobody got 'mail' yet" in nobody.sentence


CITIES_TRIED = ("Bath", "Leeds")


def test_drift_is_told_where_it_is_more_than_chance():
    rng = np.random.default_rng(9)
    units = make_units(rng, 300)
    assert Drift()(bare(units, targets=draw_columns(rng, 500))).verdict == "fine"
    older = Drift()(bare(units, targets=draw_columns(rng, 500, older=10)))
    assert older.verdict == "look"
    assert "'age' is 50" in older.sentence
    other_unit = Drift()(bare(units, targets=draw_columns(rng, 500, older=440)))
    assert other_unit.verdict == "stop"
    assert "same unit" in other_unit.advice
    new = Drift()(
        bare(make_units(rng, 300, columns=draw_columns(rng, 300, cities=CITIES_TRIED)), targets=draw_columns(rng, 99))
    )
    assert "have a level that no unit has" in new.sentence
    # Twelve units of the same law are chance, whatever the index says.
    few = make_units(rng, 12)
    assert Drift()(bare(few, targets=draw_columns(rng, 500))).verdict == "fine"


# What the model predicts.


def test_a_curve_under_lines_is_seen_in_the_groups_of_its_column(right):
    rng = np.random.default_rng(10)
    curved = with_predictions(rng, make_units(rng, 300), lambda columns, got: 2 * columns[0].numbers[:, 0] ** 2)
    answer = Predicted()(curved)
    assert answer.verdict == "look"
    assert (answer.table[answer.table["by"] == "age"]["outside"] == "yes").all()
    assert Predicted()(right).verdict == "fine"


def test_zeros_spread_and_large_outcomes_that_the_law_does_not_give_are_seen(right):
    units = right.units
    rng = np.random.default_rng(11)
    zeros = np.where(rng.random(300) < 0.88, 0.0, rng.gamma(2, 5, 300))
    answer = Law()(learned(dataclasses.replace(units, outcomes=zeros)))
    assert answer.verdict == "look"
    assert 'likelihood = "tweedie"' in answer.advice
    wild = lines(units.columns, units.got) + 3 * rng.normal(size=300)
    answer = Law()(learned(dataclasses.replace(units, outcomes=wild)))
    assert answer.verdict == "look"
    assert "spread" in answer.sentence
    one = units.outcomes.copy()
    one[7] = 100.0
    assert "largest" in Law()(learned(dataclasses.replace(units, outcomes=one))).sentence


def test_a_row_that_carries_the_policy_is_named_by_its_id(right):
    outcomes = right.units.outcomes.copy()
    outcomes[7] = 200.0
    answer = LeftOut()(learned(dataclasses.replace(right.units, outcomes=outcomes)))
    assert answer.verdict == "look"
    assert "without c7" in answer.sentence
    assert answer.table["unit"][0] == "c7"
    assert "cobed withdraw" in answer.advice


def test_leaving_a_row_out_is_what_a_posterior_without_it_says():
    """Conjugate lines: the prediction of each row from all others in closed form."""
    rng = np.random.default_rng(12)
    evidence = with_predictions(rng, make_units(rng, 40), lines, num_draws=16_384)
    predictions = evidence.predictions
    phi = np.concatenate([evidence.units.got, evidence.units.got * evidence.units.columns[0].numbers[:, :1]], axis=1)
    for row in range(40):
        others = np.arange(40) != row
        precision = phi[others].T @ phi[others] + np.eye(4) / 5
        mean = phi[row] @ np.linalg.solve(precision, phi[others].T @ evidence.units.outcomes[others])
        deviation = (phi[row] @ np.linalg.solve(precision, phi[row])) ** 0.5
        # 5 standard errors of 4,000 effective draws, 40 rows: false alarm below 1 in 40,000.
        assert predictions.without_row(predictions.expected)[row] == pytest.approx(mean, abs=5 * deviation / 4_000**0.5)


def test_each_of_several_stacked_models_is_weighed_by_itself(right):
    """Two models in even shares, one of them hardly able to give the row: leaving it out moves neither share."""
    predictions = right.predictions
    family = np.arange(predictions.num_draws) % 2
    stacked = learned(right.units).predictions
    stacked.family = family
    stacked.__dict__["log_densities"] = predictions.log_densities - 50.0 * (family[:, None] == 1)
    weights = stacked.left_out.weights
    np.testing.assert_allclose(weights[family == 0].sum(axis=0), 0.5, atol=1e-6)
    np.testing.assert_allclose(weights.sum(axis=0), 1.0, atol=1e-6)


def test_smoothed_weights_have_the_shape_of_the_law_they_came_from():
    """Also the same k as the fit that samplers have inside compiled code."""
    rng = np.random.default_rng(13)
    ratios = np.log(rng.pareto(1 / 0.5, (20, 4_000)) + 1)
    weights, k = smoothed_weights(ratios)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    # Of 190 excesses the deviation of k is .1, of 20 fits .025: 5 of these, false alarm below 1 in a million.
    assert k.mean() == pytest.approx(0.5, abs=0.13)
    excesses = np.sort(rng.pareto(2.0, 150))
    assert fit_generalised_pareto(excesses[None])[0][0] == pytest.approx(
        float(generalised_pareto_shape(excesses)), abs=1e-3
    )
    even, flat = smoothed_weights(np.zeros((1, 1_000)))
    np.testing.assert_allclose(even, 1 / 1_000)
    assert flat[0] == -np.inf


# Gains.


def test_gains_need_a_share_left_to_chance_and_history_that_looks_so(right):
    designed = with_units(right, at_random=np.zeros(300, bool))
    answer = GainsByGroup()(designed)
    assert answer.verdict == "open"
    assert "needs a randomised share" in answer.sentence
    rng = np.random.default_rng(14)
    columns = draw_columns(rng, 300)
    older = (columns[0].numbers[:, 0] > 0).astype(int)
    biased = with_predictions(rng, make_units(rng, 300, round=0, columns=columns, actions=older), lines)
    assert "History was not assigned at random" in GainsByGroup()(biased).sentence
    with_three = dataclasses.replace(right, actions=Actions(("price",), np.zeros(1), np.ones(1)))
    assert "between named options" in GainsByGroup()(with_three).sentence


def test_gains_in_the_opposite_order_stop(right):
    """What the model learned is turned round: predicted gains of older units are those of younger ones."""
    predictions = learned(right.units).predictions
    rightly = predictions.learn

    def wrongly(data):
        model, params = rightly(data)
        return model, params * np.array([1, 1, -1, -1], np.float32)

    predictions.learn = wrongly
    answer = GainsByGroup()(dataclasses.replace(right, predictions=predictions))
    assert answer.verdict == "stop"
    assert "gained less" in answer.sentence
    assert "best single action" in answer.advice


def test_where_nothing_differs_between_units_their_order_is_not_turned_round():
    """Each row left out alone would be: a lucky one is predicted to gain less than others. Here 20 experiments, most of the areas
    within their 90% intervals: 18 on average, below 12 less than once in 10,000 times."""
    held = 0
    for seed in range(20):
        rng = np.random.default_rng(100 + seed)
        evidence = with_predictions(rng, make_units(rng, 60), lambda columns, got: 5 + got[:, 1], num_draws=64)
        gains = gains_of(evidence, evidence.predictions)
        curve = toc_curve(gains.ranks, gains.effects, 0)
        held += curve.area_low <= 0 <= curve.area_high
    assert held >= 12


def test_observed_gains_are_those_of_chance_and_not_of_the_model(right):
    """Doubly robust: with all predictions wrong by a constant, gains by group are as before within their errors."""
    answer = GainsByGroup()(right)
    table = answer.table[answer.table["number"] != ""]
    assert len(table) == 5
    assert table["number"].astype(int).sum() == 300
    for _, row in table.iterrows():
        low, high = map(float, row["90% interval"].split(" to "))
        assert low < float(row["observed"]) < high
    assert float(table["observed"].iloc[0]) > float(table["observed"].iloc[-1])
    assert OPTIONS[0] in answer.sentence or OPTIONS[1] in answer.sentence
