"""What a person does in the page: choose a site, arm a fault, replay.

choose(page, "relu*2:0")
arm(page, "relu*2:0", 27, "0, 3, 0, 0")
replay(page)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

__all__ = ["ARM", "arm", "choose", "index_box", "press_arm", "replay"]

ARM = re.compile("^Arm (at |another$)")
"""The button that arms a fault more: at a site, or another one where one is armed."""


def choose(page: Page, site: str) -> None:
    """Search a site and click it."""
    page.locator(".fi-search").fill(f"op:{site.partition(':')[0]}")
    page.locator(".fi-row", has_text=site).click()
    page.locator(".fi-title", has_text=site).wait_for()


def index_box(page: Page, site: str) -> Locator:
    """The box for the index of one element, once its site is chosen and one is asked for."""
    choose(page, site)
    page.get_by_label("elements").select_option("index")
    return page.get_by_label("index of the element")


def press_arm(page: Page) -> None:
    """Arm what the form describes, and wait until the plan shows it."""
    page.get_by_role("button", name=ARM).click()
    page.locator(".fi-fault").wait_for()


def arm(page: Page, site: str, bit: int, index: str) -> None:
    """Arm a bit flip on one element through the form."""
    box = index_box(page, site)
    box.wait_for()
    page.get_by_label("bit", exact=True).first.fill(str(bit))
    box.fill(index)
    page.get_by_role("button", name=ARM).click()
    page.locator(".fi-fault", has_text=site).wait_for()


def replay(page: Page) -> None:
    """Press Replay and wait for the outcome."""
    page.get_by_role("button", name="Replay").click()
    page.locator(".fi-verdict").wait_for()
