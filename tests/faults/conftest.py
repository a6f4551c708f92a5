"""What the tests of fault models share."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("faults", deadline=None)  # the first call of an operator is slow
settings.load_profile("faults")

HALF = pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Expect torch's own warning, once a process, that complex32 is experimental."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(HALF)
