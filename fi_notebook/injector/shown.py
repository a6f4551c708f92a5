"""Showing what the package logs while a script runs that says nothing of logging.

    with shown():
        …                   # INFO:fi_notebook:injecting fault to relu*1:0

The faces of the package call it; imported, the package configures no logging.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["shown"]


@contextmanager
def shown() -> Iterator[None]:
    """Show what is logged on stderr, but for what the script shows there by itself."""
    logger, handler = logging.getLogger("fi_notebook"), logging.StreamHandler()
    level = logger.level
    handler.setFormatter(logging.Formatter("%(levelname)s:fi_notebook:%(message)s"))
    handler.addFilter(lambda record: not _is_shown(record))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _is_shown(record: logging.LogRecord) -> bool:
    """Whether a handler of the script shows a record, as after ``logging.basicConfig()``."""
    return any(
        isinstance(handler, logging.StreamHandler)
        and handler.stream in (sys.stderr, sys.stdout)
        and record.levelno >= handler.level
        for handler in logging.getLogger().handlers
    )
