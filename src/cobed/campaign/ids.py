"""Ids that are nearly those of units the campaign knows: what spreadsheets do to 007."""

from collections.abc import Collection, Sequence

from cobed.campaign import records as kept
from cobed.campaign.database import Connection
from cobed.campaign.near import id_key, near, spellings
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.tables import Table
from cobed.errors import TableError


def near_stored(connection: Connection, units: Sequence[str]) -> dict[str, str]:
    """For units that the store does not know: the unit it knows whose id is nearly the same."""
    stored = sum(r.num_units for r in kept.read_rounds(connection))
    unknown = sorted(set(units) - kept.known_units(connection, units)) if stored else []
    if not unknown:
        return {}
    others = {spelling for unit in unknown for spelling in spellings(unit)}
    # Ask for what these ids may have been, or, where that is more, read the ids there are.
    known = kept.known_units(connection, sorted(others) if len(others) < stored else None)
    return near_ids(unknown, known)


def near_ids(units: Collection[str], known: Collection[str]) -> dict[str, str]:
    """Of the units those that are nearly, but not exactly, a known one, and which."""
    exact = set(known)
    keys = {id_key(unit): unit for unit in sorted(exact, reverse=True)}
    return {unit: keys[key] for unit in units if unit not in exact and (key := id_key(unit)) in keys}


def likely_id(unit: str, known: Collection[str]) -> str:
    """' Did you mean ...?', or nothing where no known unit has such an id."""
    likely = near_ids([unit], known).get(unit) or near(unit, sorted(known))
    return "" if likely is None else f" Did you mean {likely!r}?"


def check_new(spec: CampaignSpec, table: Table, ids: Sequence[str], near: dict[str, str], known: str) -> None:
    """`TableError` where ids of a table are nearly others; `known` says where those are."""
    if not near or spec.units.exact_ids:
        return
    row = next(row for row, unit in enumerate(ids) if unit in near)
    unit = ids[row]
    raise TableError(
        f"{table.where(row)}, column {spec.units.id!r}: {unit!r} is not {known}, but {near[unit]!r} is ({len(near):,} such "
        f"row(s)). Did you mean {near[unit]!r}? Spreadsheets drop leading zeros and change long numbers: make the column text "
        "before you save. If these are other units, set exact_ids = true under [units] in campaign.toml."
    )


def check_known(connection: Connection, spec: CampaignSpec, table: Table, ids: Sequence[str]) -> None:
    """`TableError` where ids are new to the store, and nearly those of units it knows."""
    if not spec.units.exact_ids:
        check_new(spec, table, ids, near_stored(connection, ids), "in any round")
