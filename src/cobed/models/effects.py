"""Features of tables: contexts, curves, actions, and what changes the effect of an action, each with coefficients of its own.

    eta = b0 + b . x + g(x) + s(x) + f(a) . u + f(a)^T (B x + G(x) + S(x)) + w(a) . (v + V x),   x = context - center

f(a) of a named action is coded to sum to zero: u_k is the effect of option k against the average option. g and G are sums of
curves, one of each column of numbers: cosines of its normal rank. s and S are smooth functions of all columns together, as random
Fourier features of a squared-exponential kernel. w(a) are waves of a number, longer ones first: an outcome may be best in a
narrow range of it, and contexts move that range. Named actions have none. The last number of psi is the logarithm of the law's
scale; it has the feature 0.

Which of these terms a table needs is not known beforehand. Families of models have some of them each (`families`).
"""

from collections.abc import Collection

import equinox as eqx
import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np
from scipy.stats import norm, qmc

from cobed.beliefs import AbstractBelief, Gaussian, Scaled
from cobed.beliefs.base import Moments
from cobed.models.base import AbstractBeliefModel, AbstractLikelihoodModel, LinearForm
from cobed.models.glm import LinearFeatures
from cobed.outcomes import AbstractLaw
from cobed.spaces import AbstractSpace
from cobed.types import Array, Bool, Float

NUM_FREQUENCIES = 32
# Cosines of each column of numbers, and of each number of an action; the m-th has m / 2 periods.
NUM_CURVES, NUM_WAVES = 5, 6
# Medians of the deviations of each kind of effect, all columns together, in deviations of the outcome.
MEDIANS = {
    "context": 0.3,
    "curves": 0.2,
    "surface": 0.2,
    "action": 0.2,
    "interaction": 0.2,
    "curves of the action": 0.1,
    "surface of the action": 0.1,
    "waves": 0.3,
    "waves by context": 0.2,
}
# How far they may be from that, as deviations of their logarithm: each kind, each column in all kinds alike, because a column
# that matters for one thing matters for others too, and each column of each kind.
BY_KIND, BY_COLUMN, BY_BOTH = 1.0, 0.5, 0.3
# What a family of models leaves out, and its name for people. Where nothing is left out it has all.
FAMILIES = {
    "the same effect for all": ("interaction", "curves", "surface", "waves by context"),
    "lines": ("curves", "surface", "waves"),
    "curves of columns": ("surface",),
    "smooth surfaces": ("curves",),
}
# Of the average outcome around its center, in deviations of the outcome.
BASELINE = 3.0


class EffectFeatures(eqx.Module):
    """phi(c, a) of shape (P,): 1, contexts, curves, the action's own terms, these by contexts and curves, and a 0."""

    linear: LinearFeatures
    center: Float[np.ndarray, " C"]
    frequencies: Float[np.ndarray, "M C"]
    level: Float[np.ndarray, " M"]  # of the cosines on average, which is taken off
    columns: tuple[tuple[str, int], ...] = eqx.field(static=True)
    numbers: tuple[int, ...] = eqx.field(static=True)  # entries of a context that have a curve

    def __init__(
        self,
        action_space: AbstractSpace,
        columns: dict[str, int],
        center: Float[np.ndarray, " C"] | None = None,
        numbers: Collection[str] = (),
        num_frequencies: int = NUM_FREQUENCIES,
    ):
        """`columns` says how many entries of a context each column of the table has; `center` (C,) where they lie on average.

        `numbers` names the columns whose first entry is a number of deviation 1, so that it can have a curve. Without
        frequencies there are no curves and no surfaces.
        """
        context_dim = sum(columns.values())
        self.linear = LinearFeatures(action_space, context_dim)
        self.columns = tuple(columns.items())
        first = np.cumsum([0, *columns.values()])
        curved = numbers if num_frequencies else ()
        self.numbers = tuple(int(place) for name, place in zip(columns, first, strict=False) if name in curved)
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
        both = jnp.concatenate([x, self.curves(x), self.surface(x)])
        own, moved = self.linear.action_terms(action)
        if not self.action_space.continuous:
            # The effect against the average option, of deviation 1 in each option.
            num_options = self.action_space.dim
            own = moved = (own - jnp.sum(own) / num_options) * np.sqrt(num_options / (num_options - 1))
        waves = self.action_waves(action)
        met = jnp.outer(moved, both).ravel(), waves, jnp.outer(waves, x).ravel()
        return jnp.concatenate([jnp.ones(1), both, own, *met, jnp.zeros(1)])

    def curves(self, x: Float[Array, " C"]) -> Float[Array, " N"]:
        """cos(pi m Phi(x)) / m of each number."""
        ranks = jsp.ndtr(x[np.array(self.numbers, int)])
        return _cosines(ranks, NUM_CURVES)

    def surface(self, x: Float[Array, " C"]) -> Float[Array, " N"]:
        """Sines and cosines of all columns together, with the kernel exp(-|x - x'|^2 / 2) on average."""
        angles = self.frequencies @ x
        return jnp.concatenate([jnp.cos(angles) - self.level, jnp.sin(angles)]) / np.sqrt(max(len(self.level), 1))

    @property
    def num_waves(self) -> int:
        """Of an action: none of named options, and none without curves."""
        return NUM_WAVES * self.action_space.dim if self.action_space.continuous and len(self.level) else 0

    def action_waves(self, action: Float[Array, " A"]) -> Float[Array, " W"]:
        """cos(pi m t) / m with t from 0 to 1 between the bounds of each number."""
        if not self.num_waves:
            return jnp.zeros(0)
        _, unit = self.linear.action_terms(action)
        return _cosines((unit + 1) / 2, NUM_WAVES)

    def kinds(self) -> list[tuple[str, str]]:
        """The kind of effect of each coefficient, and the column of the table it is about or nothing; without the scale."""
        entries = [name for name, size in self.columns for _ in range(size)]
        curved = [entries[place] for place in self.numbers for _ in range(NUM_CURVES)]
        surface = [""] * (2 * len(self.level))
        alone = {"context": entries, "curves": curved, "surface": surface}
        met = {"interaction": entries, "curves of the action": curved, "surface of the action": surface}
        return [
            ("baseline", ""),
            *((kind, name) for kind, names in alone.items() for name in names),
            *[("action", "")] * self.linear.num_own,
            # Each entry of an action meets the context.
            *[(kind, name) for kind, names in met.items() for name in names] * self.action_space.dim,
            *[("waves", "")] * self.num_waves,
            *[("waves by context", "")] * (self.num_waves * len(entries)),
        ]

    def families(self) -> dict[str, Bool[np.ndarray, " P"]]:
        """By name, which coefficients a family of models has. The scale belongs to all."""
        kinds = [kind for kind, _ in self.kinds()]
        different: dict[bytes, tuple[str, np.ndarray]] = {}
        for name, left_out in FAMILIES.items():
            kept = np.array([not kind.startswith(left_out) for kind in kinds] + [True])
            # A family that has no more than an earlier one is none of its own.
            different.setdefault(kept.tobytes(), (name, kept))
        return dict(different.values())

    def is_curve(self) -> Bool[np.ndarray, " P"]:
        """Which coefficients are of anything but lines."""
        return np.array([kind.startswith(FAMILIES["lines"]) for kind, _ in self.kinds()] + [False])

    def prior(self, center: float, unit: float, log_scale: tuple[float, float]) -> Scaled:
        """The belief before data: coefficients around zero, whose deviations are to be learned.

        `center` is the predictor of an average unit and `unit` a deviation of outcomes, on the scale of the predictor;
        `log_scale` the mean and the deviation of the logarithm of the law's scale.
        """
        kinds = self.kinds()
        groups = {pair: place for place, pair in enumerate(dict.fromkeys(kinds))}
        medians = {"baseline": BASELINE, **MEDIANS}
        num_columns = max(len(self.columns), 1)
        # Effects of single columns add up over them.
        shares = [np.sqrt(num_columns) if column or kind == "waves by context" else 1.0 for kind, column in groups]
        logs = np.log([unit * medians[kind] / share for (kind, _), share in zip(groups, shares, strict=True)])
        directions: dict[tuple[str, str], np.ndarray] = {}
        for (kind, column), place in groups.items():
            moves = {(kind, ""): BY_KIND} if kind in MEDIANS else {}
            if column:
                moves |= {("", column): BY_COLUMN, (kind, column): BY_BOTH}
            for name, deviation in moves.items():
                directions.setdefault(name, np.zeros(len(groups), np.float32))[place] = deviation
        mean = np.zeros(len(kinds) + 1, np.float32)
        mean[0], mean[-1] = center, log_scale[0]
        steps = np.stack([*directions.values()], axis=1)
        members = [groups[pair] for pair in kinds]
        return Scaled(mean, members, logs, steps, log_scale[1], self.families(), ~self.is_curve())

    def names(self, contexts: list[str], actions: list[str]) -> list[str]:
        """What each coefficient stands for; empty for curves and the scale, whose single numbers mean nothing to people."""
        bent = [""] * (NUM_CURVES * len(self.numbers) + 2 * len(self.level))
        own = self.linear.names([], actions)[1:]
        met = [text for action in actions for text in (*(f"{action} by {name}" for name in contexts), *bent)]
        waves = [""] * (self.num_waves * (1 + len(contexts)))
        return ["baseline", *contexts, *bent, *own, *met, *waves, ""]


def _cosines(places: Float[Array, " N"], number: int) -> Float[Array, " M"]:
    """sqrt(2) cos(pi m t) / m for m from 1 to `number`, of each place t between 0 and 1: longer waves are larger."""
    orders = np.arange(1, number + 1)
    return (jnp.cos(jnp.pi * orders * places[:, None]) * np.sqrt(2) / orders).ravel()


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
        moments = self.belief.matched()
        return self if moments is None else self.without_curves(moments)

    def without_curves(self, moments: Moments) -> "EffectModel":
        """With the Gaussian of these moments of psi, and without curves: designs and plans of a few coefficients take seconds,
        and curves are learned all the same."""
        (mean, cov), kept = moments, ~self.features.is_curve()
        features = EffectFeatures(
            self.action_space, dict(self.features.columns), self.features.center, num_frequencies=0
        )
        return EffectModel(features, self.law, Gaussian(mean[kept], cov[np.ix_(kept, kept)]), scale_known=True)
