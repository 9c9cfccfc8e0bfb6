"""The paper's Gaussian process example: its set-up, worlds of another model, the study and its report."""

import functools
import json

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import cobed
from cobed.critics import Separable
from cobed.designers.baselines import RandomUniform
from cobed.designers.local_penalisation import LEVI, UCBLocalPenalisation
from cobed.errors import ProblemError
from cobed.models import RBF, GaussianProcess
from cobed.optimum import Grid
from cobed.reproduce import reproduce, write_report
from cobed.reproduce.experiment import Effort, Method, Setting, baselines, cobed_method
from cobed.reproduce.gp import (
    BASELINES,
    EFFORTS,
    EXPERIMENT,
    SIZES,
    make_problem,
    make_worlds,
    maps_figure,
    observational_data,
    settings,
)
from cobed.reproduce.protocol import both_protocols
from cobed.reproduce.study import Folder, Record, parts_of_study, run_study
from cobed.reproduce.summary import best_of, best_other, by_method, findings, metric_table


def test_observational_data_are_those_of_the_paper():
    confounded, random = (observational_data(kind, seed=0) for kind in ("confounded", "random"))
    contexts, actions = np.asarray(confounded.contexts), np.asarray(confounded.actions)[:, 0]
    assert (np.sign(actions) == np.sign(contexts[:, 0])).all()
    assert (np.abs(actions) >= 0.8).all()
    assert np.abs(np.asarray(random.actions)).min() < 0.1
    best = np.sin(np.pi * contexts.sum(1))
    expected = 1 + np.sin(np.pi * (contexts[:, 0] - contexts[:, 1])) - (actions - best) ** 2
    np.testing.assert_allclose(confounded.outcomes, expected, atol=1e-5)
    with pytest.raises(ProblemError, match="Allowed: 'confounded', 'random'"):
        observational_data("observed", seed=0)  # pyright: ignore[reportArgumentType]


def test_the_problem_has_49_units_and_16_targets():
    data = observational_data("confounded", seed=0)
    problem = make_problem(data, 25)
    assert (problem.num_contexts, problem.num_targets) == (49, 16)
    assert np.abs(problem.contexts).max() == 1
    assert np.abs(problem.targets).max() == pytest.approx(0.8)
    with pytest.raises(ProblemError, match="from 0 to 100; got 101"):
        make_problem(data, 101)


def test_the_process_knows_the_first_rows_and_nothing_of_the_others():
    """Rows of boundless noise leave the moments alone, and every n the shapes of all: nothing is compiled twice."""
    data = observational_data("confounded", seed=0)
    first = cobed.Data(data.contexts[:25], data.actions[:25], data.outcomes[:25])
    exact = GaussianProcess(RBF(1 / 3), cobed.Box(-1.0, 1.0), 2, 0.1).condition(first)
    model = make_problem(data, 25).model
    contexts, actions = jnp.asarray(data.contexts)[20:30], jnp.asarray(data.actions)[20:30]
    for found, expected in zip(model.moments(contexts, actions), exact.moments(contexts, actions), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)
    draw = model.sample_prior(jr.key(0))
    at = jax.jit(jax.vmap(model.mean_reward, in_axes=(None, 0, 0)))(draw, contexts[:5], actions[:5])
    # Five rows with noise of 0.1: a draw is within 0.5 of each, false alarm below 1 in 100,000.
    assert np.abs(np.asarray(at) - np.asarray(data.outcomes)[20:25]).max() < 0.5
    shapes = [jax.tree.map(jnp.shape, make_problem(data, n)) for n in (0, 25, 100)]
    assert shapes[0] == shapes[1] == shapes[2]
    worlds = make_worlds(data)
    np.testing.assert_array_equal(worlds.outcomes, data.outcomes)
    np.testing.assert_array_equal(worlds.observation_noise, np.float32(0.1))
    nothing, _ = make_problem(data, 0).model.moments(contexts, actions)
    np.testing.assert_array_equal(nothing, 0.0)


def small(num_rows: int, side: int = 3) -> tuple[cobed.Problem, GaussianProcess]:
    """A few units on a line; the design knows none of the rows that the worlds agree with."""
    rng = np.random.default_rng(0)
    contexts, actions = rng.uniform(-1, 1, (num_rows, 1)), rng.uniform(-1, 1, (num_rows, 1))
    model = GaussianProcess(RBF(0.5), cobed.Box(-1.0, 1.0), 1, 0.1, num_features=64)
    worlds = model.condition(cobed.Data(contexts, actions, -(actions[:, 0] ** 2)))
    units = np.linspace(-1, 1, side)[:, None]
    return cobed.Problem(model, units, units / 2, optimum=Grid(16, 0)), worlds


@pytest.mark.slow
def test_worlds_of_another_model_are_those_the_regret_is_measured_in():
    """40 rows all but settle the worlds, m* = 0: what is left is the error of decisions made without them."""
    problem, worlds = small(40)
    actions = RandomUniform()(problem, seed=0).actions
    other = cobed.evaluate(problem, actions, 64, num_draws=2, worlds=worlds, seed=0)
    known = cobed.Problem(worlds, problem.contexts, problem.targets, optimum=problem.optimum)
    best = cobed.evaluate(known, actions, 64, num_draws=2, seed=0)
    assert best.regret.mean < 0.05 < other.regret.mean
    assert other.regret.per_world.min() > -1e-4  # decisions and truth are looked for on one grid


@pytest.mark.slow
def test_worlds_of_the_model_itself_change_nothing():
    problem, _ = small(5)
    actions = RandomUniform()(problem, seed=0).actions
    own, same = (cobed.evaluate(problem, actions, 8, num_draws=2, worlds=w, seed=0) for w in (None, problem.model))
    np.testing.assert_array_equal(own.regret.per_world, same.regret.per_world)


def test_worlds_that_do_not_fit_are_refused():
    problem, _ = small(5)
    actions = RandomUniform()(problem, seed=0).actions
    wider = GaussianProcess(RBF(0.5), cobed.Box(-2.0, 1.0), 1, 0.1, num_features=8)
    deeper = GaussianProcess(RBF(0.5), cobed.Box(-1.0, 1.0), 2, 0.1, num_features=8)
    with pytest.raises(ProblemError, match="Both must offer the same"):
        cobed.evaluate(problem, actions, 20, worlds=wider, seed=0)
    with pytest.raises(ProblemError, match=r"worlds has 2 context column\(s\) and the problem 1"):
        cobed.evaluate(problem, actions, 20, worlds=deeper, seed=0)
    with pytest.raises(ProblemError, match="worlds is a int"):
        cobed.evaluate(problem, actions, 20, worlds=3, seed=0)  # pyright: ignore[reportArgumentType]


TINY = cobed.Budget(
    num_steps=20, closed_form_steps=4, batch_size=32, num_starts=1, settle_steps=0, settle_batch_size=32,
    num_evaluation_batches=2, pool_size=64,
)  # fmt: skip
EFFORT = Effort(TINY, TINY, num_worlds=12, num_paper_worlds=0, num_seeds=1, num_draws=2, network=Separable((16,), 8))


def small_parts(*methods: Method):
    """The study on 9 units and one context column: what a part of it goes through, in little."""
    problem, worlds = small(5, side=9)
    own = [*baselines([RandomUniform(), UCBLocalPenalisation()]), cobed_method("CO-BED", work=1.0, budget=TINY)]
    scores = functools.partial(both_protocols, worlds=worlds)
    return parts_of_study([Setting({"data": "confounded", "n": 100}, lambda seed: problem, methods or own, scores)], 1)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = Folder(tmp_path_factory.mktemp("gp"), "gp", "tiny", EFFORT)
    return folder, run_study(small_parts(), folder, EFFORT)


@pytest.mark.slow
def test_regret_is_measured_in_the_worlds_of_the_part(done):
    _, records = done
    part = small_parts()[0]
    world_key = jr.split(jr.fold_in(jr.key(0), 1), 3)[0]
    _, worlds = small(5, side=9)
    scores = cobed.evaluate(part.setting.problem(0), records[0].actions, 12, num_draws=2, worlds=worlds, seed=world_key)
    np.testing.assert_array_equal(records[0].worlds["exact"]["regret"], scores.regret.per_world)


@pytest.mark.slow
def test_what_two_draws_cannot_tell_is_left_out(done):
    folder, _ = done
    rows = json.loads((folder.path / "results.json").read_text())["rows"]
    assert [row["method"] for row in rows] == ["Random", "UCB+LP", "CO-BED"]
    assert all(row["mse_m"] is None and row["mse_a"] is not None and row["num_worlds"] == 12 for row in rows)
    assert all(row["setting"] == {"data": "confounded", "n": 100} for row in rows)


@pytest.mark.slow
def test_designs_measured_with_shared_draws_have_the_information_they_have_alone(done):
    _, records = done
    part = small_parts()[1]
    critic_key = jr.split(jr.fold_in(jr.key(0), 1), 3)[2]
    alone = cobed.max_value_information(
        part.setting.problem(0), records[1].actions, budget=TINY, critic=EFFORT.network, seed=critic_key
    )
    assert (records[1].cmv_eig, records[1].cmv_eig_se) == (alone.value, alone.standard_error)


@pytest.mark.slow
def test_a_study_stopped_between_methods_goes_on_to_the_same_results(done, tmp_path):
    _, records = done
    folder = Folder(tmp_path, "gp", "tiny", EFFORT)

    def interrupt(problem, *, seed, **_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(small_parts(*baselines([RandomUniform()]), Method("UCB+LP", interrupt)), folder, EFFORT)
    again = run_study(small_parts(), folder, EFFORT)
    for old, new in zip(records, again, strict=True):
        assert (old.cmv_eig, old.reason) == (new.cmv_eig, new.reason)
        np.testing.assert_array_equal(old.worlds["exact"]["regret"], new.worlds["exact"]["regret"])


@pytest.mark.slow
def test_the_report_has_figures_tables_choices_and_the_reason(done):
    folder, records = done
    page = write_report(EXPERIMENT, folder, records).read_text()
    body = page[page.index("</script>") :]
    for text in (
        "Confounded observations",
        "CMV-EIG",
        "Regret above that of CO-BED",
        "jointly Gaussian",
        "Local penalties",
    ):
        assert text in body
    assert "Designs: the action tried in each context" in body
    assert 'src="http' not in body
    findings = (folder.path / "findings.txt").read_text()
    assert "data = confounded, n = 100, protocol exact: regret of CO-BED" in findings
    assert "more than 2 s.e. below the best with penalties" in findings


def record(method: str, regrets, n: int = 100, kind: str = "confounded", seed: int = 0) -> Record:
    return Record(
        method, {"data": kind, "n": n}, seed, 3.0, 0.1, 1.0, 2.0, np.linspace(-1, 1, 49)[:, None], np.zeros(60),
        {"exact": {"regret": np.asarray(regrets, np.float64)}}, "It was given.",
    )  # fmt: skip


def hand_made(kind: str = "confounded") -> list[Record]:
    """CO-BED 0.2; UCB+LP above it by 0.1 +- 0.01; LEVI+LP by 0.3; Random by 0.05 with a large error."""
    ours = np.array([0.1, 0.2, 0.3, 0.2])
    wiggle = 0.02 * np.array([1, -1, 1, -1]) * (3 / 4) ** 0.5
    return [
        record("Random", ours + np.array([0.35, -0.25, 0.3, -0.2]), kind=kind), record("UCB+LP", ours + 0.1 + wiggle, kind=kind),
        record("LEVI+LP", ours + 0.3, kind=kind), record("CO-BED (infonce)", ours + 0.02, kind=kind),
        record("CO-BED", ours, kind=kind),
    ]  # fmt: skip


def test_the_best_rival_is_compared_world_by_world():
    groups = by_method(hand_made())
    rival = best_of(groups, ("UCB+LP", "LEVI+LP"))
    assert rival is not None
    assert rival.method == "UCB+LP"
    assert rival.excess == pytest.approx((0.1, 0.01))
    assert rival.errors == pytest.approx(10.0)
    assert best_of(groups, ("ITL",)) is None
    best = best_other(groups)
    assert best is not None
    assert best.method == "Random"
    assert str(best).startswith("Random 0.25")


def found(records: list[Record]) -> str:
    return "\n".join(findings(EXPERIMENT.claims, records))


def test_the_findings_say_yes_and_no():
    good = found(hand_made())
    assert "CO-BED has the lowest regret: yes" in good
    assert "below the best with penalties: yes" in good
    better = [*hand_made("random")[:-1], record("CO-BED", [1.0, 1.1, 1.2, 1.1], kind="random")]
    assert "not worse than the best by more than 1 s.e.: NO" in found(better)
    beaten = [*hand_made()[:-1], record("CO-BED", [1.0, 1.1, 1.2, 1.1])]
    assert "CO-BED has the lowest regret: NO" in found(beaten)
    assert "CO-BED has the lowest regret" not in found([record("CO-BED", [0.1, 0.2], n=0)])


def test_tables_have_a_column_for_each_n_in_order():
    records = [record("CO-BED", [0.1, 0.2], n=n) for n in (100, 0, 25)]
    assert list(metric_table(records, "n", "regret").columns) == ["Method", "n = 0", "n = 25", "n = 100"]


def test_maps_have_the_first_context_column_on_the_horizontal_axis():
    """Units run through the second column first: actions that grow with the first are constant along a column."""
    problem = make_problem(observational_data("random", seed=0), 0)
    made = record("CO-BED", [0.1, 0.2])
    grown = Record(**{**vars(made), "actions": np.asarray(problem.contexts)[:, :1]})
    figure = maps_figure({"CO-BED": [grown]})
    np.testing.assert_allclose(figure.data[0].z, np.tile(np.linspace(-1, 1, 7), (7, 1)), atol=1e-6)


def test_the_study_has_every_method_on_every_setting():
    parts = parts_of_study(settings("smoke", EFFORTS["smoke"]), 1)
    methods = {part.method.name for part in parts}
    assert methods == {
        "CO-BED", "CO-BED (infonce)", "Random", "Thompson", "UCB_0", "UCB_1", "UCB_2", "UCB+LP", "LEVI", "LEVI+LP", "ITL"
    }  # fmt: skip
    assert len(parts) == 2 * len(SIZES["smoke"]) * len(methods)
    assert SIZES["paper"] == SIZES["quick"] == (0, 25, 50, 75, 100)
    assert any(isinstance(b, LEVI) and b.penalised for b in BASELINES)
    assert EFFORTS["paper"].num_worlds == 3_000
    assert EFFORTS["paper"].num_seeds == 5


@pytest.mark.slow
def test_the_study_runs_and_a_part_that_is_lost_is_done_again(tmp_path):
    report = reproduce("gp", tmp_path, budget="smoke")
    first = json.loads((tmp_path / "results.json").read_text())["rows"]
    assert len(first) == 44
    assert all(row["regret"] is not None and row["cmv_eig"] is not None for row in first)
    lost = next((tmp_path / "parts").glob("LEVI_LP*n=100*.npz"))
    lost.unlink()
    assert reproduce("gp", tmp_path, budget="smoke") == report
    again = json.loads((tmp_path / "results.json").read_text())["rows"]
    for row in [*first, *again]:
        row.pop("seconds_design"), row.pop("seconds_total")
    assert first == again
