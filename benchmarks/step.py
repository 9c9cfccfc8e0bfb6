"""What a training step costs beyond its own matrix products, how often the loop compiles, and how long importing takes.

The products alone are the forward and backward passes of the critic's linear maps and of the score matrix, on arrays of
the same shapes, in a loop compiled the same way. Both loops are timed in turns in one run; the ratio of the medians is
printed. Run: python benchmarks/step.py
"""

import statistics
import subprocess
import sys
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

import cobed
from cobed.budget import make_optimiser
from cobed.models import continuous
from cobed.objectives import InfoNCE, Trainable, make_simulation
from cobed.policies import FreeDesign
from cobed.search import ascent

NUM_TURNS = 9


def scores(critic, outcomes, values):
    """The critic's matrix products and nothing else."""
    left = outcomes @ critic.outcome_layer.slopes
    for weight in critic.outcome_network.weights[1:]:
        left = left @ weight
    right = values
    for weight in critic.value_network.weights:
        right = right @ weight
    return left @ right.T


@eqx.filter_jit
def run_products(critic, outcomes, values, num_steps):
    """Forward and backward, also into the outcomes, as the design's gradient needs. Each turn feeds the next.

    The scores themselves are what is sent backward, so that no other work is needed to make a cotangent.
    """

    def body(_, carry):
        critic, outcomes = carry
        forward, backward = jax.vjp(lambda pair: scores(*pair, values), (critic, outcomes))
        return jax.tree.map(lambda a, g: a - 1e-15 * g, (critic, outcomes), *backward(forward))

    return jax.lax.fori_loop(0, num_steps, body, (critic, outcomes))


def ratio(name: str, batch_size: int, spec: cobed.Separable, problem: cobed.Problem, optimiser_name: str) -> None:
    budget = cobed.Budget(batch_size=batch_size, optimiser=optimiser_name).resolved(problem)
    objective = InfoNCE(make_simulation(jr.key(0), problem, budget)[0], spec)
    critic = objective.initial_network(jr.key(1))
    design = FreeDesign.initial(jr.key(2), problem.feasible)
    trainable = Trainable(design, critic)
    optimiser = make_optimiser(budget, 10_000)
    state = ascent.AscentState(trainable, optimiser.init(eqx.filter(trainable, eqx.is_inexact_array)), jnp.array(0))
    batch = objective.simulation.batch(design, jr.key(3), jnp.zeros(()))
    outcomes, values = batch.outcomes, objective.simulation.value_scale(batch.max_values)

    def step_loop():
        return ascent._run_chunk(objective, optimiser, state, jr.key(5), jnp.array(10_000))

    def product_loop():
        return run_products(critic, outcomes, values, jnp.array(ascent.CHUNK_STEPS))

    def seconds(loop):
        started = time.perf_counter()
        jax.block_until_ready(eqx.filter(loop(), eqx.is_array))
        return (time.perf_counter() - started) / ascent.CHUNK_STEPS

    seconds(step_loop), seconds(product_loop)
    traced = ascent.trace_count
    turns = [(seconds(step_loop), seconds(product_loop)) for _ in range(NUM_TURNS)]
    step, alone = (statistics.median(side) for side in zip(*turns, strict=True))
    print(
        f"{name}, {optimiser_name}: step {1e3 * step:.1f} ms, its matrix products alone {1e3 * alone:.1f} ms, "
        f"ratio {step / alone:.2f}; compiled again {ascent.trace_count - traced} times",
        flush=True,
    )


def import_seconds() -> None:
    for name, command in {
        "import cobed": [sys.executable, "-c", "import cobed"],
        "cobed --help": [sys.executable, "-c", "from cobed.cli import main; main()", "--help"],
        "an empty Python": [sys.executable, "-c", "pass"],
    }.items():
        times = []
        for _ in range(7):
            started = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            times.append(time.perf_counter() - started)
        print(f"{name}: {statistics.median(times):.2f} s")


def main() -> None:
    problem = cobed.Problem(cobed.models.ContinuousExample(), continuous.contexts(40), continuous.targets(40))
    paper = cobed.Separable(hidden=(80, 412, 256), embedding=32)
    small = cobed.Separable(hidden=(256, 256), embedding=32)
    for optimiser in ("adam", "muon"):
        ratio("batch 2048, paper's critic [80, 412, 256] -> 32", 2_048, paper, problem, optimiser)
        ratio("batch 512, critic [256, 256] -> 32", 512, small, problem, optimiser)
    ratio("batch 1024, default critic [128, 128] -> 32", 1_024, cobed.Separable(), problem, "muon")
    import_seconds()


if __name__ == "__main__":
    main()
