"""Writing files whole or not at all, whole lines at the end of others, and numbers in JSON."""

from __future__ import annotations

import argparse
import math
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["append_whole", "json_float", "path_argument", "written_whole"]


def path_argument(purpose: str, arguments: Sequence[str] | None = None) -> Path:
    """Where a tool is to write, from its command line; an option is never taken for a path.

    Args:
        purpose: What the tool does, for its help.
        arguments: The command line; None is that of this process.

    Returns:
        The path.

    Raises:
        SystemExit: Help was asked for, or there is not one path.
    """
    parser = argparse.ArgumentParser(description=purpose)
    parser.add_argument("path", type=Path, help="where to")
    found: Path = parser.parse_args(arguments).path
    return found


def json_float(value: float) -> float | str:
    """A number as JSON holds it: NaN and the infinities as the texts ``nan``, ``inf``, ``-inf``.

    Args:
        value: The number; one of numpy becomes one of Python.

    Returns:
        The number, or its text where JSON has none.
    """
    return float(value) if math.isfinite(value) else str(float(value))


@contextmanager
def written_whole(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file that takes its name only when it has been written to its end.

    Where the writing fails, or the machine stops, the old file stays as it was.

    Args:
        path: Name of the file; through a link, the file that the link names.

    Raises:
        FileNotFoundError: Its folder does not exist.
        OSError: It cannot be written; names the file, not the temporary one.
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
    except OSError as error:
        raise _of(path, error) from None
    finally:
        temporary.unlink(missing_ok=True)


def append_whole(path: str | Path, data: bytes) -> None:
    """Add to the end of a file, all of it or nothing; it is on the disk when this returns.

    Args:
        path: The file; it is made where there is none.
        data: What is added.

    Raises:
        OSError: It cannot be written; what the file held stays as it was.
    """
    with Path(path).open("ab", buffering=0) as file:
        end, rest = file.seek(0, os.SEEK_END), data
        try:
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(file.fileno())
        except OSError as error:
            if os.fstat(file.fileno()).st_size == end + len(data) - len(rest):
                file.truncate(end)  # nobody else has added to it meanwhile
            raise _of(path, error) from None


def _of(path: str | Path, error: OSError) -> OSError:
    """The same error, with the name of the file that was to be written."""
    return OSError(error.errno, error.strerror or str(error), str(path))
