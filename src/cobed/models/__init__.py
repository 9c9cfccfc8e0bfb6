"""Models: what an action may earn in a context, and what is not yet known about it."""

from cobed.models.base import AbstractGaussianModel, AbstractLikelihoodModel, AbstractModel, HasBestAction
from cobed.models.continuous import ContinuousExample
from cobed.models.discrete import DiscreteExample
from cobed.models.glm import GeneralisedLinear, LinearFeatures
from cobed.models.linear import LinearGaussian
from cobed.models.numpyro import from_numpyro
from cobed.models.simulator import from_simulator

__all__ = [
    "AbstractGaussianModel",
    "AbstractLikelihoodModel",
    "AbstractModel",
    "ContinuousExample",
    "DiscreteExample",
    "GeneralisedLinear",
    "HasBestAction",
    "LinearFeatures",
    "LinearGaussian",
    "from_numpyro",
    "from_simulator",
]
