"""Models: what an action may earn in a context, and what is not yet known about it."""

from cobed.models.bandit import LinearBandit
from cobed.models.base import AbstractGaussianModel, AbstractLikelihoodModel, AbstractModel
from cobed.models.causal import CausalGraph
from cobed.models.continuous import ContinuousExample
from cobed.models.discrete import DiscreteExample
from cobed.models.gaussian_process import GaussianProcess
from cobed.models.glm import GeneralisedLinear, LinearFeatures
from cobed.models.kernels import RBF, Matern
from cobed.models.linear import LinearGaussian
from cobed.models.net import NetReward
from cobed.models.numpyro import from_numpyro
from cobed.models.simulator import from_simulator

__all__ = [
    "RBF",
    "AbstractGaussianModel",
    "AbstractLikelihoodModel",
    "AbstractModel",
    "CausalGraph",
    "ContinuousExample",
    "DiscreteExample",
    "GaussianProcess",
    "GeneralisedLinear",
    "LinearBandit",
    "LinearFeatures",
    "LinearGaussian",
    "Matern",
    "NetReward",
    "from_numpyro",
    "from_simulator",
]
