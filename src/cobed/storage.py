"""Files that are written whole or not at all, and outputs that never take the place of somebody's work.

`write_whole` replaces what is there: for files that are cobed's own state. `write_output` is for what people open and
edit: it replaces a file only where its content is one that cobed wrote there itself, or the same as the new one. What was
written is known by its hash, one line each in `.cobed-written` beside the outputs, added before the file is replaced: a
process killed between the two leaves a file that can be replaced again.
"""

import contextlib
import errno
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from cobed.errors import StorageError

try:
    import fcntl
except ImportError:  # Windows: leftovers of killed processes stay until somebody removes them.
    fcntl = None

WRITTEN = ".cobed-written"
HIDDEN = "***"  # in the place of a password
# Names nobody can guess, so that nobody can put a link in their place.
TEMPORARY = ".cobed-{name}-{token}.tmp"

Write = Callable[[IO[bytes]], Any]


def printable(text: object) -> str:
    """A location, or a message that may hold one, as people may see it: what could be a password of a URL is hidden."""
    # A path has one slash where a URL has two.
    text = re.sub(r"(:/{1,2}[^\s:/@]*):.*@", rf"\1:{HIDDEN}@", str(text))
    return re.sub(r"((?:^|[?&;\s])\w*pass\w*=)[^&;\s]*", rf"\1{HIDDEN}", text, flags=re.IGNORECASE)


def write_whole(path: Path, write: Write) -> None:
    """Let `write` fill a file without a name, then put it in the place of `path` in one step."""
    with _told(path):
        _replace(_real(path), write, lambda file: None)


def write_output(path: str | Path, write: Write) -> Path:
    """The same for an output: `StorageError` where it would take the place of anything that cobed did not write there."""
    path = Path(path)
    _check_name(path, {})
    with _told(path):
        target = _real(path)

        def protect(file: IO[bytes]) -> None:
            file.seek(0)
            new = hashlib.file_digest(file, "sha256").hexdigest()  # pyright: ignore[reportArgumentType]
            _refuse_foreign(path, new)
            _record(target, new)

        _replace(target, write, protect)
    return path


def write_text(path: str | Path, text: str) -> Path:
    """Write text to a file for people or programs, whole or not at all."""
    return write_output(path, lambda file: file.write(text.encode("utf-8", "replace")))


def check_output(path: str | Path, inputs: Mapping[str, str | Path | None] | None = None) -> None:
    """`StorageError` where `path` cannot be written to: to be asked before long work.

    `inputs` are files that must stay as they are, by what to call them.
    """
    path = Path(path)
    _check_name(path, inputs or {})
    with _told(path):
        _refuse_foreign(path, None)


def _check_name(path: Path, inputs: Mapping[str, str | Path | None]) -> None:
    """`StorageError` where there can be no output of this name, whatever it holds."""
    if "\x00" in str(path):
        raise StorageError(f"{str(path)!r} is not a file name: it holds a NUL character. Give another name.")
    with _told(path):
        target = _real(path)
        for what, other in inputs.items():
            if other is not None and _same(target, Path(other)):
                raise StorageError(f"{path} is {what} and is not written over. Choose another name (--out).")
        if path.is_symlink() and not target.exists():
            raise StorageError(f"{path} is a link to {target}, which does not exist. Choose another name (--out).")
        if target.is_dir():
            raise StorageError(f"{path} is a directory. Give the name of a file in it: --out {path / 'NAME'}.")
        if target.exists() and not target.is_file():
            raise StorageError(f"{path} is not an ordinary file. Choose another name (--out).")
        _check_folder(target.parent, path)


def remove_output(path: str | Path) -> None:
    """Remove an output of an earlier run; `StorageError` where it is anything that cobed did not write there."""
    check_output(path)
    with _told(Path(path)), contextlib.suppress(FileNotFoundError):
        os.unlink(_real(Path(path)))


def make_folder(path: str | Path) -> Path:
    """The folder, made where there is none; `StorageError` where that cannot be."""
    path = Path(path)
    with _told(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


def store_files(location: str | Path) -> dict[str, Path]:
    """The files of a campaign kept in SQLite, by what to call them; none for a server's database."""
    text = str(location)
    if "://" in text:
        scheme, _, rest = text.partition("://")
        if not scheme.startswith("sqlite"):
            return {}
        text = rest.removeprefix("/").partition("?")[0]
    files = {"the store of the campaign": Path(text)}
    return files | {f"a part of the store ({end})": Path(text + end) for end in ("-wal", "-shm", "-journal")}


def _same(path: Path, other: Path) -> bool:
    """Whether two paths are one file, whatever the spelling: also through links."""
    if path == _real(other):
        return True
    return path.exists() and other.exists() and os.path.samefile(path, other)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _check_folder(folder: Path, path: Path) -> None:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        raise StorageError(f"{path} cannot be written: {folder} is a file, not a folder. Choose another name (--out).")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StorageError(
            f"{path} cannot be written: the folder {folder} is read-only for you. Choose another one (--out)."
        )


def _refuse_foreign(path: Path, new: str | None) -> None:
    """`StorageError` where the file holds anything but `new` or what cobed wrote there."""
    target = _real(path)
    try:
        with open(target, "rb") as file:
            current = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return
    written = _written(target)
    if current == new or current in written:
        return
    why = "was changed since cobed wrote it" if written else "exists already, and it is not known that cobed wrote it"
    raise StorageError(
        f"{path} {why}; it is not written over. Choose another name (--out), or move the file away first."
    )


def _written(target: Path) -> set[str]:
    """The hashes of what cobed ever wrote to this name."""
    try:
        lines = (target.parent / WRITTEN).read_bytes().splitlines()
    except FileNotFoundError:
        return set()
    name = _quoted(target)
    return {
        digest.decode("ascii", "replace") for digest, _, of in (line.partition(b"  ") for line in lines) if of == name
    }


def _quoted(target: Path) -> bytes:
    # One line per file, also where a name holds a line break.
    return os.fsencode(target.name).replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")


def _record(target: Path, digest: str) -> None:
    """Add a line. Lines are only ever added, by one write each: two processes do not disturb each other."""
    if digest in _written(target):
        return
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    record = os.open(target.parent / WRITTEN, flags, 0o666)
    try:
        size = os.fstat(record).st_size
        # A disk that was full may have cut the last line.
        cut = size and os.pread(record, 1, size - 1) != b"\n"
        os.write(record, (b"\n" if cut else b"") + digest.encode() + b"  " + _quoted(target) + b"\n")
        os.fsync(record)
    finally:
        os.close(record)


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        advice = "Free some space, or write to another disk" if full else "Give another name or folder"
        raise StorageError(
            f"{path} cannot be written: {error.strerror or error}. {advice}; what was there before is as it was."
        ) from error


def _replace(target: Path, write: Write, protect: Callable[[IO[bytes]], None]) -> None:
    """Fill a temporary file, ask `protect` last, then make it `target` in one step."""
    target.parent.mkdir(parents=True, exist_ok=True)
    _sweep(target)
    descriptor, name = _temporary(target)
    try:
        with os.fdopen(descriptor, "w+b") as file:
            write(file)
            file.flush()
            with contextlib.suppress(FileNotFoundError, AttributeError):
                os.fchmod(descriptor, stat.S_IMODE(os.stat(target).st_mode))
            os.fsync(descriptor)
            protect(file)
            if name is None:
                name = _new_name(target)
                if not target.exists() and _link(descriptor, target):
                    name = None
                else:
                    # Somebody else may have written it just now.
                    protect(file)
                    _link(descriptor, name)
            if fcntl is None:
                file.close()
            if name is not None:
                os.replace(name, target)
                name = None
    finally:
        if name is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)
    _sync_folder(target.parent)


def _link(descriptor: int, path: Path) -> bool:
    """Give a file without a name one; False where another file has it."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # Python follows the link in /proc only where a folder is given.
        os.link(f"/proc/self/fd/{descriptor}", path.name, dst_dir_fd=folder, follow_symlinks=True)
    except FileExistsError:
        return False
    finally:
        os.close(folder)
    return True


def _sync_folder(folder: Path) -> None:
    if fcntl is None:
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _new_name(target: Path, token: str | None = None) -> Path:
    digest = hashlib.sha256(os.fsencode(target.name)).hexdigest()[:12]
    return target.parent / TEMPORARY.format(name=digest, token=secrets.token_hex(8) if token is None else token)


def _temporary(target: Path) -> tuple[int, Path | None]:
    """A new file, locked while its writer lives: without a name where the file system can, else with one."""
    if hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            descriptor = os.open(target.parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666)
            _lock(descriptor)
            return descriptor, None
    while True:
        name = _new_name(target)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        descriptor = os.open(name, flags | getattr(os, "O_BINARY", 0), 0o666)
        _lock(descriptor)
        # Another process may have swept it in the moment before it was locked.
        if os.fstat(descriptor).st_nlink:
            return descriptor, name
        os.close(descriptor)


def _lock(descriptor: int, *, wait: bool = True) -> bool:
    """Hold the file until it is closed. Where there are no locks, nobody sweeps."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def _sweep(target: Path) -> None:
    """Remove what killed processes left of this output: files of our names that nobody holds."""
    start = _new_name(target, "").name.removesuffix(".tmp")
    for name in os.listdir(target.parent):
        if not (name.startswith(start) and name.endswith(".tmp")):
            continue
        with contextlib.suppress(OSError):
            descriptor = os.open(target.parent / name, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
            try:
                if _lock(descriptor, wait=False):
                    os.unlink(target.parent / name)
            finally:
                os.close(descriptor)
