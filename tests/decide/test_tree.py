"""Trees of questions against brute force, limits, and what they look like to people, programs and databases."""

import itertools
import json
import sqlite3

import numpy as np
import pandas as pd
import pytest

import cobed
from cobed.decide.tree import Leaf, Question, Split, Tree
from cobed.errors import ProblemError
from cobed.rules.base import Limit


def table(seed, num_rows=60):
    rng = np.random.default_rng(seed)
    age = rng.normal(size=num_rows).round(1)
    age[rng.random(num_rows) < 0.2] = np.nan
    city = rng.choice(np.array(["A", "B", "C", None], object), num_rows)
    return {"age": age, "city": city, "visits": rng.integers(0, 3, num_rows).astype(float)}


def answers(columns):
    """Every question that one can ask, as its answer of each row: thresholds, single names, missing cells on either side."""
    for cells in columns.values():
        absent = pd.isna(cells)
        values = sorted(set(cells[~absent]))
        for value in values:
            said = (cells == value) if cells.dtype == object else ~absent & (cells <= value)
            yield said
            if cells.dtype != object:
                yield said | absent
        yield absent


def best_by_brute_force(columns, values, depth):
    asked = [answer for answer in answers(columns) if answer.any() and not answer.all()]

    def best(rows, depth):
        reached = values[rows].sum(axis=0).max() if rows.any() else 0.0
        if depth == 0 or not rows.any():
            return reached
        splits = (best(rows & answer, depth - 1) + best(rows & ~answer, depth - 1) for answer in asked)
        return max(reached, *splits)

    return best(np.ones(len(values), bool), depth)


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_no_tree_of_depth_two_earns_more(seed, depth):
    columns = table(seed)
    values = np.random.default_rng(100 + seed).normal(size=(60, 3))
    tree = cobed.grow_tree(columns, values, ["x", "y", "z"], depth)
    assert tree.depth <= depth
    earned = values[np.arange(60), tree.choose(columns)].sum()
    assert earned == pytest.approx(best_by_brute_force(columns, values, depth), abs=1e-9)


def test_a_deeper_tree_finds_what_two_questions_cannot_say():
    rng = np.random.default_rng(0)
    columns = {name: rng.integers(0, 2, 4_000).astype(float) for name in "abcd"}
    odd = (columns["a"] + columns["b"] + columns["c"]) % 2
    values = np.stack([odd, 1 - odd], axis=1)
    earned = {}
    for depth in (2, 3):
        tree = cobed.grow_tree(columns, values, ["odd", "even"], depth)
        earned[depth] = values[np.arange(4_000), tree.choose(columns)].mean()
    assert earned[2] < 0.6
    assert earned[3] == 1


def test_a_question_that_brings_nothing_is_not_asked():
    columns = {"a": np.arange(10.0)}
    tree = cobed.grow_tree(columns, np.tile([0.0, 1.0], (10, 1)), ["x", "y"])
    assert tree.root == Leaf(1)
    assert tree.sentences() == ["For all: y."]
    assert cobed.grow_tree({"a": np.zeros(10)}, np.eye(2)[np.arange(10) % 2], ["x", "y"]).root == Leaf(0)


def test_thresholds_have_few_digits_and_lie_between_the_values():
    columns = {"age": np.array([31.0, 33.0, 47.0, 52.0]), "share": np.array([0.123456, 0.13, 0.5, 0.6])}
    values = np.eye(2)[[0, 0, 1, 1]]
    for name in columns:
        tree = cobed.grow_tree({name: columns[name]}, values, ["young", "old"], 1)
        assert isinstance(tree.root, Split)
        limit = tree.root.question.at_most
        assert limit in (40.0, 0.3)
        assert tree.choose({name: columns[name]}).tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    "limit", [Limit("at most 12 of y", np.array([0, 1.0]), most=12), Limit("20 of x", np.array([1.0, 0]), least=20)]
)
def test_a_limit_is_kept_and_what_it_allows_is_used(limit):
    rng = np.random.default_rng(1)
    columns = {"age": rng.permutation(40).astype(float), "other": rng.normal(size=40)}
    # y brings more, the older the unit.
    values = np.stack([np.zeros(40), columns["age"] - 5], axis=1)
    tree = cobed.grow_tree(columns, values, ["x", "y"], 1, [limit])
    chosen = tree.choose(columns)
    used = limit.weights[chosen].sum()
    assert limit.least <= used <= limit.most
    assert abs(used - (12 if limit.most == 12 else 20)) <= 1  # bins are one or two units wide
    assert columns["age"][chosen == 1].min() > columns["age"][chosen == 0].max()


def test_limits_that_no_tree_keeps_are_told():
    columns = {"age": np.zeros(9)}
    limits = [Limit("3 to 5 of y", np.array([0, 1.0]), least=3, most=5)]
    with pytest.raises(ProblemError, match="No tree of this depth keeps to all limits at once: 3 to 5 of y"):
        cobed.grow_tree(columns, np.zeros((9, 2)), ["x", "y"], 2, limits)


def test_what_cannot_be_a_tree_is_told():
    with pytest.raises(ProblemError, match="at least one column"):
        cobed.grow_tree({}, np.zeros((3, 2)), ["x", "y"])
    with pytest.raises(ProblemError, match="finite expected reward"):
        cobed.grow_tree({"a": np.zeros(2)}, np.array([[0, np.nan], [0, 1]]), ["x", "y"])
    with pytest.raises(ProblemError, match="no tree of a policy"):
        Tree.from_json({"actions": ["x"], "tree": {"action": "y"}})


def test_sentences_join_what_is_asked_of_one_column():
    young, old = Question("age", at_most=30.0), Question("age", at_most=60.0)
    web, gone = Question("channel", names=("Web",), missing=False), Question("age", missing=True)
    tree = Tree(
        Split(old, Split(young, Leaf(0), Split(web, Leaf(1), Leaf(0))), Split(gone, Leaf(0), Leaf(1))), ("x", "y")
    )
    assert tree.sentences() == [
        "If age is at most 30: x.",
        "If age is above 30 and at most 60 and channel is Web: y.",
        "If age is above 30 and at most 60 and channel is not Web or missing: x.",
        "If age is missing: x.",
        "If age is above 60: y.",
    ]


def test_a_tree_comes_back_from_json_and_decides_the_same():
    columns = table(3)
    tree = cobed.grow_tree(columns, np.random.default_rng(3).normal(size=(60, 3)), ["x", "y's", 'z "'], 3)
    again = Tree.from_json(json.loads(json.dumps(tree.to_json())))
    assert again == tree
    assert again.choose(columns).tolist() == tree.choose(columns).tolist()


@pytest.mark.parametrize("seed", range(3))
def test_sql_decides_as_the_tree_does(seed):
    columns = table(seed)
    columns["new"] = np.array(["yes", "no"], object)[np.arange(60) % 2]
    spellings = {"new": {"yes": ("1", "yes"), "no": ("0", "no")}}
    values = np.random.default_rng(seed).normal(size=(60, 3)) + 2 * (columns["new"] == "yes")[:, None] * np.eye(3)[1]
    tree = cobed.grow_tree(columns, values, ["x", "it's y", "z"], 3, spellings=spellings)
    frame = pd.DataFrame(columns).assign(new=np.array(["Yes", "0"])[np.arange(60) % 2])
    with sqlite3.connect(":memory:") as database:
        frame.to_sql("targets", database, index=False)
        rows = database.execute(f"SELECT {tree.sql()} FROM targets").fetchall()
    database.close()
    assert list(itertools.chain(*rows)) == [tree.actions[place] for place in tree.choose(columns)]
