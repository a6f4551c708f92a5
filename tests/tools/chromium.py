"""Where the browser is: the Chromium that the browser tests drive.

    python -m tests.tools.chromium             prints its path
    python -m tests.tools.chromium --install   installs it where it is missing

``CHROMIUM`` names one; else the first of the usual names on ``PATH`` is taken.
Limits: only Debian's package can be installed, and only by root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

__all__ = ["find", "install"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_ADVICE = (
    "no Chromium was found: install one (on Debian, `apt-get install chromium`), "
    "or name it, as in CHROMIUM=/path/to/chromium make test"
)


def find() -> str:
    """Path of the browser.

    Raises:
        FileNotFoundError: There is none; says what to do.
    """
    named = os.environ.get("CHROMIUM")
    if named:
        if path := shutil.which(named):
            return path
        raise FileNotFoundError(f"CHROMIUM names {named!r}, which is no program; {_ADVICE}")
    for name in _NAMES:
        if path := shutil.which(name):
            return path
    raise FileNotFoundError(_ADVICE)


def install() -> None:
    """Install Debian's Chromium.

    Raises:
        FileNotFoundError: This is no Debian, or the user is not root.
    """
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise FileNotFoundError(_ADVICE)
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    packages = ["chromium", "fonts-dejavu-core"]
    for command in (
        ["apt-get", "update"],
        ["apt-get", "install", "--yes", "--no-install-recommends", *packages],
    ):
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)


def main() -> None:
    """Print where the browser is, after installing it if that was asked for."""
    try:
        path = find()
    except FileNotFoundError:
        if "--install" not in sys.argv[1:] or os.environ.get("CHROMIUM"):
            raise
        install()
        path = find()
    print(path)


if __name__ == "__main__":
    try:
        main()
    except FileNotFoundError as error:
        sys.exit(str(error))
