"""Choices under budgets against integer and linear programs over all rows at once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from cobed.allocation import allocate
from cobed.errors import ProblemError
from cobed.rules import Limit


def solved(values, mask, limits, integral):
    """The largest total value by one program over all rows and actions; None where no choice is allowed."""
    conditions = [LinearConstraint(np.kron(np.eye(len(values)), np.ones(values.shape[1])), 1, 1)]
    for limit in limits:
        weights = np.broadcast_to(np.atleast_2d(limit.weights), values.shape)
        conditions.append(LinearConstraint(weights.reshape(1, -1), limit.least, limit.most))
    answer = milp(
        -values.ravel(),
        constraints=conditions,
        bounds=Bounds(0, mask.ravel().astype(float)),  # pyright: ignore[reportArgumentType]
        integrality=np.full(values.size, int(integral)),
        options={"mip_rel_gap": 0},
    )
    return None if answer.x is None else -answer.fun


@st.composite
def programs(draw):
    """Values, some of them tied, forbidden actions, and up to four limits."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    num_rows, num_actions = draw(st.integers(1, 60)), draw(st.integers(2, 4))
    values = rng.normal(size=(num_rows, num_actions)) * 10.0 ** draw(st.integers(-2, 3))
    if draw(st.booleans()):
        values = np.round(values / np.abs(values).max() * 3)
    mask = rng.random(values.shape) < draw(st.sampled_from([0.7, 1.0]))
    mask[np.arange(num_rows), rng.integers(0, num_actions, num_rows)] = True
    one = np.eye(num_actions)
    group = rng.random(num_rows) < 0.4
    limits = [
        Limit("at most", one[1], most=int(rng.integers(0, num_rows + 1))),
        Limit("at least", one[0], least=int(rng.integers(0, num_rows // 2 + 1))),
        Limit(
            "money", rng.random(values.shape) * (np.arange(num_actions) > 0), most=float(rng.random() * num_rows / 2)
        ),
        Limit("group", group[:, None] * one[-1], least=float(np.ceil(0.3 * group.sum()))),
    ]
    chosen = draw(st.lists(st.sampled_from(range(4)), min_size=1, max_size=4, unique=True))
    return values.astype(np.float32), mask, [limits[place] for place in chosen]


@settings(max_examples=40, deadline=None)
@given(programs())
def test_the_best_allowed_choice_is_found(program):
    values, mask, limits = program
    exact = values.astype(float)
    best, size = solved(exact, mask, limits, True), float(np.ptp(exact)) or 1.0
    if best is None:
        with pytest.raises(ProblemError, match="Loosen"):
            allocate(values, mask, limits)
        return
    found = allocate(values, mask, limits)
    relaxed = solved(exact, mask, limits, False)
    assert mask[np.arange(len(values)), found.chosen].all()
    # The integer program stops a millionth from its end, the bound at single precision.
    assert found.value == pytest.approx(best, abs=1e-4 * size)
    assert found.bound == pytest.approx(relaxed, abs=1e-3 * size)
    assert found.bound >= found.value
    for place, (limit, used) in enumerate(zip(limits, found.used, strict=True)):
        assert limit.least - 1e-6 <= used <= limit.most + 1e-6
        looser = [*limits]
        looser[place] = Limit(limit.words, limit.weights, limit.least - 1, limit.most + 1)
        more = solved(exact, mask, looser, False)
        assert more is not None
        assert relaxed is not None
        assert found.loosened[place] == pytest.approx(more - relaxed, abs=1e-3 * size)


def test_many_rows_follow_a_threshold_on_their_gain():
    """With one count the best choice is to sort: the 500 largest gains get the action, and the next one is what one more brings."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(40_000, 2)).astype(np.float32)
    gains = (values[:, 1] - values[:, 0]).astype(float)
    found = allocate(values, None, [Limit("at most 500", np.array([0.0, 1.0]), most=500)])
    ordered = np.sort(gains)[::-1]
    assert found.used == (500.0,)
    assert found.value == pytest.approx(values[:, 0].sum(dtype=float) + ordered[:500].sum(), abs=1e-3)
    assert found.loosened[0] == pytest.approx(ordered[500], abs=1e-4)
    assert found.bound - found.value < 0.01


def test_tied_rows_share_a_budget_exactly():
    """All rows alike, two options that cost different money: 3 x + 2 y <= 10,001 with values 2 and 1."""
    values = np.tile(np.array([0.0, 2.0, 1.0], np.float32), (20_000, 1))
    found = allocate(values, None, [Limit("money", np.array([0.0, 3.0, 2.0]), most=10_001)])
    # 3,333 of the first spend 9,999, and one of the second the last 2.
    assert np.bincount(found.chosen).tolist() == [16_666, 3_333, 1]
    assert found.value == pytest.approx(6_667)
    assert found.bound == pytest.approx(10_001 * 2 / 3, rel=1e-6)
    assert found.loosened[0] == pytest.approx(2 / 3, abs=1e-3)


def test_limits_that_no_choice_keeps_are_told_with_the_numbers():
    values = np.zeros((10, 2), np.float32)
    with pytest.raises(
        ProblemError, match=r"No choice has 20 mails: what the 10 rows may get adds up to 0 at least and 10 at most"
    ):
        allocate(values, None, [Limit("20 mails", np.array([0.0, 1.0]), least=20)])
    both = [Limit("6 mails", np.array([0.0, 1.0]), least=6), Limit("6 calls", np.array([1.0, 0.0]), least=6)]
    with pytest.raises(ProblemError, match=r"No choice for the 10 rows satisfies all limits at once: 6 mails; 6 calls"):
        allocate(values, None, both)


@pytest.mark.slow
def test_a_million_rows_with_four_limits():
    rng = np.random.default_rng(1)
    values = (rng.normal(size=(1_000_000, 3)) @ rng.normal(size=(3, 4))).astype(np.float32)
    spent = np.maximum(values, 0) * np.array([0, 0.2, 0, 0]) + np.array([0, 0, 0.4, 0.1])
    group = (rng.random(1_000_000) < 0.2)[:, None] * np.eye(4)[1]
    limits = [
        Limit("coupons", np.eye(4)[1], most=20_000), Limit("mails", np.eye(4)[2], least=300_000),
        Limit("money", spent, most=150_000.0), Limit("group", group, least=8_000),
    ]  # fmt: skip
    found = allocate(values, None, limits)
    for limit, used in zip(limits, found.used, strict=True):
        assert limit.least - 1e-6 <= used <= limit.most + 1e-6
    # Within the largest gain of one of a million rows.
    assert 0 <= found.bound - found.value < np.ptp(values)
