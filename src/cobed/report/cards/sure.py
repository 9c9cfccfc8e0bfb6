"""How sure the policy is, and what would make it surer."""

from typing import ClassVar

from cobed.campaign.words import reference_words
from cobed.report.cards.base import Card, needs_outcomes


class Sure(Card):
    """How probably the chosen actions are the best, and what knowing everything would bring."""

    name: ClassVar[str] = "sure"

    def heading(self, facts):
        return "How sure, and what would make us surer"

    def awaited(self, facts):
        return needs_outcomes(facts)

    def add(self, page, facts):
        policy, amounts, effects = facts.policy, facts.amounts, facts.effects
        if policy is not None:
            key, than = reference_words(policy)
            low, high = policy[key]["low"], policy[key]["high"]
            if low > 0:
                page.text(f"The policy is better than {than} with a probability above 95%.")
            elif high > 0:
                page.text(
                    f"It is not sure that the policy is better than {than}: 90% of what is possible includes no gain."
                )
            else:
                page.text(f"The policy is worse than {than} with a probability above 95%.")
            page.text(
                f"On average, the chosen action is the best one for its unit with probability {policy['p_best']:.0%}."
            )
        missing = max(effects.perfect - effects.personal, 0.0)
        page.text(
            f"Somebody who knew exactly what every action does would earn {amounts.of(missing)} {amounts.unit} more {amounts.per} "
            f"among the units of the experiment{', without a budget' if facts.spec.budget.is_given else ''}. Further rounds can "
            "bring this much at most."
        )
        status = facts.status
        if status.num_waiting:
            page.text(f"{status.num_waiting:,} outcomes are still awaited; they make it surer without another round.")
        page.text("cobed plan YOUR_TABLE.csv says how much of it a next round would bring, with how many units.")
