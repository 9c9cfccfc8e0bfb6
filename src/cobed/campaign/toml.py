"""TOML with errors that name the line, and what pydantic found wrong, in words."""

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from cobed.campaign.near import nearest
from cobed.errors import SpecError

# Characters of one sentence: names in a spec can be of any length.
LONGEST = 1_000
# What is needed, by pydantic's name of the fault, from what pydantic says about the limits.
NEEDED: Mapping[str, Callable[[dict[str, Any]], str]] = {
    "string_type": lambda _: 'text in quotes is needed, such as "..."',
    "string_too_short": lambda _: "the text is empty",
    "float_type": lambda _: "a number without quotes is needed",
    "finite_number": lambda _: "a finite number is needed",
    "int_type": lambda _: "a whole number is needed, without quotes and without a decimal point",
    "bool_type": lambda _: "true or false is needed, without quotes",
    "tuple_type": lambda _: 'a list in brackets is needed, such as ["...", "..."]',
    "too_short": lambda limits: f"at least {limits['min_length']} is needed",
    "greater_than_equal": lambda limits: f"at least {limits['ge']:.15g} is needed",
    "less_than_equal": lambda limits: f"at most {limits['le']:.15g} is allowed",
    "less_than": lambda limits: f"it must be below {limits['lt']:.15g}",
}


def parse(text: str, name: str) -> dict[str, Any]:
    try:
        document = tomllib.loads(text)
        json.dumps(
            document, default=str
        )  # which refuses numbers that Python cannot print, so that messages can hold the rest
        return document
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SpecError(
            f"{name} is not valid TOML: {error}. Text goes in quotes, lists in [brackets], sections under [headings]."
        ) from error
    except ValueError as error:
        raise SpecError(f"{name} holds a whole number of thousands of digits. TOML allows 19 digits.") from error


def problems(error: ValidationError, model: type[BaseModel], text: str, name: str) -> Iterator[str]:
    """One sentence for each thing that is wrong: file, line where it can be found, key, value, what is allowed."""
    for fault in error.errors(include_url=False):
        path = tuple(fault["loc"])
        sentence = _sentence(fault, model, path)
        # What does not fit together is told about the whole file, in a sentence that begins with the key.
        named = tuple(re.findall(r"\w+", re.split(r"[ :\]]", sentence)[0]))
        line = find_line(text, path or (named if named and named[0] in model.model_fields else ()))
        parts = [name, *([f"line {line}"] if line else []), *([".".join(map(str, path))] if path else [])]
        sentence = f"{', '.join(parts)}: {sentence}"
        yield sentence if len(sentence) <= LONGEST else sentence[: LONGEST - 3] + "..."


def _sentence(fault: Any, model: type[BaseModel], path: tuple[Any, ...]) -> str:
    kind, value, allowed = fault["type"], fault.get("input"), fault.get("ctx", {})
    if kind == "extra_forbidden":
        section = _section(model, path[:-1])
        valid = list(section.model_fields) if section is not None else []
        near = nearest(str(path[-1]), valid)
        return f"there is no such key.{near} Allowed here: {', '.join(valid)}."
    if kind == "missing":
        described = _description(model, path)
        return f"this key is missing.{' ' + described if described else ''}"
    if kind == "literal_error":
        near = nearest(str(value), re.findall(r"'([^']*)'", allowed["expected"]))
        return f"{shown(value)} is not allowed.{near} Allowed: {allowed['expected']}."
    if kind == "value_error":
        return f"{allowed['error']}."
    described = _description(model, path)
    return f"{shown(value)} is not allowed: {_needed(fault, model, path)}.{' ' + described if described else ''}"


def _needed(fault: Any, model: type[BaseModel], path: tuple[Any, ...]) -> str:
    """What the key needs in the place of a value of the wrong shape."""
    section, inner = _section(model, path[:-1]), _section(model, path)
    field = section.model_fields.get(str(path[-1])) if section is not None and path else None
    heading, annotation = ".".join(map(str, path)), field and field.annotation
    if fault["type"] == "tuple_type" and inner is not None and inner in models_in(annotation):
        return f"a section [[{heading}]] for each is needed, with {', '.join(inner.model_fields)}"
    if fault["type"] in ("dict_type", "model_type"):
        if len(path) == 1:
            return f"a section [{heading}] is needed, with its keys in the lines below it"
        if field is not None:
            example = re.sub(r"<\w+>", "NAME", str((field.examples or ["{ NAME = ... }"])[0]))
            return f"names with values in braces are needed, such as {example}"
        keys = ", ".join(f"{name} = ..." for name in inner.model_fields) if inner is not None else "key = ..."
        return f"keys with values in braces are needed: {{ {keys} }}"
    if fault["type"] in NEEDED:
        return NEEDED[fault["type"]](fault.get("ctx", {}))
    return fault["msg"][:1].lower() + fault["msg"][1:]


def find_line(text: str, path: tuple[Any, ...]) -> int | None:
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
        if depth > best_depth and keys == path[:depth]:
            best, best_depth = number, depth
    return best


def _split_key(text: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in re.findall(r""""[^"]*"|'[^']*'|[^.\s]+""", text))


def _section(model: type[BaseModel], path: tuple[Any, ...]) -> type[BaseModel] | None:
    """The model of the section at `place`, through dictionaries and tuples of sections; None where there is none."""
    for part in path:
        field = model.model_fields.get(str(part))
        # A part that is no field is a name of the user's, or a number in a list.
        inner = model if field is None else next(models_in(field.annotation), None)
        if inner is None:
            return None
        model = inner
    return model


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The sections in a type, also inside tuples, dictionaries and unions."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from models_in(argument)


def _description(model: type[BaseModel], path: tuple[Any, ...]) -> str:
    section = _section(model, path[:-1])
    field = section.model_fields.get(str(path[-1])) if section is not None and path else None
    if field is None or field.description:
        return (field and field.description) or ""
    return next(((inner.__doc__ or "").strip().split("\n")[0] for inner in models_in(field.annotation)), "")


def as_toml(value: Any) -> str:
    """A value as it stands in a file."""
    match value:
        case bool() | int():
            return json.dumps(value)
        case list() | tuple():
            return "[" + ", ".join(map(as_toml, value)) + "]"
        case dict():
            pairs = ", ".join(f"{as_key(str(name))} = {as_toml(each)}" for name, each in value.items())
            return f"{{ {pairs} }}" if pairs else "{}"
        case str():
            # A JSON string is a TOML basic string; TOML asks for DEL to be escaped as well.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case _:
            return str(value)


def as_key(name: str) -> str:
    """A key as it stands in a file."""
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else as_toml(name)


def shown(value: Any) -> str:
    """The same for a message: at most 60 characters."""
    text = as_toml(value)
    return text if len(text) <= 60 else text[:57] + "..."
