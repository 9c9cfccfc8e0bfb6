"""The order of the rooms, and the rules every source file keeps. Reads the files; never imports the package."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "cobed"

# Top first. A module imports only from its own line and the lines above it.
ROOMS = [
    [
        "errors",
        "types",
        "progress",
        "compilation",
        "kept_programs",
        "linalg",
        "storage",
        "identity",
        "tables",
        "lazy",
        "keys",
        "registry",
        "notebook",
    ],
    ["spaces"],
    ["outcomes", "beliefs"],
    ["rules", "assignment", "allocation"],
    ["models"],
    ["optimum"],
    ["allowed", "problem", "pool", "data"],
    ["policies"],
    ["critics", "densities", "bounds", "entropy"],
    # What is climbed, how long, and what the end is worth: docs/decisions.md.
    ["objectives", "budget"],
    ["search"],
    ["information"],
    ["inference"],
    ["designers"],
    ["experiment", "decide", "valuation"],
    ["metrics"],
    ["trial"],
    ["checks"],
    ["campaign"],
    # report stands above reproduce, because a reproduction ends in figures: docs/decisions.md.
    ["report"],
    ["reproduce"],
    ["cli", "studio"],
]
LEVEL = {room: level for level, rooms in enumerate(ROOMS) for room in rooms}

MAX_LINES = 350
PICKLERS = {"pickle", "cloudpickle", "dill"}
# A campaign's database is reached through SQLAlchemy; nothing else leaves the machine.
NETWORK = {
    "socket",
    "http",
    "urllib.request",
    "requests",
    "httpx",
    "aiohttp",
    "ftplib",
    "smtplib",
    "socketserver",
    "xmlrpc",
}

Name = tuple[str, ...]  # ("cobed", "models", "linear")


def source_files(package: Path) -> list[Path]:
    return sorted(package.rglob("*.py"))


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imports(path: Path, package: Path) -> Iterator[tuple[int, Name]]:
    """Line and absolute name of every import in the file, wherever it stands: `ast.walk` enters functions and ifs."""
    # The folder is what one leading dot means, in an __init__.py as in any other file.
    here = path.relative_to(package.parent).parts[:-1]
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, tuple(alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - (node.level - 1)] if node.level else ()
            name = base + tuple((node.module or "").split(".") if node.module else ())
            if name == (package.name,):  # `from cobed import spaces` names the room only in the alias
                for alias in node.names:
                    yield node.lineno, (*name, alias.name)
            else:
                yield node.lineno, name


def room_of(name: Name) -> str:
    return name[1] if len(name) > 1 else ""


def forbidden_imports(package: Path) -> list[str]:
    """A sentence for each module without a room, and for each import of a lower room."""
    # The exports of the package itself are lazy and reach every room.
    files = [path.relative_to(package) for path in source_files(package) if path != package / "__init__.py"]
    homeless = {room for relative in files if (room := relative.parts[0].removesuffix(".py")) not in LEVEL}
    sentences = [f"'{room}' is in no room. Add it to ROOMS in tests/test_architecture.py." for room in sorted(homeless)]
    for relative in files:
        room = relative.parts[0].removesuffix(".py")
        if room in homeless:
            continue
        for line, target in imports(package / relative, package):
            if target[:1] != (package.name,):
                continue
            imported = room_of(target)
            if imported.startswith("__"):
                continue  # cobed.__version__ belongs to no room
            if imported in homeless:
                continue  # told once, at the module itself
            # The package itself re-exports every room, so it counts as the lowest.
            if LEVEL.get(imported, len(ROOMS) - 1) > LEVEL[room]:
                what = f"'{imported}'" if imported in LEVEL else "the package itself"
                sentences.append(f"{relative}, line {line}: '{room}' imports {what}, which stands below it.")
    return sentences


def pickling(package: Path) -> list[str]:
    """A sentence for each import of a pickler and each call that allows pickles."""
    sentences = []
    for path in source_files(package):
        relative = path.relative_to(package)
        for line, target in imports(path, package):
            if target and target[0] in PICKLERS:
                sentences.append(f"{relative}, line {line}: imports {target[0]}. Store JSON and .npz.")
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.Call):
                for keyword in node.keywords:
                    harmless = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
                    if keyword.arg == "allow_pickle" and not harmless:
                        sentences.append(f"{relative}, line {node.lineno}: allows pickles. Store JSON and .npz.")
    return sentences


def connecting(package: Path) -> list[str]:
    """A sentence for each import of a module that speaks to a network."""
    return [
        f"{path.relative_to(package)}, line {line}: imports {target[0]}, which reaches other machines."
        for path in source_files(package)
        for line, target in imports(path, package)
        if target and (target[0] in NETWORK or ".".join(target[:2]) in NETWORK or target == ("urllib",))
    ]


def test_every_import_points_to_the_same_room_or_one_above():
    assert PACKAGE.is_dir()
    found = forbidden_imports(PACKAGE)
    assert not found, "\n" + "\n".join(found)


def test_nothing_is_pickled():
    found = pickling(PACKAGE)
    assert not found, "\n" + "\n".join(found)


def test_no_module_opens_a_connection():
    found = connecting(PACKAGE)
    assert not found, "\n" + "\n".join(found)


def test_only_the_store_speaks_to_a_database():
    """The rest of a campaign passes connections on: it asks and writes by the functions of `records`."""
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in source_files(PACKAGE)
        for _, target in imports(path, PACKAGE)
        if target[:1] == ("sqlalchemy",)
    }
    assert found == {f"campaign/{name}.py" for name in ("database", "records", "schema", "store")}


def test_no_source_file_is_longer_than_a_head_can_hold():
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in source_files(PACKAGE)}
    found = [f"{path.relative_to(PACKAGE)} has {n} lines; split it." for path, n in lengths.items() if n > MAX_LINES]
    assert not found, "\n" + "\n".join(found)


def test_the_ten_most_likely_changes_touch_two_files_that_exist():
    """A file called NAME is the new one; its folder exists, and the other file registers or exports what is in the folder."""
    text = (PACKAGE.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = [line for line in text.partition("ten most likely changes")[2].splitlines() if line.startswith("| a")]
    assert len(rows) == 10
    for row in rows:
        files = re.findall(r"`([\w/]+\.py)`", row)
        assert 1 <= len(files) <= 2, row
        for name in files:
            path = PACKAGE / name
            assert (path.parent if path.stem == "NAME" else path).exists(), name
        if "registers" in row or "exports" in row:
            parts = [path.stem for path in (PACKAGE / files[0]).parent.glob("*.py")]
            imported = {name[-1] for _, name in imports(PACKAGE / files[1], PACKAGE)} & {*parts}
            assert len(imported) >= 3, row


# The walker itself, on small made-up trees.


@pytest.fixture
def tree(tmp_path):
    """Writes `{"models/linear.py": "import x"}` as a package called cobed."""

    def write(files: dict[str, str]) -> Path:
        package = tmp_path / "cobed"
        for name, text in files.items():
            path = package / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return package

    return write


@pytest.mark.parametrize(
    "text",
    [
        "import cobed.models",
        "import cobed.models.linear as linear",
        "from cobed.models import Linear",
        "from cobed.models.linear import Linear",
        "from cobed import errors, models",
        "from . import models",
        "from .models import Linear",
        "def f():\n    from cobed.models import Linear",
        "async def f():\n    import cobed.models",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from cobed.models import Linear",
        "try:\n    import cobed.models\nexcept ImportError:\n    pass",
    ],
)
def test_an_import_of_a_lower_room_is_found_wherever_it_stands(tree, text):
    (sentence,) = forbidden_imports(tree({"spaces.py": text}))
    assert "'spaces' imports 'models'" in sentence
    line = next(n for n, part in enumerate(text.splitlines(), start=1) if "models" in part)
    assert f"spaces.py, line {line}:" in sentence


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("models/linear.py", "from cobed.spaces import Discrete"),
        ("models/linear.py", "from ..spaces import Discrete"),
        ("models/linear.py", "from .base import AbstractModel"),
        ("models/linear.py", "from . import base"),
        ("models/__init__.py", "from .linear import Linear"),
        ("models/__init__.py", "from . import linear"),
        ("problem.py", "from cobed.pool import Pool"),
        ("pool.py", "from cobed.problem import Problem"),
        ("reproduce/gp.py", "from cobed.report import figure"),
        ("cli/__init__.py", "import cobed"),
        ("campaign/store.py", "from cobed import __version__"),
        ("spaces.py", "import models"),
        ("spaces.py", "from cobedience.models import Linear"),
    ],
)
def test_imports_from_above_from_the_same_line_and_from_elsewhere_are_allowed(tree, file, text):
    assert forbidden_imports(tree({file: text})) == []


@pytest.mark.parametrize(
    ("file", "text", "lower"),
    [
        ("models/linear.py", "from ..trial import run", "trial"),
        ("models/linear.py", "from .. import trial", "trial"),
        ("models/deep/net.py", "from ...trial import run", "trial"),
        ("models/__init__.py", "from ..trial import run", "trial"),
        ("report/page.py", "from ..reproduce import gp", "reproduce"),
    ],
)
def test_relative_imports_are_resolved_from_where_the_file_stands(tree, file, text, lower):
    (sentence,) = forbidden_imports(tree({file: text}))
    assert f"imports '{lower}'" in sentence


@pytest.mark.parametrize("text", ["import cobed", "from cobed import design", "from cobed import *", "from . import x"])
def test_the_package_itself_counts_as_the_lowest_room(tree, text):
    (sentence,) = forbidden_imports(tree({"trial.py": text}))
    assert "imports the package itself" in sentence


def test_the_exports_of_the_package_may_reach_every_room(tree):
    assert forbidden_imports(tree({"__init__.py": "from cobed.cli import main"})) == []


@pytest.mark.parametrize("file", ["helpers.py", "helpers/__init__.py", "helpers/deep.py"])
def test_a_module_without_a_room_is_told_where_to_be_added(tree, file):
    (sentence,) = forbidden_imports(tree({file: "", "spaces.py": "import cobed.helpers"}))
    assert "'helpers' is in no room. Add it to ROOMS" in sentence


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "import cloudpickle as cp",
        "from dill import loads",
        "def f():\n    import pickle",
        "np.load(path, allow_pickle=True)",
        "load(path, allow_pickle=flag)",
    ],
)
def test_pickling_is_found(tree, text):
    assert len(pickling(tree({"trial.py": text}))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "import socket",
        "from urllib.request import urlopen",
        "from urllib import request",
        "def f():\n    import http.client",
    ],
)
def test_a_connection_is_found(tree, text):
    assert len(connecting(tree({"trial.py": text}))) == 1


@pytest.mark.parametrize("text", ["np.load(path)", "np.load(path, allow_pickle=False)", "from .pickle import x"])
def test_loading_arrays_without_pickles_is_allowed(tree, text):
    assert pickling(tree({"trial.py": text})) == []
