"""The buttons above the figures of a page.

    assert buttons(page) == LOCAL

Limits: they are in the page whether or not the pointer is over the figure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["LOCAL", "buttons"]

LOCAL = {"Download plot as a PNG", "Zoom", "Pan", "Reset axes"}
"""What figures may offer: nothing of it leaves the machine."""


_TITLES = """() => {
  const found = [...document.querySelectorAll('.modebar-btn')];
  return found.length && found.map((each) => each.dataset.title ?? each.ariaLabel);
}"""


def buttons(page: Page) -> set[str]:
    """What is written on the buttons of every figure."""
    return set(page.wait_for_function(_TITLES).json_value())
