"""Every objective on every problem: seconds of the design, exact regret with paired errors, information where known.

Worlds, noise and the sampler's luck are the same for all designs of a problem, so differences to `auto` are paired. The
last lines say what the table must show and whether it does; the command exits with the number that do not.
Run: python benchmarks/objectives.py [--problems discrete continuous gp-100 gp-0 causal bandit] [--seeds 1] [--worlds N]
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import jax.random as jr
import numpy as np

import cobed
from cobed.designers.baselines import UCB, AbstractBaseline, RandomCorners, RandomNormal, RandomUniform, Thompson
from cobed.designers.itl import TransductiveInformation
from cobed.designers.linear_bandit import Const, LargestNorm, SamplerPlanner
from cobed.designers.local_penalisation import LEVI, UCBLocalPenalisation
from cobed.metrics import Score
from cobed.models import AbstractModel
from cobed.reproduce import bandit, causal, continuous, discrete, gp

OBJECTIVES = ("auto", "value", "barber-agakov", "linear-gaussian", "infonce")
# Designs are compared by regret, so the network need not be settled for long.
BUDGET = cobed.Budget(settle_steps=100, num_evaluation_batches=8)


@dataclass
class Case:
    """A problem, the law of its worlds where that is another, and what it is compared with."""

    make: Callable[[int], tuple[cobed.Problem, AbstractModel | None]]
    baselines: tuple[AbstractBaseline, ...]
    num_worlds: int
    num_draws: int = 64
    limits: dict[str, float] = field(default_factory=dict)


def process(n: int):
    def make(seed: int) -> tuple[cobed.Problem, AbstractModel]:
        data = gp.observational_data("confounded", 0)
        return gp.make_problem(data, n), gp.make_worlds(data)

    return make


PENALISED = (UCBLocalPenalisation(), LEVI(), LEVI(penalised=True), TransductiveInformation())
CASES = {
    "discrete": Case(
        lambda seed: (discrete.make_problem(), None), (RandomUniform(), UCB(1.0), UCB(2.0), Thompson()), 20_000
    ),
    "continuous": Case(
        lambda seed: (continuous.make_problem(40), None),
        (RandomNormal(0.2), RandomNormal(1.0), UCB(0.0), UCB(1.0), Thompson()), 600, num_draws=256,
    ),
    "gp-100": Case(process(100), (RandomUniform(), Thompson(), UCB(2.0), *PENALISED), 3_000),
    "gp-0": Case(process(0), (RandomUniform(), Thompson(), UCB(2.0), *PENALISED), 3_000),
    "causal": Case(
        lambda seed: (causal.make_problem(20), None),
        (RandomCorners(0.5), RandomCorners(0.667), RandomCorners(0.75), Thompson()), 600,
    ),
    "bandit": Case(
        lambda seed: (bandit.make_problem(jr.key(seed), 10), None),
        (RandomUniform(), Const(), LargestNorm(), SamplerPlanner(), Thompson()), 20_000,
    ),
}  # fmt: skip


def run(name: str, case: Case, seeds: range, num_worlds: int, objectives: list[str]) -> dict[str, list[Score]]:
    """Prints the lines of one problem; the regrets of every method, one score a seed."""
    regrets: dict[str, list[Score]] = {}
    for seed in seeds:
        problem, worlds = case.make(seed)
        reference = None
        designers = [(objective, None) for objective in objectives] + [(b.name, b) for b in case.baselines]
        for method, baseline in designers:
            started = time.perf_counter()
            if baseline is None:
                result = cobed.design(problem, seed=seed, budget=BUDGET, objective=method)  # pyright: ignore[reportArgumentType]
            else:
                result = baseline(problem, seed=seed)
            seconds = time.perf_counter() - started
            scores = cobed.evaluate(
                jr.key(100 + seed), problem, result.actions, num_worlds, num_draws=case.num_draws, worlds=worlds
            )
            reference = reference or scores.regret
            regrets.setdefault(method, []).append(scores.regret)
            difference = cobed.paired_difference(scores.regret, reference)
            told = f"{result.settings['objective']}, {result.score}" if baseline is None else ""
            print(
                f"{name:10} seed {seed} {method:16} {seconds:6.1f} s  regret {scores.regret.mean:.5f}  "
                f"minus auto's {difference.mean:+.5f} ± {difference.standard_error:.5f}  {told}",
                flush=True,
            )
    return regrets


def pooled(scores: list[Score], others: list[Score]) -> tuple[float, float]:
    """Mean difference over seeds and worlds with its standard error."""
    pairs = [cobed.paired_difference(a, b) for a, b in zip(scores, others, strict=True)]
    mean = float(np.mean([pair.mean for pair in pairs]))
    if len(pairs) > 2:
        return mean, float(np.std([pair.mean for pair in pairs], ddof=1) / np.sqrt(len(pairs)))
    return mean, float(np.sqrt(np.mean([pair.standard_error**2 for pair in pairs]) / len(pairs)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--objectives", nargs="+", default=list(OBJECTIVES), choices=list(OBJECTIVES))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--worlds", type=int, default=None)
    arguments = parser.parse_args()
    failures = 0
    for name in arguments.problems:
        case = CASES[name]
        found = run(name, case, range(arguments.seeds), arguments.worlds or case.num_worlds, arguments.objectives)
        auto = found["auto"]
        worst, (mean, error) = max(
            ((method, pooled(auto, scores)) for method, scores in found.items() if method != "auto"),
            key=lambda pair: pair[1][0],
        )
        good = mean <= error
        failures += not good
        print(
            f"{name}: auto minus the best of the others ({worst}) {mean:+.5f} ± {error:.5f}: {'ok' if good else 'NOT OK'}"
        )
        for method in [m for m in arguments.objectives if m != "auto"]:
            best = min(case.baselines, key=lambda b: pooled(found[b.name], auto)[0]).name
            mean, error = pooled(found[method], found[best])
            good = mean <= 2 * error
            failures += not good
            print(
                f"{name}: {method} minus the best baseline ({best}) {mean:+.5f} ± {error:.5f}: {'ok' if good else 'NOT OK'}"
            )
        print(flush=True)
    sys.exit(failures)


if __name__ == "__main__":
    main()
