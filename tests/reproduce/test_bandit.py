"""The linear bandit: its closed forms against draws, its optimum against all designs, its study from end to end."""

import itertools
import json

import jax.random as jr
import numpy as np
import pytest

from cobed.designers.baselines import RandomUniform
from cobed.errors import ProblemError
from cobed.models import LinearBandit
from cobed.problem import Problem
from cobed.reproduce import bandit, reproduce
from cobed.reproduce.bandit_exact import CoordinateExchange, ExactReward


def drawn_rewards(problem, actions, num_worlds: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    """In each world, averaged over the targets: the posterior mean of the chosen action after the outcomes of the design, and
    m* itself. Rewards are psi . phi, so that posterior means have a closed form written out here."""
    table, cov = np.asarray(problem.model.table, np.float64), np.asarray(problem.model.prior_cov, np.float64)
    rng, noise = np.random.default_rng(0), problem.model.noise_std
    worlds = rng.normal(size=(num_worlds, len(cov))) @ np.linalg.cholesky(cov).T
    numbers, targets = (np.asarray(c)[:, 0].astype(int) - 1 for c in (problem.contexts, problem.targets))
    phi = table[numbers, actions.argmax(1)]
    outcomes = worlds @ phi.T + noise * rng.normal(size=(num_worlds, len(phi)))
    means = outcomes @ np.linalg.solve(phi @ cov @ phi.T + noise**2 * np.eye(len(phi)), phi @ cov)
    return tuple(np.max(np.einsum("wp,tap->wta", psi, table[targets]), axis=2).mean(axis=1) for psi in (means, worlds))


@pytest.mark.parametrize("noise", [0.1, 1.0])
def test_the_reward_is_that_of_drawn_outcomes(noise):
    problem = bandit.make_problem(jr.key(3), 12, noise)
    actions = RandomUniform()(problem, seed=0).actions
    exact = ExactReward(problem)
    for reward, drawn in zip(
        (exact.of_actions(actions), exact.of_everything()), drawn_rewards(problem, actions), strict=True
    ):
        # 5 standard errors: false alarm below 1 in 1,000,000.
        assert abs(reward - drawn.mean()) < 5 * drawn.std() / len(drawn) ** 0.5


def test_one_action_has_the_expected_positive_part_of_a_normal():
    """E max(0, N(0, s^2)) = s / sqrt(2 pi), with s^2 = phi^2 v^2 / (v + sigma^2 / phi^2)."""
    model = LinearBandit(np.array([[[2.0], [0.0]]]), prior_cov=np.array([1.5]), noise_std=0.5)
    problem = Problem(model, np.ones((1, 1)), np.ones((1, 1)))
    std = 2 * 1.5 / np.sqrt(1.5 + 0.25 / 4)
    assert ExactReward(problem).of_actions(np.array([[1.0, 0.0]])) == pytest.approx(std / np.sqrt(2 * np.pi), abs=1e-6)
    assert ExactReward(problem).of_actions(np.array([[0.0, 1.0]])) == 0


def test_features_with_two_entries_have_no_such_form():
    problem = Problem(LinearBandit(np.ones((1, 2, 2))), np.ones((1, 1)), np.ones((1, 1)))
    with pytest.raises(ProblemError, match="one entry each"):
        ExactReward(problem)


@pytest.mark.parametrize("without", [(), (6, 7)])
def test_exchange_finds_the_best_of_all_designs(without):
    problem = bandit.make_problem(jr.key(1), 4)
    exact = ExactReward(problem)
    allowed = [a for a in range(7) if a + 1 not in without]
    best = max(exact.of_actions(np.eye(10)[list(d)]) for d in itertools.product(allowed, repeat=4))
    actions = CoordinateExchange(without)(problem, seed=0).actions
    assert exact.of_actions(actions) == pytest.approx(best, abs=1e-9)
    assert not actions[:, [a - 1 for a in without]].any()


def test_features_belong_to_the_key_and_not_to_the_size():
    small, large = (bandit.make_problem(jr.key(2), size) for size in (2, 30))
    assert np.array_equal(small.model.table, large.model.table)
    assert large.contexts.shape == (30, 1)


@pytest.mark.slow
def test_the_study_runs_from_end_to_end_and_goes_on(tmp_path):
    report = reproduce("bandit", tmp_path, budget="smoke")
    text = (tmp_path / "results.json").read_text()
    rows = json.loads(text)["rows"]
    methods = {row["method"] for row in rows if row["setting"] == {"D": 10, "noise": 0.1}}
    named = {
        "S-P",
        "Norm",
        "Const",
        "Random",
        "Thompson",
        "CO-BED",
        "CO-BED (infonce)",
        "Optimum",
        "Optimum without 6, 7",
    }
    assert methods == named
    assert "NaN" not in text
    best = {row["seed"]: row["reward"] for row in rows if row["method"] == "Optimum" and row["setting"]["D"] == 10}
    assert all(row["reward"] > 0 and row["regret"] > 0 for row in rows if row["method"] == "Optimum")
    assert len(best) == 2
    assert "On the same feature draws" in report.read_text()
    # A part that is missing is done again, to the same numbers; the others are read.
    removed = next((tmp_path / "parts").glob("S-P*"))
    removed.unlink()
    reproduce("bandit", tmp_path, budget="smoke")
    again = json.loads((tmp_path / "results.json").read_text())["rows"]
    assert sum(old["seconds_total"] != new["seconds_total"] for old, new in zip(rows, again, strict=True)) == 1
    assert [row["reward"] for row in rows] == [row["reward"] for row in again]
