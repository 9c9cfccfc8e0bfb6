"""How the source is built: type checks, long files, long parameter lists, and the way from `cobed design` to the objective.

    python benchmarks/house.py

Counts what is in `src/cobed`, then runs `cobed design` on ten made-up customers and watches which functions it passes until
an objective is evaluated. The figures wanted are those of the project's own rules (CONTRIBUTING.md).
"""

import ast
import contextlib
import io
import statistics
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "cobed"
MAX_LINES, MAX_PARAMETERS, MAX_CHECKS, MAX_PATH = 350, 7, 4.0, 20
# The public call, whose arguments are its documentation.
ASIDE = {"designers/cobed.py:design"}

SPEC = """
name = "ten customers"
[units]
id = "customer"
[context]
age = "numeric"
[action]
options = ["none", "letter"]
[outcome]
column = "spend"
likelihood = "normal"
typical = 10.0
spread = 5.0
[design]
budget = "smoke"
"""


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many arguments a call can give, `self` and `cls` left out."""
    spec = function.args
    names = [argument.arg for argument in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def is_command(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether the parameters are the options of a command."""
    return any("command" in ast.unparse(decorator) for decorator in function.decorator_list)


def count() -> None:
    """Print what can be read off the files."""
    lengths, checks, long, many = {}, 0, [], []
    sizes: list[int] = []
    for path in sorted(SOURCE.rglob("*.py")):
        name, text = path.relative_to(SOURCE).as_posix(), path.read_text()
        lengths[name] = text.count("\n")
        if lengths[name] > MAX_LINES:
            long.append(f"{name} ({lengths[name]})")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                checks += node.func.id in ("isinstance", "issubclass")
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                sizes.append((node.end_lineno or node.lineno) - node.lineno + 1)
                label = f"{name}:{node.name}"
                if parameters(node) > MAX_PARAMETERS and label not in ASIDE and not is_command(node):
                    many.append(f"{label} ({parameters(node)})")
    total = sum(lengths.values())
    print(f"source: {total:,} lines in {len(lengths)} files, median {statistics.median(lengths.values()):.0f} lines")
    print(f"functions: {len(sizes):,}, median {statistics.median(sizes):.0f} lines, longest {max(sizes)}")
    print(f"type checks: {checks}, {1000 * checks / total:.1f} per 1,000 lines (at most {MAX_CHECKS:g} wanted)")
    print(f"files over {MAX_LINES} lines: {len(long)} {', '.join(long)}")
    print(f"functions with more than {MAX_PARAMETERS} parameters: {len(many)} {', '.join(many)}")


def longest_path() -> list[str]:
    """The functions of cobed that stand on the stack when an objective is evaluated, `cobed design` first."""
    from typer.testing import CliRunner

    from cobed.cli import app
    from cobed.objectives.base import AbstractObjective

    deepest: list[str] = []

    def watch(frame, event, _):
        if event != "call" or not frame.f_code.co_filename.startswith(str(SOURCE)):
            return
        if not isinstance(frame.f_locals.get("self"), AbstractObjective) or frame.f_code.co_name not in (
            "__call__",
            "gains",
        ):
            return
        names = []
        while frame is not None:
            code = frame.f_code
            if code.co_filename.startswith(str(SOURCE)):
                names.append(f"{Path(code.co_filename).relative_to(SOURCE)}:{code.co_qualname}")
            frame = frame.f_back
        if len(names) > len(deepest):
            deepest[:] = names[::-1]

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("campaign.toml").write_text(SPEC)
        Path("customers.csv").write_text("customer,age\n" + "\n".join(f"c{i},{20 + 3 * i}" for i in range(10)) + "\n")
        sys.setprofile(watch)
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                result = CliRunner().invoke(app, ["design", "customers.csv"], catch_exceptions=False)
        finally:
            sys.setprofile(None)
    if result.exit_code or not deepest:
        raise SystemExit(f"`cobed design` evaluated no objective: {result.output}")
    return deepest


if __name__ == "__main__":
    count()
    path = longest_path()
    files = {name.split(":")[0] for name in path}
    print(
        f"from `cobed design` to the objective: {len(path)} functions in {len(files)} files (at most {MAX_PATH} wanted)"
    )
    for name in path:
        print(f"    {name}")
