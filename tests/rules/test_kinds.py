"""Every registered kind of rule keeps one contract, also one of another package. Reads specs alone: nothing is compiled."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from cobed.campaign.spec import parse_spec
from cobed.errors import ProblemError, SpecError
from cobed.rules import AbstractRule, AtMost, Batch, base, kinds, register

OUTSIDE = Path(__file__).parents[1] / "outside"
SPEC = """name = "spring"
[units]
id = "customer"
[context]
new = "binary"
[action]
options = ["none", "mail"]
[outcome]
column = "visit"
likelihood = "bernoulli"
[constraints]
cost = { mail = 2.0 }
"""
# A value of each kind as it stands in a spec, how many of the designs of three units it allows, and one that it refuses.
VALUES = {
    "at_least": ("at_least = { mail = 2 }", 4, "at_least = { letter = 2 }"),
    "at_most": ("at_most = { mail = 1 }", 4, "at_most = { letter = 1 }"),
    "max_cost": ("max_cost = 4.0", 7, 'max_cost = "much"'),
    "forbid": (
        '[[constraints.forbid]]\naction = "mail"\ncolumn = "new"\nvalues = ["yes"]',
        4,
        '[[constraints.forbid]]\naction = "mail"\ncolumn = "age"\nvalues = ["yes"]',
    ),
    "max_share": ("max_share = { mail = 0.5 }", 4, "max_share = { mail = 1.5 }"),
}
DESIGNS = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)])


@pytest.fixture(params=list(VALUES))
def kind(request, monkeypatch):
    """Each kind in turn; that of the other package is known for one test."""
    if request.param == "max_share":
        monkeypatch.setattr(base._KINDS, "_parts", dict(base._KINDS._parts))
        monkeypatch.syspath_prepend(OUTSIDE)
        monkeypatch.delitem(sys.modules, "max_share", raising=False)
        importlib.import_module("max_share")
    return kinds()[request.param]


def allowed(rule: AbstractRule) -> np.ndarray:
    """Which of the designs a rule allows, by what it says of them: the first unit is new, the others are not."""
    actions = np.eye(2)[DESIGNS]
    batch = Batch(("none", "mail"), np.array([0.0, 2.0]), 3)
    passed = np.ones(len(DESIGNS), bool)
    for limit in rule.limits(batch):
        assert limit.words
        total = np.sum(actions * limit.weights, axis=(1, 2))
        passed &= (limit.least - 1e-9 <= total) & (total <= limit.most + 1e-9)
    forbidden = rule.forbidden({"new": [1, 0, 0]}, ["none", "mail"])
    if forbidden is not None:
        assert forbidden.shape == (3, 2)
        passed &= ~np.any(forbidden[np.arange(3), DESIGNS], axis=1)
    return passed


def test_the_examples_are_of_all_registered_kinds():
    assert set(kinds()) == set(VALUES) - {"max_share"}


def test_a_rule_of_a_spec_allows_what_it_says(kind):
    text, num_allowed, _ = VALUES[kind.name]
    (rule,) = parse_spec(SPEC + text).rules
    assert type(rule) is kind
    assert allowed(rule).sum() == num_allowed
    assert kind.describes.endswith(".")


def test_a_value_that_makes_no_sense_is_told_by_its_key(kind):
    with pytest.raises(SpecError, match=kind.name):
        parse_spec(SPEC + VALUES[kind.name][2])


def test_a_name_is_taken_once():
    with pytest.raises(ProblemError, match="Each kind of rule needs a name of its own; got 'at_most'"):
        register(AtMost)
