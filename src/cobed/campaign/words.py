"""Numbers, amounts and dates of a campaign as people say them: 29 more visits per 1,000 customers, 3 March 2026."""

import datetime
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cobed.campaign.spec import CampaignSpec

# Singular and plural of what columns are often called. What a column means by another name is not guessed.
UNITS = {
    "account": "accounts", "business": "businesses", "caller": "callers", "client": "clients", "contact": "contacts",
    "customer": "customers", "device": "devices", "employee": "employees", "farm": "farms", "household": "households",
    "lead": "leads", "learner": "learners", "machine": "machines", "member": "members", "participant": "participants",
    "patient": "patients", "person": "people", "player": "players", "plot": "plots", "school": "schools", "shop": "shops",
    "site": "sites", "store": "stores", "student": "students", "subscriber": "subscribers", "user": "users",
    "visitor": "visitors",
}  # fmt: skip
OUTCOMES = {
    "booking": "bookings", "call": "calls", "click": "clicks", "conversion": "conversions", "donation": "donations",
    "order": "orders", "ordered": "orders", "purchase": "purchases", "reply": "replies", "response": "responses",
    "sale": "sales", "signup": "sign-ups", "subscription": "subscriptions", "transaction": "transactions", "visit": "visits",
    "visited": "visits",
}  # fmt: skip
THOUSAND = 1_000


def number(value: float, digits: int | None = None) -> str:
    """With thousands separators and as many digits as are read; `digits` behind the point where these are given."""
    if not math.isfinite(value):
        return "unknown"
    if digits is None:
        digits = 0 if value == 0 else min(max(2 - math.floor(math.log10(abs(value))), 0), 8)
        # 12.00 and 12 are the same; 0.120 and 0.12 too.
        text = f"{value:,.{digits}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    else:
        text = f"{value:,.{digits}f}"
    return "0" if float(text.replace(",", "")) == 0 else text


def digits_for(low: float, high: float) -> int:
    """How many digits behind the point an interval carries: two of its width."""
    width = high - low
    return 0 if not (math.isfinite(width) and width > 0) else min(max(1 - math.floor(math.log10(width)), 0), 8)


def day(created: str) -> str:
    """The day of a stored moment: 3 March 2026."""
    try:
        moment = datetime.datetime.fromisoformat(created)
    except ValueError:
        return created
    return f"{moment.day} {moment:%B} {moment.year}"


def unit_words(spec: "CampaignSpec", count: int = 2) -> str:
    """What units are called, by their column: customers; units where its name does not say it."""
    name = spec.units.id.lower()
    for end in ("_id", " id", "-id", "id"):
        if name.endswith(end) and len(name) > len(end):
            name = name.removesuffix(end)
            break
    plain = name.strip(" _-#")
    singular = next((one for one, many in UNITS.items() if plain in (one, many)), "unit")
    return singular if count == 1 else UNITS.get(singular, "units")


class Amounts:
    """Rewards of a campaign in words: in money where [value] says what outcomes are worth, else in outcomes."""

    def __init__(self, spec: "CampaignSpec"):
        self.spec = spec
        self.factor = THOUSAND if spec.value.is_money or spec.outcome.law.adds_up else 1

    @property
    def unit(self) -> str:
        """What is counted: EUR, visits, or the name of the outcome."""
        if self.spec.value.is_money:
            return self.spec.value.currency or "value"
        return OUTCOMES.get(self.spec.outcome.column.lower(), f"{self.spec.outcome.column!r}")

    @property
    def net(self) -> str:
        """The same with the word that costs are taken off."""
        return f"net {self.unit}" if self.spec.value.is_money else self.unit

    @property
    def per(self) -> str:
        """For how many units: per 1,000 customers, or per unit."""
        if self.factor == 1:
            return f"per {unit_words(self.spec, 1)}"
        return f"per {self.factor:,} {unit_words(self.spec)}"

    @property
    def what(self) -> str:
        """A heading for numbers of these: net EUR per 1,000 customers."""
        return f"{self.net} {self.per}"

    def of(self, value: float, digits: int | None = None) -> str:
        """A reward per unit, as the number that belongs to `what`."""
        return number(self.factor * value, digits)

    def interval(self, part: Mapping[str, float]) -> str:
        """between 7,309 and 10,738."""
        digits = self._digits(part)
        return f"between {self.of(part['low'], digits)} and {self.of(part['high'], digits)}"

    def span(self, part: Mapping[str, float]) -> str:
        """The same for a cell of a table: 7,309 to 10,738."""
        digits = self._digits(part)
        return f"{self.of(part['low'], digits)} to {self.of(part['high'], digits)}"

    def expected(self, part: Mapping[str, float]) -> str:
        """The expected reward, with the digits of its interval."""
        return self.of(part["mean"], self._digits(part))

    def more(self, part: Mapping[str, float]) -> str:
        """3,295 EUR more per 1,000 customers, 29 more visits per 1,000 customers; less, or fewer, where it is."""
        said, is_more = self.of(abs(part["mean"]), self._digits(part)), part["mean"] >= 0
        if self.spec.value.is_money:
            return f"{said} {self.unit} {'more' if is_more else 'less'} {self.per}"
        counted = self.spec.outcome.column.lower() in OUTCOMES
        return f"{said} {'more' if is_more else 'fewer' if counted else 'less'} {self.unit} {self.per}"

    def gain(self, part: Mapping[str, float], than: str = "") -> str:
        """3,295 EUR more per 1,000 customers than today, between 1,156 and 5,302."""
        gained = dict(part)
        if part["mean"] < 0:
            gained |= {"low": -part["high"], "high": -part["low"]}
        return f"{self.more(part)}{f' than {than}' if than else ''}, {self.interval(gained)}"

    def signed(self, value: float) -> str:
        """+2,977, or -120."""
        return f"+{self.of(value)}" if value > 0 else self.of(value)

    def _digits(self, part: Mapping[str, float]) -> int:
        return digits_for(self.factor * part["low"], self.factor * part["high"])


def reference_words(summary: Mapping[str, Any]) -> tuple[str, str]:
    """What a policy is told against, by the key of its summary and in words: what is done today, or the best single action."""
    if "over_current" in summary:
        return "over_current", "today"
    return "over_single", f"{action_words(summary['single'])} for all, the best single action{forbidden(summary)}"


def action_words(action: Any) -> str:
    """An action as people write it: 'mail' in quotes, or price 5, size 2."""
    if hasattr(action, "items"):
        return ", ".join(f"{name} {number(value)}" for name, value in action.items())
    return f"{action!r}"


def forbidden(summary: Mapping[str, Any]) -> str:
    """What to say of the best single action where there is a budget that does not allow it; nothing where it does."""
    budget = summary.get("budget")
    if not isinstance(budget, Mapping) or budget.get("single_allowed"):
        return ""
    return ", which the budget does not allow" if "single_allowed" in budget else ", which the budget may not allow"


def promise_sentences(spec: "CampaignSpec", summary: Mapping[str, Any]) -> list[str]:
    """What the outcomes of a designed round should bring; nothing where that is not known."""
    value, error, unit = summary.get("score") or (0.0, 0.0, "")
    if value <= 0:
        return []
    field = summary.get("field", 0)
    after = (
        f"After this experiment, and the outcomes of {field:,} others in the field,"
        if field
        else "After this experiment"
    )
    if unit != "nats":
        amounts = Amounts(spec)
        part = {"mean": value, "low": value - 2 * error, "high": value + 2 * error}
        said = f"{after} we expect {amounts.more(part)} than by what is known now"
        return [f"{said}, {amounts.interval(part)}." if error else f"{said}."]
    # A question between two equally likely answers holds log 2 nats.
    return [
        f"{after} we should know as much more about what is best for whom as {number(value / math.log(2))} answers to questions "
        f"between yes and no tell ({value:.3g}{f' ± {error:.2g}' if error else ''} nats of information, at least)."
    ]


def policy_sentences(spec: "CampaignSpec", summary: Mapping[str, Any]) -> list[str]:
    """What a policy is expected to bring, beside simpler ones."""
    amounts, rows = Amounts(spec), summary["rows"]
    key, than = reference_words(summary)
    lines = [f"We expect {amounts.gain(summary[key], than)} (with probability 90%)."]
    others = {
        "over_single": f"{action_words(summary['single'])} for all, the best single action{forbidden(summary)}",
        "over_random": "actions at random",
    }
    lines += [f"Gain over {words}: {amounts.gain(summary[name])}." for name, words in others.items() if name != key]
    value = summary["value"]
    whole = f"; for all {rows:,} together {number(value['mean'] * rows, 0)}" if amounts.factor > 1 else ""
    return [
        *lines,
        f"In all we expect {amounts.expected(value)} {amounts.what}, {amounts.interval(value)}{whole}.",
        f"The action is the best one for its unit with probability {summary['p_best']:.0%}, on average.",
    ]
