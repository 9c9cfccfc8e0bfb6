"""TOML with errors that name the line, and what pydantic found wrong, in words."""

import re
import tomllib
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from cobed.campaign.near import nearest
from cobed.errors import SpecError

# Characters of one sentence: names in a spec can be of any length.
LONGEST = 1_000


def parse(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SpecError(
            f"{name} is not valid TOML: {error}. Text goes in quotes, lists in [brackets], sections under [headings]."
        ) from error


def problems(error: ValidationError, model: type[BaseModel], text: str, name: str) -> Iterator[str]:
    """One sentence for each thing that is wrong: file, line where it can be found, key, value, what is allowed."""
    for found in error.errors(include_url=False):
        place = tuple(found["loc"])
        key = ".".join(map(str, place)) or "the file"
        line = find_line(text, place)
        where = f"{name}, line {line}, {key}" if line else f"{name}, {key}"
        sentence = f"{where}: {_sentence(found, model, place)}"
        yield sentence if len(sentence) <= LONGEST else sentence[: LONGEST - 3] + "..."


def _sentence(found: Any, model: type[BaseModel], place: tuple[Any, ...]) -> str:
    kind, value, allowed = found["type"], found.get("input"), found.get("ctx", {})
    if kind == "extra_forbidden":
        section = _section(model, place[:-1])
        valid = list(section.model_fields) if section is not None else []
        near = nearest(str(place[-1]), valid)
        return f"there is no such key.{near} Allowed here: {', '.join(valid)}."
    if kind == "missing":
        described = _description(model, place)
        return f"this key is missing.{' ' + described if described else ''}"
    if kind == "literal_error":
        near = nearest(str(value), re.findall(r"'([^']*)'", allowed["expected"]))
        return f"{_short(value)} is not allowed.{near} Allowed: {allowed['expected']}."
    if kind == "value_error":
        return f"{allowed['error']}."
    described = _description(model, place)
    message = found["msg"][:1].lower() + found["msg"][1:]
    return f"{_short(value)} is not allowed: {message}.{' ' + described if described else ''}"


def find_line(text: str, place: tuple[Any, ...]) -> int | None:
    """The line of the key, or of the nearest section above it. Found by its looks: TOML's parser keeps no lines."""
    best, best_depth, prefix = None, 0, ()
    counts: dict[tuple[Any, ...], int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        heading = re.match(r"\s*\[(\[?)([^\]]+)\]", line)
        if heading:
            prefix = _split_key(heading[2])
            if heading[1]:
                counts[prefix] = counts.get(prefix, -1) + 1
                prefix = (*prefix, counts[prefix])
            keys = prefix
        elif pair := re.match(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""", line):
            keys = (*prefix, *_split_key(pair[1]))
        else:
            continue
        depth = len(keys)
        if depth > best_depth and keys == place[:depth]:
            best, best_depth = number, depth
    return best


def _split_key(text: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in re.findall(r""""[^"]*"|'[^']*'|[^.\s]+""", text))


def _section(model: type[BaseModel], place: tuple[Any, ...]) -> type[BaseModel] | None:
    """The model of the section at `place`, through dictionaries and tuples of sections; None where there is none."""
    for part in place:
        field = model.model_fields.get(str(part))
        # A part that is no field is a name of the user's, or a number in a list.
        inner = model if field is None else next(_models_in(field.annotation), None)
        if inner is None:
            return None
        model = inner
    return model


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def _description(model: type[BaseModel], place: tuple[Any, ...]) -> str:
    section = _section(model, place[:-1])
    field = section.model_fields.get(str(place[-1])) if section is not None and place else None
    if field is None or field.description:
        return (field and field.description) or ""
    return next(((inner.__doc__ or "").strip().split("\n")[0] for inner in _models_in(field.annotation)), "")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
