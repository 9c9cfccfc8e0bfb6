"""The sections of a campaign's report: one card per file, registered, also by other packages. The page shows them in order."""

import abc
import functools
from typing import Any, ClassVar

import jax.random as jr
import numpy as np
import pandas as pd

from cobed.campaign.campaign import Campaign
from cobed.campaign.database import DAMAGED
from cobed.campaign.encoding import Cells, encode
from cobed.campaign.engine import POLICY_DRAWS, candidate_actions
from cobed.campaign.summary import Status
from cobed.campaign.words import Amounts
from cobed.checks import Check
from cobed.data import Data
from cobed.errors import ModelError, StorageError
from cobed.inference.base import Posterior
from cobed.models.base import AbstractModel
from cobed.registry import Registry
from cobed.report.effects import Effects, effects_of
from cobed.report.page import Finding, Page
from cobed.types import Params

_CARDS: "Registry[Card]" = Registry("report card", "cobed.cards", ModelError)


class Facts:
    """A campaign as cards see it. What takes time is computed when a card first asks for it."""

    def __init__(self, campaign: Campaign):
        self.campaign, self.spec = campaign, campaign.spec
        self.amounts = Amounts(campaign.spec)

    @functools.cached_property
    def status(self) -> Status:
        return self.campaign.status()

    @functools.cached_property
    def table(self) -> pd.DataFrame:
        """Every unit of every round, as in an export."""
        return self.campaign.export()

    @functools.cached_property
    def policy(self) -> dict[str, Any] | None:
        """The summary of what was deployed last; None where nothing was."""
        policies = self.campaign.policies()
        return read_policy(policies[-1]) if policies else None

    @functools.cached_property
    def data(self) -> Data | None:
        """All outcomes so far in the engine's numbers; None where there are none."""
        return self.campaign.data()

    @functools.cached_property
    def known(self) -> tuple[AbstractModel, Posterior]:
        """The model, and what the outcomes say of it."""
        return self.campaign.posterior()

    @functools.cached_property
    def checks(self) -> list[Check]:
        """What every check of the experiment says."""
        return self.campaign.trust()

    @functools.cached_property
    def draws(self) -> Params:
        """Some draws of what is known, equally weighted."""
        return self.known[1].equal_draws(POLICY_DRAWS, jr.key(self.spec.seed))

    @functools.cached_property
    def cells(self) -> Cells:
        """The context of every unit of `table`, column by column; None where a cell is missing."""
        return {
            name: self.table[name].astype(object).where(self.table[name].notna(), None).tolist()
            for name in self.spec.context
        }

    @functools.cached_property
    def effects(self) -> Effects:
        """What every action is expected to earn, on average and by groups of the units of the experiment."""
        encoding = self.campaign.encoding()
        assert encoding is not None
        candidates = candidate_actions(self.known[0].action_space)
        units = encode(self.spec, encoding, self.cells), self.cells
        return effects_of(self.spec, self.known[0], self.draws, candidates, units)

    @functools.cached_property
    def actions(self) -> list[Any]:
        """The actions of `effects` in the user's words."""
        return self.spec.action.words(np.asarray(candidate_actions(self.known[0].action_space)))


def read_policy(summary: dict[str, Any]) -> dict[str, Any]:
    """The stored summary of a policy, with all that cards read of it; `StorageError` where it has something else."""
    try:
        kinds = [name for name in ("value", "over_single", "over_random", "over_current") if name in summary]
        for name in ("value", "over_single", "over_random", *kinds):
            for end in ("mean", "low", "high"):
                float(summary[name][end])
        for row in summary["where"]:
            _ = str(row["column"]), str(row["group"]), int(row["units"]), {**row["shares"]}
        _ = int(summary["rows"]), float(summary["p_best"]), summary["single"], str(summary["name"])
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(
            f"The stored summary of the last policy cannot be read ({error!r}). {DAMAGED} Or deploy again, which stores a new "
            "one."
        ) from error
    return summary


class Card(abc.ABC):
    """One section of the page."""

    name: ClassVar[str]
    # Whether it stands behind all others, for those who want to look behind.
    appendix: ClassVar[bool] = False

    @abc.abstractmethod
    def heading(self, facts: Facts) -> str:
        """What stands above it."""

    def awaited(self, facts: Facts) -> str | None:
        """What must come before there is something to tell, in a sentence that takes its place; None where it is there."""
        return None

    @abc.abstractmethod
    def add(self, page: Page, facts: Facts) -> None:
        """Put text, tables and figures on the page."""

    def finding(self, facts: Facts) -> Finding | None:
        """What a check came to (fine, look or stop), and what to do; None where the card checks nothing."""
        return None


def needs_policy(facts: Facts) -> str | None:
    """What cards about the policy wait for."""
    if facts.policy is not None:
        return None
    return "Nothing has been deployed yet: `cobed deploy TARGETS.csv`, then write this report again."


def needs_outcomes(facts: Facts) -> str | None:
    """What cards about effects wait for."""
    return "Nothing yet: it is told once outcomes have come back." if facts.data is None else None


def register(card: Card) -> Card:
    """Make a card known by its name; it comes after those that were registered before, and before the appendix."""
    return _CARDS.add(card.name, card)


def cards() -> tuple[Card, ...]:
    """All registered cards in their order."""
    return tuple(sorted(_CARDS, key=lambda card: card.appendix))
