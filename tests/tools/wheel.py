"""Checks a built wheel as a person meets it: in a clean environment, away from the sources.

    python -m tests.tools.wheel dist/fi_notebook-0.1.0-py3-none-any.whl

The wheel must hold every static file and ``py.typed``, install with the pinned
set into a new environment, import there, and answer ``fi-notebook --help``.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "fi_notebook"

_IMPORTS = """
import fi_notebook as fi
from importlib.metadata import version
from pathlib import Path
assert Path({prefix!r}) in Path(fi.__file__).parents, fi.__file__
assert version("fi-notebook") in {wheel!r}
for name in fi.__all__:
    getattr(fi, name)
print("fi_notebook", version("fi-notebook"), "has", ", ".join(fi.__all__))
"""


def missing_files(wheel: Path) -> list[str]:
    """Files of the package that the wheel lacks."""
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    sources = (p for p in PACKAGE.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    return sorted(name for p in sources if (name := p.relative_to(ROOT).as_posix()) not in held)


def foreign_files(wheel: Path) -> list[str]:
    """Files in the wheel that belong neither to the package nor to its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        return [
            name
            for name in archive.namelist()
            if not name.startswith("fi_notebook/") and ".dist-info/" not in name
        ]


def use(wheel: Path, directory: Path) -> None:
    """Install the wheel into a new environment and use it there."""
    venv.create(directory, with_pip=True)
    python = directory / "bin" / "python"
    constraints = ROOT / "tests" / "constraints.txt"
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run(python, *install, "--constraint", constraints, wheel)
    _run(python, "-c", _IMPORTS.format(prefix=str(directory), wheel=wheel.name))
    _run(directory / "bin" / "fi-notebook", "--help")


def _run(*command: object) -> None:
    subprocess.run([str(part) for part in command], check=True, cwd=tempfile.gettempdir())


def main(wheel: Path) -> None:
    """Check the wheel; ends with a message where something is wrong."""
    if missing := missing_files(wheel):
        sys.exit(f"the wheel lacks {', '.join(missing)}")
    if foreign := foreign_files(wheel):
        sys.exit(f"the wheel holds files of no package: {', '.join(foreign)}")
    with tempfile.TemporaryDirectory() as directory:
        use(wheel.resolve(), Path(directory).resolve() / "venv")
    print(f"{wheel.name} installs, imports and runs")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
