"""What a campaign should hold, in dictionaries: so simple that it can be compared with by eye."""

from typing import Any, NamedTuple

Row = dict[str, str]
"""One row of a user's table, as text; an empty outcome is one that is still awaited."""

ID, CONTEXT, ACTION, OUTCOME = "customer", ("recency", "new"), "offer", "amount"
OPTIONS = ("none", "5%")


class Planned(NamedTuple):
    context: tuple[float, float]
    action: str
    state: str


class Told(NamedTuple):
    """One thing said of one unit; no value where an outcome was withdrawn."""

    upload: str
    round: int
    unit: str
    value: float | None
    action: str


class Reference:
    """Rounds, what was planned in them, and all that was ever told. The last word that was not withdrawn counts."""

    def __init__(self) -> None:
        self.rounds: dict[int, dict[str, Planned]] = {}
        self.log: list[Told] = []
        self.withdrawn: set[str] = set()

    def copy(self) -> "Reference":
        other = Reference()
        other.rounds = {number: dict(rows) for number, rows in self.rounds.items()}
        other.log, other.withdrawn = list(self.log), set(self.withdrawn)
        return other

    def outcomes(self) -> dict[tuple[int, str], Told]:
        last = {(told.round, told.unit): told for told in self.log if told.upload not in self.withdrawn}
        return {place: told for place, told in last.items() if told.value is not None}

    def last_round(self, unit: str) -> int | None:
        return max((number for number, rows in self.rounds.items() if unit in rows), default=None)

    def in_the_field(self) -> set[str]:
        """Units of a designed round without an outcome there."""
        back = self.outcomes()
        return {unit for number, rows in self.rounds.items() if number for unit in rows if (number, unit) not in back}

    def busy(self) -> set[str]:
        """Units that were experimented on, or are: not to be taken again."""
        return self.in_the_field() | {unit for _, unit in self.outcomes()}

    def observe(self, upload: str, rows: list[Row], round: int | None = None) -> None:
        """Take a table of outcomes that has nothing wrong in it."""
        for row in rows:
            if not row[OUTCOME]:
                continue
            unit, given = row[ID], row.get(ACTION, "")
            number = self.last_round(unit) if round is None else round
            if number is None or unit not in self.rounds.get(number, {}):
                number = 0
                context = tuple(float(row[name]) for name in CONTEXT)
                self.rounds.setdefault(0, {})[unit] = Planned(context, given, "unplanned")
            before = self.outcomes().get((number, unit))
            action = given or (before.action if before else self.rounds[number][unit].action)
            told = Told(upload, number, unit, float(row[OUTCOME]), action)
            if before is None or (before.value, before.action) != (told.value, told.action):
                self.log.append(told)

    def withdraw_unit(self, upload: str, unit: str) -> bool:
        """Take back its outcome in its last round; whether it has one."""
        number = self.last_round(unit)
        found = None if number is None else self.outcomes().get((number, unit))
        if found is not None:
            self.log.append(found._replace(upload=upload, value=None))
        return found is not None

    def export(self) -> list[tuple[Any, ...]]:
        """The rows that `cobed export` should write."""
        back = self.outcomes()
        rows = []
        for number in sorted(self.rounds):
            for unit, planned in self.rounds[number].items():
                told = back.get((number, unit))
                action = told.action if told else planned.action
                value = told.value if told else None
                rows.append((number, unit, *planned.context, action, planned.state, action == planned.action, value))
        return rows
