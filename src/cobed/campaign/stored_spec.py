"""The spec that a store holds, and what may be changed in it once there are rounds."""

import json
from typing import Any

from cobed.campaign import records as kept
from cobed.campaign.database import DAMAGED
from cobed.campaign.spec import CampaignSpec, changed_sections, parse_spec
from cobed.errors import SpecError, StorageError


def parse_stored(text: str | None, label: str) -> CampaignSpec:
    try:
        if (text or "").startswith("{"):
            return CampaignSpec.model_validate(json.loads(text or ""))
        return parse_spec(text or "", "the stored spec")
    except (ValueError, RecursionError, SpecError) as error:
        raise StorageError(f"{label}: the stored campaign.toml cannot be read: {error} {DAMAGED}") from error


def check_changes(connection: Any, old: CampaignSpec, new: CampaignSpec, name: str, label: str) -> None:
    """Raise where the new spec differs in what the stored rows depend on."""
    changed = changed_sections(old, new)
    if changed and kept.read_rounds(connection):
        raise SpecError(
            f"{name}: [{changed[0]}] was changed after the campaign in {label} had begun, and what is stored there depends "
            "on it. Change it back, or start anew with another --store."
        )
