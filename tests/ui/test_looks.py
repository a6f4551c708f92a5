"""How the page looks in a real browser: colours of either theme, forced ones, contrast, widths."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from fi_notebook.session import Session
from fi_notebook.ui.explorer import Explorer, explorer_of
from fi_notebook.ui.watch import LiveWatch
from tests import models
from tests.ui.bridge import bridged
from tests.ui.conftest import Open, traced
from tests.ui.pages import choose, index_box

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

_CONTRAST = """(of) => {
  const page = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const light = (colour) => {
    page.fillStyle = colour;
    page.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...page.getImageData(0, 0, 1, 1).data].map((each) => {
      const x = each / 255;
      return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
  };
  const back = light(getComputedStyle(document.querySelector('.fi-explorer')).backgroundColor);
  return of.map(([name, part, what]) => {
    const front = light(getComputedStyle(document.querySelector(name), part)[what]);
    return Math.max(front, back) / Math.min(front, back);
  });
}"""
_EDGES = (".fi-search", ".fi-foot .fi-input", ".fi-form .fi-select", ".fi-row .fi-box")
_STYLE = "([name, part, what]) => getComputedStyle(document.querySelector(name), part)[what]"
_PLACES = """() => ['.fi-foot', ...[...document.querySelectorAll('.fi-acts > *')]].map((each) => {
  const of = typeof each === 'string' ? document.querySelector(each) : each;
  const { x, y, width, height } = of.getBoundingClientRect();
  return [x, y, width, height];
})"""
_SIDEWAYS = """() => Math.max(...['.fi-explorer', '.fi-foot', '.fi-head'].map((name) => {
  const of = document.querySelector(name);
  return of.scrollWidth - of.clientWidth;
}))"""
_NUMBERS = """(bits) => bits.map((bit) => {
  const above = getComputedStyle(bit, '::before').content.replaceAll('"', '');
  return above === 'none' ? '' : above;
})"""
_BITS = "(bits) => bits.map((bit) => bit.getBoundingClientRect().width)"


def not_finite() -> Session:
    """A traced session whose golden run holds NaN and infinities."""
    net = nn.Linear(4, 4)

    def step() -> torch.Tensor:
        loss = (torch.log(net(torch.zeros(2, 4)).relu() * 0) * 0).sum()
        loss.backward()
        return loss

    session = Session(step, model=net)
    session.trace()
    return session


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


@pytest.mark.parametrize("dark", [False, True])
def test_what_is_filled_in_can_be_seen(shown: Open, session: Session, dark: bool) -> None:
    """Edges of boxes stand out from the page 3 to 1, what is written into empty ones 4.5 to 1."""
    with shown(session, dark=dark) as bridge:
        choose(bridge.page, "relu*2:0")
        edges = [(name, None, "borderTopColor") for name in _EDGES]
        assert min(bridge.page.evaluate(_CONTRAST, edges)) >= 3
        words = [(name, "::placeholder", "color") for name in (".fi-search", ".fi-form .fi-input")]
        assert min(bridge.page.evaluate(_CONTRAST, words)) >= 4.5


def test_the_focus_is_seen_around_a_filled_button(shown: Open, session: Session) -> None:
    """The ring has the button's colour, so there is a gap between them."""
    with shown(session) as bridge:
        bridge.page.get_by_label("steps", exact=True).last.focus()
        bridge.page.keyboard.press("Shift+Tab")
        focused = [":focus-visible", None, "outlineOffset"]
        assert bridge.page.evaluate(_STYLE, focused) == "2px"
        assert bridge.page.evaluate("document.activeElement.textContent") == "Replay"


def test_forced_colours_keep_what_is_chosen(shown: Open, session: Session) -> None:
    """The chosen row, line, view and phase, the bars and the state are told apart."""
    with shown(session) as bridge:
        page = bridge.page
        page.emulate_media(forced_colors="active")
        choose(page, "relu*2:0")
        for name in (".fi-row[aria-selected=true]", ".fi-line[data-marked]"):
            assert page.evaluate(_STYLE, [name, None, "outlineStyle"]) == "solid"
        plain = page.evaluate(_STYLE, [".fi-tab[aria-pressed=false]", None, "backgroundColor"])
        for name in (".fi-tab[aria-pressed=true]", ".fi-toggle[aria-pressed=true]"):
            assert page.evaluate(_STYLE, [name, None, "backgroundColor"]) != plain
        canvas = page.evaluate(_STYLE, [".fi-explorer", None, "backgroundColor"])
        for name, part in ((".fi-bar", None), (".fi-state", "::before"), (".fi-phase", "::before")):
            assert page.evaluate(_STYLE, [name, part, "backgroundColor"]) not in (canvas, plain)


def test_bits_are_wide_enough_to_be_hit(shown: Open, session: Session) -> None:
    """At any width a bit has 24 px, the exponent is whole, and the bit that begins a row has its
    number above: 16 or 32 in a row, or 8 after the sign. A caption names the fields.
    """
    with shown(session) as bridge:
        index_box(bridge.page, "relu*2:0").fill("0, 0, 0, 0")
        bits = bridge.page.locator(".fi-bit")
        bits.first.wait_for()
        for width in (320, 400, 700, 968, 1181, 1600, 3200):
            bridge.page.set_viewport_size({"width": width, "height": 900})
            assert min(bits.evaluate_all(_BITS)) >= 24, width
            tops = bits.evaluate_all("(all) => all.map((bit) => bit.getBoundingClientRect().top)")
            rows = [tops.count(top) for top in dict.fromkeys(tops)]
            assert rows in ([9, 8, 8, 7], [16, 16], [32]), width  # 9: sign and exponent
            numbers = bits.evaluate_all(_NUMBERS)
            starts = [sum(rows[:row]) for row in range(len(rows))]
            assert [numbers[at] for at in (*starts, 1, 9)] == [
                str(31 - at) for at in (*starts, 1, 9)
            ], width
        key = bridge.page.locator(".fi-bitkey span").all_inner_texts()
        assert key == ["sign 31", "exponent 30–23", "mantissa 22–0"]


def test_the_buttons_of_the_footer_keep_their_places(shown: Open, session: Session) -> None:
    """Idle, busy with long words, or failed, at any width: a late Stop hits Stop alone. What a
    narrow footer has no room for stands behind one button; the state is cut, and told on hover.
    """
    session.arm("relu*2:0", "zero")
    text = "golden step 414 of 100,000, backward, 17 min left"
    with shown(session) as bridge:
        page, explorer = bridge.page, explorer_of(session)
        state = page.locator(".fi-state")
        for width in (360, 560, 800, 917, 1200, 1700):
            page.set_viewport_size({"width": width, "height": 760})
            explorer.announce("idle")
            page.locator(".fi-state[data-state=idle]").wait_for()
            idle = page.evaluate(_PLACES)
            explorer.announce("replaying", progress={"done": 1, "total": 2, "text": text})
            page.locator(".fi-state[data-state=busy]").wait_for()
            assert page.evaluate(_PLACES) == idle, width
            assert state.get_attribute("title") == f"replaying {text}"
            assert page.evaluate(_SIDEWAYS) == 0, width
        explorer.announce("idle")
        page.set_viewport_size({"width": 800, "height": 760})
        opener = page.get_by_role("button", name="more", exact=True)
        opener.focus()
        page.keyboard.press("Enter")
        page.locator("[aria-expanded=true]", has_text="…").wait_for()
        page.keyboard.press("Tab")
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Shift+Tab")
        page.locator(".fi-others .fi-button:focus", has_text="Save report").wait_for()
        page.keyboard.press("Escape")
        page.locator(".fi-opener[aria-expanded=false]:focus").wait_for()
        assert not page.get_by_role("button", name="Disarm all").is_visible()
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Disarm all").click()
        page.locator(".fi-plan", has_text="nothing is armed").wait_for()
        assert not page.get_by_role("button", name="Disarm all").is_visible()


def test_a_narrow_view_leaves_its_height_to_the_pane(shown: Open) -> None:
    """Search and phases stand above the tree alone, and `/` goes there; alerts stand above all,
    within the view; on a laptop's page of 650 px the footer is in sight with the notebook's bars.
    """
    with shown(not_finite(), width=360, height=650) as bridge:
        page = bridge.page
        page.get_by_role("button", name="not finite").click()
        page.get_by_role("button", name="result", exact=True).click()
        page.locator(".fi-search").wait_for(state="hidden")
        page.locator(".fi-phases").wait_for(state="hidden")
        alert = page.get_by_role("button", name="not finite")
        assert alert.is_visible()
        assert alert.evaluate("(each) => each.scrollWidth - each.clientWidth") <= 0
        assert page.evaluate(_SIDEWAYS) == 0
        page.get_by_role("tab", name="Log").focus()
        page.keyboard.press("/")
        page.locator(".fi-search:focus").wait_for()
        box = page.locator(".fi-explorer").bounding_box()
        assert box is not None
        assert box["height"] == 650 - 140
