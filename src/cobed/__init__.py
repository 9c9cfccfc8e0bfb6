"""Which action to try on whom, before you know what works.

Names are loaded when first used, so that importing cobed does not import JAX.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from cobed import models as models
    from cobed import rules as rules
    from cobed.allowed import Allowed as Allowed
    from cobed.budget import Budget as Budget
    from cobed.campaign.campaign import Campaign as Campaign
    from cobed.critics import Joint as Joint
    from cobed.critics import Separable as Separable
    from cobed.data import Data as Data
    from cobed.decide import Policy as Policy
    from cobed.decide import deploy as deploy
    from cobed.densities import Density as Density
    from cobed.designers.cobed import design as design
    from cobed.designers.result import DesignResult as DesignResult
    from cobed.errors import CobedError as CobedError
    from cobed.experiment import run_experiment as run_experiment
    from cobed.inference import infer as infer
    from cobed.inference.calibration import calibrate as calibrate
    from cobed.information import Estimate as Estimate
    from cobed.information import max_value_information as max_value_information
    from cobed.information import parameter_information as parameter_information
    from cobed.metrics import evaluate as evaluate
    from cobed.metrics import paired_difference as paired_difference
    from cobed.objectives import Decisions as Decisions
    from cobed.policies import Temperature as Temperature
    from cobed.problem import Problem as Problem
    from cobed.progress import ConsoleReporter as ConsoleReporter
    from cobed.spaces import Box as Box
    from cobed.spaces import Discrete as Discrete
    from cobed.spaces import Product as Product

_HOMES = {
    "Allowed": "allowed",
    "Budget": "budget",
    "Campaign": "campaign.campaign",
    "Joint": "critics",
    "Separable": "critics",
    "design": "designers.cobed",
    "DesignResult": "designers.result",
    "Data": "data",
    "Density": "densities",
    "Decisions": "objectives",
    "deploy": "decide",
    "Policy": "decide",
    "run_experiment": "experiment",
    "infer": "inference",
    "calibrate": "inference.calibration",
    "evaluate": "metrics",
    "paired_difference": "metrics",
    "CobedError": "errors",
    "Estimate": "information",
    "max_value_information": "information",
    "parameter_information": "information",
    "Temperature": "policies",
    "Problem": "problem",
    "ConsoleReporter": "progress",
    "Box": "spaces",
    "Discrete": "spaces",
    "Product": "spaces",
}

__all__ = ["__version__", "models", "rules", *_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in ("models", "rules"):
        return importlib.import_module(f"cobed.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(f"cobed.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'cobed' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
