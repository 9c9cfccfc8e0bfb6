"""Runs `cobed` commands in processes of their own, quickly, and kills them where asked.

A server imports cobed once, and JAX without starting it, so that it has one thread and may fork. Each command is a fork of
it: a real process with its own JAX, which dies by SIGKILL at a moment in seconds, or at a point of its work. The points are
calls that change files or the store (see `POINTS`); the child says which it passes. The product knows nothing of this.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

# Calls of `os` around which a process can be killed; statements and commits of the store come to them.
POINTS = ("open", "fsync", "replace", "rename", "link", "unlink", "remove", "fchmod", "chmod", "truncate")
SETTINGS = {
    # One thread before a fork.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    # Processes of the same shapes share compiled programs; XLA complains at length about its own files.
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


class Kill(NamedTuple):
    """When to die: so many seconds after the start, or so many seconds after point number `point` (from 0) is reached."""

    seconds: float
    point: int | None = None


class Ran(NamedTuple):
    """How a command ended: its exit code (-9 where it was killed), what it printed, how long it took, points it passed."""

    code: int
    said: str
    complained: str
    seconds: float
    points: list[str]

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL


class Forks:
    """A server of processes. `run` waits for the end of the command."""

    def __init__(self, cache: Path):
        environment = os.environ | SETTINGS | {"JAX_COMPILATION_CACHE_DIR": str(cache)}
        self._server = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def run(self, *arguments: str, cwd: Path, kill: Kill | None = None) -> Ran:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps({"arguments": arguments, "cwd": str(cwd), "kill": kill}) + "\n")
        self._server.stdin.flush()
        answer = self._server.stdout.readline()
        if not answer:
            raise RuntimeError("The server of processes has ended.")
        return Ran(**json.loads(answer))

    def close(self) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait()


# Inside the server and its children.


def serve() -> None:
    import importlib
    import pkgutil

    import cobed.campaign
    import cobed.report

    # Everything that commands of a campaign import, JAX with it.
    for package in (cobed.campaign, cobed.report):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    import cobed.cli

    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(_run(request["arguments"], request["cwd"], request["kill"])), flush=True)


def _run(arguments: list[str], cwd: str, kill: tuple[float, int | None] | None) -> dict[str, Any]:
    if len(os.listdir("/proc/self/task")) > 1:
        raise RuntimeError("The server has threads, and a fork of it could hang.")
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complained, tempfile.TemporaryFile() as points:
        started = time.monotonic()
        child = os.fork()
        if child == 0:
            _become(arguments, cwd, (said.fileno(), complained.fileno(), points.fileno()), kill)
        if kill is not None and kill[1] is None:
            # The child may end by itself before; until it is waited for, its number stays its own.
            while time.monotonic() - started < kill[0] and not os.waitid(
                os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT
            ):
                time.sleep(min(0.002, max(0.0, kill[0] - (time.monotonic() - started))))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        texts = []
        for file in (said, complained, points):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    seconds = time.monotonic() - started
    code = os.waitstatus_to_exitcode(status)
    return {
        "code": code, "said": texts[0], "complained": texts[1], "seconds": seconds, "points": texts[2].splitlines(),
    }  # fmt: skip


def _become(arguments: list[str], cwd: str, files: tuple[int, int, int], kill: tuple[float, int | None] | None) -> None:
    """The child: the command line with these arguments, and the end of the process."""
    import traceback
    import warnings

    code = 70
    try:
        os.chdir(cwd)
        os.dup2(files[0], 1)
        os.dup2(files[1], 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        # What was printed before a kill is read.
        sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1) for number in (1, 2))
        warnings.filterwarnings("ignore", message=".*os.fork.*")
        _arm(files[2], *(kill if kill is not None and kill[1] is not None else (0.0, None)))
        sys.argv = ["cobed", *arguments]
        from cobed.cli import main

        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        import contextlib

        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _arm(log: int, seconds: float, fatal: int | None) -> None:
    """Write down each point before it is passed, and die `seconds` after the one numbered `fatal`."""
    import sqlalchemy as sa
    from sqlalchemy.engine.default import DefaultDialect

    count = 0

    def pass_by(name: str) -> None:
        nonlocal count
        os.write(log, f"{name}\n".encode())
        if count == fatal:
            if seconds == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()
        count += 1

    def wrapped(name: str, call: Any) -> Any:
        def wrapper(*given: Any, **named: Any) -> Any:
            writes = name != "open" or any(
                flag & os.O_CREAT or flag & os.O_TMPFILE == os.O_TMPFILE for flag in given[1:2]
            )
            if writes:
                pass_by(f"before {name}")
            result = call(*given, **named)
            if writes:
                pass_by(f"after {name}")
            return result

        return wrapper

    for name in POINTS:
        setattr(os, name, wrapped(name, getattr(os, name)))
    DefaultDialect.do_commit = wrapped("commit", DefaultDialect.do_commit)

    @sa.event.listens_for(sa.Engine, "after_cursor_execute")
    def executed(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        word = statement.split(maxsplit=1)[0].lower()
        if word in ("insert", "update", "delete", "create", "alter", "begin"):
            pass_by(f"after {word}")


if __name__ == "__main__":
    serve()
