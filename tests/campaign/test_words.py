"""Numbers, amounts and dates as people say them."""

import pytest

from cobed.campaign.spec import parse_spec
from cobed.campaign.words import (
    Amounts,
    day,
    digits_for,
    number,
    policy_sentences,
    promise_sentences,
    reference_words,
    unit_words,
)

SPEC = """name = "spring"
[units]
id = "{unit}"
[context]
age = "numeric"
[action]
options = ["none", "mail"]
[outcome]
column = "{outcome}"
likelihood = "{law}"
"""
MONEY = '[value]\noutcome = 30.0\ncurrency = "EUR"\ncurrent = "none"\n'


def spec(unit="customer", outcome="visit", law="bernoulli", more=""):
    return parse_spec(SPEC.format(unit=unit, outcome=outcome, law=law) + more)


def part(mean, low, high):
    return {"mean": mean, "low": low, "high": high}


@pytest.mark.parametrize(
    ("value", "words"),
    [(0, "0"), (12, "12"), (0.12, "0.12"), (1234567.8, "1,234,568"), (9.28896, "9.29"), (-0.0001234, "-0.000123"), (1e-12, "0")],
)  # fmt: skip
def test_numbers_have_the_digits_that_are_read(value, words):
    assert number(value) == words


def test_intervals_carry_two_digits_of_their_width():
    assert [digits_for(0, width) for width in (4_000, 40, 4, 0.05)] == [0, 0, 1, 3]
    assert Amounts(spec(more=MONEY)).interval(part(0, -0.7518, 2.845)) == "between -752 and 2,845"


def test_days_are_written_out_and_other_texts_left_alone():
    assert day("2026-03-03T10:00:00+00:00") == "3 March 2026"
    assert day("long ago") == "long ago"


@pytest.mark.parametrize(
    ("column", "words"),
    [("customer", "customers"), ("customer_id", "customers"), ("PatientID", "patients"), ("id", "units"), ("kunde", "units")],
)  # fmt: skip
def test_units_are_called_by_their_column_where_it_says_what_they_are(column, words):
    assert unit_words(spec(column)) == words


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (spec(), "29 more visits per 1,000 customers than today, between 20 and 40"),
        (spec(outcome="answer"), "29 more 'answer' per 1,000 customers than today, between 20 and 40"),
        (spec(more=MONEY), "29 EUR more per 1,000 customers than today, between 20 and 40"),
        # Nobody adds up the temperatures of machines.
        (spec("machine", "heat", "normal"), "0.029 more 'heat' per machine than today, between 0.020 and 0.040"),
    ],
)
def test_a_gain_is_a_sentence_in_money_or_in_outcomes(given, words):
    assert Amounts(given).gain(part(0.029, 0.02, 0.04), "today") == words


def test_a_loss_is_told_as_one():
    assert Amounts(spec()).gain(part(-0.029, -0.04, 0.01)) == "29 fewer visits per 1,000 customers, between -10 and 40"


def test_a_single_action_that_the_budget_forbids_is_not_compared_with_in_silence():
    assert reference_words({"over_current": {}}) == ("over_current", "today")
    for budget, words in (({"single_allowed": False}, "does not allow"), ({}, "may not allow")):
        assert words in reference_words({"single": "mail", "budget": budget})[1]
    assert reference_words({"single": "mail", "budget": {"single_allowed": True}})[1].endswith("best single action")


def test_what_an_experiment_promises_is_told_in_outcomes_and_information_with_its_meaning():
    said = promise_sentences(spec(), {"score": [0.029, 0.0, "reward"]})
    assert said == ["After this experiment we expect 29 more visits per 1,000 customers than by what is known now."]
    (said,) = promise_sentences(spec(), {"score": [6.93, 0.1, "nats"]})
    assert "10 answers to questions between yes and no" in said
    assert promise_sentences(spec(), {}) == []


def test_a_policy_is_told_beside_simpler_ones():
    summary = {
        "rows": 10_000, "single": "mail", "p_best": 0.74, "value": part(9.289, 7.309, 10.738),
        "over_current": part(3.295, 1.156, 5.302), "over_single": part(1.463, -0.752, 2.845), "over_random": part(3.6, 1.3, 4.9),
    }  # fmt: skip
    said = "\n".join(policy_sentences(spec(more=MONEY), summary))
    assert "We expect 3,295 EUR more per 1,000 customers than today, between 1,156 and 5,302" in said
    assert "Gain over 'mail' for all, the best single action: 1,463 EUR more per 1,000 customers" in said
    assert "for all 10,000 together 92,890" in said
