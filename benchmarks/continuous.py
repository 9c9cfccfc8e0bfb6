"""Continuous example, 40 contexts, variant `released`: how soon a good design is found, compilation included.

Each seed runs in a process of its own, so that each pays for its own compilation. Targets: EIG(psi) >= 8.8 within 15 s;
CMV-EIG >= 6.5 at batch 2048 within 120 s. Run: python benchmarks/continuous.py [--seeds 5]
"""

import argparse
import json
import subprocess
import sys
import time

import numpy as np

FAST = {"num_steps": 500, "warm_steps": 0, "batch_size": 512, "settle_steps": 0, "num_evaluation_batches": 1}


def one(seed: int, fast: bool) -> dict[str, float]:
    """Design once; seconds from the start of the work to its end, compiling included, importing not."""
    import jax.random as jr

    import cobed
    from cobed.models import continuous

    started = time.perf_counter()
    problem = cobed.Problem(cobed.models.ContinuousExample("released"), continuous.contexts(40), continuous.targets(40))
    result = cobed.design(problem, seed=seed, budget=cobed.Budget(**FAST) if fast else "quick", objective="infonce")
    # A fast run is done when it has a design; what the design tells is measured afterwards.
    seconds = time.perf_counter() - started - (result.seconds_evaluation if fast else 0.0)
    assert result.information is not None
    lower, upper = cobed.parameter_information(problem, result.actions, num_outer=512, seed=jr.key(1_000 + seed))
    return {
        "seconds": seconds,
        "cmv_eig": result.information.value,
        "cmv_eig_se": result.information.standard_error,
        "eig_lower": lower.value,
        "eig_lower_se": lower.standard_error,
        "eig_upper": upper.value,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--kinds", nargs="+", default=["fast", "quick"], choices=["fast", "quick"])
    parser.add_argument("--one", nargs=2, metavar=("SEED", "KIND"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one(int(arguments.one[0]), arguments.one[1] == "fast")))
        return
    for kind in arguments.kinds:
        rows = []
        for seed in range(arguments.seeds):
            command = [sys.executable, __file__, "--one", str(seed), kind]
            row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            rows.append(row)
            print(
                f"{kind}, seed {seed}: {row['seconds']:.1f} s, EIG(psi) between {row['eig_lower']:.3f} ± {row['eig_lower_se']:.3f} "
                f"and {row['eig_upper']:.3f}"
                + (f", CMV-EIG {row['cmv_eig']:.3f} ± {row['cmv_eig_se']:.3f}" if kind == "quick" else ""),
                flush=True,
            )
        for name in ("seconds", "eig_lower", *(["cmv_eig"] if kind == "quick" else [])):
            values = np.array([row[name] for row in rows])
            print(
                f"{kind}, {name}: mean {values.mean():.3f}, standard error {values.std(ddof=1) / np.sqrt(len(values)):.3f}"
            )


if __name__ == "__main__":
    main()
