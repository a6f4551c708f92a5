"""The static snapshot beside the widget."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

from fi_notebook.core.fault import FaultPlan
from fi_notebook.core.tree import Node
from fi_notebook.core.words import spoken
from fi_notebook.report.snapshot import LARGEST, STYLE, snapshot_html, snapshot_text
from tests import records, traces


class _Tags(HTMLParser):
    """Collects the elements of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)


def test_it_shows_tree_plan_and_difference() -> None:
    """Modules, the armed fault, the outcome and the struck element are in it."""
    run = records.run()
    html = snapshot_html(run.comparison.golden, run.plan, run)
    for text in (
        spoken(run.outcome.name),
        run.comparison.golden.tables.modules[0].kind,
        str(run.plan.faults[0].target),
        "sites",
    ):
        assert text in html


def test_the_tree_is_inset_without_a_style_sheet_and_counts_sites() -> None:
    """JupyterLab drops the sheet of a notebook that it does not trust; a name stands once."""
    trace = traces.build(
        traces.Call("mm", module="fc", outputs=((2,), (3,))),
        traces.Call("relu", module="fc"),
        modules={"": "Net", "fc": "Linear"},
    )
    html = snapshot_html(trace, FaultPlan(), None).removeprefix(STYLE)
    assert "details details" not in STYLE
    inset = [f"<details style='margin-left:{pixels}px'" for pixels in (0, 16)]
    assert f"{inset[1]} open><summary>Net <span class='fi-quiet'>3 sites</span>" in html
    assert f"{inset[1]}><summary>fc <span class='fi-quiet'>Linear · 3 sites</span>" in html
    assert html.count(inset[0]) == 1
    assert "<div style='margin-left:16px'>relu <span class='fi-quiet'>1 site</span></div>" in html


def test_a_fault_that_was_changed_since_has_no_status_of_the_run() -> None:
    """Of bit 27 in place of 30 nothing is known yet, and the result is of an earlier plan."""
    run = records.run()
    assert "<td>struck</td>" in snapshot_html(None, run.plan, run)
    assert "earlier plan" not in snapshot_html(None, run.plan, run)
    other = FaultPlan((replace(run.plan.faults[0], parameters={"bit": 27}),))
    html = snapshot_html(None, other, run)
    assert "<td>armed</td>" in html
    assert "the result of an earlier plan" in html
    assert "earlier plan" in snapshot_text(None, FaultPlan(), run)


def test_names_are_text() -> None:
    """Markup in a name is escaped, and there is no script."""
    name = "<img src=x onerror=alert(1)>"
    trace = traces.build(traces.Call("mm", module=name), modules={"": "Net", name: "Linear"})
    html = snapshot_html(trace, FaultPlan(), None)
    parser = _Tags()
    parser.feed(html)
    assert not parser.tags & {"img", "script"}
    assert "&lt;img" in html


def test_it_stays_small() -> None:
    """A step of 100,000 calls in 200 modules stays under the limit, and
    says how many lines of its tree are left out.
    """
    trace = traces.large(100_000)
    html = snapshot_html(trace, FaultPlan(), None)
    assert len(html.encode()) <= LARGEST
    left_out = size(trace.tree("module")) - 300
    assert f"… and {left_out:,} more lines of the tree" in html


def size(node: Node) -> int:
    """How many nodes a tree has."""
    return 1 + sum(map(size, node.children))


def test_it_has_a_text_form() -> None:
    """The outcome and the plan in a few lines."""
    run = records.run()
    text = snapshot_text(run.comparison.golden, run.plan, run)
    assert str(run.outcome) in text
