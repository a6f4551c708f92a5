"""The groups of processes that the tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.distributed.pool import Pool


@pytest.fixture(scope="session")
def two() -> Iterator[Pool]:
    """Two processes."""
    pool = Pool(2)
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def four() -> Iterator[Pool]:
    """Four processes."""
    pool = Pool(4)
    yield pool
    pool.close()
