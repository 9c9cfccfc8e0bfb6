"""A design that was really killed goes on in a new process, for every kind of model; one of something else is refused."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cobed
from cobed.errors import BudgetError, StorageError

sys.path.insert(0, str(Path(__file__).parent))
from resumable import CRITIC, KINDS, TINY, main, make_features

PROGRAM = Path(__file__).with_name("resumable.py")


def run(*arguments, hash_seed="0"):
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(
        [sys.executable, PROGRAM, *map(str, arguments)], capture_output=True, text=True, env=environment, check=False
    )


def test_every_kind_of_model_has_the_same_fingerprint_in_another_process(capsys):
    other = run("fingerprints", hash_seed="1")
    assert other.returncode == 0, other.stderr
    main("fingerprints")
    fingerprints = json.loads(capsys.readouterr().out)
    assert json.loads(other.stdout) == fingerprints
    assert len(set(fingerprints.values())) == len(KINDS)


SLOW = [pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind != "dose"]


@pytest.mark.parametrize("kind", ["dose", *SLOW])
def test_a_killed_process_goes_on_in_a_new_one_to_the_same_bits(kind, tmp_path, capsys):
    killed = run(kind, tmp_path, 2, hash_seed="1")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    resumed = run(kind, tmp_path, hash_seed="2")
    assert resumed.returncode == 0, resumed.stderr
    main(kind)
    *found, num_chunks = json.loads(resumed.stdout)
    *expected, num_whole = json.loads(capsys.readouterr().out)
    assert found == expected
    # Two of the three chunks of the ascent were not done again.
    assert (num_whole, num_chunks) == (3, 1)


def problem(features, rows=3, most=2.0):
    space = cobed.Box(0.0, 1.0)
    model = cobed.models.LinearGaussian(features, np.zeros(1), np.ones(1), space, 1, 0.5)
    allowed = cobed.Allowed(rules=[cobed.rules.MaxCost(most)], costs=[1.0])
    return cobed.Problem(model, np.ones((rows, 1)), -np.ones((1, 1)), allowed=allowed)


# Built by the test that asks, not where tests are collected.
PROBLEMS = {
    "first": lambda: problem(make_features(1)),
    "other": lambda: problem(make_features(2)),
    "larger": lambda: problem(make_features(1), rows=4),
    "cheaper": lambda: problem(make_features(1), most=1.0),
}
# No such objective takes this network: each call ends as soon as the directory is known to be its own.
ASKED = {"seed": 0, "budget": TINY, "objective": "barber-agakov", "network": CRITIC}


@pytest.fixture(scope="module")
def first_problem():
    return PROBLEMS["first"]()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 1}, r"What differs: seed \(0, now 1\)\. Give another checkpoint"),
        ({"problem": "cheaper"}, r"What differs: feasible\.most; feasible\.words\. "),
        ({"budget": TINY.replace(num_steps=2)}, r"What differs: budget\.num_steps \(150, now 2\)\. "),
        ({"network": cobed.Separable(hidden=(9,), embedding=4)}, r"What differs: network\.hidden\. "),
        ({"objective": "value"}, r"What differs: objective \('barber-agakov', now 'value'\)\. "),
        ({"about": "parameters"}, r"What differs: about \('max-values', now 'parameters'\)\. "),
        ({"problem": "other"}, r"What differs: model\.features \(function 'features'\)\. "),
        ({"problem": "larger"}, r"What differs: contexts; feasible\."),
    ],
)
def test_a_checkpoint_of_another_design_is_refused_by_the_part_that_differs(first_problem, tmp_path, changes, message):
    asked = {"problem": first_problem, **ASKED, "checkpoint": tmp_path}
    for _ in range(2):
        with pytest.raises(BudgetError, match="'barber-agakov' takes Density"):
            cobed.design(**asked)
    if "problem" in changes:
        changes = {"problem": PROBLEMS[changes["problem"]]()}
    with pytest.raises(StorageError, match=message):
        cobed.design(**asked | changes)


def test_a_checkpoint_of_an_earlier_version_is_refused(first_problem, tmp_path):
    (tmp_path / "start0-design.npz").write_bytes(b"as version 0.1.0 wrote it")
    with pytest.raises(StorageError, match=r"earlier version of cobed or damaged\. Give another checkpoint directory"):
        cobed.design(first_problem, **ASKED, checkpoint=tmp_path)
