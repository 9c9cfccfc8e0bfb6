"""Outcomes that are a product: whether there is any, learned from all rows, and how much, learned from those above zero."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from cobed.data import Data
from cobed.inference.base import AbstractInference, Posterior
from cobed.inference.scales import Scales
from cobed.models.base import AbstractModel
from cobed.types import present


class TwoParts(AbstractInference):
    """For models of two parts (`model.parts`): these are independent given the outcomes, so that each is learned by itself."""

    reason = "whether there is any outcome, and how large it is, are learned apart."
    of_each: Scales = eqx.field(default_factory=Scales)

    @property
    def name(self):
        return "two parts"

    def unfit(self, model, data):
        parts = model.parts()
        if parts is None:
            return f"{type(model).__name__} has one part (parts)."
        return next((reason for part in parts if (reason := self.of_each.unfit(part, data)) is not None), None)

    def posterior(self, key, model, data):
        self.require_fit(model, data)
        parts = present(model.parts())
        is_any = np.asarray(data.outcomes) > 0
        above = data.rows(np.flatnonzero(is_any))
        whether_key, amount_key, order_key = jr.split(key, 3)
        whole = Data(data.contexts, data.actions, jnp.asarray(is_any, jnp.float32))
        learned = [self._learn(*each) for each in zip((whether_key, amount_key), parts, (whole, above), strict=True)]
        first, second = (posterior.params for posterior in learned)
        # Draws come in mirrored pairs: in another order those of the second part are independent of the first.
        order = np.asarray(jr.permutation(order_key, len(second)))
        pairs = first, second[order]
        diagnostics = {
            f"{name} of {part}": value
            for part, posterior in zip(("whether", "how much"), learned, strict=True)
            for name, value in posterior.diagnostics.items()
        }
        diagnostics["ess"] = min(posterior.diagnostics["ess"] for posterior in learned)
        reason = f"{self.reason} Whether: {learned[0].reason} How much: {learned[1].reason}"
        families = [np.zeros(len(first), int) if part.family is None else part.family for part in learned]
        family = families[0] * (1 + families[1].max()) + families[1][order]
        return Posterior(pairs, jnp.zeros(len(first)), self.name, diagnostics, (), reason, family=family)

    def _learn(self, key: Any, part: AbstractModel, data: Data) -> Posterior:
        if data.num_rows > 0:
            return self.of_each.posterior(key, part, data)
        # The mean of a logarithmic law is that of few very large amounts: what is expected beforehand stands for all.
        num_draws = self.of_each.num_draws
        draws = jnp.tile(jnp.asarray(part.psi_moments(key)[0], jnp.float32), (num_draws, 1))
        reason = "no outcome is above zero, so that it is as expected beforehand."
        return Posterior(draws, jnp.zeros(num_draws), "prior", {"ess": num_draws}, reason=reason)

    def judge(self, diagnostics):
        return ()
