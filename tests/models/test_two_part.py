"""Amounts with many zeros in two parts: learned apart, multiplied for decisions, and one predictor for designs."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import cobed
from cobed.campaign.campaign import Campaign
from cobed.models.effects import EffectFeatures, EffectModel
from cobed.models.two_part import TwoPart
from cobed.outcomes import BERNOULLI, GAMMA, HURDLE

OPTIONS = cobed.Discrete(["none", "coupon"])
SPEC = """name = "shop"
[units]
id = "id"
[context]
age = "numeric"
[action]
options = ["none", "coupon"]
[outcome]
column = "revenue"
likelihood = "hurdle"
[design]
budget = "smoke"
"""


def two_part() -> TwoPart:
    features = EffectFeatures(OPTIONS, {"x": 1}, num_frequencies=0)
    parts = [
        EffectModel(features, law, features.prior(law.link(center), 1.0, law.log_scale(center, None)))
        for law, center in ((BERNOULLI, 0.3), (GAMMA, 10.0), (HURDLE, 3.0))
    ]
    return TwoPart(*parts)


def purchases(num_rows: int, seed: int = 0) -> cobed.Data:
    """A coupon brings more buyers where x > 0, and smaller amounts everywhere."""
    rng = np.random.default_rng(seed)
    x, coupon = rng.normal(size=num_rows), rng.integers(0, 2, num_rows)
    buys = rng.random(num_rows) < 1 / (1 + np.exp(1.0 - 1.5 * x * coupon))
    amounts = np.where(coupon, 8.0, 12.0) * rng.gamma(4.0, 0.25, num_rows)
    return cobed.Data(x[:, None], np.eye(2)[coupon], buys * amounts)


def test_the_mean_is_the_chance_times_the_amount():
    model = two_part()
    psi = model.sample_prior(jr.key(0))
    context, action = jnp.array([0.5]), jnp.array([0.0, 1.0])
    whether, how_much = (part.mean_reward(p, context, action) for part, p in zip(model.parts(), psi, strict=True))
    assert model.mean_reward(psi, context, action) == pytest.approx(float(whether * how_much))
    draws = jax.vmap(lambda key: model.sample_outcome(key, psi, context, action))(jr.split(jr.key(1), 20_000))
    # 5 standard errors: false alarm below 1 in a million.
    assert abs(draws.mean() - whether * how_much) < 5 * draws.std() / 20_000**0.5
    assert abs((draws == 0).mean() - (1 - whether)) < 5 * 0.5 / 20_000**0.5
    # The density integrates to one: the mass at zero, and the rest along amounts.
    amounts = jnp.linspace(1e-4, 400.0, 200_001)
    logs = jax.vmap(lambda y: model.log_likelihood(psi, context, action, y))(amounts)
    mass = jnp.exp(model.log_likelihood(psi, context, action, jnp.array(0.0))) + jnp.trapezoid(jnp.exp(logs), amounts)
    assert float(mass) == pytest.approx(1, abs=0.02)


def test_each_part_is_learned_from_its_rows():
    model, data = two_part(), purchases(800)
    posterior = cobed.infer(model, data, seed=0)
    assert posterior.method == "two parts"
    draws = np.asarray(posterior.mean_outcomes(model, [[-1.5], [1.5]], [[0.0, 1.0]] * 2))
    truth = [8 / (1 + np.exp(1.0 + 2.25)), 8 / (1 + np.exp(1.0 - 2.25))]
    # Four posterior deviations, two numbers: false alarm below 1 in 10,000 of such tables.
    assert (np.abs(draws.mean(axis=0) - truth) < 4 * draws.std(axis=0)).all()
    policy = cobed.deploy(posterior, [[-1.5], [1.5]])
    assert policy.labels == ["none", "coupon"]
    assert (policy.low > 0).all()


def test_a_design_has_one_predictor_with_the_moments_of_both():
    model, data = two_part(), purchases(400)
    assert model.matched().law is HURDLE
    known = model.given(cobed.infer(model, data, seed=0))
    matched = known.matched()
    assert matched.prior_moments() is not None
    psi = np.asarray(matched.prior_moments()[0])
    context, action = jnp.array([0.3]), jnp.array([1.0, 0.0])
    whole = np.mean(
        [float(known.mean_reward(known.sample_prior(key), context, action)) for key in jr.split(jr.key(0), 200)]
    )
    assert float(matched.mean_reward(psi, context, action)) == pytest.approx(whole, rel=0.25)


def test_a_campaign_of_purchases_and_nothing_but_zeros(tmp_path):
    (tmp_path / "campaign.toml").write_text(SPEC)
    campaign = Campaign.create(tmp_path / "campaign.toml", tmp_path / "campaign.db")
    data = purchases(120, seed=1)
    actions = np.where(np.asarray(data.actions)[:, 1] > 0, "coupon", "none")
    rows = {"id": [f"u{i}" for i in range(120)], "age": np.asarray(data.contexts)[:, 0] * 10 + 40, "action": actions}
    import pandas as pd

    campaign.add_outcomes(pd.DataFrame(rows | {"revenue": np.asarray(data.outcomes)}))
    policy = campaign.deploy(pd.DataFrame({"id": ["a", "b"], "age": [25.0, 55.0]}))
    assert (policy["low"] >= 0).all()
    plan = campaign.recommend(pd.DataFrame({"id": ["n1", "n2", "n3", "n4"], "age": [20.0, 30, 50, 60]}))
    assert set(plan["action"]) <= {"none", "coupon"}
    nothing = cobed.Data(data.contexts, data.actions, np.zeros(120))
    assert (cobed.deploy(cobed.infer(two_part(), nothing, seed=0), [[0.0]]).expected < 1.0).all()
