"""Exact posterior of a Gaussian process: function draws corrected at the points of the experiment.

    f | y = f_O + k_O(., X) (k_O(X, X) + s^2 I)^-1 (y - f_O(X) - s e)

with f_O a draw given the model's own observations O, k_O its covariance, and X the points of the experiment.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from scipy.stats import chi2

from cobed.beliefs import Process
from cobed.compilation import lean_jit
from cobed.errors import ProblemError
from cobed.inference.base import AbstractSampler, Draws, Posterior
from cobed.inference.conjugate import SURPRISE
from cobed.models.gaussian_process import FunctionDraw, GaussianProcess
from cobed.types import Array, Key


class GaussianProcessPosterior(AbstractSampler):
    """Exact draws, in pairs mirrored at the posterior mean: averages of rewards over the draws have no sampling error."""

    exact = True
    reason = "the posterior is Gaussian and known in closed form."
    num_draws: int = eqx.field(static=True, default=1024)

    def __check_init__(self):
        if self.num_draws < 2 or self.num_draws % 2:
            raise ProblemError(
                f"Draws of a Gaussian process come in pairs: num_draws must be even and at least 2, got {self.num_draws}."
            )

    @property
    def name(self) -> str:
        return "gaussian process"

    def for_worlds(self, num_draws):
        return GaussianProcessPosterior(2 * -(-num_draws // 2))

    def unfit(self, model, data):
        if model.process() is None:
            return f"{type(model).__name__} is not a cobed.models.GaussianProcess."
        return None

    def draw(self, key, model, data):
        model = model.process()
        # In single precision, for thousands of worlds of one design: the factors of the design are computed once for all.
        update = model.update(data.contexts, data.actions)
        zeros = jnp.zeros_like(data.outcomes)
        prior_mean = model.mean_draw()
        mean = model.correct(update, prior_mean, model.surprise(update, prior_mean, data.outcomes, zeros))

        def deviation(key: Key[Array, ""]) -> FunctionDraw:
            draw_key, noise_key = jr.split(key)
            draw, noise = model.deviation(draw_key), model.noise_std * jr.normal(noise_key, zeros.shape)
            # The outcomes of a process of mean zero are zero.
            return model.correct(update, draw, model.surprise(update, draw, zeros + model.mean, noise))

        return self.mirror(mean, jax.vmap(deviation)(jr.split(key, self.num_draws // 2)))

    def posterior(self, key, model, data):
        """Solved in double precision on the host."""
        self.require_fit(model, data)
        model = model.process()
        whole = model.condition(data)
        draws = _draw_of(self, key, model, whole)
        # The whitened residuals of the last rows are those of the experiment given the observations.
        start = model.num_observations
        whitener = np.asarray(whole.whitener[start:], np.float64)
        surprise = whitener @ (np.asarray(whole.outcomes, np.float64) - whole.mean)
        diagnostics = {
            "ess": float(self.num_draws),
            "prior_predictive_p": float(chi2.sf(surprise @ surprise, len(surprise))),
        }
        return Posterior(
            draws.params, draws.log_weights, self.name, diagnostics, self.judge(diagnostics), belief=Process(whole)
        )

    def judge(self, diagnostics):
        p = diagnostics.get("prior_predictive_p", 1.0)
        if p >= SURPRISE:
            return ()
        return (
            f"The process expected data at least this far off with probability {p:.1g}. The posterior is exact for the "
            "model as written: check the outcomes for errors of unit or sign, and the lengthscale, variance and noise "
            "(GaussianProcess.fit finds them from observations).",
        )

    def mirror(self, mean: FunctionDraw, deviations: FunctionDraw) -> Draws:
        """mean + each deviation, then mean - each, all at the points of the mean."""
        weights, coefficients, extra = (
            jnp.concatenate([centre + half, centre - half])
            for centre, half in (
                (0.0, deviations.weights),
                (mean.coefficients, deviations.coefficients),
                (mean.extra_coefficients, deviations.extra_coefficients),
            )
        )
        points = jnp.broadcast_to(mean.extra_points, (self.num_draws, *mean.extra_points.shape))
        draws = FunctionDraw(weights, coefficients, points, extra)
        return Draws(draws, jnp.zeros(self.num_draws), {"ess": jnp.asarray(float(self.num_draws))})


@lean_jit
def _draw_of(
    sampler: GaussianProcessPosterior, key: Key[Array, ""], model: GaussianProcess, whole: GaussianProcess
) -> Draws:
    """Draws of the process given all rows, as psi of the model, which has seen the first of them."""
    seen = model.num_observations
    mean, points = whole.mean_draw(), whole.points[seen:]
    halves = jax.vmap(whole.deviation)(jr.split(key, sampler.num_draws // 2))
    return sampler.mirror(
        mean._replace(
            coefficients=mean.coefficients[:seen], extra_points=points, extra_coefficients=mean.coefficients[seen:]
        ),
        halves._replace(coefficients=halves.coefficients[:, :seen], extra_coefficients=halves.coefficients[:, seen:]),
    )
