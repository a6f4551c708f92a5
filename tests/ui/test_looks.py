"""How the page looks in a real browser: colours of either theme, forced ones, contrast, widths."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from torch import nn

from fi_notebook.session import Session
from fi_notebook.ui.explorer import Explorer
from fi_notebook.ui.watch import LiveWatch
from tests import models
from tests.ui.bridge import bridged
from tests.ui.conftest import Open, traced

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_SHOW_BEFORE_IT_IS_PUT = """() => {
  const place = document.createElement('div');
  window.fiShow(place);
  document.body.append(place);
}"""

_NAMES = """() => [...document.querySelectorAll('.fi-row')].map((row) => {
  const name = row.querySelector('.fi-name');
  const call = row.querySelector('.fi-call');
  const end = name.getBoundingClientRect().right;
  return [name.clientWidth, call ? call.getBoundingClientRect().right - end : 0];
})"""


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


def test_names_of_sites_can_be_told_apart_at_any_width(shown: Open) -> None:
    """Ten modules deep, from 320 px: the number of a call is never cut, a name has 180 px."""
    deep = models.mlp(seed=1)
    for _ in range(10):
        deep.model = nn.Sequential(deep.model)
    with shown(traced(deep)) as bridge:
        bridge.page.get_by_label("open the tree to depth").select_option(label="open all")
        for width in (320, 400, 500, 620, 760, 968, 1181, 1600):
            bridge.page.set_viewport_size({"width": width, "height": 700})
            rows = bridge.page.evaluate(_NAMES)
            assert min(name for name, _ in rows) >= 180, width
            assert max(past for _, past in rows) <= 0, width
