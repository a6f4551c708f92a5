"""Writing files whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["written_whole"]


@contextmanager
def written_whole(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file that takes its name only when it has been written to its end.

    Where the writing fails, or the machine stops, the old file stays as it was.

    Args:
        path: Name of the file; through a link, the file that the link names.

    Raises:
        FileNotFoundError: Its folder does not exist.
    """
    final = Path(os.path.realpath(path))
    if not final.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no folder {final.parent}; make it first")
    temporary = final.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(final)
    finally:
        temporary.unlink(missing_ok=True)
