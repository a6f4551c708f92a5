from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fi_notebook.core.site import OUTSIDE, PHASES
from fi_notebook.core.trace import ModuleInfo, Trace
from fi_notebook.core.tree import VIEWS, Node, build_tree
from tests.traces import Call, build, digits_step, large


def outline(node: Node, depth: int = 0) -> str:
    """The tree as indented text: name and number of calls."""
    lines = [f"{'  ' * depth}{node.name} {node.calls}"]
    return "\n".join([*lines, *(outline(child, depth + 1) for child in node.children)])


@pytest.fixture(scope="module")
def trace() -> Trace:
    """The small step with every phase."""
    return digits_step()


def test_the_module_view(trace: Trace) -> None:
    """Modules without calls stand in it, optimizer calls under their parameter's module."""
    assert (
        outline(trace.tree())
        == """\
step 14
  Net 11
    conv 1
      convolution 1
    norm 1
      native_batch_norm 1
    act 4
      relu 2
      detach 1
      threshold_backward 1
    drop 0
    fc 4
      addmm 1
      mm 1
      sum 1
      add_ 1
    _foreach_add_ 1
  loss function 2
    nll_loss_forward 1
    nll_loss_backward 1
  (outside) 1
    mul 1"""
    )


def test_the_source_view(trace: Trace) -> None:
    """Backward calls stand at the line of the forward call that caused them."""
    tree = trace.tree(by="source")
    assert [(node.name, node.calls) for node in tree.children] == [
        ("run.py", 13),
        ("(no source line)", 1),
    ]
    assert outline(tree.children[0].children[3]) == "6 in forward 3\n  addmm 1\n  mm 1\n  sum 1"
    line = tree.children[0].children[3]
    assert (line.path, line.detail) == ("/home/me/run.py[6]", "line 6")


def test_the_operator_view(trace: Trace) -> None:
    """Each operator is divided by overload and phase."""
    tree = trace.tree(by="op")
    relu = next(node for node in tree.children if node.name == "relu")
    assert outline(relu) == "relu 2\n  default, forward 2"
    total = next(node for node in tree.children if node.name == "sum")
    assert [(node.name, node.path) for node in total.children] == [
        ("dim_IntList, backward", "sum.dim_IntList")
    ]


def test_nodes_say_what_they_are(trace: Trace) -> None:
    """Kind, path and detail of the nodes of the module view."""
    nodes = {node.path: node for node in trace.tree().walk() if node.kind == "module"}
    assert nodes["fc"].detail == "Linear"
    assert [str(site) for site in nodes["fc"].sites] == [
        "addmm*1:0",
        "mm*1:0",
        "sum*1:0",
        "add_*1:0",
    ]
    assert nodes["norm"].calls == 1  # one call ...
    assert nodes["norm"].site_rows.tolist() == [1, 2, 3]  # ... with three outputs
    assert nodes["drop"].sites == []
    assert trace.tree().children[1].kind == "outside"


def test_folded_calls_are_marked_or_left_out(trace: Trace) -> None:
    """They are kept by default; without them the step has one call fewer."""
    marked = [node.name for node in build_tree(trace).walk() if node.folded]
    assert marked == ["detach"]
    bare = build_tree(trace, folded=False)
    bare.self_check()
    assert bare.calls == 13
    assert "detach" not in [node.name for node in bare.walk()]


def test_an_unknown_view_is_refused(trace: Trace) -> None:
    """The views that there are stand in the message."""
    with pytest.raises(ValueError, match="no tree by 'modules'; did you mean 'module'"):
        trace.tree(by="modules")


def test_a_module_whose_parent_is_missing_stands_below_the_next_one_above() -> None:
    """Paths need not be complete, nor start at a root."""
    trace = build(
        Call("mm", "a.b.c"),
        Call("mm", "d.e"),
        modules=[ModuleInfo("a", "A"), ModuleInfo("a.b.c", "C"), ModuleInfo("d.e", "E")],
    )
    assert outline(trace.tree()) == "step 2\n  a 1\n    c 1\n      mm 1\n  e 1\n    mm 1"


def test_an_optimizer_call_on_a_shared_parameter_goes_to_its_module() -> None:
    """A parameter may be named by any of the module's names."""
    trace = build(
        Call("add_", OUTSIDE, "optimizer", parameter="decoder.weight"),
        Call("add_", OUTSIDE, "optimizer", parameter="nowhere"),
        modules=[ModuleInfo("encoder", "Embedding", ("decoder",))],
    )
    assert outline(trace.tree()) == "step 2\n  encoder 1\n    add_ 1\n  (outside) 1\n    add_ 1"


def test_a_node_is_printed_as_a_tree_and_shown_in_one_line(trace: Trace) -> None:
    """Names, classes and calls below each other; the repr says how many nodes stand below."""
    node = trace.tree().children[0].children[2]
    assert repr(node) == "<Node module act ReLU: 4 calls, 3 below>"
    assert str(node).splitlines() == [
        "act  ReLU             4 calls",
        "  relu                2 calls",
        "  detach              1 call",
        "  threshold_backward  1 call",
    ]
    assert [level for level, _ in node.outline(0)] == [0]


def test_an_empty_step_is_a_tree_too() -> None:
    """No call, no child but the modules."""
    for by in VIEWS:
        tree = build(modules={"": "Net"}).tree(by)
        tree.self_check()
        assert tree.calls == 0


def test_calls_that_do_not_add_up_are_noticed(trace: Trace) -> None:
    """`self_check` names the node."""
    tree = trace.tree()
    broken = replace(tree, children=tree.children[1:])
    with pytest.raises(ValueError, match="the calls below step '' do not add up"):
        broken.self_check()


MODULES = ("", "a", "a.b", "a.b.c", "d", "loss function", OUTSIDE)
CALLS = st.builds(
    Call,
    op=st.sampled_from(["mm", "add", "relu"]),
    module=st.sampled_from(MODULES),
    phase=st.sampled_from(PHASES),
    line=st.integers(0, 3),
    parameter=st.sampled_from(["", "*", "a.b.weight", "elsewhere"]),
    overload=st.sampled_from(["default", "out"]),
    flags=st.sampled_from([(), ("folded",)]),
)


@settings(max_examples=60)
@given(st.lists(CALLS, max_size=25), st.booleans())
def test_every_call_stands_in_every_view_once(calls: list[Call], folded: bool) -> None:
    """Counts add up at each node, whatever the step."""
    kinds = {path: "Module" for path in MODULES if path not in ("loss function", OUTSIDE)}
    trace = build(*calls, modules=kinds)
    shown = [call for call in calls if folded or not call.flags]
    for by in VIEWS:
        tree = build_tree(trace, by, folded=folded)
        tree.self_check()
        leaves = [node for node in tree.walk() if not node.children]
        assert sum(node.calls for node in leaves) == tree.calls == len(shown)


def test_a_hundred_thousand_calls_are_a_tree() -> None:
    """Each of them stands in every view, in order."""
    trace = large(100_000)
    for tree in (trace.tree(by) for by in VIEWS):
        tree.self_check()
        assert np.array_equal(tree.call_rows, np.arange(100_000))
