"""A finished round that could not be stored because the database went away: kept in a file until it can be."""

import contextlib
import json
import os
from pathlib import Path
from typing import IO, Any

from cobed.campaign.records import Assignment
from cobed.storage import write_whole

NAME = "unsaved-round.json"


def keep(folder: Path, key: dict[str, Any], rows: list[Assignment], summary: dict[str, Any]) -> Path:
    """Write the round to a file that only its owner can read. `key` says what it was designed from."""
    document = {"designed_from": key, "summary": summary, "rows": [row._asdict() for row in rows]}

    def write(file: IO[bytes]) -> None:
        with contextlib.suppress(AttributeError, OSError):
            os.fchmod(file.fileno(), 0o600)
        file.write(json.dumps(document).encode())

    write_whole(folder / NAME, write)
    return folder / NAME


def find(folder: Path, key: dict[str, Any]) -> tuple[list[Assignment], dict[str, Any]] | None:
    """The round that was designed from the same and not stored; None where there is none."""
    try:
        document = json.loads((folder / NAME).read_text())
        if document["designed_from"] != json.loads(json.dumps(key)):
            return None
        rows = [Assignment(**{**row, "rejected": tuple(row["rejected"])}) for row in document["rows"]]
        return rows, dict(document["summary"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def forget(folder: Path) -> None:
    """Remove the file, once a round is stored."""
    with contextlib.suppress(OSError):
        (folder / NAME).unlink()
