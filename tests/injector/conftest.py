"""Every test of the injector sees what is logged at level INFO."""

from __future__ import annotations

import logging

import pytest


@pytest.fixture(autouse=True)
def informed(caplog: pytest.LogCaptureFixture) -> None:
    """Let the logger of the package say everything that it has to say."""
    caplog.set_level(logging.INFO, "fi_notebook")
