"""Where a person's own modules are found, for as long as they are needed.

with importing_from(Path.cwd()):
    import_module("my_training")
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["importing_from"]


@contextmanager
def importing_from(folder: Path) -> Iterator[None]:
    """Look for modules in a folder first; afterwards where they were looked for before.

    Args:
        folder: The folder.

    Returns:
        A context; what was imported in it stays.
    """
    before = list(sys.path)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path[:] = before
