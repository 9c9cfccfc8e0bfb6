"""What a plan recommends: to design, to assign at random, or to leave the experiment. Needs no JAX."""

import subprocess
import sys

import pytest

from cobed.campaign.verdict import Plan, Rounds, Size


def size(units, designed, random, error=0.001, rounds=()):
    return Size(units, (designed, error), (random, error), (designed - random, error), (), rounds)


def plan(*sizes, now=0.1, at_random=0.12):
    return Plan((now, 0.001), sizes, 500, (at_random, 0.001), "visit")


def test_a_design_is_recommended_where_it_beats_random_assignment_beyond_noise_and_by_an_amount_that_matters():
    """63 units remove .08 of the regret, .02 more than at random: a quarter."""
    verdict = plan(size(15, 0.07, 0.08), size(63, 0.02, 0.04)).verdict
    assert (verdict.kind, verdict.units, verdict.rounds) == ("design", 63, 1)
    assert verdict.more == pytest.approx((0.02, 0.001))
    # From 15 to 63 units log2 of 1 + units goes from 4 to 6; .04 lies 3 fifths of the way from .07 to .02.
    assert verdict.saved == pytest.approx(1 - (2**5.2 - 1) / 63)
    assert "0.02 ± 0.001 more visit per target than after random assignment" in verdict.sentences[0]
    assert "25% of what the experiment is worth" in verdict.sentences[0]


@pytest.mark.parametrize(
    ("random", "error", "words"),
    [
        (0.0219, 0.001, "no difference beyond the noise of 500 worlds"),  # 1.9 errors
        (0.0235, 0.0001, "4.4% of what the experiment is worth, too small to matter"),
        (0.0100, 0.001, "no difference beyond the noise"),  # the design is worse
    ],
)
def test_random_assignment_is_recommended_where_a_design_adds_nothing_or_too_little(random, error, words):
    verdict = plan(size(63, 0.02, random, error)).verdict
    assert verdict.kind == "random is enough"
    assert words in verdict.sentences[0]
    assert 'designer = "Random"' in verdict.sentences[1]


def test_noise_that_could_hide_an_advantage_is_told():
    assert "up to 0.013 per target: give more --worlds" in plan(size(63, 0.02, 0.025, 0.004)).verdict.sentences[-1]
    assert len(plan(size(63, 0.02, 0.0201, 0.0002)).verdict.sentences) == 2


def test_no_experiment_is_recommended_where_there_is_next_to_nothing_to_lose_or_to_gain():
    """Two percent of what actions at random lose, .12, are .0024."""
    known = Plan((0.002, 0.0001), (size(63, 0.001, 0.0015, 0.0001),), 500, (0.12, 0.001), "visit")
    assert known.verdict.kind == "stop"
    assert "1.7% of what actions at random would lose" in known.verdict.sentences[0]
    hopeless = Plan((0.1, 0.0003), (size(4, 0.099, 0.0995, 0.0003),), 500, (0.12, 0.001), "visit")
    assert hopeless.verdict.kind == "stop"
    assert "an experiment on 4 units brings next to nothing" in hopeless.verdict.sentences[0]
    # With more noise nobody can say so.
    noisy = Plan((0.1, 0.001), (size(4, 0.099, 0.0995, 0.001),), 50, (0.12, 0.001), "visit")
    assert noisy.verdict.kind == "random is enough"


@pytest.mark.parametrize(
    ("differences", "best"),
    [
        ({}, 1),
        ({2: (-0.004, 0.001)}, 2),
        ({2: (-0.0009, 0.001)}, 1),  # within one error of the lowest
        ({2: (-0.004, 0.001), 3: (-0.0045, 0.001)}, 2),
        ({2: (-0.001, 0.001), 3: (-0.006, 0.001)}, 3),
        ({2: (0.003, 0.001)}, 1),
    ],
)
def test_the_fewest_rounds_within_one_error_of_the_best_are_recommended(differences, best):
    rounds = tuple(Rounds(number, pair, 100) for number, pair in differences.items())
    verdict = plan(size(63, 0.02, 0.04, rounds=rounds)).verdict
    assert verdict.rounds == best
    assert verdict.more[0] == pytest.approx(0.02 - differences.get(best, (0.0, 0.0))[0])
    assert len(verdict.sentences) == 2 + len(differences)
    assert verdict.sentences[1].endswith(f"cobed design YOUR_TABLE --take {63 // best + 63 % best}")


def test_rounds_can_make_a_design_pay():
    one = size(63, 0.02, 0.0201)
    several = size(63, 0.02, 0.0201, rounds=(Rounds(2, (-0.01, 0.001), 100),))
    worse = size(63, 0.0202, 0.0201, rounds=(Rounds(2, (-0.01, 0.001), 100),))
    assert plan(one).verdict.kind == "random is enough"
    assert plan(worse).verdict.saved == 0
    assert "are saved" not in plan(worse).verdict.sentences[0]
    assert plan(several).verdict.kind == "design"
    assert plan(several).verdict.sentences[-1].startswith("In 2 rounds a target earns 0.01 ± 0.001 more than in one")


def test_no_more_units_are_recommended_than_bring_nearly_all():
    """50 units remove .075 of the regret, 93% of what 100 remove; 25 remove 75%."""
    sizes = [size(25, 0.04, 0.06), size(50, 0.025, 0.05), size(100, 0.02, 0.04)]
    assert plan(*sizes).verdict.units == 50


def test_a_verdict_needs_no_jax():
    code = "import sys, cobed.campaign.verdict, cobed.campaign.in_use; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
