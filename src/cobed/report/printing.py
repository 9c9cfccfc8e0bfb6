"""A page as PDF, printed by a Chromium that is on the machine."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from cobed.errors import StorageError

# Where another one is to be taken.
CHROMIUM = "COBED_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
SECONDS = 120


def find_chromium() -> str | None:
    """The program that prints pages; None where there is none."""
    given = os.environ.get(CHROMIUM)
    return shutil.which(given) if given else next((path for name in NAMES if (path := shutil.which(name))), None)


def print_page(html: str) -> bytes:
    """The page as a PDF file. `StorageError` where no Chromium is found, or where it fails."""
    program = find_chromium()
    if program is None:
        raise StorageError(
            "A PDF is printed by Chromium or Chrome, and none was found on this machine. Install one (on Debian and Ubuntu: "
            f"apt-get install chromium), name one with {CHROMIUM}=/path/to/it, or write the page with --format html and print "
            "it from your browser."
        )
    with tempfile.TemporaryDirectory(prefix="cobed-print-") as folder:
        page, printed = Path(folder) / "page.html", Path(folder) / "page.pdf"
        page.write_text(html, encoding="utf-8", errors="replace")
        command = [
            program,
            "--headless",
            "--disable-gpu",
            "--no-pdf-header-footer",
            f"--user-data-dir={folder}/profile",
        ]
        # Chromium refuses to run as root inside its own walls; the page is our own and runs no script.
        command += ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        command += [f"--print-to-pdf={printed}", page.as_uri()]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise StorageError(f"{program} could not print the page: {error}.") from error
        if not printed.exists():
            said = done.stderr.strip().splitlines()
            raise StorageError(f"{program} could not print the page: {said[-1] if said else 'it said nothing'}.")
        return printed.read_bytes()
