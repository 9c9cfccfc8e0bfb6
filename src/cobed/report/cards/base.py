"""The sections of a campaign's report: one card per file, registered, also by other packages. The page shows them in order."""

import abc
import functools
from typing import ClassVar

import jax.random as jr
import pandas as pd

from cobed.campaign.campaign import Campaign
from cobed.campaign.engine import POLICY_DRAWS
from cobed.campaign.summary import Status
from cobed.data import Data
from cobed.errors import ModelError
from cobed.inference.base import Posterior
from cobed.models.base import AbstractModel
from cobed.registry import Registry
from cobed.report.page import Page
from cobed.types import Params

_CARDS: "Registry[Card]" = Registry("report card", "cobed.cards", ModelError)


class Facts:
    """A campaign as cards see it. What takes time is computed when a card first asks for it."""

    def __init__(self, campaign: Campaign):
        self.campaign, self.spec = campaign, campaign.spec

    @functools.cached_property
    def status(self) -> Status:
        return self.campaign.status()

    @functools.cached_property
    def table(self) -> pd.DataFrame:
        """Every unit of every round, as in an export."""
        return self.campaign.export()

    @functools.cached_property
    def data(self) -> Data | None:
        """All outcomes so far in the engine's numbers; None where there are none."""
        return self.campaign.data()

    @functools.cached_property
    def known(self) -> tuple[AbstractModel, Posterior]:
        """The model, and what the outcomes say of it."""
        return self.campaign.posterior()

    @functools.cached_property
    def draws(self) -> Params:
        """Some draws of what is known, equally weighted."""
        return self.known[1].equal_draws(POLICY_DRAWS, jr.key(self.spec.seed))


class Card(abc.ABC):
    """One section of the page."""

    name: ClassVar[str]

    @abc.abstractmethod
    def heading(self, facts: Facts) -> str:
        """What stands above it."""

    def awaited(self, facts: Facts) -> str | None:
        """What must come before there is something to tell, in a sentence that takes its place; None where it is there."""
        return None

    @abc.abstractmethod
    def add(self, page: Page, facts: Facts) -> None:
        """Put text, tables and figures on the page."""


def register(card: Card) -> Card:
    """Make a card known by its name; it comes after those that were registered before."""
    return _CARDS.add(card.name, card)


def cards() -> tuple[Card, ...]:
    """All registered cards in their order."""
    return tuple(_CARDS)
