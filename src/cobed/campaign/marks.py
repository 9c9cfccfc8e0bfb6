"""What a round was designed from, as one hash, by which the stored round is known again. Also as earlier versions made it."""

import hashlib
from collections.abc import Iterator

from pydantic_core import to_json

from cobed.campaign.spec import CampaignSpec

# The fields whose values, defaults too, version 0.1.0 put into the hash, in its order.
FIELDS_0_1_0 = {
    "units": ("id",),
    "context": (),
    "action": ("column", "options", "numbers"),
    "outcome": ("column", "likelihood", "typical", "spread"),
    "model": ("family", "program", "kernel", "lengths", "deviation", "fit"),
    "prior": ("baseline", "context", "action", "interaction"),
    "design": ("budget", "about", "max_targets"),
    "constraints": ("at_least", "at_most", "cost", "max_cost", "forbid"),
}
# Before the next version there was one more.
VERSIONS = (FIELDS_0_1_0, {**FIELDS_0_1_0, "units": ("id", "exact_ids")})


def round_marks(spec: CampaignSpec, tables: str) -> list[str]:
    """The mark of a round of this spec on tables with these hashes, and after it those that earlier versions gave it.

    The mark holds what the spec says beyond its defaults, so that a field which a later version adds changes none.
    """
    spec = spec.without_hints()
    documents = [spec.stated(), *_of_earlier_versions(spec)]
    return [hashlib.sha256(f"{tables}{document}".encode()).hexdigest() for document in documents]


def _of_earlier_versions(spec: CampaignSpec) -> Iterator[str]:
    whole, stated = spec.model_dump(), spec.model_dump(exclude_defaults=True)
    if "family" not in stated.get("model", {}):
        whole["model"]["family"] = "linear"  # which was the default
    columns = {name: {"type": None, "levels": None} | column for name, column in whole.pop("context").items()}
    for version in VERSIONS:
        # A spec that says more than a version knew has no mark of it.
        if all(stated.get(section, {}).keys() <= {*fields} for section, fields in version.items() if fields):
            known = {
                section: {field: whole[section][field] for field in fields}
                for section, fields in version.items()
                if fields
            }
            ordered = {section: known.get(section, columns) for section in version}
            yield to_json({"name": spec.name, "seed": spec.seed, **ordered}).decode()
