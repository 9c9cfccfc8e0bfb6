"""Every quantity with a known value, estimated by the package: FACTS that closed forms give, one line each.

Each line ends in ok or NOT OK; the command exits with the number of those. Run: python benchmarks/oracles.py
"""

import itertools
import sys

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

import cobed
from cobed.bounds import infonce
from cobed.models.linear import LinearGaussian, linear_information

failures = 0


def line(name: str, found: str, exact: str, good: bool) -> None:
    global failures
    failures += not good
    print(f"{name}: {found}, exact {exact}: {'ok' if good else 'NOT OK'}", flush=True)


def features(context, action):
    """Units measure the coefficient their action names; at the targets the reward is a coefficient, whatever the action."""
    target_row = jnp.stack([1 - context[1], context[1]])
    return jnp.where(context[0] > 0.5, target_row, action)


def linear_problem(num_units: int) -> cobed.Problem:
    """Coefficients with sds (1, 1.5), noise 1: I(m*; y) = I(psi; y) = sum_k 1/2 log(1 + n_k s_k^2)."""
    model = LinearGaussian(features, [0.0, 0.0], [1.0, 2.25], cobed.Discrete(["first", "second"]), 2, 1.0)
    contexts = np.zeros((num_units, 2), np.float32)
    return cobed.Problem(model, contexts, np.array([[1.0, 0.0], [1.0, 1.0]], np.float32))


def main() -> None:
    problem = linear_problem(3)
    design = np.eye(2, dtype=np.float32)[[0, 1, 1]]
    exact = 0.5 * np.log(11)
    closed = linear_information(problem.model, problem.contexts, design)  # pyright: ignore[reportArgumentType]
    line("Linear-Gaussian, closed form", f"{closed:.6f}", f"{exact:.6f}", abs(closed - exact) < 1e-5)

    # Enough fresh batches for an error of 1 in 1,000.
    found = cobed.max_value_information(problem, design, budget=cobed.Budget(num_evaluation_batches=400), seed=0)
    below = found.value < exact + 3 * found.standard_error
    line(
        "Linear-Gaussian, CMV-EIG by a critic (below, within 3%)",
        str(found),
        f"{exact:.4f}",
        below and found.value > 0.97 * exact,
    )

    lower, upper = cobed.parameter_information(problem, design, num_outer=8_192, num_contrasts=8_192, seed=1)
    holds = (
        lower.value - 3 * lower.standard_error < exact < upper.value + 3 * upper.standard_error
        and upper.value - lower.value < 0.05
    )
    line("Linear-Gaussian, EIG(psi) between two bounds", f"{lower} and {upper}", f"{exact:.4f}", holds)

    best_of_six = linear_problem(6)
    rows = np.eye(2, dtype=np.float32)
    scores = {
        d: linear_information(best_of_six.model, best_of_six.contexts, rows[list(d)])  # pyright: ignore[reportArgumentType]
        for d in itertools.product([0, 1], repeat=6)
    }
    # The best two differ by .016 nats: the starts are ranked with an error well below that.
    result = cobed.design(
        best_of_six,
        seed=0,
        objective="infonce",
        budget=cobed.Budget(num_steps=800, num_starts=4, settle_steps=200, num_evaluation_batches=256),
    )
    reached = scores[tuple(int(a) for a in result.actions.argmax(axis=1))]
    line(
        "Linear-Gaussian, gradient ascent against all 64 designs",
        f"{reached:.5f}",
        f"best {max(scores.values()):.5f}",
        reached > max(scores.values()) - 1e-9,
    )

    rho, size = 0.9, 4_096
    exact = -0.5 * np.log(1 - rho**2)

    def bivariate(key):
        x_key, noise_key = jr.split(key)
        x = jr.normal(x_key, (size,))
        y = rho * x + np.sqrt(1 - rho**2) * jr.normal(noise_key, (size,))
        # log p(y | x) up to a function of y: the best critic there is
        return infonce(-((y[:, None] - rho * x[None, :]) ** 2) / (2 * (1 - rho**2)))

    values = np.asarray(jax.lax.map(bivariate, jr.split(jr.key(2), 50)), np.float64)
    error = values.std(ddof=1) / np.sqrt(len(values))
    line(
        "Bivariate normal, rho .9",
        f"{values.mean():.4f} ± {error:.4f}",
        f"{exact:.4f}",
        abs(values.mean() - exact) < 3 * error + 0.005,
    )

    exact = 0.1258037

    def coins(key):
        theta_key, y_key = jr.split(key)
        theta = jr.bernoulli(theta_key, 0.4, (size,)).astype(float)
        y = jr.bernoulli(y_key, (0.5 + theta) / 2).astype(float)
        chance = (0.5 + theta[None, :]) / 2
        return infonce(jnp.log(jnp.where(y[:, None] > 0, chance, 1 - chance)))

    values = np.asarray(jax.lax.map(coins, jr.split(jr.key(3), 200)), np.float64)
    error = values.std(ddof=1) / np.sqrt(len(values))
    line(
        "Two coins", f"{values.mean():.5f} ± {error:.5f}", f"{exact:.7f}", abs(values.mean() - exact) < 3 * error + 1e-3
    )

    few = linear_information(problem.model, problem.contexts[:2], design[:2])  # pyright: ignore[reportArgumentType]
    line("Adding a unit never tells less", f"{few:.4f} for 2 units", f"{closed:.4f} for 3", few <= closed)
    sys.exit(failures)


if __name__ == "__main__":
    main()
