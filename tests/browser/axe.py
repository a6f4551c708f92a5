"""What axe-core, the accessibility checker, finds wrong in the explorer.

    axe.violations(explorer.root)      # [] or ["color-contrast (serious): …"]

It is injected into the page from ``tests/js/node_modules``, which ``make test`` installs;
nothing is fetched while the tests run.

Limits: only what axe calls serious or critical; rules about whole pages are not asked.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Locator

__all__ = ["violations"]

_SCRIPT = Path(__file__).parents[1] / "js" / "node_modules" / "axe-core" / "axe.min.js"

_RUN = """async (root) => {
  const found = await axe.run(root, { resultTypes: ['violations'] });
  return found.violations
    .filter((each) => ['serious', 'critical'].includes(each.impact))
    .map((each) => `${each.id} (${each.impact}): `
      + each.nodes.slice(0, 3).map((node) => `${node.html} ${node.failureSummary}`).join('; '));
}"""


def violations(root: Locator) -> list[str]:
    """Serious and critical violations in and below an element, with the elements."""
    if not _SCRIPT.exists():
        raise FileNotFoundError(f"{_SCRIPT} is missing; run: npm ci --prefix tests/js")
    if not root.evaluate("() => 'axe' in window"):
        root.page.add_script_tag(content=_SCRIPT.read_text("utf-8"))
    found: list[str] = root.evaluate(_RUN)
    return found
