"""Parts of another package (`tests/outside`), each one file, used by their names, and a whole campaign with all of them."""

import importlib
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import cobed
from cobed.inference.choice import SAMPLERS
from cobed.inference.conjugate import posterior_moments
from cobed.models import LinearGaussian
from cobed.objectives.kinds import OBJECTIVES

OUTSIDE = Path(__file__).parent / "outside"


@pytest.fixture
def outside(monkeypatch):
    """The modules of the other package, whose parts are known for one test."""
    monkeypatch.syspath_prepend(OUTSIDE)
    for registry, module in ((OBJECTIVES, "d_optimality"), (SAMPLERS, "resampling")):
        monkeypatch.setattr(registry, "_parts", dict(registry._parts))
        monkeypatch.delitem(sys.modules, module, raising=False)
        importlib.import_module(module)


def make_problem() -> cobed.Problem:
    model = LinearGaussian(lambda c, a: a * c[0], np.zeros(2), [1.0, 4.0], cobed.Discrete(["a", "b"]), 1, 0.5)
    return cobed.Problem(model, np.ones((3, 1)), np.ones((1, 1)))


@pytest.mark.usefixtures("outside")
def test_an_objective_of_another_package_is_climbed_by_its_name():
    """Rows of the second coefficient add to 1 + 16 n, of the first to 1 + 4 (3 - n): the product is largest at n = 2."""
    result = cobed.design(make_problem(), seed=0, budget="smoke", objective="d-optimality")
    assert result.method == "CO-BED (d-optimality)"
    np.testing.assert_array_equal(result.actions.sum(axis=0), [1, 2])
    assert result.score is not None
    assert result.score.value == pytest.approx(0.5 * np.log(33 * 5), rel=1e-4)


@pytest.mark.usefixtures("outside")
def test_a_sampler_of_another_package_is_used_by_its_name():
    problem = make_problem()
    data = cobed.Data(np.ones((3, 1)), np.eye(2)[[0, 1, 1]], [0.5, 1.0, 2.0])
    posterior = cobed.infer(problem.model, data, "resampling", seed=0)
    assert posterior.method == "resampling"
    mean, cov = posterior_moments(problem.model, data)
    # 1,000 of 20,000 weighted draws: 5 standard errors of 500 effective ones, false alarm below 1 in 500,000.
    assert np.all(np.abs(jnp.mean(posterior.params, axis=0) - mean) < 5 * np.sqrt(np.diag(cov) / 500))


def test_a_whole_campaign_runs_with_a_part_of_every_kind_from_another_package(tmp_path):
    """A law, an objective, a designer, a sampler, a kind of column, a rule, a card and a check, found by their entry points."""
    project = tomllib.loads((OUTSIDE / "pyproject.toml").read_text())["project"]
    groups = {"outcomes", "objectives", "designers", "samplers", "columns", "rules", "cards", "checks"}
    assert set(project["entry-points"]) == {f"cobed.{group}" for group in groups}
    info = tmp_path / "installed" / "waiting_times-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: waiting-times\nVersion: 1\n")
    points = [
        f"[{group}]\n" + "\n".join(f"{k} = {v}" for k, v in own.items())
        for group, own in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(points) + "\n")
    path = os.pathsep.join(map(str, (Path(cobed.__file__).parents[1], OUTSIDE, info.parent)))
    done = subprocess.run(
        [sys.executable, OUTSIDE / "whole_campaign.py"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    # Four of sixteen units got the rarer action, and this check wants ten.
    assert found["check"] == "look"
    assert found["objective"]["method"] == "CO-BED (d-optimality)"
    assert found["designer"]["method"] == "in turn"
    # The rule: a quarter of eight units at most. In turn, half of them would get a call.
    assert [found[part]["actions"].count("call") for part in ("objective", "designer")] == [2, 2]
    assert found["posterior"] == "resampling"
    assert set(found["policy"]) <= {"letter", "call"}
    assert found["page"]
