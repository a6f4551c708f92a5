"""Records as columns and plain data for the page."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from fi_notebook.core.fault import Fault, FaultPlan
from fi_notebook.core.site import Target
from fi_notebook.magics import call_of_first_line
from fi_notebook.report.pack import pack, plain
from fi_notebook.report.payload import (
    ALERTS,
    plan_payload,
    run_payload,
    site_payload,
    trace_payload,
)
from tests import records, traces


def test_a_trace_has_one_row_of_columns_per_site() -> None:
    """Every column is as long as the trace, in one of the page's types."""
    trace = traces.digits_step()
    data, columns = trace_payload(trace)
    assert data["sites"] == len(trace)
    assert {len(column) for column in columns.values()} == {len(trace)}
    assert {column.dtype.name for column in columns.values()} <= {"uint8", "int32", "float32"}


def test_a_row_of_columns_names_the_site() -> None:
    """Operator, number, module and line are the site's own."""
    trace = traces.digits_step()
    data, columns = trace_payload(trace)
    assert len(trace) > 0
    for row in range(len(trace)):
        site = trace.site(row)
        assert data["ops"][columns["op"][row]] == site.op
        assert columns["number"][row] == site.call
        assert data["modules"][columns["module"][row]][0] == site.module
        stack = data["stacks"][columns["stack"][row]]
        lines = [tuple(data["frames"][frame]) for frame in stack]
        assert lines == [tuple(frame) for frame in site.code[: len(lines)]]


def test_the_source_of_a_magic_cell_is_what_a_person_wrote() -> None:
    """The first line was written anew to run; the page has the one that stood in the cell."""
    (ran,) = call_of_first_line(["%%fi_explore model=net optimizer=opt\n"])
    trace = traces.digits_step()
    tables = replace(trace.tables, sources={"In [3]": f"{ran}loss.backward()\n", "a.py": ran * 2})
    data, _ = trace_payload(replace(trace, tables=tables))
    shown = data["sources"]
    assert shown["In [3]"] == "%%fi_explore model=net optimizer=opt\nloss.backward()\n"


def test_100_000_calls_are_small() -> None:
    """Columns and string tables of 100,000 calls stay under 2.4 MB on the wire."""
    packed = pack("trace", *trace_payload(traces.large(100_000)))
    assert len(packed.block) < 2_400_000


def test_where_nan_begins_is_critical() -> None:
    """Finite in and NaN out is critical, bad in and out is high, bad in, finite out medium."""
    trace = traces.build(
        traces.Call("log"),
        traces.Call("mul", inputs=(0,)),
        traces.Call("zeros_like", inputs=(1,)),
        traces.Call("neg", inputs=(2,)),
        modules={"": "Net"},
    )
    columns = dict(trace.site_columns) | {
        "nan": np.array([1, 2, 0, 0]),
        "posinf": np.zeros(4, np.int64),
        "neginf": np.zeros(4, np.int64),
    }
    _, sent = trace_payload(replace(trace, site_columns=columns))
    assert [ALERTS[kind] for kind in sent["alert"]] == ["critical", "high", "medium", ""]


def test_an_input_from_outside_the_step_is_no_bad_one() -> None:
    """It has no row (-1), and is not taken for the last, whose NaN is critical."""
    trace = traces.build(traces.Call("mm", inputs=(-1,)), traces.Call("log"), modules={"": "Net"})
    trace.site_columns["nan"][1] = 1
    _, sent = trace_payload(trace)
    assert [ALERTS[kind] for kind in sent["alert"]] == ["", "critical"]


def test_a_plan_marks_the_rows_that_it_would_strike() -> None:
    """A target without output strikes every output; a foreign one marks nothing."""
    trace = traces.digits_step()
    site = trace.site(0)
    plan = FaultPlan(
        (
            Fault("f1", site.target, "zero"),
            Fault("f2", Target.parse("no_such_op*1"), "zero"),
            Fault("f3", site.target, "zero", modules=("no.such.module",)),
        )
    )
    assert [fault["rows"] for fault in plan_payload(plan, trace)] == [[0], [], []]


def test_a_run_spreads_its_errors_over_the_golden_sites() -> None:
    """The row of a site holds its error; -1 and 255 where nothing was compared."""
    run = records.run()
    data, columns = run_payload(run)
    golden = run.comparison.golden
    assert len(columns["error"]) == len(golden)
    for row, golden_row in enumerate(run.comparison.columns["golden"]):
        assert columns["error"][golden_row] == np.float32(
            run.comparison.columns["relative_l2"][row]
        )
    assert data["outcome"]["name"] == run.outcome.name
    assert data["comparison"]["step"] == 0
    json.dumps(plain(data), allow_nan=False)


def test_site_figures_are_exact() -> None:
    """Statistics of one site come in full precision."""
    trace = traces.digits_step()
    found = site_payload(trace, 0)
    assert found["site"] == str(trace.site(0))
    assert found["stats"]["zeros"] == trace.stats(0).zeros
