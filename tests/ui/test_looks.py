"""How the page looks in a real browser: colours of either theme, forced ones, contrast, widths."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from fi_notebook.session import Session
from fi_notebook.ui.explorer import Explorer
from fi_notebook.ui.watch import LiveWatch
from tests import models
from tests.ui.bridge import bridged

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_SHOW_BEFORE_IT_IS_PUT = """() => {
  const place = document.createElement('div');
  window.fiShow(place);
  document.body.append(place);
}"""


@pytest.mark.parametrize("kind", ["explorer", "watch"])
def test_a_view_that_is_made_before_it_is_put_into_the_page_is_dark_too(
    chromium: Browser, session: Session, kind: str
) -> None:
    """On a dark page that is settled, as for a cell that is run again, the theme is dark."""
    with (
        bridged(chromium, dark=True) as bridge,
        closing(LiveWatch(models.mlp(seed=1).model, "relu")) as watch,
        closing(Explorer(session) if kind == "explorer" else watch.view) as widget,
    ):
        bridge.show(widget)
        bridge.page.evaluate(_SHOW_BEFORE_IT_IS_PUT)
        bridge.page.locator(".fi-explorer[data-theme=dark]").nth(1).wait_for()
