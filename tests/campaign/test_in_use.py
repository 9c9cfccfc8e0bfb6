"""What makes designs pay: `init` asks for it, and commands say how well the options in use are known. Needs no JAX."""

import pandas as pd
import pytest
from typer.testing import CliRunner

from cobed.campaign.campaign import Campaign
from cobed.campaign.in_use import how_well_known
from cobed.campaign.marks import round_marks
from cobed.campaign.spec import parse_spec, read_spec
from cobed.campaign.tables import read_table
from cobed.campaign.template import Situation, guess, template
from cobed.cli import app, prepare
from cobed.errors import SpecError

SPEC = """name = "spring"
[units]
id = "customer"
[context]
recency = "numeric"
[action]
column = "offer"
options = ["none", "5%", "10%"]
in_use = ["none", "5%"]
[outcome]
column = "visit"
likelihood = "bernoulli"
"""


def history(number, offer="none"):
    rows = range(number)
    return pd.DataFrame(
        {
            "customer": [f"h{offer}{i}" for i in rows],
            "recency": rows,
            "offer": offer,
            "visit": [i % 4 == 0 for i in rows],
        }
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "campaign.toml").write_text(SPEC)
    people = pd.DataFrame({"customer": [f"c{i}" for i in range(30)], "recency": [i * i % 11 for i in range(30)]})
    people.to_csv("customers.csv", index=False)
    people.assign(customer=people["customer"] + "t").to_csv("region.csv", index=False)
    return tmp_path


def test_options_in_use_without_outcomes_are_told_and_those_with_some_counted(folder):
    spec = parse_spec(SPEC)
    sentence, (warning,) = how_well_known(spec, None)
    assert sentence is None
    assert warning.startswith("'none' and '5%' are in use, and no outcome is stored.")
    assert "cobed observe history.csv" in warning
    assert "customer, recency, offer, visit" in warning
    campaign = Campaign.create(folder / "campaign.toml")
    campaign.add_outcomes(history(100))
    sentence, (warning,) = how_well_known(spec, campaign)
    # The average of 25 ones in 100: .25, with the deviation .433 and the error .0433.
    assert sentence == "In use: none, 100 outcome(s), visit 0.25 on average (90% interval 0.179 to 0.321)."
    assert warning.startswith("'5%' is in use")
    campaign.add_outcomes(history(4, "5%"))
    campaign.withdraw(["h5%0"])
    sentence, warnings = how_well_known(spec, campaign)
    assert sentence is not None
    assert "5%, 3 outcome(s), visit 0 on average." in sentence
    assert not warnings
    assert how_well_known(parse_spec(SPEC.replace('in_use = ["none", "5%"]\n', "")), campaign) == (None, [])


def test_check_says_how_well_options_in_use_are_known(folder):
    answer = CliRunner().invoke(app, ["check", "customers.csv"])
    assert answer.exit_code == 0
    assert "Warning: 'none' and '5%' are in use" in answer.output


def test_what_only_informs_can_be_changed_and_changes_no_round(folder):
    campaign = Campaign.create(folder / "campaign.toml")
    campaign.add_outcomes(history(4))
    other = SPEC.replace('in_use = ["none", "5%"]', "in_use = []") + "[design]\nrounds = 3\n"
    (folder / "campaign.toml").write_text(other)
    opened = Campaign.open(folder / "campaign.db", folder / "campaign.toml")
    assert (opened.spec.action.in_use, opened.spec.design.rounds) == ((), 3)
    bare = parse_spec(SPEC.replace('in_use = ["none", "5%"]\n', ""))
    assert round_marks(parse_spec(SPEC), "x") == round_marks(bare, "x") == round_marks(opened.spec, "x")


def test_an_option_in_use_that_is_no_option_is_told():
    with pytest.raises(SpecError, match="in_use names '20%', which is no option; allowed: none, 5%, 10%"):
        parse_spec(SPEC.replace('in_use = ["none", "5%"]', 'in_use = ["20%"]'))
    numbers = SPEC.replace('options = ["none", "5%", "10%"]', "numbers = { price = { low = 0, high = 1 } }")
    with pytest.raises(SpecError, match="allowed: none, where numbers are chosen"):
        parse_spec(numbers)


def test_init_writes_what_it_is_told(folder):
    answer = CliRunner().invoke(
        app,
        ["init", "new.toml", "--from", "customers.csv", "--in-use", "none", "--in-use", "5%, now", "--rounds", "3"],
    )
    assert answer.exit_code == 0, answer.output
    spec, _ = read_spec("new.toml")
    assert spec.action.in_use == ("none", "5%, now")
    assert spec.action.options == ("none", "5%, now", "something new")
    assert spec.design.rounds == 3


def test_init_asks_in_a_terminal_for_what_is_not_given_and_takes_nothing_for_an_answer(folder, monkeypatch):
    monkeypatch.setattr(prepare, "in_terminal", lambda: True)
    runner = CliRunner()
    answer = runner.invoke(app, ["init", "a.toml", "--from", "customers.csv"], input="region.csv\nnone , 5%\n2\n")
    assert answer.exit_code == 0, answer.output
    assert answer.output.count("(empty:") == 2
    spec, _ = read_spec("a.toml")
    assert (spec.action.in_use, spec.design.rounds) == (("none", "5%"), 2)
    answer = runner.invoke(app, ["init", "b.toml", "--from", "customers.csv"], input="\n\n\n")
    assert answer.exit_code == 0, answer.output
    spec, _ = read_spec("b.toml")
    assert (spec.action.in_use, spec.design.rounds) == ((), 1)
    given = ["--targets", "region.csv", "--in-use", "none", "--rounds", "1"]
    answer = runner.invoke(app, ["init", "c.toml", "--from", "customers.csv", *given], input="")
    assert answer.exit_code == 0, answer.output


def test_init_never_asks_without_a_terminal(folder):
    answer = CliRunner().invoke(app, ["init", "a.toml", "--from", "customers.csv"], input="")
    assert answer.exit_code == 0
    assert "How many rounds" not in answer.output


def test_the_options_of_a_history_are_in_use(folder):
    past = read_table(pd.concat([history(20), history(20, "5%")]), "history.csv")
    assert parse_spec(guess("x", past, "offer", "visit")).action.in_use == ("5%", "none")
    assert parse_spec(guess("x", past, "offer", "visit", Situation(in_use=["none"]))).action.in_use == ("none",)
    assert parse_spec(guess("x", past, "offer")).action.in_use == ()
    assert parse_spec(template("x", Situation(rounds=2))).design.rounds == 2
