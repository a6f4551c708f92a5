"""What every test stands on: no leaks, the same random numbers each time, no network."""

from __future__ import annotations

import ipaddress
import random
import signal
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import hypothesis
import numpy as np
import pytest

from tests.tools import chromium as browser_program
from tests.tools import leaks

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell
    from playwright.sync_api import Browser

hypothesis.settings.register_profile("shared machine", deadline=None, print_blob=True)
hypothesis.settings.load_profile("shared machine")

_SEED = 20260
_LOOKUPS = {"socket.getaddrinfo", "socket.gethostbyname"}
_CONTACTS = {"socket.connect": 1, "socket.sendto": 1, "socket.sendmsg": 1}


_FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""Chromium as the tests start it: headless, and asking nobody for anything."""


def _is_local(host: object) -> bool:
    if host in (None, "", b"", "localhost", b"localhost"):
        return True
    try:
        return ipaddress.ip_address(str(host).partition("%")[0]).is_loopback
    except ValueError:
        return False


def _refuse_network(event: str, arguments: tuple[Any, ...]) -> None:
    if event in _LOOKUPS:
        host = arguments[0]
        wildcard = str(host) in ("0.0.0.0", "::")
    elif event in _CONTACTS:
        address = arguments[_CONTACTS[event]]
        host, wildcard = (address[0], False) if isinstance(address, tuple) else (None, False)
    else:
        return
    if not (wildcard or _is_local(host)):
        raise PermissionError(f"a test tried to reach {host!r}; tests use loopback only")


sys.addaudithook(_refuse_network)


def pytest_configure() -> None:
    """Hear SIGINT though the run was started in the background, where shells ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def no_leaks() -> Iterator[None]:
    """Before and after each test: no mode, hook, patch, thread or changed setting."""
    before, threads = leaks.state(), set(threading.enumerate())
    modes = {key: value for key, value in before.items() if key.startswith(("hooks", "dispatch"))}
    assert not any(modes.values()), f"left behind by an earlier test: {modes}"
    yield
    leaks.assert_clean(before, threads)


@pytest.fixture(autouse=True)
def same_random_numbers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Seed the global generators for each test, and put them back after it.

    A test marked ``draws_nothing`` fails where one of them was drawn from.
    """
    outside = leaks.RandomState()
    random.seed(_SEED)
    np.random.seed(_SEED)  # noqa: NPY002  (the global generator is the subject)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(_SEED)
    inside = leaks.RandomState()
    yield
    changed = inside.changed()
    outside.restore()
    if request.node.get_closest_marker("draws_nothing"):
        assert not changed, f"drew from the global generators of {', '.join(changed)}"


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """A real headless Chromium; a missing one fails the test, it never skips it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=browser_program.find(),
            chromium_sandbox=False,
            args=list(_FLAGS),
        )
        yield browser
        browser.close()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs the browser, and run it last: playwright's event loop stays running.

    JupyterLab's pages come before our own: of two processes, each mostly meets one kind.
    """
    items.sort(key=_needs_browser)
    for item in items:
        if _needs_browser(item):
            item.add_marker("browser")


def _needs_browser(item: pytest.Item) -> bool:
    return "chromium" in getattr(item, "fixturenames", ())


@pytest.fixture(scope="module")
def interpreter() -> Iterator[InteractiveShell]:
    """A real IPython in this process; it writes no history."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    shell = InteractiveShell.instance(config=config)
    yield shell
    InteractiveShell.clear_instance()
