"""What is known about psi: one kind of belief per file. Data replace the belief of a model and nothing else (`model.given`)."""

from cobed.beliefs.base import AbstractBelief, Known
from cobed.beliefs.draws import Draws
from cobed.beliefs.gaussian import Gaussian
from cobed.beliefs.mixture import Mixture
from cobed.beliefs.process import Process
from cobed.beliefs.scaled import Scaled
from cobed.beliefs.sparse import Sparse

__all__ = ["AbstractBelief", "Draws", "Gaussian", "Known", "Mixture", "Process", "Scaled", "Sparse"]
