from __future__ import annotations

import numpy as np
import pytest

from fi_notebook.core.fault import Fault, FaultPlan
from fi_notebook.core.injection import Injection, NotInjected
from fi_notebook.core.run import COMPARISON_COLUMNS, EFFECTS, Comparison, Difference, Outcome, Run
from fi_notebook.core.site import Site, Target
from fi_notebook.core.stats import TensorStats
from fi_notebook.core.trace import Trace
from tests.traces import Call, build

STATS = TensorStats("float32", (2,), -1.0, 1.0, 0.0, 1.0, 1.4, 0, 0, 0, 0)


def comparison(golden: Trace, faulty: Trace, rows: list[tuple[int, int, bool]]) -> Comparison:
    """A comparison with these rows in golden, in faulty, and whether they are equal."""
    columns: dict[str, np.ndarray] = {
        n: np.zeros(len(rows), dtype=kind) for n, kind in COMPARISON_COLUMNS.items()
    }
    columns["golden"][:] = [row[0] for row in rows]
    columns["faulty"][:] = [row[1] for row in rows]
    columns["equal"][:] = [row[2] for row in rows]
    columns["effect"][:] = [0 if row[2] else EFFECTS.index("passed on") for row in rows]
    return Comparison(golden, faulty, columns, Difference("loss", equal=True))


@pytest.fixture
def forked() -> Comparison:
    """Golden made mm and relu, faulty made mm and abs in its place."""
    golden = build(Call("mm", "fc"), Call("relu", "act"), modules={"": "Net"})
    faulty = build(Call("mm", "fc"), Call("abs", "act"), modules={"": "Net"})
    return comparison(golden, faulty, [(0, 0, True), (-1, 1, False), (1, -1, False)])


def test_rows_are_named_by_the_run_that_made_them(forked: Comparison) -> None:
    """The golden site where there is one, else the faulty one."""
    assert [str(forked.site(row)) for row in range(len(forked))] == [
        "mm*1:0",
        "abs*1:0",
        "relu*1:0",
    ]
    table = forked.to_pandas()
    assert list(table["site"]) == ["mm*1:0", "abs*1:0", "relu*1:0"]
    assert list(table["module"]) == ["fc", "act", "act"]
    assert list(table["effect"]) == ["equal", "passed on", "passed on"]
    assert {"changed", "max_ulp", "new_nan"} <= set(table.columns)
    assert not {"golden", "faulty"} & set(table.columns)


def test_the_first_divergence(forked: Comparison) -> None:
    """Rows that differ, in order, and the site of the first."""
    assert forked.diverged.tolist() == [1, 2]
    assert str(forked.first) == "abs*1:0"
    assert forked.effect(1) == "passed on"
    assert not forked.equal


def test_equal_runs_are_equal_in_all_that_is_compared() -> None:
    """One parameter that moved away is a difference too."""
    trace = build(Call("mm"))
    same = comparison(trace, trace, [(0, 0, True)])
    assert same.equal
    assert same.first is None
    moved = Comparison(
        trace, trace, same.columns, same.loss, parameters=(Difference("fc.weight", equal=False),)
    )
    assert not moved.equal


def injection(fault: str, changed: int) -> Injection:
    """One strike of a fault."""
    return Injection(fault, Site("relu", 1), 0, STATS, STATS, changed, ())


def test_what_became_of_each_fault(forked: Comparison) -> None:
    """Struck, inactive (struck, no bit changed) or not injected; words, not identifiers."""
    faults = tuple(Fault(name, Target("relu"), "zero") for name in ("f1", "f2", "f3"))
    run = Run(
        plan=FaultPlan(faults),
        injections=[injection("f1", 0), injection("f1", 3), injection("f2", 0)],
        not_injected=(NotInjected("f3", "asked for call 7 of relu, 1 was made"),),
        comparison=forked,
        outcome=Outcome("masked_exact", "it died."),
        golden=(),
        faulty=(),
    )
    assert [run.status(f.id) for f in faults] == ["struck", "inactive", "not injected"]
    assert [i.changed for i in run] == [0, 3, 0]
    assert str(run.outcome) == "masked_exact: it died."


def test_tensors_that_were_not_kept_are_refused() -> None:
    """The message says how to get them."""
    with pytest.raises(LookupError, match="were not kept; replay it in a Session"):
        injection("f1", 1).tensors()
