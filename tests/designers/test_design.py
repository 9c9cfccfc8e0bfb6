"""The designer end to end, on every kind of action and model, and everything that can go wrong on the way."""

import itertools
import json

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import cobed
from cobed.designers.result import DesignResult
from cobed.errors import BudgetError, StorageError
from cobed.models.linear import linear_information
from cobed.search import ascent

# Adam compiles faster than Muon.
TINY = cobed.Budget(
    optimiser="adam",
    critic_rate=3e-3,
    num_steps=60,
    warm_steps=0,
    batch_size=64,
    num_starts=1,
    settle_steps=20,
    settle_batch_size=64,
    num_evaluation_batches=2,
)
CRITIC = cobed.Separable(hidden=(16,), embedding=8)


def quick(problem, seed=0, budget=TINY, **options):
    return cobed.design(problem, seed=seed, budget=budget, objective="infonce", network=CRITIC, **options)


def dose_problem(num_contexts=3):
    """A product space: which drug, and how much."""

    def features(context, action):
        return jnp.concatenate([action[:2], action[2:] * action[:2]]) * (1 + 0.1 * context[0])

    space = cobed.Product([cobed.Discrete(["a", "b"]), cobed.Box(0.0, 1.0)])
    model = cobed.models.LinearGaussian(features, np.zeros(4), np.ones(4), space, 1, 0.5)
    return cobed.Problem(model, np.arange(num_contexts)[:, None], np.ones((2, 1)))


def simulator_problem():
    """No likelihood: noise that depends on the action in a way nobody wrote a density for."""
    model = cobed.models.from_simulator(
        lambda key: jr.normal(key, (2,)),
        lambda key, psi, context, action: psi[0] * action[0] + psi[1] * context[0] + jnp.sin(jr.normal(key)) * 0.3,
        cobed.Box(-1.0, 1.0),
        context_dim=1,
        mean_reward=lambda psi, context, action: psi[0] * action[0] + psi[1] * context[0],
    )
    return cobed.Problem(model, np.ones((4, 1)), np.ones((2, 1)))


def numpyro_problem():
    def revenue(contexts, actions):
        lift = numpyro.sample("lift", dist.Normal(0, 1).expand([3, contexts.shape[1]]).to_event(2))
        mean = numpyro.deterministic("reward", jnp.sum(actions @ lift * contexts, -1))
        numpyro.sample("y", dist.Normal(mean, 0.5).to_event(1))

    model = cobed.models.from_numpyro(revenue, actions=cobed.Discrete(["none", "5%", "10%"]))
    rng = np.random.default_rng(0)
    return cobed.Problem(model, rng.normal(size=(5, 2)), rng.normal(size=(3, 2)))


@pytest.mark.parametrize(
    "make",
    [numpyro_problem, *(pytest.param(make, marks=pytest.mark.slow) for make in (dose_problem, simulator_problem))],
)
def test_every_kind_of_model_gets_a_valid_design_with_its_information(make):
    problem = make()
    result = quick(problem)
    problem.check_actions(result.actions)
    assert len(result.labels) == problem.num_contexts == len(result.to_frame())
    assert np.isfinite(result.information.value)
    assert result.stop_reason == "All 60 steps were done."
    assert len(result.history) == 60


@pytest.mark.slow
def test_one_unit_and_one_target_are_enough():
    assert quick(dose_problem(num_contexts=1)).actions.shape == (1, 3)


def test_the_same_seed_gives_the_same_numbers(linear_problem):
    first, again, other = quick(linear_problem, 1), quick(linear_problem, 1), quick(linear_problem, 2)
    np.testing.assert_array_equal(first.history, again.history)
    assert first.information == again.information
    assert not np.array_equal(first.history, other.history)


@pytest.mark.parametrize(
    "budget",
    [
        pytest.param(TINY.replace(optimiser="muon", critic_rate=2e-2), marks=pytest.mark.slow),
        TINY.replace(schedule="exponential", critic_rate=1e-3),
    ],
)
def test_both_optimisers_raise_the_bound(linear_problem, budget):
    history = quick(linear_problem, budget=budget.replace(num_steps=300)).history
    assert history[-50:].mean() > history[:50].mean()


@pytest.mark.slow
def test_batch_norm_and_the_joint_critic_can_be_swapped_in(linear_problem):
    for critic in (cobed.Separable(hidden=(16,), embedding=8, batch_norm=True), cobed.Joint(hidden=(8,))):
        result = cobed.design(linear_problem, seed=0, budget=TINY, objective="infonce", network=critic)
        assert np.isfinite(result.information.value)


@pytest.mark.slow
def test_the_ascent_finds_the_best_of_all_designs(make_linear_problem):
    """Of all 2^5 designs over five units the chosen one is the most informative about the targets."""
    problem = make_linear_problem(5)
    budget = cobed.Budget(num_steps=400, batch_size=512, settle_steps=100, settle_batch_size=512, num_starts=2)
    critic = cobed.Separable(hidden=(64,), embedding=16)
    result = cobed.design(problem, seed=0, budget=budget, objective="infonce", network=critic)
    designs = np.eye(2, dtype=np.float32)[list(itertools.product([0, 1], repeat=5))]
    exact = [linear_information(problem.model, problem.contexts, design, np.eye(2)) for design in designs]
    found = linear_information(problem.model, problem.contexts, result.actions, np.eye(2))
    assert found == pytest.approx(max(exact))
    assert result.information.value <= found + 4 * result.information.standard_error  # false alarm below 1 in 30,000


class Killed(Exception):
    pass


def whole_and_resumed(problem, budget, folder, when):
    """A design made at once, and one that was killed at its chunk number `when` and made again from its checkpoint."""
    seen = []

    def dies(progress):
        seen.append(progress)
        if len(seen) == when:
            raise Killed

    with pytest.raises(Killed):
        quick(problem, budget=budget, progress=dies, checkpoint=folder)
    return quick(problem, budget=budget), quick(problem, budget=budget, checkpoint=folder)


@pytest.mark.parametrize("when", [1, 2, 4])
def test_a_killed_design_resumes_to_the_same_result(linear_problem, tmp_path, when):
    whole, resumed = whole_and_resumed(linear_problem, TINY.replace(num_starts=2), tmp_path, when)
    np.testing.assert_array_equal(whole.actions, resumed.actions)
    assert whole.information == resumed.information
    assert [s.score for s in whole.starts] == [s.score for s in resumed.starts]


def test_a_checkpoint_of_another_seed_is_refused(linear_problem, tmp_path):
    quick(linear_problem, seed=0, checkpoint=tmp_path)
    with pytest.raises(StorageError, match="What differs: seed"):
        quick(linear_problem, seed=1, checkpoint=tmp_path)


def interrupt_at(chunk, monkeypatch):
    """Ctrl-C at that chunk of the ascents."""
    run_chunk, calls = ascent._run_chunk, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == chunk:
            raise KeyboardInterrupt
        return run_chunk(*arguments)

    monkeypatch.setattr(ascent, "_run_chunk", interrupted)


@pytest.mark.parametrize(
    ("chunk", "reason"),
    [
        (2, "Interrupted after 50 of 60 steps."),
        (3, "Interrupted before the network could settle."),
        (4, "Interrupted in start 2 of 2; kept the best of the 1 before."),
    ],
)
def test_ctrl_c_returns_the_best_design_so_far(linear_problem, monkeypatch, chunk, reason):
    interrupt_at(chunk, monkeypatch)
    result = quick(linear_problem, budget=TINY.replace(num_starts=2))
    assert reason in result.stop_reason
    linear_problem.check_actions(result.actions)
    assert np.isfinite(result.information.value)


def test_progress_counts_every_stage_and_the_time_left(linear_problem):
    heard = []
    quick(linear_problem, budget=TINY.replace(num_starts=2), progress=heard.append)
    stages = list(dict.fromkeys(progress.stage for progress in heard))
    assert stages == [
        "start 1 of 2: design",
        "start 1 of 2: network",
        "start 2 of 2: design",
        "start 2 of 2: network",
        "chosen design: network",
    ]
    assert heard[-1].seconds_left == 0
    assert all(progress.seconds_left >= 0 for progress in heard)


def lever_problem(pull=lambda action: 2 * jnp.sin(action), noise=1.0, num=2):
    """Experiments measure a coefficient each, the more the further the action is pulled; targets want all."""

    def features(context, action):
        return jnp.where(context[0] > 0.5, context[1:], pull(action[0]) * context[1:])

    model = cobed.models.LinearGaussian(features, np.zeros(num), np.ones(num), cobed.Box(-1.5, 1.5), num + 1, noise)
    rows = np.eye(num)
    return cobed.Problem(model, np.insert(rows, 0, 0.0, axis=1), np.insert(rows, 0, 1.0, axis=1))


@pytest.mark.slow
def test_a_design_of_numbers_begins_at_a_good_one():
    """One step of the critic moves the design by little: what it tells exactly, it told at its start."""
    problem, heard = lever_problem(), []
    budget = TINY.replace(num_steps=1, warm_steps=100, batch_size=256)

    def exact(budget, **options):
        actions = quick(problem, budget=budget, **options).actions
        return linear_information(problem.model, problem.contexts, actions, np.eye(2))

    # Both levers pulled as far as they go: 1/2 ln(1 + (2 sin 1.5)^2) each, nearly ln 5 together.
    assert exact(budget, progress=heard.append) > 0.93 * np.log(5)
    assert exact(budget.replace(warm_steps=0)) < 0.9 * np.log(5)
    assert heard[0].stage == "warm start, start 1 of 4: design"
    assert heard[-1].stage == "chosen design: network"
    assert heard[-1].seconds_left == 0


@pytest.mark.slow
def test_where_rewards_are_linear_in_the_action_its_bounds_are_played():
    result = quick(lever_problem(pull=lambda action: action), budget=TINY)
    np.testing.assert_array_equal(np.abs(result.actions), 1.5)


@pytest.mark.slow
def test_at_its_ceiling_infonce_keeps_the_design_it_began_at():
    """42 nats, of which batches of 64 can show log 64 = 4.2: no slope is left, and the design would wander."""
    problem = lever_problem(noise=1e-2, num=8)
    budget = cobed.Budget(num_steps=400, batch_size=64, settle_steps=0, settle_batch_size=64, design_rate=0.005)
    result = cobed.design(problem, seed=0, budget=budget, objective="infonce")
    assert result.stop_reason.endswith("so the design by second moments it began at was kept.")
    # Its starts are at the bounds or near them; a random start is not.
    assert np.abs(result.actions).min() > 1.0


@pytest.mark.slow
@pytest.mark.parametrize("when", [1, 5, 6])
def test_a_design_killed_in_its_warm_start_or_after_resumes_to_the_same_result(tmp_path, when):
    whole, resumed = whole_and_resumed(lever_problem(), TINY.replace(warm_steps=20), tmp_path, when)
    np.testing.assert_array_equal(whole.actions, resumed.actions)
    assert whole.information == resumed.information


@pytest.mark.parametrize("chunk", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_ctrl_c_in_the_warm_start_leaves_nothing(monkeypatch, chunk):
    interrupt_at(chunk, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        quick(lever_problem(), budget=TINY.replace(warm_steps=20))


@pytest.mark.slow
def test_a_saturated_bound_is_measured_again_with_more_contrasts():
    """Four coefficients measured almost exactly: 18 nats, of which batches of 16 can show log 16 = 2.8."""

    def features(context, action):
        return context[1:] * jnp.where(context[0] > 0.5, 1.0, action[0])

    model = cobed.models.LinearGaussian(features, np.zeros(4), np.ones(4), cobed.Box(0.5, 1.0), 5, 1e-2)
    rows = np.eye(4)
    problem = cobed.Problem(model, np.insert(rows, 0, 0.0, axis=1), np.insert(rows, 0, 1.0, axis=1))
    budget = cobed.Budget(
        num_steps=400, batch_size=128, settle_steps=0, settle_batch_size=16, num_evaluation_batches=64
    )
    result = cobed.design(problem, seed=0, budget=budget, objective="infonce")
    assert np.log(16) < result.information.value < 18


def test_a_saved_design_comes_back_as_it_was(linear_problem, tmp_path):
    result = quick(linear_problem)
    loaded = DesignResult.load(result.save(tmp_path / "deep" / "design"))
    np.testing.assert_array_equal(loaded.actions, result.actions)
    np.testing.assert_array_equal(loaded.history, result.history)
    for field in ("method", "labels", "score", "reason", "stop_reason", "seed", "settings", "fingerprint", "warnings"):
        assert getattr(loaded, field) == getattr(result, field)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "cannot be read as a design"),
        (lambda path: path.with_suffix(".npz").unlink(), "cannot be read as a design"),
        (lambda path: path.write_text("{}"), "cannot be read as a design"),
        (lambda path: path.with_suffix(".npz").write_bytes(b"PK nothing"), "cannot be read as a design"),
        (
            lambda path: path.write_text(json.dumps({"schema": 99, "cobed": "9.0"})),
            "has schema 99, written by cobed 9.0",
        ),
    ],
)
def test_a_damaged_design_is_named(linear_problem, tmp_path, damage, message):
    path = quick(linear_problem).save(tmp_path / "design")
    damage(path)
    with pytest.raises(StorageError, match=message):
        DesignResult.load(path)


def test_an_unknown_budget_is_refused(linear_problem):
    with pytest.raises(BudgetError, match="Unknown budget 'huge'"):
        cobed.design(linear_problem, seed=0, budget="huge")
