"""Compiled programs that commands keep for the next ones, in the user's cache folder: a third to a half of a command's time.

JAX has such a cache, but writes its entries in place and reads them without a lock. So every process has a folder of its own with
links to what is kept; what it adds is moved to the others, each entry in one step, when it ends. A killed process leaves its
folder, which a later one removes. COBED_CACHE names another folder, or is "off". Nothing here imports JAX: it reads its settings
from the environment when it is loaded.
"""

import atexit
import contextlib
import hashlib
import os
import platform
import shutil
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

SETTING = "COBED_CACHE"
# Entries are a few kilobytes to a megabyte; those used least recently go first.
MAX_BYTES = 256 * 2**20
# A folder of a process this old belongs to none that still runs.
SECONDS_ALIVE = 7 * 24 * 3600.0
OWN, ENTRY = "process-", "*-cache"


def keep_programs() -> Path | None:
    """From now on JAX takes programs that were kept, and this process keeps its own at its end. The folder it uses.

    None where that is switched off, where JAX was told of another cache, or where the folder cannot be used or is not the user's
    own: programs that somebody else can put there are not run.
    """
    given = os.environ.get(SETTING, "")
    if (
        given.lower() in ("off", "0", "no", "false")
        or "JAX_COMPILATION_CACHE_DIR" in os.environ
        or "jax" in sys.modules
    ):
        return None
    try:
        kept = Path(given).expanduser() if given else _user_cache() / "cobed"
        kept = kept / _machine()
        kept.mkdir(parents=True, exist_ok=True, mode=0o700)
        if _others_write(kept):
            return None
        _sweep(kept)
        own = Path(tempfile.mkdtemp(prefix=OWN, dir=kept))
        for entry in kept.glob(ENTRY):
            with contextlib.suppress(FileNotFoundError):
                os.link(entry, own / entry.name)
    except OSError:
        return None
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(own)
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    # These have the name of the folder in them, and it would belong to the name of every entry.
    os.environ["JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES"] = "none"
    # XLA complains at length about its own files.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    atexit.register(_add, own, kept)
    return own


def _others_write(folder: Path) -> bool:
    if not hasattr(os, "getuid"):
        return False
    status = folder.stat()
    return status.st_uid != os.getuid() or bool(status.st_mode & 0o022)


def _user_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _machine() -> str:
    """Programs are for one processor and one version: a home folder can be shared by machines that differ."""
    processor = platform.processor()
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        processor += next((line for line in file if line.startswith(("flags", "Features"))), "")
    described = f"{version('jax')} {version('jaxlib')} {platform.machine()} {processor}"
    return hashlib.sha256(described.encode()).hexdigest()[:16]


def _add(own: Path, kept: Path) -> None:
    """Move what is new to what is kept, and let the oldest go where that is too much."""
    with contextlib.suppress(OSError):
        for entry in own.glob(ENTRY):
            if not (kept / entry.name).exists():
                os.replace(entry, kept / entry.name)
        entries = [(max(entry.stat().st_atime, entry.stat().st_mtime), entry) for entry in kept.glob(ENTRY)]
        total = sum(entry.stat().st_size for _, entry in entries)
        for _, entry in sorted(entries):
            if total <= MAX_BYTES:
                break
            total -= entry.stat().st_size
            entry.unlink(missing_ok=True)
    shutil.rmtree(own, ignore_errors=True)


def _sweep(kept: Path) -> None:
    for folder in kept.glob(f"{OWN}*"):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > SECONDS_ALIVE:
                shutil.rmtree(folder, ignore_errors=True)
