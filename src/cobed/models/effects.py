"""Features of tables: contexts, curves, actions, and what changes the effect of an action, each with coefficients of its own.

    eta = b0 + b . x + s(x) + f(a) . u + f(a)^T (B x + S(x)) + w(a) . (v + V x),   x = context - center

f(a) of a named action is coded to sum to zero: u_k is the effect of option k against the average option. s and S are smooth
functions of all columns together, as random Fourier features of a squared-exponential kernel. w(a) are waves of a number, longer
ones first: an outcome may be best in a narrow range of it, and contexts move that range. Named actions have none. The last
number of psi is the logarithm of the law's scale; it has the feature 0.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm, qmc

from cobed.beliefs import AbstractBelief, Gaussian, Scaled
from cobed.models.base import AbstractBeliefModel, AbstractLikelihoodModel, LinearForm
from cobed.models.glm import LinearFeatures
from cobed.outcomes import AbstractLaw
from cobed.spaces import AbstractSpace
from cobed.types import Array, Float

NUM_FREQUENCIES = 32
# Cosines of each number, of which the m-th has m / 2 periods between the bounds.
NUM_WAVES = 6
# Medians of the deviations of each kind of effect, all columns together, in deviations of the outcome; and how far
# they may be from that, as deviations of their logarithm: all columns together, and each column beside the others.
MEDIANS = {
    "context": 0.3,
    "curves": 0.2,
    "action": 0.2,
    "interaction": 0.2,
    "curves of the action": 0.1,
    "curves in a number": 0.3,
    "curves in a number by context": 0.2,
}
SHARED, SEPARATE = 1.0, 0.7
# Of the average outcome around its center, in deviations of the outcome.
BASELINE = 3.0


class EffectFeatures(eqx.Module):
    """phi(c, a) of shape (P,): 1, contexts, curves, the action's own terms, these by contexts and curves, and a 0."""

    linear: LinearFeatures
    center: Float[np.ndarray, " C"]
    frequencies: Float[np.ndarray, "M C"]
    level: Float[np.ndarray, " M"]  # of the cosines on average, which is taken off
    columns: tuple[tuple[str, int], ...] = eqx.field(static=True)

    def __init__(
        self,
        action_space: AbstractSpace,
        columns: dict[str, int],
        center: Float[np.ndarray, " C"] | None = None,
        num_frequencies: int = NUM_FREQUENCIES,
    ):
        """`columns` says how many entries of a context each column of the table has; `center` (C,) where they lie on average."""
        context_dim = sum(columns.values())
        self.linear = LinearFeatures(action_space, context_dim)
        self.columns = tuple(columns.items())
        self.center = np.zeros(context_dim, np.float32) if center is None else np.asarray(center, np.float32)
        # Smooth over the usual distance of two units, whatever the number of columns.
        points = _normal_points(num_frequencies if columns else 0, context_dim)
        self.frequencies = (points / np.sqrt(max(len(columns), 1))).astype(np.float32)
        # A level has the variance p (1 - p); a number is scaled to 1.
        variances = np.where(self.center > 0, self.center * (1 - self.center), 1.0)
        self.level = np.exp(-0.5 * self.frequencies**2 @ variances).astype(np.float32)

    @property
    def action_space(self) -> AbstractSpace:
        return self.linear.action_space

    @property
    def context_dim(self) -> int:
        return self.linear.context_dim

    def __call__(self, context: Float[Array, " C"], action: Float[Array, " A"]) -> Float[Array, " P"]:
        x = context - self.center
        angles = self.frequencies @ x
        waves = jnp.concatenate([jnp.cos(angles) - self.level, jnp.sin(angles)]) / np.sqrt(max(len(self.level), 1))
        both = jnp.concatenate([x, waves])
        own, moved = self.linear.action_terms(action)
        if not self.action_space.continuous:
            # The effect against the average option, of deviation 1 in each option.
            num_options = self.action_space.dim
            own = moved = (own - jnp.sum(own) / num_options) * np.sqrt(num_options / (num_options - 1))
        bends = self.action_waves(action)
        met = jnp.outer(moved, both).ravel(), bends, jnp.outer(bends, x).ravel()
        return jnp.concatenate([jnp.ones(1), both, own, *met, jnp.zeros(1)])

    @property
    def num_waves(self) -> int:
        """Of an action: none of named options, and none without curves."""
        return NUM_WAVES * self.action_space.dim if self.action_space.continuous and len(self.level) else 0

    def action_waves(self, action: Float[Array, " A"]) -> Float[Array, " W"]:
        """cos(pi m t) / m with t from 0 to 1 between the bounds of each number."""
        if not self.num_waves:
            return jnp.zeros(0)
        _, unit = self.linear.action_terms(action)
        orders = np.arange(1, NUM_WAVES + 1)
        return (jnp.cos(jnp.pi * orders * (unit[:, None] + 1) / 2) * np.sqrt(2) / orders).ravel()

    def kinds(self) -> list[tuple[str, str]]:
        """The kind of effect of each coefficient, and the column of the table it is about or nothing; without the scale."""
        entries = [name for name, size in self.columns for _ in range(size)]
        waves = 2 * len(self.level)
        met = [("interaction", name) for name in entries] + [("curves of the action", "")] * waves
        return [
            ("baseline", ""),
            *(("context", name) for name in entries),
            *[("curves", "")] * waves,
            *[("action", "")] * self.linear.num_own,
            *met * self.action_space.dim,  # each of its entries meets the context
            *[("curves in a number", "")] * self.num_waves,
            *[("curves in a number by context", "")] * (self.num_waves * len(entries)),
        ]

    def is_curve(self) -> np.ndarray:
        """Which coefficients are of curves, (P,)."""
        return np.array([kind.startswith("curves") for kind, _ in self.kinds()] + [False])

    def prior(self, center: float, unit: float, log_scale: tuple[float, float]) -> Scaled:
        """The belief before data: coefficients around zero, whose deviations are to be learned.

        `center` is the predictor of an average unit and `unit` a deviation of outcomes, on the scale of the predictor;
        `log_scale` the mean and the deviation of the logarithm of the law's scale.
        """
        kinds = self.kinds()
        groups = {pair: place for place, pair in enumerate(dict.fromkeys(kinds))}
        medians = {"baseline": BASELINE, **MEDIANS}
        per_column = np.sqrt(max(len(self.columns), 1))
        shared = [kind for kind in MEDIANS if any(kind == name for name, _ in groups)]
        separate = [pair for pair in groups if pair[1]]
        directions = np.zeros((len(groups), len(shared) + len(separate)), np.float32)
        logs = np.zeros(len(groups), np.float32)
        for (kind, column), place in groups.items():
            spread_over = per_column if column or kind.endswith("by context") else 1.0
            logs[place] = np.log(unit * medians[kind] / spread_over)
            if kind in shared:
                directions[place, shared.index(kind)] = SHARED
            if column:
                directions[place, len(shared) + separate.index((kind, column))] = SEPARATE
        mean = np.zeros(len(kinds) + 1, np.float32)
        mean[0], mean[-1] = center, log_scale[0]
        curved = self.is_curve()
        families = {"linear": ~curved, **({"curves": np.ones_like(curved)} if curved.any() else {})}
        return Scaled(mean, [groups[pair] for pair in kinds], logs, directions, log_scale[1], families)

    def names(self, contexts: list[str], actions: list[str]) -> list[str]:
        """What each coefficient stands for; empty for curves and the scale, whose single numbers mean nothing to people."""
        waves = [""] * (2 * len(self.level))
        own = self.linear.names([], actions)[1:]
        met = [text for action in actions for text in (*(f"{action} by {name}" for name in contexts), *waves)]
        bends = [""] * (self.num_waves * (1 + len(contexts)))
        return ["baseline", *contexts, *waves, *own, *met, *bends, ""]


def _normal_points(num_points: int, dim: int) -> Float[np.ndarray, "N D"]:
    """The same evenly spread standard normal points each time."""
    if num_points == 0:
        return np.zeros((0, dim))
    points = (
        qmc.Sobol(dim, rng=0).random(num_points) if dim <= 1_000 else np.random.default_rng(0).random((num_points, dim))
    )
    return norm.ppf(np.clip(points, 1e-4, 1 - 1e-4))


class EffectModel(AbstractBeliefModel, AbstractLikelihoodModel):
    """Outcomes of a law around the predictor of `EffectFeatures`, whose deviations and scale are learned.

    psi is the flat vector of coefficients and the logarithm of the law's scale. `scale` is that before any outcome; it
    counts for all worlds where it is taken for known.
    """

    features: EffectFeatures
    belief: AbstractBelief
    law: AbstractLaw = eqx.field(static=True)
    scale: float = eqx.field(static=True)
    scale_known: bool = eqx.field(static=True)
    action_space: AbstractSpace
    context_dim: int = eqx.field(static=True)

    def __init__(self, features: EffectFeatures, law: AbstractLaw, belief: AbstractBelief, scale_known: bool = False):
        self.features, self.law, self.belief, self.scale_known = features, law, belief, scale_known
        # Of four digits, so that much the same scales share compiled programs.
        self.scale = float(f"{np.exp(self.prior_mean[-1]):.4g}")
        self.action_space, self.context_dim = features.action_space, features.context_dim

    def mean_reward(self, params, context, action):
        return self.law.mean(self.features(context, action) @ params)

    def linear_form(self):
        return LinearForm(self.features, self.law, self.scale, self.scale_known or not self.law.has_scale)

    def sample_outcome(self, key, params, context, action):
        return self.law.sample(key, self.features(context, action) @ params, self.scale_of(params))

    def log_likelihood(self, params, context, action, outcome):
        return self.law.log_density(outcome, self.features(context, action) @ params, self.scale_of(params))

    def scale_of(self, params: Float[Array, " P"]) -> Float[Array, ""] | float:
        """The law's scale in one world."""
        return self.scale if self.scale_known else jnp.exp(params[-1])

    def gaussian_noise(self):
        return self.scale if self.law.gaussian and self.scale_known else None

    def noise_in(self, params):
        return float(self.scale_of(params)) if self.law.gaussian else None

    def matched(self):
        """Without curves: designs and plans of a few coefficients take seconds, and curves are learned all the same."""
        moments = self.belief.matched()
        if moments is None:
            return self
        (mean, cov), kept = moments, ~self.features.is_curve()
        features = EffectFeatures(self.action_space, dict(self.features.columns), self.features.center, 0)
        return EffectModel(features, self.law, Gaussian(mean[kept], cov[np.ix_(kept, kept)]), scale_known=True)
