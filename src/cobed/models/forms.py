"""How rewards follow from a linear predictor, and from what an outcome is worth."""

from collections.abc import Callable
from typing import Any, NamedTuple

from cobed.outcomes import AbstractLaw
from cobed.types import Array, Float


class LinearForm(NamedTuple):
    """Outcomes of a law, with its `scale`, around a predictor eta = features(c, a) . psi; psi is one vector.

    Where the scale is not known, each world has its own in its psi, and `scale` is that of an average one.
    """

    features: Callable[[Float[Array, " C"], Float[Array, " A"]], Float[Array, " P"]]
    law: AbstractLaw
    scale: float | Float[Array, ""]
    scale_known: bool = True


class Terms(NamedTuple):
    """What one unit of the outcome is worth; the share of that which an action costs, and the amount it costs beside."""

    worth: Float[Array, "..."] | float = 1.0
    share: Float[Array, "..."] | float = 0.0
    cost: Float[Array, "..."] | float = 0.0

    def net(self, outcome: Any) -> Any:
        """The reward of an action with this expected outcome."""
        return self.worth * (1 - self.share) * outcome - self.cost

    def spent(self, outcome: Any) -> Any:
        """What the action is expected to cost."""
        return self.worth * self.share * outcome + self.cost
