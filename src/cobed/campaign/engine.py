"""From a spec and encoded numbers to models, posteriors, designs and policies. The only part of a campaign that needs JAX."""

import dataclasses
import functools
import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.allowed import Allowed, Feasible
from cobed.budget import Budget, find_budget
from cobed.campaign.encoding import Encoding
from cobed.campaign.parts import DEFAULTS
from cobed.campaign.process import PROCESS_DRAWS, build_process, learn_process
from cobed.campaign.spec import CampaignSpec
from cobed.data import Data
from cobed.designers.cobed import design
from cobed.designers.known import DESIGNERS
from cobed.designers.result import DesignResult
from cobed.errors import CampaignError, ProblemError, SpecError
from cobed.inference import Conjugate, Scales, infer
from cobed.inference.base import AbstractInference, Posterior
from cobed.models.base import AbstractModel
from cobed.models.effects import EffectFeatures, EffectModel
from cobed.models.glm import LinearFeatures, linear_model
from cobed.models.net import NetReward
from cobed.models.numpyro import from_numpyro
from cobed.models.two_part import TwoPart
from cobed.optimum import AbstractOptimum, Enumeration, Grid
from cobed.outcomes import AbstractLaw, law_named
from cobed.problem import Problem
from cobed.progress import Reporter
from cobed.spaces import AbstractSpace

# Set to 1, it forbids to run the code that a spec names.
NO_PROGRAM = "COBED_NO_PROGRAM"
# Draws of psi that stand for what is known when a round is designed or a policy chosen.
DESIGN_DRAWS, POLICY_DRAWS = 16_384, 512
MAX_CANDIDATES = 1_000
# A quarter of the usual settings: of what takes longest, a quarter.
QUICK_SCALES = Scales(num_settings=8)
# Small batches are designed from several starts, because one unit on a poor action matters. Large ones from one.
MANY_UNITS = 100
# Prior deviations where the spec has some and not these: in log-odds or logarithms, or as shares of `outcome.spread`.
# From so many outcomes on, these say where they lie and how far apart, and not the spec.
ENOUGH_TO_SCALE = 10
DEFAULT_DEVIATIONS = {"baseline": 1.0, "context": 0.5, "action": 0.5, "interaction": 0.25}


def build_model(
    spec: CampaignSpec, encoding: Encoding, directory: Path | None = None, outcomes: np.ndarray | None = None
) -> AbstractModel:
    """The model of the spec for contexts encoded this way. `directory` is where a program's module is looked for first.

    Where deviations are learned, the outcomes so far say where these lie and how far apart.
    """
    return _in_money(spec, _outcome_model(spec, encoding, directory, outcomes))


def _in_money(spec: CampaignSpec, model: AbstractModel) -> AbstractModel:
    """The model with rewards as [value] says: decisions, designs and plans are then in net money."""
    if not spec.value.is_money:
        return model
    return NetReward(model, spec.value.outcome, *spec.value.amounts(model.action_space.entry_names))


def _outcome_model(
    spec: CampaignSpec, encoding: Encoding, directory: Path | None, outcomes: np.ndarray | None
) -> AbstractModel:
    context_dim = len(encoding.names(spec))
    if spec.model.program is not None:
        program = _import_program(spec.model.program, directory)
        return from_numpyro(program, spec.action.space).for_contexts(context_dim)
    if spec.model.family == "gp":
        return build_process(spec, encoding, spec.action.space)
    if not spec.prior.model_fields_set:
        return _learned_model(spec, encoding, outcomes)
    features = LinearFeatures(spec.action.space, context_dim)
    outcome, law = spec.outcome, spec.outcome.law
    scale, slope = outcome.spread or 1.0, law.slope(outcome.center)
    # Changes in units of the outcome become changes on the scale of the predictor.
    given = {
        name: value / slope if (value := getattr(spec.prior, name)) else share * scale
        for name, share in DEFAULT_DEVIATIONS.items()
    }
    mean = features.by_kind(law.link(outcome.center), 0, 0, 0)
    return linear_model(features, mean, features.by_kind(**given), law, scale)


def _learned_model(spec: CampaignSpec, encoding: Encoding, outcomes: np.ndarray | None) -> AbstractModel:
    """A linear predictor, with curves where the family has them, whose deviations are learned; of a law of two parts, two."""
    law, center, spread = spec.outcome.law, spec.outcome.center, spec.outcome.spread
    labels = encoding.labels(spec)
    frequencies = {} if spec.model.family == "auto" else {"num_frequencies": 0}
    columns = {name: len(entries) for name, entries in labels.items()}
    numbers = [name for name, column in spec.context.items() if column.is_number]
    features = EffectFeatures(spec.action.space, columns, encoding.center(spec), numbers, **frequencies)
    whole = _effects(features, law, (center, spread), outcomes)
    if law.parts is None:
        return whole
    whether, how_much = map(law_named, law.parts)
    amounts = None if outcomes is None else outcomes[outcomes > 0]
    any_at_all = None if outcomes is None else (outcomes > 0).astype(float)
    share = whether.default_typical or 0.5
    return TwoPart(
        _effects(features, whether, (share, None), any_at_all),
        _effects(features, how_much, (center / share, spread), amounts),
        whole,
    )


def _effects(
    features: EffectFeatures, law: AbstractLaw, typical: tuple[float, float | None], outcomes: np.ndarray | None
) -> EffectModel:
    """Outcomes of a law, around `typical` (center and spread) where these outcomes do not say it themselves."""
    center, spread = typical
    if outcomes is not None and len(outcomes) >= ENOUGH_TO_SCALE and np.ptp(outcomes) > 0:
        center, spread = law.typical_of(outcomes), float(np.std(outcomes))
    prior = features.prior(law.link(center), law.unit(center, spread), law.log_scale(center, spread))
    return EffectModel(features, law, prior)


def _import_program(text: str, directory: Path | None) -> Any:
    """The function that a spec names. To import it is to run the code of that file, so it is said, and can be refused."""
    module, _, name = text.partition(":")
    if os.environ.get(NO_PROGRAM, "0") not in ("", "0"):
        raise SpecError(
            f"model.program {text!r} is code of the spec's author, and --no-program (or {NO_PROGRAM}) forbids to run it."
        )
    folders = [str(folder.resolve()) for folder in (directory, Path.cwd()) if folder is not None]
    sys.path[:0] = folders
    try:
        _say_once(module)
        return getattr(importlib.import_module(module), name)
    except Exception as error:  # whatever the user's module raises
        raise SpecError(
            f"model.program {text!r} cannot be loaded: {type(error).__name__}: {error}. It is looked for in "
            f"{' and '.join(dict.fromkeys(folders))} and among the installed packages."
        ) from error
    finally:
        for folder in folders:
            sys.path.remove(folder)


@functools.cache
def _say_once(module: str) -> None:
    source = importlib.util.find_spec(module)
    if source is not None:
        print(f"cobed: running the code of {source.origin}, which model.program of the spec names.", file=sys.stderr)


def learn_from(
    spec: CampaignSpec, encoding: Encoding, directory: Path | None, data: Data | None, *, quickly: bool = False
) -> tuple[AbstractModel, Posterior]:
    """The model of the spec, and what is known about its psi after these outcomes. A Gaussian process holds them itself.

    `quickly` averages over fewer settings of the deviations: for what is learned several times to judge what was learned once.
    """
    outcomes = None if data is None else np.asarray(data.outcomes, np.float64)
    model = build_model(spec, encoding, directory, outcomes)
    if (process := model.process()) is not None and data is not None:
        learned, posterior = learn_process(spec, process, data)
        return _in_money(spec, learned), posterior
    method = spec.model.inference
    if quickly and method == DEFAULTS["sampler"] and data is not None and QUICK_SCALES.unfit(model, data) is None:
        method = QUICK_SCALES
    return model, posterior_of(model, data, spec.seed, method)


def posterior_of(
    model: AbstractModel, data: Data | None, seed: int, method: str | AbstractInference = "auto"
) -> Posterior:
    """What is known about psi after these outcomes, by a sampler or its name; the prior where there are none."""
    key = jr.key(seed)
    if data is None:
        # Functions are large; nothing is designed from these draws of them.
        num_draws = DESIGN_DRAWS if model.process() is None else PROCESS_DRAWS
        draws = jax.vmap(model.sample_prior)(jr.split(key, num_draws))
        return Posterior(draws, jnp.zeros(num_draws), "prior", reason="no outcome has come back yet.")
    exact = Conjugate(DESIGN_DRAWS)
    if method == "auto" and exact.unfit(model, data) is None:
        return dataclasses.replace(infer(model, data, exact, seed=key), reason="the posterior is known in closed form.")
    return infer(model, data, method, seed=key)


@dataclasses.dataclass(frozen=True)
class Batch:
    """Encoded contexts of the units to design for (D, C), of the targets (T, C), and what both may get."""

    contexts: np.ndarray
    targets: np.ndarray
    allowed: Allowed

    def problem(self, model: AbstractModel) -> Problem:
        return Problem(model, self.contexts, self.targets, allowed=self.allowed)


def allowed_batches(space: AbstractSpace, num_units: int, allowed: Allowed) -> Feasible:
    """The batches of so many units that are allowed; `CampaignError` where none is."""
    try:
        return Feasible.build(space, num_units, allowed)
    except ProblemError as error:
        raise CampaignError(str(error)) from error


def design_batch(
    spec: CampaignSpec,
    model: AbstractModel,
    posterior: Posterior,
    batch: Batch,
    seed: int,
    budget: str | Budget | None = None,
    progress: Reporter | None = None,
) -> DesignResult:
    """Allowed actions for the units of a batch that tell most about the best rewards at the targets, given what is known."""
    # Before any outcome the model's own prior has endless draws, and a process holds the outcomes itself.
    keeps_belief = posterior.method == "prior" or model.process() is not None
    problem = batch.problem((model if keeps_belief else model.given(posterior)).matched())
    if spec.design.designer != DEFAULTS["designer"]:
        return DESIGNERS.named(spec.design.designer)(problem, seed=seed)
    budget = find_budget(budget or spec.design.budget)
    if budget.num_starts is None and problem.num_contexts >= MANY_UNITS:
        budget = budget.replace(num_starts=1)
    about, objective = spec.design.about, spec.design.objective
    return design(problem, seed=seed, budget=budget, objective=objective, about=about, progress=progress)


def policy_optimum(space: AbstractSpace) -> AbstractOptimum:
    """Among what a policy chooses: every option; of numbers, a grid that holds the bounds.

    A hundred steps of one number: nobody sets a price finer than that, and the reward is flat around its maximum.
    """
    num_numbers = len(space.continuous)
    if num_numbers == 0:
        return Enumeration()
    if 3**num_numbers > MAX_CANDIDATES:
        raise SpecError(
            f"{num_numbers} numbers at once are too many for a policy: even 3 values of each are {3**num_numbers:,} "
            f"combinations, and {MAX_CANDIDATES:,} can be compared. Choose fewer numbers."
        )
    return Grid({1: 101, 2: 441}.get(num_numbers, MAX_CANDIDATES), num_refinements=0)


def candidate_actions(space: AbstractSpace) -> np.ndarray:
    """The actions a policy chooses among, (J, A)."""
    candidates = policy_optimum(space).candidates(space)
    assert candidates is not None
    return candidates
