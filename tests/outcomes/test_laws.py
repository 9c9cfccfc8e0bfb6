"""Every registered outcome law keeps one contract: draws, density, mean, variance, information and cells agree."""

import importlib
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from cobed.errors import ModelError
from cobed.outcomes import NORMAL, Normal, base, law_named, laws, register

OUTSIDE = Path(__file__).parents[1] / "outside"
ETAS, SCALE, NUM = jnp.array([-1.5, -0.2, 0.9]), 0.7, 20_000
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


@pytest.fixture(params=[*(law.name for law in laws()), "exponential"])
def law(request, monkeypatch):
    """Each law in turn; that of the other package is known for one test."""
    if request.param == "exponential":
        monkeypatch.setattr(base._LAWS, "_parts", dict(base._LAWS._parts))
        monkeypatch.syspath_prepend(OUTSIDE)
        monkeypatch.delitem(sys.modules, "exponential", raising=False)
        importlib.import_module("exponential")
    return law_named(request.param)


def test_draws_have_the_mean_and_the_variance_of_the_law(law):
    draws = jax.vmap(lambda key: law.sample(key, ETAS, SCALE))(jr.split(jr.key(0), NUM))
    mean, variance = law.mean(ETAS), law.variance(ETAS, SCALE)
    # 4.5 standard errors, three etas: false alarm below 1 in 40,000 for each law.
    assert (jnp.abs(draws.mean(axis=0) - mean) < 4.5 * jnp.sqrt(variance / NUM)).all()
    squares = (draws - mean) ** 2
    assert (jnp.abs(squares.mean(axis=0) - variance) < 4.5 * squares.std(axis=0) / NUM**0.5).all()
    assert not law.refuses(np.asarray(draws, np.float64)).any()


def test_the_density_has_the_score_of_the_mean_and_the_stated_information(law):
    """E[score] = 0 and E[score^2] is the Fisher information at a certain eta: holds for the true density alone."""
    draws = jax.vmap(lambda key: law.sample(key, ETAS, SCALE))(jr.split(jr.key(1), NUM))
    score = jax.vmap(jax.vmap(jax.grad(lambda eta, y: law.log_density(y, eta, SCALE))), (None, 0))(ETAS, draws)
    error = score.std(axis=0) / NUM**0.5
    # 4.5 standard errors, three etas: false alarm below 1 in 40,000 for each law.
    assert (jnp.abs(score.mean(axis=0)) < 4.5 * error).all()
    information = law.information(ETAS, jnp.zeros(3), SCALE)
    squares = score**2
    # The curves that stand in for others are off by a twelfth at most.
    slack = 4.5 * squares.std(axis=0) / NUM**0.5 + information / 12
    assert (jnp.abs(squares.mean(axis=0) - information) < slack).all()


def test_densities_add_up_to_one(law):
    draws = law.sample(jr.key(3), jnp.zeros(100), SCALE)
    whole = bool((draws == jnp.round(draws)).all())
    cells = np.arange(200.0) if whole else np.arange(-12_000, 60_001) / 1000
    cells = cells[~law.refuses(cells)]
    # Where some draws are exactly zero, that is a probability of its own, and the density begins beside it.
    atom = np.zeros(3) if whole or not (draws == 0).any() else jnp.exp(law.log_density(jnp.zeros(3), ETAS, SCALE))
    cells = np.where((cells == 0) & (atom.max() > 0), 1e-6, cells)
    densities = jnp.exp(law.log_density(jnp.asarray(cells), ETAS[:, None], SCALE))
    total = atom + (jnp.sum(densities, axis=1) if whole else jnp.trapezoid(densities, cells, axis=1))
    # Heavy tails reach beyond the cells.
    np.testing.assert_allclose(total, 1.0, rtol=1e-3 if law.name == "student" else 1e-4)


def test_the_link_undoes_the_mean(law):
    for typical in (0.2, 0.8):
        assert float(law.mean(jnp.asarray(law.link(typical)))) == pytest.approx(typical, rel=1e-5)
        slope = jax.grad(law.mean)(jnp.asarray(law.link(typical)))
        assert float(slope) == pytest.approx(law.slope(typical), rel=1e-4)


@pytest.mark.parametrize(("mean", "std"), [(0.0, 0.5), (-1.0, 1.0)])
def test_expected_outcomes_are_near_the_averages_over_the_belief(law, mean, std):
    average = float(WEIGHTS @ np.asarray(law.mean(jnp.asarray(mean + std * NODES))))
    assert float(law.expected(jnp.asarray(mean), jnp.asarray(std**2))) == pytest.approx(average, rel=0.02, abs=0.02)


def test_a_drawn_column_suits_its_law_and_its_average_is_allowed(law):
    values = np.asarray(law.sample(jr.key(2), jnp.full(500, -0.3), SCALE), np.float64)
    assert law.suits(values)
    # Of a law with two predictors, the one with one is proposed.
    proposed = next(candidate for candidate in laws() if candidate.suits(values))
    assert proposed is law or (law.parts is not None and isinstance(law, type(proposed)))
    assert law.problem_of_typical(law.typical_of(values)) is None
    assert law.default_typical is None or law.problem_of_typical(law.default_typical) is None


def test_laws_are_static_in_compiled_code(law):
    """Hashable and found again by name, so that one law compiles once."""
    assert law_named(law.name) is law
    counted = []

    @jax.jit
    def mean(eta):
        counted.append(law)
        return law.mean(eta)

    mean(ETAS), mean(2 * ETAS)
    assert len(counted) == 1


def test_a_name_is_taken_once():
    with pytest.raises(ModelError, match="Each outcome law needs a name of its own; got 'normal'"):
        register(Normal())
    with pytest.raises(ModelError, match=r"no outcome law 'norma'\. Allowed: normal"):
        law_named("norma")
    assert NORMAL in laws()
