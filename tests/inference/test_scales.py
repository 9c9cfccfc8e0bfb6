"""Deviations and noise that are learned with the coefficients: averaged over rightly, and judged by rows left out."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import cobed
from cobed.beliefs import Mixture
from cobed.errors import ModelError
from cobed.inference.evidence import Fit
from cobed.inference.scales import Scales, stacked
from cobed.models.effects import EffectFeatures, EffectModel
from cobed.outcomes import BERNOULLI, NORMAL, POISSON
from cobed.spaces import Box, Discrete

OPTIONS = Discrete(["a", "b"])


def effect_model(law=NORMAL, columns=None, num_frequencies=0, center=0.0, unit=1.0, space=OPTIONS):
    columns = columns or {"x": 1}
    features = EffectFeatures(space, columns, numbers=columns, num_frequencies=num_frequencies)
    return EffectModel(features, law, features.prior(center, unit, law.log_scale(1.0, 1.0)))


def table(num_rows, reward, law=NORMAL, seed=0, dim=1, scale=0.5):
    """Units with contexts and actions at random, and outcomes around `reward(contexts, is_b)` on the predictor's scale."""
    rng = np.random.default_rng(seed)
    contexts, is_b = rng.normal(size=(num_rows, dim)).astype(np.float32), rng.integers(0, 2, num_rows)
    outcomes = law.sample(jr.key(seed), jnp.asarray(reward(contexts, is_b), jnp.float32), scale)
    return cobed.Data(contexts, np.eye(2, dtype=np.float32)[is_b], np.asarray(outcomes))


def fit_of(model, data):
    phi = jax.vmap(model.features)(data.contexts, data.actions)
    belief = model.unknown_scales()
    return Fit(model.law, belief, np.asarray(phi, float), np.asarray(data.outcomes, float), belief.families["lines"])


def test_the_mean_is_the_average_over_all_deviations_and_noises():
    """Against 20,000 settings drawn from the prior, each with its exact evidence and mean."""
    model, data = effect_model(), table(25, lambda c, b: 0.8 * c[:, 0] + b)
    whole = eqx.tree_at(lambda m: m.belief.families, model, {"all": np.ones(len(model.prior_mean), bool)})
    posterior = cobed.infer(whole, data, seed=0)
    assert posterior.method == "scales"
    fit, rng = fit_of(model, data), np.random.default_rng(1)
    logs, means = [], []
    for u in rng.normal(size=(20_000, fit.num_unknown)):
        deviations, log_scale = fit.setting(u)
        cov = (fit.rows * deviations**2) @ fit.rows.T + np.exp(2 * log_scale) * np.eye(25)
        logs.append(multivariate_normal.logpdf(fit.outcomes - fit.offset, cov=cov))
        means.append(deviations**2 * (fit.rows.T @ np.linalg.solve(cov, fit.outcomes - fit.offset)))
    weights = np.exp(logs - np.max(logs))
    weights /= weights.sum()
    reference = weights @ np.array(means)
    assert 1 / (weights**2).sum() > 300
    deviation = np.sqrt(weights @ (np.array(means) - reference) ** 2)
    spread = np.asarray(posterior.params)[:, :-1].std(axis=0)
    # 32 settings stand for all: their average is off by a part of what the settings differ, and that by a part of the rest.
    assert (np.abs(np.asarray(posterior.params).mean(axis=0)[:-1] - reference) < 0.35 * deviation + 0.05 * spread).all()


@pytest.mark.parametrize(("law", "slack"), [(NORMAL, 1e-3), (BERNOULLI, 0.03), (POISSON, 0.03)])
def test_a_row_is_predicted_as_if_it_had_not_been_there(law, slack):
    """log p(y_i | others, u) = log p(y | u) - log p(others | u): exact for normal outcomes, otherwise by the mode."""
    model = effect_model(law)
    data = table(40, lambda c, b: 0.6 * c[:, 0] * b - 0.2, law)
    u = np.zeros(fit_of(model, data).num_unknown)
    left_out = fit_of(model, data).component(u, u).left_out
    for row in (0, 7, 39):
        others = jax.tree.map(lambda leaf, row=row: jnp.delete(leaf, row, axis=0), data)
        whole, less = (fit.mode(*fit.setting(u)).value for fit in (fit_of(model, data), fit_of(model, others)))
        # Normal densities have a constant that the values of `mode` leave to the law.
        assert left_out[row] == pytest.approx(whole - less, abs=slack)


def test_a_policy_personalises_only_as_far_as_the_data_carry_it():
    contexts = np.random.default_rng(5).normal(size=(500, 3)).astype(np.float32)
    model = effect_model(columns={"x": 1, "y": 1, "z": 1})
    shares = []
    for interaction in (0.0, 1.5):
        data = table(300, lambda c, b, k=interaction: c[:, 1] + (0.5 + k * c[:, 0]) * b, dim=3, scale=1.0)
        policy = cobed.deploy(cobed.infer(model, data, seed=0), contexts)
        shares.append(np.mean([label == "b" for label in policy.labels]))
    assert shares[0] > 0.99
    # b is better where 0.5 + 1.5 x > 0: 63% of standard normal numbers.
    assert 0.5 < shares[1] < 0.75


def test_curves_are_taken_where_they_predict_better_and_the_share_is_told():
    model = effect_model(num_frequencies=16)
    bent = cobed.infer(model, table(200, lambda c, b: 2 * np.abs(c[:, 0]) * b), seed=0)
    straight = cobed.infer(model, table(200, lambda c, b: c[:, 0] * b), seed=0)
    bent_share, straight_share = (_share_of_curves(posterior) for posterior in (bent, straight))
    assert bent_share > 0.8
    assert f"{bent.diagnostics['share of curves of columns']:.0%} curves of columns" in bent.reason
    assert straight_share < bent_share


def _share_of_curves(posterior):
    return sum(posterior.diagnostics[f"share of {name}"] for name in ("curves of columns", "smooth surfaces"))


def test_families_have_their_own_coefficients_and_share_the_rest():
    features = EffectFeatures(OPTIONS, {"x": 1, "city": 3}, numbers=["x"], num_frequencies=4)
    kinds, families = np.array([kind for kind, _ in features.kinds()]), features.families()
    assert list(families) == ["the same effect for all", "lines", "curves of columns", "smooth surfaces"]
    left_out = {name: {*kinds[~kept[:-1]]} for name, kept in families.items()}
    assert left_out["curves of columns"] == {"surface", "surface of the action"}
    assert left_out["smooth surfaces"] == {"curves", "curves of the action"}
    assert left_out["lines"] == left_out["curves of columns"] | left_out["smooth surfaces"]
    assert left_out["the same effect for all"] == left_out["lines"] | {"interaction"}
    # Without curves two are left; without numbers there are no curves of columns.
    assert list(EffectFeatures(OPTIONS, {"x": 1}, num_frequencies=0).families()) == ["the same effect for all", "lines"]
    assert "curves of columns" not in EffectFeatures(OPTIONS, {"city": 3}, num_frequencies=4).families()


def test_shares_are_those_that_predict_best():
    rng = np.random.default_rng(0)
    good, bad = rng.normal(-1, 0.3, 100), rng.normal(-3, 0.3, 100)
    shares = stacked({"good": good, "bad": bad})
    assert shares["good"] == pytest.approx(101 / 102, abs=0.005)
    few = stacked({"good": good[:2], "bad": bad[:2]})
    assert 0.6 < few["good"] < 0.75  # at most 3 of 4: two rows decide for no family
    assert sum(shares.values()) == pytest.approx(1)


def test_the_scale_of_outcomes_does_not_matter():
    def actions(factor):
        data = table(100, lambda c, b: c[:, 0] * b)
        data = cobed.Data(data.contexts, data.actions, data.outcomes * factor)
        features = EffectFeatures(OPTIONS, {"x": 1}, num_frequencies=0)
        model = EffectModel(features, NORMAL, features.prior(0.0, factor, NORMAL.log_scale(0.0, factor)))
        return cobed.deploy(cobed.infer(model, data, seed=0), np.linspace(-2, 2, 41)[:, None]).labels

    assert actions(1.0) == actions(1e6) == actions(1e-4)


def test_the_posterior_is_a_mixture_with_exact_moments_and_the_same_for_the_same_seed():
    model, data = effect_model(), table(30, lambda c, b: c[:, 0] * b)
    first, second = (cobed.infer(model, data, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first.params, second.params)
    belief = first.as_belief()
    assert isinstance(belief, Mixture)
    mean, cov = belief.moments(jr.key(0))
    draws = jax.vmap(belief.sample)(jr.split(jr.key(0), 20_000))
    # 5 standard errors, seven numbers: false alarm below 1 in 100,000.
    error = np.sqrt(np.diagonal(cov) / 20_000)
    assert (np.abs(draws.mean(axis=0) - mean) < 5 * error + 1e-6).all()
    # Of 2,048 draws in mirrored pairs.
    np.testing.assert_allclose(np.cov(np.asarray(draws).T), cov, atol=0.12 * np.diagonal(cov).max())


@pytest.mark.parametrize("num_rows", [12, 40])
def test_more_coefficients_than_rows_are_learned_like_fewer(num_rows):
    """Both ways to the same Gaussian, compared entry by entry; 27 coefficients."""
    model = effect_model(BERNOULLI, num_frequencies=4)
    data = table(num_rows, lambda c, b: c[:, 0] * b, BERNOULLI)
    phi, belief = np.asarray(jax.vmap(model.features)(data.contexts, data.actions), float), model.unknown_scales()
    kept = np.ones(phi.shape[1], bool)
    fit = Fit(BERNOULLI, belief, phi, np.asarray(data.outcomes, float), kept)
    u = np.random.default_rng(0).normal(size=fit.num_unknown)
    value, slope, curvature = fit.slopes(u)
    fit.by_rows = not fit.by_rows
    fit.start = np.zeros_like(fit.start)
    np.testing.assert_allclose(fit.slopes(u)[0], value, rtol=1e-5)
    np.testing.assert_allclose(fit.slopes(u)[1], slope, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(fit.slopes(u)[2], curvature, rtol=1e-3, atol=1e-4)
    one = fit.component(u, u)
    fit.by_rows = not fit.by_rows
    other = fit.component(u, u)
    np.testing.assert_allclose(one.mean, other.mean, atol=1e-3)
    np.testing.assert_allclose(one.left_out, other.left_out, atol=1e-4)
    everything = np.arange(phi.shape[1])
    np.testing.assert_allclose(one.cov(everything), other.cov(everything), atol=1e-5)
    normals = np.eye(phi.shape[1])
    for part in (one, other):
        root = part.draw(normals)
        np.testing.assert_allclose(root.T @ root, part.cov(everything), atol=1e-8)


def test_a_design_uses_the_gaussian_of_the_same_moments():
    model, data = effect_model(), table(30, lambda c, b: c[:, 0] * b)
    known = model.given(cobed.infer(model, data, seed=0))
    matched = known.matched()
    for ours, theirs in zip(matched.prior_moments(), known.belief.moments(jr.key(0)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert matched.gaussian_noise() == pytest.approx(0.5, rel=0.5)
    curved = effect_model(num_frequencies=8).matched()
    assert curved.features.is_curve().sum() == 0
    np.testing.assert_allclose(curved.prior_moments()[1], model.matched().prior_moments()[1])
    assert model.matched().prior_moments() is not None


def test_numbers_to_choose_and_outcomes_that_are_all_alike():
    space = Box(0, 10, names=["dose"])
    model = effect_model(space=space)
    rng = np.random.default_rng(0)
    contexts, doses = rng.normal(size=(200, 1)).astype(np.float32), rng.uniform(0, 10, (200, 1)).astype(np.float32)
    best = 5 + 2 * contexts
    data = cobed.Data(contexts, doses, (-(((doses - best) / 5) ** 2))[:, 0] + 0.1 * rng.normal(size=200))
    policy = cobed.deploy(cobed.infer(model, data, seed=0), np.array([[-1.0], [1.0]]))
    np.testing.assert_allclose(policy.actions[:, 0], [3, 7], atol=1)
    alike = cobed.infer(model, cobed.Data(contexts, doses, np.zeros(200)), seed=0)
    assert np.isfinite(np.asarray(alike.params)).all()


def test_a_narrow_best_range_of_a_number_is_found_where_contexts_move_it():
    rng, space = np.random.default_rng(0), Box(0, 10, names=["dose"])
    contexts, doses = rng.uniform(-1, 1, (400, 1)).astype(np.float32), rng.uniform(0, 10, (400, 1)).astype(np.float32)

    def is_right(contexts, doses):
        best = 3 * np.exp(0.8 * contexts)
        return (np.abs(doses - best) < 0.25 * best)[:, 0]

    data, targets = cobed.Data(contexts, doses, is_right(contexts, doses)), np.linspace(-1, 1, 101)[:, None]
    shares = []
    for num_frequencies in (0, 8):
        posterior = cobed.infer(effect_model(BERNOULLI, num_frequencies=num_frequencies, space=space), data, seed=0)
        shares.append(is_right(targets, cobed.deploy(posterior, targets).actions).mean())
    assert _share_of_curves(posterior) > 0.9
    # The range is the wider, the larger the dose: no parabola is right on both of its sides.
    assert shares[1] > 0.97 > shares[0]


def test_many_rows_are_learned_from_by_one_setting_at_the_top():
    model = effect_model(BERNOULLI)
    few, many = (table(size, lambda c, b: 0.5 + 0.8 * c[:, 0] * b, BERNOULLI) for size in (60, 120_000))
    assert cobed.infer(model, few, seed=0).diagnostics["ess"] > 2
    posterior = cobed.infer(model, many, seed=0)
    assert posterior.diagnostics["ess"] == 1
    # The predictor at context 1 under option b is 0.5 + 0.8; 5 standard errors, false alarm below 1 in a million.
    eta = np.asarray(posterior.params) @ np.asarray(model.features(jnp.ones(1), jnp.array([0.0, 1.0])))
    assert abs(eta.mean() - 1.3) < 5 * eta.std()
    assert eta.std() < 0.05


def test_a_model_without_unknown_deviations_is_refused():
    model = cobed.models.LinearGaussian(lambda c, a: a, np.zeros(2), np.ones(2), OPTIONS, 1, 1.0)
    with pytest.raises(ModelError, match="deviations of LinearGaussian are not to be learned"):
        cobed.infer(model, table(10, lambda c, b: b), Scales(), seed=0)


@pytest.mark.slow
def test_the_posterior_agrees_with_nuts():
    """Expected rewards by NUTS on the same model, deviations and noise drawn with the coefficients."""
    import numpyro
    import numpyro.distributions as dist

    model, data = effect_model(BERNOULLI), table(120, lambda c, b: 0.5 + 0.8 * c[:, 0] * b, BERNOULLI)
    belief, phi = model.unknown_scales(), jax.vmap(model.features)(data.contexts, data.actions)[:, :-1]

    def program():
        u = numpyro.sample("u", dist.Normal(0, 1).expand([belief.directions.shape[1]]).to_event(1))
        z = numpyro.sample("z", dist.Normal(0, 1).expand([phi.shape[1]]).to_event(1))
        deviations = jnp.exp(belief.log_medians + belief.directions @ u)[jnp.array(belief.groups)]
        psi = numpyro.deterministic("psi", belief.mean[:-1] + deviations * z)
        numpyro.sample("y", dist.Bernoulli(logits=phi @ psi), obs=data.outcomes)

    chain = numpyro.infer.MCMC(numpyro.infer.NUTS(program, target_accept_prob=0.95), num_warmup=1000, num_samples=4000)
    chain.run(jr.key(0))
    reference = np.asarray(jax.nn.sigmoid(phi @ chain.get_samples()["psi"].T))
    posterior = cobed.infer(model, data, seed=0)
    ours = np.asarray(posterior.mean_rewards(model, data.contexts, data.actions)).T
    spread = reference.std(axis=1)
    assert np.abs(ours.mean(axis=1) - reference.mean(axis=1)).max() < 0.25 * spread.max()
    np.testing.assert_allclose(ours.std(axis=1), spread, rtol=0.35)


@pytest.mark.filterwarnings("error")
def test_thousands_of_rows_are_learned_from_by_few_settings_without_a_warning():
    """2,100 rows leave 23 of 32 settings, and Sobol's points are balanced in powers of two alone."""
    data = table(2_100, lambda c, b: 0.8 * c[:, 0] + b)
    fit = fit_of(effect_model(), data)
    assert len(fit.components(32, 0)) == 16
