"""The records of core on real traces, of every model that the tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from fi_notebook.core.trace import Trace
from fi_notebook.core.tree import VIEWS, build_tree
from fi_notebook.session import Session
from tests import models


@pytest.fixture(params=sorted(models.CASES))
def trace(request: pytest.FixtureRequest) -> Trace:
    """The golden run of one of the models."""
    case = models.CASES[request.param]()
    return Session(case.step, model=case.model, optimizer=case.optimizer).trace()


def test_every_site_is_found_by_its_text_and_by_its_filters(trace: Trace) -> None:
    """Each of them at its own row, and among those of its operator, module and phase."""
    assert len(trace.sites) == len(trace) > 0
    for row, site in enumerate(trace.sites):
        assert trace.row(str(site)) == row
    for site in trace.sites[::10]:
        assert site in trace.find(site.op) or not site.counted
        assert site in trace.find(module=site.module, phase=site.phase)


def test_every_view_holds_every_call_once(trace: Trace) -> None:
    """With and without the folded calls."""
    for by in VIEWS:
        tree = build_tree(trace, by)
        tree.self_check()
        assert tree.calls == trace.call_count
        bare = build_tree(trace, by, folded=False)
        bare.self_check()
        assert not any(node.folded for node in bare.walk())


def test_it_goes_through_a_file(trace: Trace, tmp_path: Path) -> None:
    """Sites, source lines, statistics and sources come back."""
    trace.save(tmp_path / "step.fi")
    loaded = Trace.load(tmp_path / "step.fi")
    assert list(loaded.sites) == list(trace.sites)
    assert [site.code for site in loaded.sites] == [site.code for site in trace.sites]
    assert repr([loaded.stats(n) for n in range(len(loaded))]) == repr(
        [trace.stats(n) for n in range(len(trace))]
    )
    assert loaded.tables == trace.tables
