"""The collector is off while very many objects are made, and as before afterwards."""

from __future__ import annotations

import gc

import pytest

from fi_notebook.core.collector import collector_paused


@collector_paused()
def _fails() -> None:
    assert not gc.isenabled()
    raise KeyError


@pytest.mark.parametrize("on", [True, False])
def test_it_is_as_before_afterwards(on: bool) -> None:
    """Off inside; on again only where it was on, also after an error."""
    try:
        (gc.enable if on else gc.disable)()
        with pytest.raises(KeyError):
            _fails()
        assert gc.isenabled() is on
    finally:
        gc.enable()


def test_blocks_within_each_other_leave_it_on() -> None:
    """The outer one alone turns it on again."""
    with collector_paused():
        with collector_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
