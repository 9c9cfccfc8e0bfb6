"""Numbers in the sentences of checks, as people write them."""

from collections.abc import Sequence


def percent(share: float) -> str:
    """A share of rows: 12%, 0.4%, under 0.1%, none."""
    if share <= 0:
        return "none"
    if share >= 0.01:
        return f"{share:.0%}"
    return f"{share:.1%}" if share >= 0.001 else "under 0.1%"


def amount(value: float) -> str:
    """Three digits, and no powers of ten within what people read."""
    return f"{value:,.0f}" if 1_000 <= abs(value) < 1e12 else f"{value:.3g}"


def chance(p: float) -> str:
    """How often chance alone gives as much."""
    if p < 1e-6:
        return "less than once in a million times"
    return f"in {p:.1%} of the cases" if p >= 0.001 else f"about once in {amount(1 / p)} times"


def listed(names: Sequence[str], most: int = 3) -> str:
    """Some names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
