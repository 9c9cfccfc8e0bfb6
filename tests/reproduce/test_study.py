"""Studies: parts are kept, runs go on, tables say what the records hold."""

import json

import numpy as np
import pytest

import cobed
from cobed.designers.baselines import RandomUniform, Thompson
from cobed.errors import BudgetError, StorageError
from cobed.reproduce import EXPERIMENTS, discrete, reproduce, write_report
from cobed.reproduce.experiment import Claim, Effort, Method, Setting, baselines, cobed_method
from cobed.reproduce.study import Folder, parts_of_study, run_study
from cobed.reproduce.summary import (
    Summary,
    by_method,
    comparison_table,
    difference,
    difference_table,
    findings,
    over_seeds,
    published,
    summarise,
)

TINY = cobed.Budget(
    num_steps=50, batch_size=64, num_starts=1, settle_steps=0, settle_batch_size=64, num_evaluation_batches=2
)
EFFORT = Effort(TINY, TINY, num_worlds=50, num_paper_worlds=10, num_seeds=1)


PROBLEM = discrete.make_problem()


def make_parts(*methods: Method):
    own = cobed_method("CO-BED", work=1.0, budget=TINY)
    setting = Setting({"D": 10}, lambda seed: PROBLEM, methods or [*baselines([Thompson(), RandomUniform()]), own])
    return parts_of_study([setting], 1)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = Folder(tmp_path_factory.mktemp("study"), "discrete", "tiny", EFFORT)
    return folder, run_study(make_parts(), folder, EFFORT)


def test_results_have_a_row_for_each_method_and_protocol(done):
    folder, _ = done
    document = json.loads((folder.path / "results.json").read_text())
    assert document["experiment"] == "discrete"
    assert {(row["method"], row["protocol"]) for row in document["rows"]} == {
        (method, protocol) for method in ("Thompson", "Random", "CO-BED") for protocol in ("exact", "paper")
    }
    wanted = {"method", "protocol", "seed", "setting", "cmv_eig", "cmv_eig_se", "mse_m", "mse_a", "hit_rate", "regret"}
    wanted |= {"regret_se", "seconds_design", "seconds_total", "num_worlds"}
    assert all(wanted <= set(row) for row in document["rows"])
    assert {row["num_worlds"] for row in document["rows"]} == {50, 10}


def test_a_second_run_reads_what_the_first_did(done):
    folder, records = done

    def never(problem, *, seed, **_):
        raise AssertionError("done already")

    again = run_study(make_parts(*(Method(name, never) for name in ("Thompson", "Random", "CO-BED"))), folder, EFFORT)
    for old, new in zip(records, again, strict=True):
        assert old.rows() == new.rows()
        assert np.array_equal(old.worlds["exact"]["regret"], new.worlds["exact"]["regret"])


def test_an_interrupted_study_goes_on_to_the_same_results(done, tmp_path):
    _, records = done
    folder = Folder(tmp_path, "discrete", "tiny", EFFORT)

    def interrupt(problem, *, seed, **_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(make_parts(*baselines([Thompson()]), Method("Random", interrupt)), folder, EFFORT)
    assert [row["method"] for row in json.loads((tmp_path / "results.json").read_text())["rows"]] == ["Thompson"] * 2
    again = run_study(make_parts(), folder, EFFORT)
    for old, new in zip(records, again, strict=True):
        assert (old.cmv_eig, old.rows()[0]["regret"]) == (new.cmv_eig, new.rows()[0]["regret"])


def test_results_of_another_budget_are_not_mixed_in(done):
    folder, _ = done
    other = Folder(folder.path, "discrete", "tiny", Effort(TINY, TINY, 60, 10, 1))
    with pytest.raises(StorageError, match="another budget"):
        run_study(make_parts(), other, EFFORT)


def test_a_damaged_part_is_named(done, tmp_path):
    folder = Folder(tmp_path, "discrete", "tiny", EFFORT)
    part = make_parts()[0]
    (tmp_path / "parts" / f"{part.slug}.npz").write_bytes(b"not an archive")
    with pytest.raises(StorageError, match="Delete it"):
        folder.load(part)


def test_methods_meet_the_same_worlds(done):
    """The worlds depend on the seed alone, so a difference is far less noisy than two means."""
    _, records = done
    groups = by_method(records, D=10)
    gap = difference(groups["Random"], groups["Thompson"], "regret", "exact")
    assert gap is not None
    own = summarise(groups["Random"], "regret"), summarise(groups["Thompson"], "regret")
    assert gap.mean == pytest.approx(own[0].mean - own[1].mean)


def test_the_table_stands_beside_the_printed_values(done):
    _, records = done
    table = comparison_table(by_method(records), "paper", published("discrete"))
    row = table[table["Method"] == "Thompson"].iloc[0]
    assert row["CMV-EIG, paper"] == "4.607 ± 0.007"
    assert row["Regret, paper"] == "1.112 ± 0.035"
    assert set(table["Method"]) == {"Thompson", "Random", "CO-BED"}


@pytest.mark.slow
def test_the_report_is_one_page_without_a_network(done):
    folder, records = done
    page = write_report(discrete.EXPERIMENT, folder, records).read_text()
    assert "Protocol exact" in page
    assert "Thompson" in page
    # plotly.js itself, inside the page, holds addresses it shows as links; nothing else may.
    body = page[page.index("</script>") :]
    assert 'src="http' not in body
    assert 'href="http' not in body


@pytest.mark.parametrize("name", list(EXPERIMENTS.items()))
def test_the_problem_of_every_setting_is_of_one_size(name):
    """What is allowed is as large as the batch: a network is then trained for these units and not for others."""
    experiment = EXPERIMENTS.named(name)
    for setting in experiment.settings("smoke", experiment.efforts["smoke"]):
        problem = setting.problem(0)
        assert len(problem.feasible.fixed) == problem.num_contexts


def test_every_published_table_has_all_metrics():
    for name in ("discrete", "continuous-20", "continuous-40", "continuous-60"):
        for values in published(name).values():
            assert {"cmv_eig", "mse_m", "regret"} <= set(values)
            assert all(len(value) == 2 and value[1] > 0 for value in values.values())


def test_error_over_seeds():
    assert over_seeds([1.0, 3.0], [0.3, 0.4]) == pytest.approx((2.0, 0.25))
    assert over_seeds([1.0, 2.0, 3.0], [9.0, 9.0, 9.0]) == pytest.approx((2.0, 1 / 3**0.5))
    assert str(Summary(0.011283, 0.00034)) == "0.01128 ± 0.00034"


@pytest.mark.parametrize(
    ("name", "budget", "seeds", "match"),
    [
        ("discreet", "smoke", 1, "no experiment 'discreet'. Allowed: discrete, continuous"),
        ("discrete", "fast", 1, "Allowed: 'smoke'"),
        ("discrete", "smoke", 0, "at least 1"),
    ],
)
def test_bad_names_and_numbers_are_told(tmp_path, name, budget, seeds, match):
    with pytest.raises(BudgetError, match=match):
        reproduce(name, tmp_path / "out", budget=budget, num_seeds=seeds)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["discrete", "continuous", "ablation"])
def test_every_experiment_runs(name, tmp_path):
    report = reproduce(name, tmp_path, budget="smoke")
    assert report.exists()
    assert json.loads((tmp_path / "results.json").read_text())["rows"]


@pytest.mark.parametrize("experiment", list(EXPERIMENTS), ids=lambda experiment: experiment.name)
def test_experiments_have_three_budgets_and_parts_with_names_of_their_own(experiment):
    assert list(experiment.efforts) == ["smoke", "quick", "paper"]
    settings = list(experiment.settings("smoke", experiment.efforts["smoke"]))
    parts = parts_of_study(settings, 2)
    assert len({part.slug for part in parts}) == len(parts)
    assert "CO-BED" in {part.method.name for part in parts}


def test_only_the_first_seeds_are_measured_or_designed_for_and_long_parts_come_last():
    quick, long = Method("quick", RandomUniform()), Method("long", RandomUniform(), work=60.0, num_seeds=1)
    parts = parts_of_study([Setting({}, lambda seed: PROBLEM, [long, quick], num_measured=1, critic_work=7.0)], 2)
    assert [(part.method.name, part.seed) for part in parts] == [("quick", 1), ("long", 0), ("quick", 0)]
    assert [(part.measured, part.work) for part in parts] == [(False, 1.0), (True, 67.0), (True, 8.0)]


def test_findings_say_yes_and_no(done):
    _, records = done
    claims = [
        Claim("there are three methods", lambda groups, protocol: len(groups) == 3),
        Claim(
            "there are four methods",
            lambda groups, protocol: len(groups) == 4,
            lambda at, protocol: protocol == "exact",
        ),
        Claim("said of no setting", lambda groups, protocol: True, lambda at, protocol: at["D"] == 20),
    ]
    text = "\n".join(findings(claims, records))
    assert "D = 10, protocol exact: regret of CO-BED" in text
    assert text.count("there are three methods: yes") == 2
    assert text.count("there are four methods: NO") == 1
    assert "said of no setting" not in text
    assert "best of the others: " in text


def test_differences_to_a_method_stand_in_a_table_by_symbol(done):
    _, records = done
    table = difference_table(records, "D", "regret", "Thompson")
    gap = difference(by_method(records)["Random"], by_method(records)["Thompson"], "regret")
    assert dict(zip(table["Method"], table["D = 10"], strict=True))["Random"] == str(gap)
    assert dict(zip(table["Method"], table["D = 10"], strict=True))["Thompson"] == ""
