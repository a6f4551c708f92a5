"""The exploration as one offline file, opened in a real browser."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from fi_notebook.core.fault import FaultPlan
from fi_notebook.report.export import report_html, save_html
from tests import records, traces
from tests.tools import modebar
from tests.tools.offline import opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture
def explored() -> SimpleNamespace:
    """A session's records after a replay."""
    run = records.run()
    return SimpleNamespace(golden=run.comparison.golden, plan=run.plan, run=run)


def test_the_file_opens_offline_and_looks_as_the_widget(
    chromium: Browser, explored: SimpleNamespace, tmp_path: Path
) -> None:
    """Tree, plan, outcome and figures are shown; search works; nothing can be run."""
    path = save_html(explored, tmp_path / "report.html")
    assert path.stat().st_size < 6_000_000
    with opened(chromium, path) as page:
        page.locator(".fi-verdict", has_text="f1 struck relu*2:0").wait_for()
        page.locator(".fi-state", has_text="read-only").wait_for()
        page.locator(".fi-plot .main-svg").first.wait_for()
        page.locator(".fi-title", has_text="relu*2:0").wait_for()
        page.locator(".fi-search").fill("op:relu")
        page.locator(".fi-found", has_text="2 of").wait_for()
        assert page.get_by_role("button", name="Replay").count() == 0
        assert page.get_by_role("button", name="Arm at ").count() == 0
        assert modebar.buttons(page) == modebar.LOCAL


def test_a_session_without_a_replay_needs_no_plotly(chromium: Browser, tmp_path: Path) -> None:
    """The file of a mere trace is small and opens."""
    session = SimpleNamespace(golden=traces.digits_step(), plan=FaultPlan(), run=None)
    path = save_html(session, tmp_path / "trace.html")
    assert path.stat().st_size < 300_000
    with opened(chromium, path) as page:
        page.locator(".fi-row").first.wait_for()


def test_names_cannot_run(chromium: Browser, tmp_path: Path) -> None:
    """A module named as markup, or as the end of a script, is text in the file."""
    name = "</script><script>document.title = 'ran'</script><img src=x onerror=alert(1)>"
    trace = traces.build(
        traces.Call("mm", module=name), modules={"": "Net", name: "Linear"}, info={"model": name}
    )
    session = SimpleNamespace(golden=trace, plan=FaultPlan(), run=None)
    with opened(chromium, save_html(session, tmp_path / "hostile.html")) as page:
        page.locator(".fi-grid").focus()
        page.keyboard.press("ArrowDown")
        page.locator(".fi-row", has_text="</script>").first.wait_for()
        assert page.locator("img").count() == 0
        assert page.title().startswith("fi_notebook: </script>")


def test_only_its_own_scripts_may_run(explored: SimpleNamespace) -> None:
    """The policy names a hash for each script and allows nothing else."""
    html = report_html(explored)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', html)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    scripts = policy[1].partition("script-src ")[2].partition(";")[0]
    assert re.fullmatch(r"('sha256-[A-Za-z0-9+/=]{44}' ?){2}", scripts)


def test_it_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """Where drawing fails no file is left, and an older one stays."""
    path = tmp_path / "report.html"
    path.write_text("older")
    broken = SimpleNamespace(golden=object(), plan=FaultPlan(), run=None)
    with pytest.raises(AttributeError):
        save_html(broken, path)
    assert path.read_text() == "older"
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]
