"""What a whole batch must satisfy, for every kind of search: numbers that cost, named actions that are counted."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import cobed
from cobed.allowed import Feasible
from cobed.designers import training
from cobed.designers.training import _obey
from cobed.errors import ProblemError
from cobed.models.linear import linear_information
from cobed.objectives import Trainable, choose_objective
from cobed.policies import FreeDesign
from cobed.search import ascend, scores

SPACE = cobed.Box([0.0, -1.0], [2.0, 3.0])
COSTS = np.array([[1.0, -2.0], [1.0, 0.0], [0.0, 0.0]])


def limited(most, space=SPACE):
    return Feasible.build(space, 3, cobed.Allowed(rules=[cobed.rules.Limit("a cost", COSTS, most=most)]))


BUDGET = cobed.Budget(
    optimiser="adam", critic_rate=3e-3, num_steps=60, closed_form_steps=80, warm_steps=20, batch_size=64, num_starts=2,
    settle_steps=10, settle_batch_size=256, num_evaluation_batches=2,
)  # fmt: skip


def test_a_batch_is_drawn_back_to_the_limit_and_no_further():
    """The cheapest batch costs 0 - 2 * 3 + 0 = -6; the dearest 2 + 2 + 2 = 6."""
    limit = limited(1.0).drawn_back
    cheap, dear = jnp.array([[0.5, 2.0], [1.0, 0.3], [2.0, 3.0]]), jnp.array([[2.0, -1.0], [2.0, 0.3], [2.0, 3.0]])
    np.testing.assert_array_equal(limit(cheap), cheap)
    drawn = np.asarray(limit(dear))
    assert (COSTS * drawn).sum() == pytest.approx(1.0, abs=1e-5)
    # What costs nothing is as it was; the rest is 7 of the 12 on the way from the cheapest batch.
    np.testing.assert_allclose(drawn, [[7 / 6, 3 - 7 / 3], [7 / 6, 0.3], [2.0, 3.0]], rtol=1e-5)
    assert np.isfinite(jax.grad(lambda actions: jnp.sum(limit(actions) ** 2))(dear)).all()


def test_the_ascent_moves_the_design_and_not_its_limit():
    raw = jnp.zeros((3, 2))
    design = FreeDesign(SPACE, raw, jax.tree.map(jnp.asarray, limited(1.0)))
    gradient = eqx.filter_grad(lambda d: jnp.sum(d.sample(jr.key(1), jnp.ones(()), jnp.asarray(True)) ** 2))(design)
    assert np.any(gradient.raw)
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(gradient.feasible))


@pytest.mark.parametrize("most", [-7.0, -np.inf])
def test_a_limit_below_the_cheapest_batch_is_told(most):
    with pytest.raises(ProblemError, match="No batch of these actions has a cost"):
        limited(most)
    with pytest.raises(ProblemError, match="No batch of these actions has a cost"):
        limited(1.0, cobed.Box.real(2))


def lever(context, action):
    return action[0] * context[1:]


def lever_problem(most=None):
    """The first lever tells of a coefficient that is worth twice as much to the targets as that of the second."""
    model = cobed.models.LinearGaussian(lever, np.zeros(2), np.array([4.0, 1.0]), cobed.Box(0.0, 2.0), 3, 1.0)
    rows = np.eye(2)
    allowed = None if most is None else cobed.Allowed(rules=[cobed.rules.MaxCost(most)], costs=[1.0])
    return cobed.Problem(model, np.insert(rows, 0, 0.0, axis=1), np.insert(rows, 0, 1.0, axis=1), allowed=allowed)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["value", "infonce", "linear-gaussian"])
def test_a_design_of_numbers_obeys_a_limit_that_it_uses_up(objective):
    problem = lever_problem(1.0)
    result = cobed.design(problem, seed=0, budget=BUDGET, objective=objective)
    problem.check_actions(result.actions)
    assert 0.7 < result.actions.sum() <= 1 + 1e-5


def test_under_a_limit_the_ascent_finds_the_best_way_to_spend_it():
    """Better than the design without a limit drawn back to it, and nearly the best of a fine grid."""
    problem, under_limit = lever_problem(), lever_problem(1.0)
    budget = BUDGET.replace(closed_form_steps=300)
    objective = choose_objective(jr.key(0), problem, budget.resolved(problem), "value").objective

    def value(actions):
        return scores(jr.key(5), objective, [actions], budget)[0]

    free = cobed.design(problem, seed=0, budget=budget, objective="value")
    under = cobed.design(under_limit, seed=0, budget=budget, objective="value")
    shares = np.linspace(0, 1, 41, dtype=np.float32)
    best = max(value(np.array([[share], [1 - share]])) for share in shares)
    assert value(under.actions) > value(np.asarray(under_limit.feasible.drawn_back(jnp.asarray(free.actions))))
    assert value(under.actions) > 0.99 * best


@pytest.fixture
def at_most_one(make_linear_problem):
    """Four units, of which one may get the first action."""
    problem = make_linear_problem(4)
    allowed = cobed.Allowed(rules=[cobed.rules.AtMost({problem.model.action_space.names[0]: 1})])
    return cobed.Problem(problem.model, problem.contexts, problem.targets, allowed=allowed)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["infonce", "linear-gaussian"])
def test_named_actions_obey_a_rule_whatever_the_objective(at_most_one, objective):
    result = cobed.design(at_most_one, seed=0, budget=BUDGET, objective=objective)
    assert result.actions[:, 0].sum() <= 1
    # Every start that was compared obeys it too.
    assert all(start.actions[:, 0].sum() <= 1 for start in result.starts)


def test_under_a_limit_the_value_knows_what_every_allowed_change_adds(at_most_one, make_linear_problem):
    free, under = (choose_objective(jr.key(0), problem, BUDGET) for problem in (make_linear_problem(4), at_most_one))
    assert "every allowed change would add" in under.reason
    assert under.objective.with_gains() is not None
    assert free.objective.with_gains() is None


def test_units_that_must_change_exchange_their_two_logits(at_most_one):
    raw = jnp.array([[3.0, 1.0], [2.0, 1.5], [0.0, 1.0], [4.0, 3.5]])
    design = FreeDesign(at_most_one.model.action_space, raw)
    found = _obey(at_most_one.feasible, Trainable(design, None)).design.raw
    # Three want the first action. It means most to the first of them.
    np.testing.assert_array_equal(found, [[3.0, 1.0], [1.5, 2.0], [0.0, 1.0], [3.5, 4.0]])


def test_every_chunk_of_an_ascent_ends_in_an_allowed_design(at_most_one, monkeypatch):
    seen = []

    def spy(*args, project, **options):
        def watched(trainable):
            allowed = project(trainable)
            seen.append(np.asarray(allowed.design.harden()))
            return allowed

        return ascend(*args, project=watched, **options)

    monkeypatch.setattr(training, "ascend", spy)
    cobed.design(at_most_one, seed=0, budget=BUDGET, objective="infonce")
    assert len(seen) == 2 * 2  # two starts of 60 steps: two chunks each
    assert all(actions[:, 0].sum() <= 1 for actions in seen)


@pytest.mark.slow
def test_a_search_that_tries_every_action_finds_the_best_allowed_design(make_linear_problem, at_most_one):
    """Without the rule two looks at each coefficient are best; with it one at the first and three at the second."""
    problem = make_linear_problem(4)
    free, under = (
        cobed.design(given, seed=0, budget=BUDGET.replace(batch_size=1_024), objective="linear-gaussian")
        for given in (problem, at_most_one)
    )
    assert sorted(free.actions.argmax(axis=1).tolist()) == [0, 0, 1, 1]
    assert sorted(under.actions.argmax(axis=1).tolist()) == [0, 1, 1, 1]
    exact = [linear_information(problem.model, problem.contexts, d.actions, np.eye(2)) for d in (free, under)]
    assert exact[0] > exact[1]
