"""Closed forms for the paper's bandit, where every feature vector has at most one entry that is not zero.

The entries of psi then stay independent, and the experiment adds phi^2 / sigma^2 to the precision of the entry it plays. At a
target the posterior means of the actions are products of independent normal variables, so that

    E max(0, X_1, ..., X_n) = integral over x > 0 of 1 - prod_p P(all X of entry p are below x)

is an integral over a line: exact to 1e-6, in double precision, for many designs at once.
"""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from scipy.special import ndtr

from cobed.designers.baselines import AbstractBaseline, RandomUniform, Thompson
from cobed.errors import ProblemError
from cobed.models import LinearBandit
from cobed.problem import Problem

NUM_NODES = 64
# The largest reward that counts, in standard deviations of the largest.
REACH = 8.0


class ExactReward:
    """The average deployed reward of designs of one bandit: what the decisions after the experiment earn on average."""

    def __init__(self, problem: Problem):
        model = problem.model
        if not isinstance(model, LinearBandit):
            raise ProblemError(f"The closed form is for a LinearBandit, and got {type(model).__name__}.")
        table, cov = np.asarray(model.table, np.float64), np.asarray(model.prior_cov, np.float64)
        if np.any(np.sum(table != 0, axis=2) > 1) or np.any(cov != np.diag(np.diag(cov))) or np.any(model.prior_mean):
            raise ProblemError(
                "The closed form needs features with one entry each and independent entries of psi with mean zero. "
                "cobed.evaluate serves every model."
            )
        self.table, self.variances, self.noise_std = table, np.diag(cov), model.noise_std
        self.contexts, self.targets = (np.asarray(c)[:, 0].astype(int) - 1 for c in (problem.contexts, problem.targets))
        # Nodes and weights on [0, REACH s], crowded at zero, where actions with small rewards decide.
        nodes, weights = np.polynomial.legendre.leggauss(NUM_NODES)
        unit = (nodes + 1) / 2
        top = REACH * np.max(np.abs(table) * np.sqrt(self.variances))
        self._nodes, self._weights = top * unit**3, top * 3 * unit**2 * weights / 2

    def of_actions(self, actions: np.ndarray) -> float:
        """The reward of a design (D, K), one-hot."""
        played = self.table[self.contexts, np.argmax(actions, axis=1)]
        return float(self.of_precisions(np.sum(played**2, axis=0)[None] / self.noise_std**2)[0])

    def of_everything(self) -> float:
        """E[mean_j m*_j]: the reward when psi is known, which no experiment exceeds."""
        return float(self.of_precisions(np.full((1, len(self.variances)), np.inf))[0])

    def of_precisions(self, precisions: np.ndarray) -> np.ndarray:
        """Rewards (N,) after experiments that add `precisions` (N, P) to those of the entries of psi."""
        # Var E[psi_p | y] = v - 1 / (1 / v + precision)
        std = np.sqrt(np.maximum(self.variances - 1 / (1 / self.variances + precisions), 0.0))
        rewards = np.zeros(len(precisions))
        for target in self.targets:
            below = np.ones((len(precisions), NUM_NODES))
            features = self.table[target]
            for entry in np.flatnonzero(np.any(features, axis=0)):
                # max_a phi_a w is below x where w is between -x / (largest -phi) and x / (largest phi).
                high, low = max(0.0, features[:, entry].max()), max(0.0, -features[:, entry].min())
                with np.errstate(divide="ignore", invalid="ignore"):
                    bounds = self._nodes / std[:, entry, None]
                    inside = ndtr(bounds / high) - (ndtr(-bounds / low) if low else 0.0)
                below *= np.where(std[:, entry, None] > 0, inside, 1.0)
            rewards += (1 - below) @ self._weights
        return rewards / len(self.targets)


class CoordinateExchange(AbstractBaseline):
    """The best design found by moving one unit to another action while the exact reward grows, from several starts.

    With `without`, counted from 1, some actions are not allowed.
    """

    without: tuple[int, ...] = ()
    num_starts: int = 4

    @property
    def name(self):
        return "Optimum" + (f" without {', '.join(map(str, self.without))}" if self.without else "")

    def actions(self, key, problem):
        exact = ExactReward(problem)
        # Actions without features are all alike: the first of them stands for all.
        useful = np.any(exact.table, axis=(0, 2))
        useful[np.argmin(useful)] = True
        allowed = [int(a) for a in np.flatnonzero(useful) if a + 1 not in self.without]
        climbs = [self._climb(exact, np.asarray(start), allowed) for start in self._starts(key, problem, allowed)]
        best = max(climbs, key=lambda pair: pair[0])[1]
        return jax.nn.one_hot(jnp.asarray(best), exact.table.shape[1])

    def _starts(self, key, problem: Problem, allowed: list[int]):
        designers = [Thompson(problem.optimum), RandomUniform()]
        for i, start_key in enumerate(jr.split(key, self.num_starts)):
            chosen = np.argmax(np.asarray(designers[i % 2].actions(start_key, problem)), axis=1)
            yield np.where(np.isin(chosen, allowed), chosen, allowed[0])

    def _climb(self, exact: ExactReward, chosen: np.ndarray, allowed: list[int]) -> tuple[float, np.ndarray]:
        gains = exact.table**2 / exact.noise_std**2  # (N, K, P)
        precision = gains[exact.contexts, chosen].sum(axis=0)
        value = exact.of_precisions(precision[None])[0]
        while True:
            # Units of one context are alike: one of those that play an action stands for all.
            pairs = np.stack([exact.contexts, chosen], axis=1)
            _, units = np.unique(pairs, axis=0, return_index=True)
            moves = [(unit, action) for unit in units for action in allowed if action != chosen[unit]]
            unit, action = np.array(moves).T
            context = exact.contexts[unit]
            tried = precision + gains[context, action] - gains[context, chosen[unit]]
            values = exact.of_precisions(np.maximum(tried, 0.0))
            best = int(np.argmax(values))
            if values[best] <= value + 1e-9:
                return float(value), chosen
            chosen = chosen.copy()
            chosen[unit[best]], precision, value = action[best], tried[best], values[best]
