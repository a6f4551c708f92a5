"""A saved page, opened from its file in a browser that has no network.

    with opened(chromium, path) as page:
        page.locator("h1").wait_for()

Limits: every line on the console counts as an error, as does every request to another host.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["opened"]


@contextmanager
def opened(browser: Browser, path: Path, *, dark: bool = False) -> Iterator[Page]:
    """A page on the file, without any network; fails on any console error."""
    context = browser.new_context(
        offline=True,
        viewport={"width": 1400, "height": 800},
        color_scheme="dark" if dark else "light",
    )
    context.set_default_timeout(15_000)
    page = context.new_page()
    errors: list[str] = []
    foreign: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text))
    page.on("request", lambda request: foreign.append(request.url))
    page.goto(path.as_uri())
    yield page
    context.close()
    assert not errors, errors
    outside = [url for url in foreign if not url.startswith(("file:", "data:", "blob:"))]
    assert not outside, outside
