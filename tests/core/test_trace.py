# ruff: noqa: E501 - a table of cases reads best with one case a line
from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fi_notebook.core.site import LOSS_FUNCTION, Frame, Target
from fi_notebook.core.trace import ModuleInfo, Trace
from fi_notebook.errors import SiteError
from tests.traces import Call, build, digits_step, large


@pytest.fixture(scope="module")
def trace() -> Trace:
    """The small step with every phase."""
    return digits_step()


def test_every_site_is_found_at_its_own_row(trace: Trace) -> None:
    """Row, site and text agree for each of the 18 sites."""
    assert len(trace) == len(trace.sites) == 18  # 14 calls + 2 of norm + 1 of nll + 1 of foreach
    assert trace.call_count == 14
    for row, site in enumerate(trace):
        assert trace.row(site) == trace.row(str(site)) == row
        assert trace.site(row) == trace.sites[row] == site


def test_a_site_is_described_whole(trace: Trace) -> None:
    """Every attribute comes from the columns."""
    site = trace.sites[trace.row("sum*1:0")]
    assert (site.op, site.call, site.output, site.index) == ("sum", 1, 0, None)
    assert (site.overload, site.phase, site.module) == ("dim_IntList", "backward", "fc")
    assert (site.dtype, site.shape, site.parameter) == ("float32", (2, 3), "")
    assert trace.row("sum.dim_IntList*1:0") == trace.row("sum*1:0")
    assert trace.sites[trace.row("mm*1:0")].parameter == "fc.weight"
    assert str(trace.sites[-2]) == "add_*1:0"
    assert [str(site) for site in trace.sites[14:17]] == [
        "_foreach_add_*1:0[0]",
        "_foreach_add_*1:0[1]",
        "add_*1:0",
    ]
    assert str(trace.sites[-1]) == "other/mul*1:0"


def test_a_backward_call_has_its_forward_calls_lines_first(trace: Trace) -> None:
    """Line 6 made the node, line 13 is that of ``loss.backward()``."""
    assert [frame.line for frame in trace.sites[trace.row("mm*1:0")].code] == [6, 13]
    assert [frame.line for frame in trace.frames(9)] == [6, 13]


def test_double_backward_has_the_lines_of_the_whole_chain() -> None:
    """Forward, then backward, then the backward of that."""
    trace = build(Call("mul", line=1), Call("mul", line=2, cause=0), Call("mul", line=3, cause=1))
    assert [frame.line for frame in trace.sites[2].code] == [1, 2, 3]
    assert [str(site) for site in trace.find(code="run.py[1]")] == ["mul*1:0", "mul*2:0", "mul*3:0"]
    assert [str(site) for site in trace.find(code="run.py[2]")] == ["mul*2:0", "mul*3:0"]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"op": "relu"}, ["relu*1:0", "relu*2:0"]),
        ({"op": "relu*2"}, ["relu*2:0"]),
        ({"op": "rel"}, []),
        ({"op": "native_batch_norm*1:2"}, ["native_batch_norm*1:2"]),
        ({"op": "sum.dim_IntList"}, ["sum*1:0"]),
        ({"op": "sum.default"}, []),
        ({"op": "_foreach_add_*1:0[1]"}, ["_foreach_add_*1:0[1]"]),
        ({"op": "other/mul"}, ["other/mul*1:0"]),
        ({"op": "mul"}, ["other/mul*1:0"]),
        ({"op": "mul", "phase": "other"}, ["other/mul*1:0"]),
        ({"op": "mul*1"}, []),
        ({"op": Target.parse("mul")}, []),
        ({"op": "param:fc.weight"}, []),
        ({"module": "fc"}, ["addmm*1:0", "mm*1:0", "sum*1:0"]),
        ({"module": "f*", "phase": "backward"}, ["mm*1:0", "sum*1:0"]),
        ({"module": LOSS_FUNCTION, "phase": ("backward", "loss")}, ["nll_loss_forward*1:0", "nll_loss_forward*1:1", "nll_loss_backward*1:0"]),
        ({"code": "run.py[7]"}, ["relu*2:0", "threshold_backward*1:0"]),
        ({"code": "run.py[13]", "module": "act"}, ["threshold_backward*1:0"]),
        ({"parameter": "fc.weight"}, ["mm*1:0", "add_*1:0"]),
        ({"parameter": "fc.bias"}, []),
        ({"phase": "recompute"}, []),
    ],
)  # fmt: skip
def test_find_joins_its_filters(trace: Trace, filters: dict[str, Any], expected: list[str]) -> None:
    """Every filter must hold; operators match exactly."""
    assert [str(site) for site in trace.find(**filters)] == expected


def test_find_without_filters_finds_every_site(trace: Trace) -> None:
    """No filter chooses all, in execution order."""
    assert trace.find() == list(trace.sites)


@pytest.mark.parametrize(
    ("filters", "reason"),
    [
        ({"module": "fcc"}, "no module 'fcc'; did you mean 'fc'"),
        ({"phase": "backwards"}, "no phase 'backwards'; did you mean 'backward'"),
        ({"op": "mm*"}, "cannot read the target"),
        ({"code": ""}, "as a source line"),
    ],
)
def test_find_refuses_what_cannot_be(trace: Trace, filters: dict[str, str], reason: str) -> None:
    """A module or phase that does not exist is refused with near names."""
    with pytest.raises(SiteError, match=reason):
        trace.find(**filters)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("relu*7:0", "asked for call 7 of relu, 2 were made"),
        ("rellu*1:0", "the step made no call of 'rellu'; did you mean 'relu'"),
        ("relu*1:5", "relu was called 2 times, but none of them fits 'relu\\*1:5'"),
        ("mul*1:0", "no call of 'mul' took a number of the step, 1 was made as 'other/mul'"),
        (
            "relu.Nonsense*1:0",
            "relu was called 2 times, but none of them fits 'relu.Nonsense\\*1:0'; expected one of 'default'",
        ),
        (
            "sum.dim_IntLst*1:0",
            "sum was called 1 time, but none of them fits 'sum.dim_IntLst\\*1:0'; did you mean 'dim_IntList'",
        ),
        (
            "param:fc.weight",
            "'param:fc.weight' names a stored tensor, which a trace does not hold; expected an output of a call",
        ),
        ("relu*999999999999999:0", "asked for call 999999999999999 of relu, 2 were made"),
    ],
)
def test_a_site_that_was_not_made_is_refused_with_how_many_were(
    trace: Trace, text: str, reason: str
) -> None:
    """`row` and `missing` give the same reason."""
    with pytest.raises(SiteError, match=reason):
        trace.row(text)
    assert trace.missing(Target.parse("relu*2")) == ""


def test_a_table_of_all_sites(trace: Trace) -> None:
    """`to_pandas` agrees with the sites, row by row."""
    table = trace.to_pandas()
    wanted = ["site", "phase", "module", "op", "call", "output", "code", "dtype", "shape"]
    assert set(wanted) <= set(table.columns)
    assert list(table["site"]) == [str(site) for site in trace.sites]
    assert list(table["shape"]) == [site.shape for site in trace.sites]
    assert list(table["parameter"]) == [site.parameter for site in trace.sites]
    assert list(table["code"]) == [s.code[0].label if s.code else "" for s in trace.sites]


def test_statistics_of_a_site(trace: Trace) -> None:
    """The norm of 2 × 3 ones is √6."""
    stats = trace.stats(0)
    assert (stats.shape, stats.min, stats.zeros) == ((2, 3), -1.0, 0)
    assert stats.norm == pytest.approx(2.449489742783178)


def test_sites_behave_as_a_sequence(trace: Trace) -> None:
    """Slices, negative positions, membership and a short repr."""
    assert trace.sites[-1] in trace.sites
    assert trace.sites[0:4:2] == [trace.sites[0], trace.sites[2]]
    assert trace.sites[::-1] == list(trace.sites)[::-1]
    assert repr(trace.sites) == (
        "<18 sites: convolution*1:0, native_batch_norm*1:0, native_batch_norm*1:1, …>"
    )
    assert repr(trace.sites[0]) == "<Site convolution*1:0 forward conv run.py:3 float32 [2, 3]>"
    with pytest.raises(IndexError):
        trace.sites[18]


def test_an_empty_step_has_no_sites() -> None:
    """Nothing divides by nothing."""
    trace = build()
    assert (len(trace), list(trace.sites), trace.find(), len(trace.to_pandas())) == (0, [], [], 0)
    with pytest.raises(SiteError, match="the step made no call of 'mm'"):
        trace.row("mm*1:0")


def test_values_are_read_through_the_session(trace: Trace) -> None:
    """A trace without tensors says so; one with a reader asks it for the whole site."""
    with pytest.raises(LookupError, match="this trace holds no tensors"):
        trace.value("relu*1:0")
    live = replace(trace, _values=lambda site: (site.op, site.phase))
    assert live.value("relu*1:0") == ("relu", "forward")


def test_a_shared_module_is_found_by_each_of_its_names() -> None:
    """The calls stand under the first name and answer to both."""
    trace = build(
        Call("embedding", "encoder"),
        modules=[ModuleInfo("", "Net"), ModuleInfo("encoder", "Embedding", ("decoder",))],
    )
    assert len(trace.find(module="decoder")) == len(trace.find(module="encoder")) == 1


def test_notebook_cells_are_shown_by_their_number() -> None:
    """The label of a cell's line is ``In [5]:3``."""
    trace = build(Call("mm", stack=(Frame("In [5]", 3, "<module>"),)))
    assert list(trace.to_pandas()["code"]) == ["In [5]:3"]
    assert len(trace.find(code="In [5][3]")) == 1


def test_a_hundred_thousand_sites_are_looked_up() -> None:
    """Rows, filters and tables are made of columns; what it costs is a benchmark's matter."""
    trace = large(100_000)
    assert trace.row(str(trace.sites[70_000])) == 70_000
    assert len(trace.find("op3", module="layers.1")) > 0
    assert len(trace.to_pandas()) == 100_000
    assert np.all(trace.call_index[0][1:] > trace.call_index[0][:-1])  # no call twice
