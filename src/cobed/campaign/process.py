"""The family "gp": a Gaussian process over encoded contexts and actions, which takes the outcomes into itself."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.campaign.encoding import Encoding
from cobed.campaign.spec import CampaignSpec
from cobed.compilation import lean_jit
from cobed.data import Data
from cobed.errors import ModelError
from cobed.inference import GaussianProcessPosterior, infer
from cobed.inference.base import Posterior
from cobed.models.gaussian_process import FunctionDraw, GaussianProcess
from cobed.models.kernels import RBF, Matern
from cobed.spaces import AbstractSpace
from cobed.types import Array

# Draws that stand for what is known, in mirrored pairs.
PROCESS_DRAWS = 1_024
# By default outcomes stay alike over so many deviations of one context column. More columns are further apart, by the
# root of their number, and so are the lengths: otherwise no two units would have anything to do with each other.
CONTEXT_LENGTH = 2.0
ACTION_LENGTH = 1.0
# Hyper-parameters are fitted from so many outcomes for each of them on, to at most so many outcomes.
OUTCOMES_EACH, MAX_FITTED = 5, 1_000


def build_process(spec: CampaignSpec, encoding: Encoding, space: AbstractSpace) -> GaussianProcess:
    """The process of the spec before any outcome."""
    lengths = spec.model.lengths
    default = CONTEXT_LENGTH * np.sqrt(len(spec.context))
    entries = [lengths.get(name, default) for name, labels in encoding.labels(spec).items() for _ in labels]
    if (bounds := space.bounds()) is not None:
        halves = (bounds[1] - bounds[0]) / 2
        entries += [lengths.get(n, ACTION_LENGTH) * half for n, half in zip(spec.action.columns, halves, strict=True)]
    else:
        entries += [lengths.get(spec.action.column, ACTION_LENGTH)] * space.dim
    spread = spec.outcome.spread or 1.0
    variance = (spec.model.deviation or spread) ** 2
    kernel = Matern(2.5, entries, variance) if spec.model.kernel == "matern" else RBF(entries, variance)
    return GaussianProcess(
        kernel, space, len(encoding.names(spec)), spread, mean=spec.outcome.center, seed=spec.seed
    )  # fmt: skip


def learn_process(spec: CampaignSpec, model: GaussianProcess, data: Data) -> tuple[GaussianProcess, Posterior]:
    """The process given the outcomes, its hyper-parameters fitted to them where the spec asks for it, and draws of it."""
    model, note = _fitted(spec, model, data) if spec.model.fit else (model, "")
    key, check_key = jr.split(jr.key(spec.seed))
    # What looks wrong with the outcomes under this process.
    doubts = infer(model, data, GaussianProcessPosterior(128), seed=check_key).warnings
    whole = model.condition(data)
    draws = _mirrored(key, whole)
    reason = f"the posterior of a Gaussian process is known in closed form.{note}"
    return whole, Posterior(draws, jnp.zeros(PROCESS_DRAWS), "gaussian process", {}, doubts, reason)


def _fitted(spec: CampaignSpec, model: GaussianProcess, data: Data) -> tuple[GaussianProcess, str]:
    needed = OUTCOMES_EACH * (model.kernel.lengthscale.size + 2)
    if data.num_rows < needed:
        return model, f" Its lengths are those of the spec: fitting them needs {needed} outcomes."
    rows = np.random.default_rng(spec.seed).permutation(data.num_rows)[:MAX_FITTED]
    part = Data(data.contexts[rows], data.actions[rows], data.outcomes[rows])
    try:
        fitted = model.condition(part).fit(seed=spec.seed)
    except ModelError as error:
        return model, f" Its lengths are those of the spec: {error}"
    unconditioned = GaussianProcess(
        fitted.kernel, model.action_space, model.context_dim, fitted.noise_std, mean=model.mean, seed=model.seed
    )
    return unconditioned, f" Lengths, deviation and noise were fitted to {len(rows):,} outcomes."


@lean_jit
def _deviations(model: GaussianProcess, keys: Array) -> FunctionDraw:
    return jax.vmap(model.deviation)(keys)


def _mirrored(key: Array, model: GaussianProcess) -> FunctionDraw:
    """Draws in pairs around the mean: averages of rewards over them have no sampling error."""
    halves = _deviations(model, jr.split(key, PROCESS_DRAWS // 2))
    both = jax.tree.map(lambda half: jnp.concatenate([half, -half]), halves)
    return jax.vmap(model.add_mean)(both)
