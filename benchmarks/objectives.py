"""Every objective on every problem: seconds of the design, exact regret with paired errors, information where known.

Worlds, noise and the sampler's luck are the same for all designs of a problem, so differences to `auto` are paired. The causal
graph is learned by the Lasso, its penalty cross-validated for each design, as in the paper. The worlds of gp-0 come from the
process given 100 rows that the design does not know: there designs of equal quality by their own prior differ by luck, so it has
more seeds than the others. With `--own-law` worlds come from the model of the design. An objective that is what `auto` picked is
not run again. The last lines say what the table must show and whether it does; the command exits with the number that do not.
Run: python benchmarks/objectives.py [--problems discrete continuous gp-100 gp-0 causal bandit] [--seeds 1] [--worlds N] [--own-law]
"""

import argparse
import itertools
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax.random as jr
import numpy as np
from discrete import values as exact_values

import cobed
from cobed.designers.baselines import UCB, AbstractBaseline, RandomCorners, RandomNormal, RandomUniform, Thompson
from cobed.designers.itl import TransductiveInformation
from cobed.designers.linear_bandit import Const, LargestNorm, SamplerPlanner
from cobed.designers.local_penalisation import LEVI, UCBLocalPenalisation
from cobed.inference.base import AbstractSampler
from cobed.metrics import Score
from cobed.models import AbstractModel
from cobed.reproduce import bandit, causal, continuous, discrete, gp
from cobed.reproduce.lasso import cross_validate

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
    sampler: Callable[[cobed.Problem, np.ndarray], AbstractSampler] | None = None
    num_seeds: int = 1
    # How InfoNCE is trained there, where not by default.
    infonce: dict[str, Any] = field(default_factory=dict)
    # The largest regret of `auto` that is wanted: a number, or a share of that of a baseline.
    wanted: float | tuple[float, str] | None = None


def process(n: int):
    def make(seed: int) -> tuple[cobed.Problem, AbstractModel]:
        data = gp.observational_data("confounded", 0)
        return gp.make_problem(data, n), gp.make_worlds(data)

    return make


# The critic and the rate of `cobed reproduce gp`.
CRITIC = {"network": gp.CRITIC, "budget": BUDGET.replace(design_rate=0.02)}
PENALISED = (UCBLocalPenalisation(), LEVI(), LEVI(penalised=True), TransductiveInformation())
CASES = {
    "discrete": Case(
        lambda seed: (discrete.make_problem(), None), (RandomUniform(), UCB(1.0), UCB(2.0), Thompson()), 20_000
    ),
    "continuous": Case(
        lambda seed: (continuous.make_problem(40), None),
        (RandomNormal(0.2), RandomNormal(1.0), UCB(0.0), UCB(1.0), Thompson()), 600, num_draws=256,
    ),
    "gp-100": Case(
        process(100), (RandomUniform(), Thompson(), UCB(2.0), *PENALISED), 3_000, infonce=CRITIC, wanted=0.212
    ),
    "gp-0": Case(process(0), (RandomUniform(), Thompson(), UCB(2.0), *PENALISED), 1_000, num_seeds=5, infonce=CRITIC),
    "causal": Case(
        lambda seed: (causal.make_problem(20), None),
        (RandomCorners(0.5), RandomCorners(0.667), RandomCorners(0.75), Thompson()), 3_000,
        sampler=lambda problem, actions: cross_validate(jr.key(0), problem, actions),
        wanted=(0.8, "Random_.5"),
    ),
    "bandit": Case(
        lambda seed: (bandit.make_problem(jr.key(seed), 10), None),
        (RandomUniform(), Const(), LargestNorm(), SamplerPlanner(), Thompson()), 20_000,
    ),
}  # fmt: skip


def run(
    name: str, case: Case, seeds: range, num_worlds: int, objectives: list[str], own_law: bool
) -> tuple[dict[str, list[Score]], list[cobed.DesignResult], list[float]]:
    """Prints the lines of one problem. The regrets of every method, one score a seed; designs and seconds of `auto`."""
    regrets: dict[str, list[Score]] = {}
    automatic: list[cobed.DesignResult] = []
    spent: list[float] = []
    for seed in seeds:
        problem, worlds = case.make(seed)
        worlds = None if own_law else worlds
        reference, picked = None, ""
        designers = [(objective, None) for objective in objectives] + [(b.name, b) for b in case.baselines]
        for method, baseline in designers:
            if method == picked:
                regrets.setdefault(method, []).append(regrets["auto"][-1])
                continue
            started = time.perf_counter()
            if baseline is None:
                options = {"budget": BUDGET, **(case.infonce if method == "infonce" else {})}
                result = cobed.design(problem, seed=seed, objective=method, **options)  # pyright: ignore[reportArgumentType]
            else:
                result = baseline(problem, seed=seed)
            seconds = time.perf_counter() - started
            sampler = case.sampler and case.sampler(problem, result.actions)
            scores = cobed.evaluate(
                problem, result.actions, num_worlds,
                num_draws=case.num_draws, sampler=sampler, worlds=worlds, seed=jr.key(100 + seed),
            )  # fmt: skip
            if method == "auto":
                picked = result.settings["objective"]
                automatic.append(result)
                spent.append(seconds)
            reference = reference or scores.regret
            regrets.setdefault(method, []).append(scores.regret)
            difference = cobed.paired_difference(scores.regret, reference)
            told = f"{result.settings['objective']}, {result.score}" if baseline is None else ""
            print(
                f"{name:10} seed {seed} {method:16} {seconds:6.1f} s  regret {scores.regret.mean:.5f}  "
                f"minus auto's {difference.mean:+.5f} ± {difference.standard_error:.5f}  {told}",
                flush=True,
            )
    return regrets, automatic, spent


def is_exact_optimum(design: np.ndarray) -> bool:
    """Whether the action numbers (D,) have the largest exact value of all designs over actions 1 and 2 of the discrete example."""
    every = np.array(list(itertools.product([0, 1], repeat=len(design))))
    return bool(exact_values(design[None])[0] >= exact_values(every).max() - 1e-9)


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
    parser.add_argument("--seeds", type=int, default=None)
    parser.add_argument("--worlds", type=int, default=None)
    parser.add_argument("--own-law", action="store_true")
    arguments = parser.parse_args()
    failures = 0

    def check(claim: str, good: bool) -> None:
        nonlocal failures
        failures += not good
        print(f"{claim}: {'ok' if good else 'NOT OK'}", flush=True)

    for name in arguments.problems:
        case = CASES[name]
        num_worlds = arguments.worlds or case.num_worlds
        seeds = range(arguments.seeds or case.num_seeds)
        found, automatic, spent = run(name, case, seeds, num_worlds, arguments.objectives, arguments.own_law)
        auto = found["auto"]
        worst, (mean, error) = max(
            ((method, pooled(auto, scores)) for method, scores in found.items() if method != "auto"),
            key=lambda pair: pair[1][0],
        )
        check(f"{name}: auto minus the best of the others ({worst}) {mean:+.5f} ± {error:.5f}", mean <= error)
        best = min(case.baselines, key=lambda b: pooled(found[b.name], auto)[0]).name
        for method in [m for m in arguments.objectives if m != "auto"]:
            mean, error = pooled(found[method], found[best])
            check(f"{name}: {method} minus the best baseline ({best}) {mean:+.5f} ± {error:.5f}", mean <= 2 * error)
        regret = np.mean([score.mean for score in auto])
        if isinstance(case.wanted, tuple):
            share, baseline = case.wanted
            ratio = regret / np.mean([score.mean for score in found[baseline]])
            check(f"{name}: auto has {ratio:.3f} of the regret of {baseline}, wanted {share}", ratio <= share)
        elif case.wanted is not None:
            check(f"{name}: regret of auto {regret:.4f}, wanted {case.wanted}", regret <= case.wanted)
        if case.wanted is not None:
            check(f"{name}: auto took {max(spent):.1f} s at most, wanted 30", max(spent) <= 30)
        if name == "discrete":
            good = all(is_exact_optimum(result.actions.argmax(axis=1)) for result in automatic)
            check("discrete: auto has the largest exact value of the 1,024 designs over actions 1 and 2", good)
        print(flush=True)
    sys.exit(failures)


if __name__ == "__main__":
    main()
