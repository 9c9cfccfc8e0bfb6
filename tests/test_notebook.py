"""The cards that notebooks show."""

import numpy as np
import pandas as pd

import cobed
from cobed.campaign.campaign import Campaign
from cobed.notebook import card


def test_a_card_is_escaped_and_shows_the_first_rows():
    shown = card("A <b>", {"why": "x < y"}, pd.DataFrame({"n": range(20), "v": [0.123456] * 20}), ["A note."])
    assert "A &lt;b&gt;" in shown
    assert "x &lt; y" in shown
    assert shown.count("<tr>") == 9
    assert "The first 8 of 20 rows." in shown
    assert "0.1235" in shown


def test_designs_posteriors_policies_and_campaigns_are_cards(linear_problem, tmp_path):
    design = cobed.Thompson()(linear_problem, seed=0)
    assert "Design by Thompson" in design._repr_html_()
    data = cobed.run_experiment(linear_problem, linear_problem.sample_world(0), design, seed=1)
    posterior = cobed.infer(linear_problem.model, data, seed=2)
    assert posterior.method in posterior._repr_html_()
    assert "what to do at each target" in cobed.deploy(posterior, np.asarray(linear_problem.targets))._repr_html_()
    (tmp_path / "campaign.toml").write_text(
        'name = "s <b>"\n[units]\nid = "id"\n[context]\nage = "numeric"\n[action]\noptions = ["a", "b"]\n'
        '[outcome]\ncolumn = "y"\nlikelihood = "bernoulli"\n'
    )
    campaign = Campaign.create(tmp_path / "campaign.toml")
    assert "s &lt;b&gt;" in campaign._repr_html_()
    campaign.close()
