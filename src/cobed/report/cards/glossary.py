"""What the words of the report mean."""

from typing import ClassVar

from cobed.report.cards.base import Card

MEANINGS = {
    "Action": "What can be done to a unit; one of several options, or numbers such as a price.",
    "Best single action": "The one action that earns most if all units get the same.",
    "Expected": "The average of what is possible, each weighed by how probable it is after the outcomes so far.",
    "90% interval": "The truth lies between its ends with probability 90%, if the model is right.",
    "Policy": "Which action each unit gets.",
    "Probability that an action is the best": "By the outcomes so far and the model; 100% would be certainty.",
    "At random": "Every allowed action is equally likely, whoever the unit is.",
    "Posterior": "What is known about the effects after the outcomes: many possible truths, each with its probability.",
    "Prior": "What was known or assumed before the outcomes.",
    "Coefficient": "How much a column, an action, or both together move the linear predictor.",
    "Linear predictor": "The sum behind an expected outcome. For yes/no outcomes it is in log-odds: 0 is a share of 50%, 1 is 73%.",
    "Family": "A kind of model, such as straight lines or smooth curves. Several are mixed by how well they predict.",
    "Regret": "What a unit loses because its action is not the best one for it.",
    "Nats": "A unit of information: 0.69 nats answer one question between yes and no.",
}


class Glossary(Card):
    """Words and their meanings."""

    name: ClassVar[str] = "glossary"
    appendix: ClassVar[bool] = True

    def heading(self, facts):
        return "What the words mean"

    def add(self, page, facts):
        page.terms(MEANINGS)
