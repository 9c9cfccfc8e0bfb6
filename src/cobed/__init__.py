"""Which action to try on whom, before you know what works.

Names are loaded when first used, so that importing cobed does not import JAX. docs/api.md has an example of each.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from cobed import beliefs as beliefs
    from cobed import errors as errors
    from cobed import models as models
    from cobed import outcomes as outcomes
    from cobed import rules as rules
    from cobed.allowed import Allowed as Allowed
    from cobed.budget import Budget as Budget
    from cobed.campaign.campaign import Campaign as Campaign
    from cobed.critics import Joint as Joint
    from cobed.critics import Separable as Separable
    from cobed.data import Data as Data
    from cobed.decide import Policy as Policy
    from cobed.decide import Tree as Tree
    from cobed.decide import deploy as deploy
    from cobed.decide import grow_tree as grow_tree
    from cobed.densities import Density as Density
    from cobed.designers.baselines import UCB as UCB
    from cobed.designers.baselines import RandomCorners as RandomCorners
    from cobed.designers.baselines import RandomNormal as RandomNormal
    from cobed.designers.baselines import RandomUniform as RandomUniform
    from cobed.designers.baselines import Thompson as Thompson
    from cobed.designers.cobed import design as design
    from cobed.designers.itl import TransductiveInformation as TransductiveInformation
    from cobed.designers.linear_bandit import Const as Const
    from cobed.designers.linear_bandit import LargestNorm as LargestNorm
    from cobed.designers.linear_bandit import SamplerPlanner as SamplerPlanner
    from cobed.designers.local_penalisation import LEVI as LEVI
    from cobed.designers.local_penalisation import UCBLocalPenalisation as UCBLocalPenalisation
    from cobed.designers.result import DesignResult as DesignResult
    from cobed.designers.sparse import EntrywiseUCB as EntrywiseUCB
    from cobed.errors import CobedError as CobedError
    from cobed.experiment import run_experiment as run_experiment
    from cobed.inference import NUTS as NUTS
    from cobed.inference import Conjugate as Conjugate
    from cobed.inference import GaussianProcessPosterior as GaussianProcessPosterior
    from cobed.inference import Importance as Importance
    from cobed.inference import Laplace as Laplace
    from cobed.inference import Posterior as Posterior
    from cobed.inference import Scales as Scales
    from cobed.inference import SpikeAndSlab as SpikeAndSlab
    from cobed.inference import TemperedSMC as TemperedSMC
    from cobed.inference import TwoParts as TwoParts
    from cobed.inference import infer as infer
    from cobed.inference.calibration import Calibration as Calibration
    from cobed.inference.calibration import calibrate as calibrate
    from cobed.information import Estimate as Estimate
    from cobed.information import max_value_information as max_value_information
    from cobed.information import parameter_information as parameter_information
    from cobed.metrics import Score as Score
    from cobed.metrics import Scores as Scores
    from cobed.metrics import evaluate as evaluate
    from cobed.metrics import paired_difference as paired_difference
    from cobed.objectives import Decisions as Decisions
    from cobed.optimum import ClosedForm as ClosedForm
    from cobed.optimum import Enumeration as Enumeration
    from cobed.optimum import Grid as Grid
    from cobed.optimum import LinearProgram as LinearProgram
    from cobed.policies import Temperature as Temperature
    from cobed.problem import Problem as Problem
    from cobed.progress import ConsoleReporter as ConsoleReporter
    from cobed.spaces import Box as Box
    from cobed.spaces import Discrete as Discrete
    from cobed.spaces import Product as Product

_MODULES = ("beliefs", "errors", "models", "outcomes", "rules")
# The names by the module that defines them.
_HOMES = {
    "allowed": "Allowed",
    "budget": "Budget",
    "campaign.campaign": "Campaign",
    "critics": "Joint Separable",
    "data": "Data",
    "decide": "Policy Tree deploy grow_tree",
    "densities": "Density",
    "designers.baselines": "UCB RandomCorners RandomNormal RandomUniform Thompson",
    "designers.cobed": "design",
    "designers.itl": "TransductiveInformation",
    "designers.linear_bandit": "Const LargestNorm SamplerPlanner",
    "designers.local_penalisation": "LEVI UCBLocalPenalisation",
    "designers.result": "DesignResult",
    "designers.sparse": "EntrywiseUCB",
    "errors": "CobedError",
    "experiment": "run_experiment",
    "inference": "NUTS Conjugate GaussianProcessPosterior Importance Laplace Posterior Scales SpikeAndSlab TemperedSMC TwoParts "
    "infer",
    "inference.calibration": "Calibration calibrate",
    "information": "Estimate max_value_information parameter_information",
    "metrics": "Score Scores evaluate paired_difference",
    "objectives": "Decisions",
    "optimum": "ClosedForm Enumeration Grid LinearProgram",
    "policies": "Temperature",
    "problem": "Problem",
    "progress": "ConsoleReporter",
    "spaces": "Box Discrete Product",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = ["__version__", *_MODULES, *_HOME]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"cobed.{name}")
    if name in _HOME:
        return getattr(importlib.import_module(f"cobed.{_HOME[name]}"), name)
    raise AttributeError(f"module 'cobed' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
