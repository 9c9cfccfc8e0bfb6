"""Pareto-smoothed importance sampling of many rows at once (Vehtari, Simpson, Gelman, Yao & Gabry 2024), on the host.

`inference/importance.py` has the fit for one set of weights inside compiled code; here shapes differ from call to call, and
compiling takes longer than the work.
"""

import numpy as np

# Rows fitted together, and the fewest draws whose largest weights are worth a fit.
TOGETHER, FEWEST = 256, 25


def smoothed_weights(log_ratios: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights (n, M), which sum to one in each row, and the shape k of their tail (n,). Of few draws the raw ones, with k = 0."""
    weights = np.exp(log_ratios - log_ratios.max(axis=1, keepdims=True))
    num_rows, num_draws = weights.shape
    k = np.zeros(num_rows)
    if num_draws >= FEWEST:
        num_tail = int(np.ceil(min(0.2 * num_draws, 3 * np.sqrt(num_draws))))
        order = np.argsort(weights, axis=1)[:, -num_tail - 1 :]
        for start in range(0, num_rows, TOGETHER):
            rows = np.arange(start, min(start + TOGETHER, num_rows))[:, None]
            tail = weights[rows, order[rows[:, 0]]]
            weights[rows, order[rows[:, 0], 1:]], k[rows[:, 0]] = _smoothed(tail[:, 1:], tail[:, :1])
    return weights / weights.sum(axis=1, keepdims=True), k


def _smoothed(tail: np.ndarray, cutoff: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The expected order statistics of the law fitted to ascending weights (R, T) above a cutoff (R, 1), and its shape (R,)."""
    k, sigma = fit_generalised_pareto(tail - cutoff)
    usable = np.isfinite(k) & (sigma > 0)
    k_used, sigma_used = (np.where(usable, part, 1.0)[:, None] for part in (k, sigma))
    logs = -np.log1p(-(np.arange(tail.shape[1]) + 0.5) / tail.shape[1])
    near_zero = np.abs(k_used) < 1e-6
    steps = np.where(near_zero, logs, np.expm1(k_used * logs) / np.where(near_zero, 1.0, k_used))
    # No smoothed weight above the largest raw one.
    smooth = np.minimum(cutoff + sigma_used * steps, tail[:, -1:].max(initial=1.0))
    return np.where(usable[:, None], smooth, tail), k


def fit_generalised_pareto(excesses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shape k and scale sigma of a generalised Pareto law, (R,) each, by Zhang & Stephens (2009), for ascending excesses (R, T).

    The density is (1 + k x / sigma)^(-1/k - 1) / sigma. With b = -k / sigma the likelihood profiled over k is
    l(b) = T (log(-b / k(b)) - k(b) - 1), k(b) = mean log(1 - b x); b is averaged over a grid with weights exp l(b). Where all
    excesses are next to nothing the weights are even: k is minus infinity.
    """
    number = excesses.shape[1]
    num_grid = 30 + int(np.sqrt(number))
    even = excesses[:, -1] <= 1e-12
    quartile = excesses[:, int(number / 4 + 0.5) - 1]
    broken = ~even & (quartile <= 1e-12 * excesses[:, -1])
    x = np.where((even | broken)[:, None], np.linspace(0.1, 1.0, number), excesses)
    quartile, largest = x[:, int(number / 4 + 0.5) - 1, None], x[:, -1:]
    places = np.arange(1, num_grid + 1)
    b = 1 / largest + (1 - np.sqrt(num_grid / (places - 0.5))) / (3 * quartile)

    def shape(b: np.ndarray) -> np.ndarray:
        return np.log1p(-b[:, :, None] * x[:, None, :]).mean(axis=2)

    with np.errstate(invalid="ignore", divide="ignore"):
        profile = number * (np.log(-b / shape(b)) - shape(b) - 1)
    profile = np.where(np.isnan(profile), -np.inf, profile)
    likelihood = np.exp(profile - profile.max(axis=1, keepdims=True))
    middle = (likelihood * b).sum(axis=1) / likelihood.sum(axis=1)
    fitted = shape(middle[:, None])[:, 0]
    # Ten imagined observations of k = 1/2 steady the estimate in short tails.
    k = (number * fitted + 10 * 0.5) / (number + 10)
    return np.where(even, -np.inf, np.where(broken, np.inf, k)), -fitted / middle
