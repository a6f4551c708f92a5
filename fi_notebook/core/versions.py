"""Which packages are installed, in which version."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

__all__ = ["installed"]


def installed(package: str) -> str:
    """The version of an installed package; ``""`` where it is not installed.

    Args:
        package: Its name; from a source tree that was not installed, our own is not either.

    Returns:
        Text such as ``2.11.0``.
    """
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
