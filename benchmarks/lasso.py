"""The Lasso on 1,000 worlds of the causal graph against scikit-learn, one world after another and on all cores.

Both solve the same objective for the same outcomes; scikit-learn with its default tolerance, which is less accurate,
and with one that makes its coefficients at least as accurate as ours. Run: python benchmarks/lasso.py
"""

import os
import time

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from joblib import Parallel, delayed
from sklearn.linear_model import Lasso

from cobed.models import CausalGraph, causal
from cobed.reproduce.lasso import lasso

NUM_ACTIONS, NUM_WORLDS, PENALTY = 20, 1_000, 0.01


def make_worlds() -> tuple[np.ndarray, np.ndarray]:
    """Covariates (D, P) of random corners, and outcomes plus cost (W, D)."""
    model = CausalGraph(NUM_ACTIONS)
    contexts = causal.contexts(jr.key(0))
    actions = np.asarray(jr.bernoulli(jr.key(1), 0.5, (len(contexts), NUM_ACTIONS)), np.float32)
    slopes = (contexts[:, :, None] * actions[:, None, :]).reshape(len(contexts), -1)
    worlds = np.asarray(jax.vmap(model.sample_prior)(jr.split(jr.key(2), NUM_WORLDS))).reshape(NUM_WORLDS, -1)
    noise = model.noise_std * np.asarray(jr.normal(jr.key(3), (NUM_WORLDS, len(contexts))))
    return slopes, worlds @ slopes.T + noise


@jax.jit
def solve_all(slopes, outcomes):
    num_rows = slopes.shape[0]
    gram, moments = slopes.T @ slopes / num_rows, outcomes @ slopes / num_rows
    return lasso(gram, moments, PENALTY)[0]


def fit(slopes: np.ndarray, outcomes: np.ndarray, tolerance: float) -> np.ndarray:
    return Lasso(PENALTY, fit_intercept=False, tol=tolerance, max_iter=100_000).fit(slopes, outcomes).coef_


def timed(run) -> tuple[np.ndarray, float]:
    started = time.perf_counter()
    result = np.asarray(run())
    return result, time.perf_counter() - started


def main() -> None:
    slopes, outcomes = make_worlds()
    wide, wide_outcomes = slopes.astype(np.float64), outcomes.astype(np.float64)
    exact = np.stack([fit(wide, y, 1e-14) for y in wide_outcomes[:50]])
    device = jnp.asarray(slopes), jnp.asarray(outcomes)
    _, compiling = timed(lambda: solve_all(*device))
    runs = [timed(lambda: solve_all(*device)) for _ in range(5)]
    ours, seconds = runs[0][0], float(np.median([run[1] for run in runs]))
    print(f"{NUM_WORLDS} worlds, {slopes.shape[1]} coefficients, {slopes.shape[0]} rows, penalty {PENALTY}")
    print(f"cobed: {seconds:.3f} s (first call {compiling:.1f} s), largest error {np.abs(ours[:50] - exact).max():.1e}")
    cores = os.cpu_count() or 1
    for tolerance in (1e-4, 1e-8):
        one, alone = timed(lambda t=tolerance: [fit(wide, y, t) for y in wide_outcomes])
        with Parallel(n_jobs=cores) as pool:
            pool(delayed(abs)(1) for _ in range(cores))  # start the workers before the clock
            _, together = timed(lambda t=tolerance, p=pool: p(delayed(fit)(wide, y, t) for y in wide_outcomes))
        print(
            f"scikit-learn, tol={tolerance:g}: {alone:.2f} s alone ({alone / seconds:.0f} times ours), {together:.2f} s on "
            f"{cores} cores ({together / seconds:.0f} times), largest error {np.abs(one[:50] - exact).max():.1e}"
        )


if __name__ == "__main__":
    main()
