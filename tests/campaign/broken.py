"""Specs, tables and frames that nobody should write, made from good ones by a random generator: same generator, same input."""

import contextlib
import importlib.util
import random
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cobed.campaign.template import template

TESTS = Path(__file__).parent


def from_tests(name: str) -> Any:
    """A module of the tests: their specs and what they know of the keys are used here as well."""
    found = importlib.util.spec_from_file_location(name, TESTS / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


spec_tests, campaign_tests = from_tests("test_spec"), from_tests("test_campaign")
GOOD = [
    spec_tests.GOOD, campaign_tests.SPEC, campaign_tests.SPEC + campaign_tests.CONSTRAINTS, campaign_tests.BINARY,
    campaign_tests.COUNTS, campaign_tests.PRICE, campaign_tests.SPEC + '[model]\nfamily = "gp"\nfit = true\n',
    campaign_tests.SPEC + "[prior]\naction = 2.0\ncontext = 1.0\n[design]\nbudget = 'smoke'\n", template("fuzz"),
]  # fmt: skip
WORDS = [
    "", " ", "customer", "recency", "channel", "new", "offer", "amount", "visit", "none", "5%", "Web", "yes", "no", "nan", "NA",
    "None", "-", "null", "inf", "-inf", "1e309", "1e39", "1e-320", "-0.0", "1,5", "1_000", "0x10", "١٢", "\uff11", "007", "7.0",
    "true", "TRUE", "=cmd|'/c calc'!A1", "@SUM(1)", "+1", "\ufeff", "\u202e", "\x00", "\x1b[31m", "\ud800", "é", "e\u0301",
    "😀", "\u0131", "ß", "\n", "\r", "\t", '"', "'", "\\", ";", ",", "a" * 5000, "state", "round", "as_planned", "expected",
    "p_best", "low", "../x", "~", "%s", "{0}", "__class__", "2024-02-30", "1/0", "9" * 400, "1.5", "-1", "0", "1", "3",
]  # fmt: skip
NUMBERS = [
    0, 1, -1, 2, 5, 0.0, -0.0, 1.5, 1e-320, 1e-45, 1e30, 1e39, 1e300, -1e300, float("inf"), float("-inf"), float("nan"), 2**31,
    2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**30, 10**400, True,
]  # fmt: skip


def word(rng: random.Random) -> str:
    if rng.random() < 0.8:
        return rng.choice(WORDS)
    return "".join(chr(rng.choice([rng.randrange(32, 127), rng.randrange(0x110000)])) for _ in range(rng.randrange(6)))


def value(rng: random.Random, depth: int = 0) -> Any:
    """What a document can hold."""
    kind = rng.randrange(7 if depth < 3 else 4)
    if kind < 2:
        return rng.choice(NUMBERS)
    if kind < 4:
        return word(rng)
    if kind == 4:
        return rng.choice([[], {}, True, False])
    parts = [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return parts if kind == 5 else {word(rng): part for part in parts}


def mutate(rng: random.Random, text: str) -> str:
    """The text with one thing done to it."""
    lines = text.splitlines(keepends=True) or [""]
    a, b = sorted(rng.randrange(len(text) + 1) for _ in range(2))
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(12):
        case 0:
            return text[:a] + text[min(b, a + rng.randrange(1, 20)) :]
        case 1:
            return text[:a] + text[a:b] * 2 + text[b:]
        case 2:
            lines[i], lines[j] = lines[j], lines[i]
        case 3:
            lines.pop(i)
        case 4:
            lines.insert(i, lines[j])
        case 5:
            return text[:a] + word(rng) + text[a:]
        case 6:
            key, equals, _ = lines[i].partition("=")
            lines[i] = f"{key}{equals} {spec_tests.write(value(rng))}\n" if equals else lines[i]
        case 7:
            key, equals, rest = lines[i].partition("=")
            lines[i] = f"{spec_tests.write(word(rng))} ={rest}" if equals else lines[i]
        case 8:
            depth = rng.choice([3, 200, 2_000])
            lines.append(f"deep = {'[' * depth}{']' * depth}\n" if rng.random() < 0.5 else f"{'a.' * depth}b = 1\n")
        case 9:
            lines[i] = lines[i].replace('"', rng.choice(["'", "", '"""', "”"]))
        case 10:
            lines[i] = lines[i].upper() if rng.random() < 0.5 else lines[i].replace("=", rng.choice([":", "==", " "]))
        case _:
            return text.replace(rng.choice(text.split() or [""]), word(rng))
    return "".join(lines)


def place_value(rng: random.Random, text: str) -> str:
    """Anything in the place of one key, in a document that is valid otherwise."""
    document = tomllib.loads(text)
    *path, key = rng.choice(spec_tests.KEYS)
    section = document
    for name in path:
        section = section.setdefault(name, {})
    section[key] = value(rng)
    return "\n".join(f"{spec_tests.write(name)} = {spec_tests.write(inner)}" for name, inner in document.items())


def a_spec(rng: random.Random) -> str:
    text = rng.choice(GOOD)
    if rng.random() < 0.4:
        return place_value(rng, text)
    for _ in range(rng.choice([1, 1, 2, 4])):
        text = mutate(rng, text)
    return text


# Tables.

HEADS = [["customer", "recency", "channel", "new"], ["customer", "recency", "channel", "new", "offer", "amount"]]
TIDY = {
    "customer": lambda i: f"{i:03d}", "recency": lambda i: str(i), "channel": lambda i: ["Web", "Phone", "Shop"][i % 3],
    "new": lambda i: ["yes", "no"][i % 2], "offer": lambda i: ["none", "5%", "10%"][i % 3], "amount": lambda i: str(40 + i),
}  # fmt: skip


def text_table(rng: random.Random) -> tuple[list[str], list[list[str]]]:
    """A heading and rows, most cells as they should be."""
    head = list(rng.choice(HEADS))
    rows = [[TIDY[name](i) for name in head] for i in range(rng.randrange(6))]
    for _ in range(rng.choice([0, 1, 1, 2, 5])):
        match rng.randrange(6):
            case 0:
                head[rng.randrange(len(head))] = word(rng)
            case 1 if rows:
                rows[rng.randrange(len(rows))].append(word(rng))
            case 2 if rows:
                row = rng.choice(rows)
                del row[rng.randrange(len(row) + 1) :]
            case _ if rows:
                row = rng.choice(rows)
                if row:
                    row[rng.randrange(len(row))] = word(rng)
    return head, rows


def break_bytes(rng: random.Random, content: bytes) -> bytes:
    at = rng.randrange(len(content) + 1)
    match rng.randrange(4):
        case 0:
            return content[:at]
        case 1:
            return content[:at] + rng.randbytes(rng.randrange(1, 9)) + content[at:]
        case 2:
            return content[:at] + rng.randbytes(1) + content[at + 1 :]
        case _:
            return content + content[at:]


def column_of(rng: random.Random, name: str, number: int) -> Any:
    """Cells of one column: tidy ones in some type, or anything."""
    tidy = [TIDY.get(name, str)(i) for i in range(number)]
    numbers = list(range(number))
    match rng.randrange(17):
        case 0:
            return pd.Categorical(tidy)
        case 1:
            return pd.array(numbers, dtype=rng.choice(["Int64", "UInt8", "Float64", "Float32"]))
        case 2:
            return pd.array([rng.choice([True, False, None]) for _ in numbers], dtype="boolean")
        case 3:
            return pd.date_range("2024-01-01", periods=number, tz=rng.choice([None, "UTC"]))
        case 4:
            return pd.to_timedelta(numbers, unit="D")
        case 5:
            return [rng.choice([value(rng), word(rng), None, b"x", 1j, pd.NaT, pd.NA, print]) for _ in numbers]
        case 6:
            return np.array(
                numbers, dtype=rng.choice(["int8", "uint64", "float16", "float32", "complex128", "bool", "S3"])
            )
        case 7:
            return [rng.choice([np.inf, -np.inf, np.nan, 1e39, 1e308, 0.0]) for _ in numbers]
        case 8:
            return [rng.choice([2**70, -(2**70), 10**400, 1, None]) for _ in numbers]
        case 9:
            return [word(rng) for _ in numbers]
        case 10:
            return pd.array(tidy, dtype=rng.choice(["string", "string[pyarrow]"]))
        case 11:
            return pd.arrays.SparseArray(numbers)
        case 12:
            return pd.period_range("2024", periods=number, freq="D")
        case 13:
            return pd.interval_range(0, max(number, 1), periods=number) if number else []
        case 14:
            return [[i] if i % 2 else {"a": i} for i in numbers]
        case 15:
            return pd.Categorical([None] * number, categories=[1, 2])
        case _:
            return tidy
    return tidy


def series(cells: Any) -> pd.Series:
    try:
        return pd.Series(cells)
    except UnicodeEncodeError:
        # Lone surrogates: what pandas itself cannot guess a type for.
        return pd.Series(cells, dtype=object)


def a_frame(rng: random.Random, *, plain: bool = False) -> pd.DataFrame:
    head, number = list(rng.choice(HEADS)), rng.choice([0, 1, 2, 4, 4, 4])
    odd = rng.sample(head, rng.choice([0, 1, 1, 2, 4]))
    tidy = {name: [TIDY[name](i) for i in range(number)] for name in head}
    frame = pd.DataFrame({name: series(column_of(rng, name, number) if name in odd else tidy[name]) for name in head})
    if rng.random() < 0.2:
        frame.columns = [rng.choice([name, name, word(rng), 0, None, 1.5, ("a", "b"), True, b"x"]) for name in head]
    if plain:
        return frame
    match rng.randrange(12):
        case 0:
            frame.index = pd.MultiIndex.from_tuples([(i, "x") for i in range(number)], names=["a", None])
        case 1:
            frame.index = pd.Index([rng.choice([0, "a", None, 1.5]) for _ in range(number)], dtype=object)
        case 2:
            frame.columns = pd.MultiIndex.from_tuples([(name, "x") for name in frame.columns])
        case 3:
            frame = pd.concat([frame, frame.iloc[:, :1]], axis=1)
        case 4:
            # Of float16, of complex numbers and of some mixtures with bool pandas makes no index.
            with contextlib.suppress(NotImplementedError, TypeError, ValueError):
                frame = frame.set_index(frame.columns[0])
        case 5:
            frame.index = pd.date_range("2024", periods=number)
        case 6:
            frame = frame.T
    return frame
