"""What a plan says: expected regret by size and by rounds, and whether designing pays. Needs no JAX.

Regret is what a target loses because the policy after the experiment is not the best one. What an experiment is worth is the regret
that it removes.
"""

import dataclasses
import math
from typing import Literal

import numpy as np

# A mean and its standard error.
Pair = tuple[float, float]
# From this share of what an experiment is worth on, the advantage of its design matters.
MATTERS = 0.05
# Below this share of what actions at random would lose, there is next to nothing to learn.
NEXT_TO_NOTHING = 0.02
# So many units are recommended as are worth this share of what the most are worth.
ENOUGH = 0.9


@dataclasses.dataclass(frozen=True)
class Rounds:
    """A designed experiment in so many rounds: its expected regret minus that of one round, paired over `num_worlds`."""

    number: int
    difference: Pair
    num_worlds: int = 0


@dataclasses.dataclass(frozen=True)
class Size:
    """Expected regret after an experiment on so many units, and the difference designed - random, each with its error.

    All that in one round; `rounds` says how much more or less is lost with several.
    """

    units: int
    designed: Pair
    random: Pair
    difference: Pair
    warnings: tuple[str, ...] = ()
    rounds: tuple[Rounds, ...] = ()

    @property
    def best_rounds(self) -> Rounds:
        """The fewest rounds whose regret is within one error of the lowest."""
        ladder = [Rounds(1, (0.0, 0.0)), *sorted(self.rounds, key=lambda rounds: rounds.number)]
        lowest, error = min(rounds.difference for rounds in ladder)
        return next(rounds for rounds in ladder if rounds.difference[0] <= lowest + error)

    @property
    def advantage(self) -> Pair:
        """How much more a target earns after the design, in the best number of rounds, than after random assignment."""
        more, error = self.best_rounds.difference
        return -self.difference[0] - more, math.hypot(self.difference[1], error)

    @property
    def lost(self) -> float:
        """The regret after the design in the best number of rounds."""
        return self.designed[0] + self.best_rounds.difference[0]


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Whether to design, to assign at random, or to leave the experiment; with how many units and rounds.

    `more` is what a target earns more after the design than after random assignment on as many units, `saved` the share of
    the units that a design in one round could do without and reach the same as random assignment.
    """

    kind: Literal["design", "random is enough", "stop"]
    units: int
    rounds: int
    more: Pair
    saved: float
    sentences: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Plan:
    """Expected regret by the number of units. `now` is that of the best policy without an experiment, `at_random` that of
    actions at random; `reward` says what all these are counted in."""

    now: Pair
    sizes: tuple[Size, ...]
    num_worlds: int
    at_random: Pair = (math.inf, 0.0)
    reward: str = "reward"
    notes: tuple[str, ...] = ()

    @property
    def warnings(self) -> list[str]:
        return list(dict.fromkeys([*self.notes, *(warning for size in self.sizes for warning in size.warnings)]))

    def random_needs(self, size: Size) -> float:
        """How many units random assignment needs for the designed regret of this size; infinite beyond the largest.

        Between the sizes of the plan regret is taken to fall linearly with log(1 + units).
        """
        return self._units_for(size.designed[0], [each.random[0] for each in self.sizes])

    def design_needs(self, size: Size) -> float:
        """How many units a design needs for the regret of random assignment on this size."""
        return self._units_for(size.random[0], [each.designed[0] for each in self.sizes])

    def _units_for(self, regret: float, curve: list[float]) -> float:
        units = np.log1p([0, *(size.units for size in self.sizes)])
        # Regret falls with more units; what noise makes rise is held level.
        regrets = np.minimum.accumulate([self.now[0], *curve])
        if regret < regrets[-1]:
            return float("inf")
        return float(np.expm1(np.interp(-regret, -regrets, units)))

    def sentences(self) -> list[str]:
        """What each size saves, in words; where noise hides it, that."""
        lines = []
        for size in self.sizes:
            mean, error = size.difference
            if abs(mean) < 2 * error:
                lines.append(f"{size.units:,} units: no difference beyond the noise of {self.num_worlds:,} worlds.")
                continue
            needs = self.random_needs(size)
            wanted = f"more than {self.sizes[-1].units:,}" if np.isinf(needs) else f"about {needs:,.0f}"
            lines.append(f"CO-BED with {size.units:,} units reaches what random assignment needs {wanted} for.")
        return lines

    @property
    def recommended(self) -> Size:
        """The fewest units whose design is worth nearly what the most are worth."""
        most = self.now[0] - min(size.lost for size in self.sizes)
        return next(size for size in self.sizes if self.now[0] - size.lost >= ENOUGH * most)

    @property
    def verdict(self) -> Verdict:
        """Whether designing beats random assignment, at the recommended size and in the number of rounds that pays."""
        size = self.recommended
        more, error = size.advantage
        worth = self.now[0] - size.lost
        nothing = self._nothing_to_learn()
        if nothing is not None:
            kind, sentences = "stop", nothing
        elif more < 2 * error or more < MATTERS * worth:
            kind, sentences = "random is enough", self._random_sentences(size, worth)
        else:
            kind, sentences = "design", self._design_sentences(size, worth)
        sentences = (*sentences, *self._rounds_sentences(size))
        return Verdict(kind, size.units, size.best_rounds.number, size.advantage, self._saved(size), sentences)

    def _saved(self, size: Size) -> float:
        return max(0.0, 1 - self.design_needs(size) / size.units)

    def _nothing_to_learn(self) -> list[str] | None:
        """Why no experiment is needed; None where one is."""
        stake, largest = self.at_random[0], self.sizes[-1]
        brings = self.now[0] - largest.lost, math.hypot(self.now[1], largest.designed[1])
        if self.now[0] + 2 * self.now[1] < NEXT_TO_NOTHING * stake:
            return [
                f"Stop: no experiment is needed. Without one the policy loses {amount(self.now)} {self.reward} per target "
                f"against the best one, {self.now[0] / stake:.1%} of what actions at random would lose."
            ]
        if brings[0] + 2 * brings[1] < NEXT_TO_NOTHING * stake:
            return [
                f"Stop: an experiment on {largest.units:,} units brings next to nothing, {amount(brings)} {self.reward} per "
                f"target. Actions at random would lose {amount(self.at_random)}, the policy without an experiment "
                f"{amount(self.now)}. Take many more units, or none."
            ]
        return None

    def _random_sentences(self, size: Size, worth: float) -> list[str]:
        more, error = size.advantage
        noise = more < 2 * error
        why = (
            f"no difference beyond the noise of {self.num_worlds:,} worlds"
            if noise
            else f"{more / worth:.1%} of what the experiment is worth, too small to matter"
        )
        sentences = [
            f"Random assignment is enough: on {size.units:,} units a design lets the policy earn {amount(size.advantage)} more "
            f"{self.reward} per target, {why}. The experiment itself is worth {worth:.3g}.",
            'To assign at random, write under [design] of campaign.toml: designer = "Random". Then: cobed design YOUR_TABLE',
        ]
        if noise and more + 2 * error > MATTERS * worth:
            sentences.append(
                f"The noise may hide an advantage of up to {more + 2 * error:.2g} per target: give more --worlds to see it."
            )
        return sentences

    def _design_sentences(self, size: Size, worth: float) -> list[str]:
        rounds, share = size.best_rounds.number, size.advantage[0] / worth if worth > 0 else 1.0
        said = (
            f"Design: {size.units:,} units in {_rounds(rounds)}. The policy then earns {amount(size.advantage)} more {self.reward} "
            f"per target than after random assignment on as many, {min(share, 1):.0%} of what the experiment is worth."
        )
        if (saved := self._saved(size)) > 0:
            said += (
                f" A design in one round needs about {self.design_needs(size):,.0f} units for what random assignment reaches "
                f"with {size.units:,}: {saved:.0%} are saved."
            )
        first = size.units - (rounds - 1) * (size.units // rounds)
        return [said, f"{'Begin' if rounds > 1 else 'Go on'} with: cobed design YOUR_TABLE --take {first}"]

    def _rounds_sentences(self, size: Size) -> list[str]:
        """What several rounds would bring, beside one."""
        sentences = []
        for tried in size.rounds:
            mean, error = tried.difference
            words = "more" if mean < 0 else "less"
            noise = "" if abs(mean) >= 2 * error else ", which may be noise"
            sentences.append(
                f"In {_rounds(tried.number)} a target earns {amount((abs(mean), error))} {words} than in one, over "
                f"{tried.num_worlds:,} of the worlds{noise}."
            )
        return sentences


def amount(pair: Pair) -> str:
    """A number with its error."""
    return f"{pair[0]:.3g} ± {pair[1]:.1g}"


def _rounds(number: int) -> str:
    return "one round" if number == 1 else f"{number} rounds"
