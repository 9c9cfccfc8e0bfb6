"""The campaign in one sentence: what the policy brings, or where the campaign stands and what comes next."""

from typing import ClassVar

from cobed.campaign.words import number, reference_words, unit_words
from cobed.report.cards.base import Card, Facts


class Headline(Card):
    """What is expected of the policy, with its range; before there is one, the next step."""

    name: ClassVar[str] = "headline"

    def heading(self, facts):
        return "In short"

    def add(self, page, facts):
        page.lead(_sentence(facts))
        page.text(_stand(facts))
        page.text(f"Next: {_next(facts)}")


def _sentence(facts: Facts) -> str:
    policy, status = facts.policy, facts.status
    if policy is not None:
        key, than = reference_words(policy)
        sentence = f"We expect {facts.amounts.gain(policy[key], than)}."
        part = policy[key]
        unsure = part["low"] < 0 < part["high"]
        return f"{sentence} It is not sure yet that this is a gain." if unsure else sentence
    if facts.data is not None:
        return f"{status.num_outcomes:,} outcomes have come back, and no policy has been deployed yet."
    if len(facts.table):
        return f"{len(facts.table):,} {unit_words(facts.spec)} have an action, and no outcome has come back yet."
    return "The campaign has begun, and nothing has been tried yet."


def _stand(facts: Facts) -> str:
    spec, status, policy = facts.spec, facts.status, facts.policy
    rounds = f"{len(status.rounds)} round{'' if len(status.rounds) == 1 else 's'}"
    learned = (
        f"{len(facts.table):,} {unit_words(spec)} in {rounds}; {status.num_outcomes:,} outcome(s) of {spec.outcome.column!r} "
        f"have come back, {status.num_waiting:,} are awaited."
    )
    if policy is None:
        return learned
    if facts.amounts.factor == 1:
        # Averages of amounts that nobody adds up.
        return f"Learned from {learned}"
    every = policy["rows"]
    key, _ = reference_words(policy)
    total = policy[key]["mean"] * every
    said = f"{number(abs(total), 0)} {facts.amounts.unit} {'more' if total >= 0 else 'less'}"
    deployed = f"For all {every:,} {unit_words(spec)} of {policy['name']} together: {said}."
    return f"{deployed} Learned from {learned}"


def _next(facts: Facts) -> str:
    status, column = facts.status, facts.spec.outcome.column
    if facts.policy is not None:
        uploads = facts.campaign.uploads()
        if len(uploads) and str(uploads["created"].max())[:19] > facts.policy["created"][:19]:
            return "outcomes have come since the policy was made: deploy again (cobed deploy TARGETS.csv)."
        waiting = (
            f"tell the {status.num_waiting:,} outcomes that are awaited (cobed observe), then "
            if status.num_waiting
            else ""
        )
        return f"{waiting}use the policy; cobed plan says whether another round would pay."
    if status.num_waiting:
        return f"fill in {column!r} of the units in the field, then cobed observe."
    if facts.data is not None:
        return "cobed design for another round, or cobed deploy TARGETS.csv for the policy."
    return "cobed design YOUR_TABLE.csv."
