"""Every field of a campaign.toml, from its definition in `spec`: as a template to fill in, and as a table for the documentation."""

import textwrap
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from cobed.campaign.columns import kinds
from cobed.campaign.spec import CampaignSpec
from cobed.campaign.toml import as_key, as_toml, models_in

WIDTH = 118


class Section(NamedTuple):
    """A heading of the file, what it is about, and its fields by key."""

    heading: str
    about: str
    fields: dict[str, FieldInfo]


def sections() -> Iterator[Section]:
    """All sections in their order. What stands before the first heading has none; keys of [context] are the user's columns."""
    top = CampaignSpec.model_fields
    yield Section("", "", {name: top[name] for name in ("name", "seed")})
    for name, field in top.items():
        if name == "context":
            described = ", ".join(f"{as_toml(kind.name)} ({kind.describes})" for kind in kinds())
            settings = [
                f"{{ type = {as_toml(kind.name)}, {setting} = ... }}: {field.description}"
                for kind in kinds()
                for setting, field in kind.model_fields.items()
                if setting != "type"
            ]
            yield Section("[context]", " ".join([f"{field.description} Kinds: {described}.", *settings]), {})
        elif name not in ("name", "seed"):
            yield from _sections_of(next(models_in(field.annotation)), f"[{name}]")


def _sections_of(model: type[BaseModel], heading: str) -> Iterator[Section]:
    """A section, and those of which it has several, [[in double brackets]]."""
    about = " ".join((model.__doc__ or "").split()).partition("]: ")[2]
    inner = {
        name: list(models_in(field.annotation)) for name, field in model.model_fields.items() if field.default == ()
    }
    about = about[:1].upper() + about[1:]
    yield Section(heading, about, {name: field for name, field in model.model_fields.items() if not inner.get(name)})
    for name, models in inner.items():
        for each in models:
            yield from _sections_of(each, f"[{heading[:-1]}.{name}]]")


def fill(
    values: Mapping[str, Mapping[str, Any]], names: Mapping[str, str], notes: Mapping[str, str] = MappingProxyType({})
) -> str:
    """A campaign.toml with these values by heading and key; every other key is a comment, with its default or an example.

    `names` take the place of <words> in the examples. `notes` are about columns: they stand above those under [context], and
    tell why others are not there.
    """
    lines = ["# What this campaign is about. `cobed check` says what is wrong with it before any work is done."]
    for heading, about, fields in sections():
        given = values.get(heading, {})
        if heading:
            lines += ["", *_comment(about), heading if given else f"# {heading}"]
        for name, value in given.items():
            if name not in fields:
                lines += [*_comment(notes.get(name, "")), f"{as_key(name)} = {as_toml(value)}"]
        if heading == "[context]":
            lines += _left_out({name: why for name, why in notes.items() if name not in given})
        for name, field in fields.items():
            lines += _comment(field.description or "")
            lines.append(
                f"{name} = {as_toml(given[name])}" if name in given else f"# {name} = {_example(field, names)}"
            )
    return "\n".join(lines) + "\n"


def _left_out(notes: Mapping[str, str]) -> list[str]:
    """Columns that are no contexts, each with the reason. One of them becomes a context by a line of its own."""
    said = [line for name, why in notes.items() for line in _comment(f"{as_key(name)}: {why}")]
    return ["# Left out, and why:", *said] if said else []


def _comment(words: str) -> list[str]:
    return textwrap.wrap(words, WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def _example(field: FieldInfo, names: Mapping[str, str]) -> str:
    example = str((field.examples or [_default(field) or "..."])[0])
    for word, name in names.items():
        example = example.replace(f"<{word}>", name)
    return example


def _default(field: FieldInfo) -> str:
    """The default as TOML; nothing where there is none to write."""
    return "" if field.is_required() or field.default in (None, {}, ()) else as_toml(field.default)


def table() -> str:
    """Markdown: one row for each field, with its default and what it means."""
    lines = ["| key | default | meaning |", "|---|---|---|"]
    for heading, about, fields in sections():
        if heading:
            lines.append(f"| **`{heading}`** | | {about} |")
        for name, field in fields.items():
            default = "needed" if field.is_required() else f"`{_default(field)}`" if _default(field) else ""
            lines.append(f"| `{name}` | {default} | {field.description} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
